#include <fmt/format.h>

#include "config/blocks.h"

namespace ulnet::config {
namespace {

// Reads one entry of `peer:`.
class PeerReader {
 public:
  explicit PeerReader(LoadContext& context) : context_(context) {}

  void read(const YamlNode& entry) {
    if (!entry.is_map()) {
      context_.report.error(entry.place,
                            fmt::format("'peer' holds {} where a peer is wanted, a map that begins "
                                        "with 'primary nid'",
                                        describe(entry)));
      return;
    }
    peer_.where = context_.report.where(entry.place);
    const Reader skip = context_.skip();
    read_map(context_.report, entry, "'peer'",
             {{"primary nid", nid(&peer_.primary_nid)},
              {"Multi-Rail", multi_rail()},
              {"health_sensitivity", integer(context_.report, &peer_.health_sensitivity, 0, 1000)},
              {"peer state", skip},
              {"peer ni", [this](const YamlEntry& list) { read_nis(list); }}});
    // Without a primary the first NID is it, as `peer add --nid` has it.
    if (peer_.primary_nid.is_any() && !peer_.nids.empty()) peer_.primary_nid = peer_.nids.front();
    if (bad_) return;
    if (peer_.primary_nid.is_any()) {
      context_.report.error(entry.place, "a peer without a NID: 'primary nid' is missing");
      return;
    }
    if (peer_.primary_nid.is_lo()) {
      context_.report.warn(entry.place, "peer 0@lo, as older exports have it, is left out");
      return;
    }
    context_.settings.peers.push_back(std::move(peer_));
  }

 private:
  Reader nid(Nid* into) {
    return [this, into](const YamlEntry& entry) {
      if (!entry.value->is_scalar()) {
        error(entry.value->place,
              fmt::format("'{}' is {}, not a NID", entry.key, describe(*entry.value)));
        return;
      }
      const Result<Nid> parsed = Nid::parse(entry.value->text);
      if (!parsed) {
        error(entry.value->place, fmt::format("'{}': {}", entry.key, parsed.error().text()));
        return;
      }
      *into = *parsed;
    };
  }

  // Written without a value it keeps its default, true.
  Reader multi_rail() {
    return [this](const YamlEntry& entry) {
      if (!entry.value->is_null()) flag(context_.report, &peer_.multi_rail)(entry);
    };
  }

  void read_nis(const YamlEntry& list) {
    if (list.value->is_null()) return;
    if (!list.value->is_list()) {
      error(list.value->place,
            fmt::format("'peer ni' is {}, not a list of '- nid: ...'", describe(*list.value)));
      return;
    }
    for (const YamlPtr& item : list.value->items) {
      Nid read_nid;
      const Reader skip = context_.skip();
      read_map(context_.report, *item, "'peer ni'",
               {{"nid", nid(&read_nid)},
                {"state", skip},
                {"udsp info", skip},
                {"max_ni_tx_credits", skip},
                {"available_tx_credits", skip},
                {"min_tx_credits", skip},
                {"tx_q_num_of_buf", skip},
                {"available_rtr_credits", skip},
                {"min_rtr_credits", skip},
                {"refcount", skip},
                {"statistics", skip},
                {"sent_stats", skip},
                {"received_stats", skip},
                {"dropped_stats", skip},
                {"health stats", skip},
                {"ulnet", skip}});
      if (!read_nid.is_any()) peer_.nids.push_back(read_nid);
    }
  }

  void error(Place place, std::string text) {
    bad_ = true;
    context_.report.error(place, std::move(text));
  }

  LoadContext& context_;
  PeerSettings peer_;
  bool bad_ = false;  // an error has been told
};

}  // namespace

void read_peer_block(LoadContext& context, const YamlNode& block) {
  if (block.is_null()) return;
  if (!block.is_list()) {
    context.report.error(
        block.place,
        fmt::format("'peer' is {}, not a list of '- primary nid: ...'", describe(block)));
    return;
  }
  for (const YamlPtr& entry : block.items) PeerReader(context).read(*entry);
}

}  // namespace ulnet::config
