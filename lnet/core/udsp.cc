#include "lnet/core/udsp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lnet/core/net.h"
#include "lnet/core/peer.h"
#include "lnet/wire/net_names.h"

namespace ulnet::core {
namespace {

constexpr uint32_t kNetNumberMax = 0xFFFF;

// Nothing for an empty text. The error names the end of the path that the text is for.
Result<std::optional<UdspDescriptor>> parse_end(std::string_view name, const std::string& text) {
  if (text.empty()) return std::optional<UdspDescriptor>();
  Result<UdspDescriptor> parsed = UdspDescriptor::parse(text);
  if (!parsed) return fail(EINVAL, fmt::format("udsp: {} {}", name, parsed.error().text()));
  return std::optional<UdspDescriptor>(std::move(*parsed));
}

std::string text_of(const std::optional<UdspDescriptor>& descriptor) {
  return descriptor ? descriptor->to_string() : std::string();
}

}  // namespace

// ---------------------------------------------------------------- descriptors

Result<UdspDescriptor> UdspDescriptor::parse(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return fail(EINVAL, fmt::format("'{}': {}", text, why));
  };
  const size_t at = text.find('@');
  const size_t net_begin = at == std::string_view::npos ? 0 : at + 1;
  const std::string_view net = text.substr(net_begin);
  const NetName* name = find_net_name_prefix(net);
  if (name == nullptr) return bad(fmt::format("'{}' is not a net", net));

  UdspDescriptor descriptor;
  descriptor.type_ = name->type;
  descriptor.numbers_ = {{0, 0, 1}};
  if (const std::string_view number = net.substr(name->name.size()); !number.empty()) {
    if (name->type == NetType::kLo) return bad("'lo' takes no number");
    Result<NumberSet> numbers =
        parse_number_set(number, 0, kNetNumberMax, net_begin + name->name.size() + 1);
    if (!numbers) return bad(numbers.error().text());
    descriptor.numbers_ = std::move(*numbers);
  }
  if (at == std::string_view::npos) return descriptor;

  const std::string addresses = fmt::format("{}@{}", text.substr(0, at), name->name);
  Result<NidList> list = NidList::parse(addresses);
  if (!list) return bad(list.error().text());
  if (list->ranges().size() != 1) return bad("is more than one range of addresses");
  if (!list->ranges().front().masks.empty())
    return bad("a policy takes neither masks nor IPv6 addresses");
  descriptor.addresses_ = std::move(*list);
  return descriptor;
}

bool UdspDescriptor::matches(NetId net) const {
  return net.type == type_ &&
         std::any_of(numbers_.begin(), numbers_.end(),
                     [net](const NumberRange& range) { return range.contains(net.number); });
}

bool UdspDescriptor::matches(const Nid& nid) const {
  if (!matches(nid.net())) return false;
  if (is_net()) return true;
  Nid on_number_0 = nid;
  on_number_0.number_be = {0, 0};
  return addresses_->matches(on_number_0);
}

std::string UdspDescriptor::to_string() const {
  const NetId number_0{type_, 0};
  std::string text = addresses_ ? addresses_->to_string() : number_0.to_string();
  if (numbers_ != NumberSet{{0, 0, 1}}) text += ulnet::to_string(numbers_, 0, kNetNumberMax);
  return text;
}

// ---------------------------------------------------------------- the list

Result<UdspList::Policy> UdspList::parse(const Udsp& udsp) {
  auto src = parse_end("src", udsp.src);
  if (!src) return Failure(src.error());
  auto dst = parse_end("dst", udsp.dst);
  if (!dst) return Failure(dst.error());
  auto rte = parse_end("rte", udsp.rte);
  if (!rte) return Failure(rte.error());
  Policy policy{std::move(*src), std::move(*dst), std::move(*rte), udsp.priority};

  if (policy.src && policy.rte) return fail(EINVAL, "udsp: src and rte do not go together");
  if (policy.rte && !policy.dst) return fail(EINVAL, "udsp: rte needs a dst");
  if (!policy.src && !policy.dst) return fail(EINVAL, "udsp: neither src nor dst is given");
  const bool of_one_end = !policy.rte && policy.src.has_value() != policy.dst.has_value();
  if (!of_one_end && policy.priority) {
    return fail(EINVAL, fmt::format("udsp: priority {} is of src or dst alone: what joins two of "
                                    "src, dst and rte is a preference",
                                    *policy.priority));
  }
  if (of_one_end && !policy.priority) policy.priority = 0;
  return policy;
}

Status UdspList::add(const Udsp& udsp, std::optional<uint32_t> index) {
  Result<Policy> parsed = parse(udsp);
  if (!parsed) return parsed.error();
  for (size_t i = 0; i < policies_.size(); ++i) {
    Policy& known = policies_[i];
    if (!known.has_descriptors_of(*parsed)) continue;
    if (known.priority == parsed->priority)
      return {EALREADY, fmt::format("udsp: the same policy exists, with index {}", i)};
    known.priority = parsed->priority;
    return Status::ok();
  }
  if (policies_.size() >= kUdspsMax)
    return {ENOSPC, fmt::format("udsp: there are {} policies already", kUdspsMax)};
  const size_t at = std::min<size_t>(index.value_or(UINT32_MAX), policies_.size());
  policies_.insert(policies_.begin() + static_cast<ptrdiff_t>(at), std::move(*parsed));
  return Status::ok();
}

Status UdspList::del(uint32_t index) {
  if (index >= policies_.size())
    return {ENOENT, fmt::format("udsp: no policy has index {}", index)};
  policies_.erase(policies_.begin() + static_cast<ptrdiff_t>(index));
  return Status::ok();
}

std::vector<Udsp> UdspList::list() const {
  std::vector<Udsp> list;
  for (const Policy& policy : policies_) {
    list.push_back({.src = text_of(policy.src),
                    .dst = text_of(policy.dst),
                    .rte = text_of(policy.rte),
                    .priority = policy.priority,
                    .where = {}});
  }
  return list;
}

// ---------------------------------------------------------------- what it says

// A kernel applies its policies from the last to the first, so that the first has the last word;
// here the first that matches is taken. Only policies of one end have a priority.
uint32_t UdspList::priority_of(End end, NetId net) const {
  for (const Policy& policy : policies_) {
    const auto& descriptor = policy.*end;
    if (policy.priority && descriptor && descriptor->is_net() && descriptor->matches(net))
      return *policy.priority;
  }
  return kLowestPriority;
}

uint32_t UdspList::priority_of(End end, const Nid& nid) const {
  for (const Policy& policy : policies_) {
    const auto& descriptor = policy.*end;
    if (policy.priority && descriptor && !descriptor->is_net() && descriptor->matches(nid))
      return *policy.priority;
  }
  return kLowestPriority;
}

bool UdspList::prefers(End other_end, const Nid& dest, const Nid& nid) const {
  return std::any_of(policies_.begin(), policies_.end(), [&](const Policy& policy) {
    const auto& other = policy.*other_end;
    return other && policy.dst && policy.dst->matches(dest) && other->matches(nid);
  });
}

bool UdspList::prefers_router(const Nid& dest, const Nid& gateway) const {
  return prefers(&Policy::rte, dest, gateway);
}

void UdspList::apply_to(NetTable& nets) const {
  for (const NetId id : nets.nets()) {
    Net& net = *nets.find_net(id);
    net.priority = priority_of(&Policy::src, id);
    for (const NiId ni : net.nis) nets.ni(ni).priority = priority_of(&Policy::src, nets.ni(ni).nid);
  }
}

void UdspList::apply_to(PeerTable& peers, const NetTable& nets) const {
  for (const PeerId id : peers.order()) {
    for (PeerNet& net : peers.peer(id).nets) {
      for (const PeerNiId ni : net.nis) apply_to(peers.ni(ni), net, nets);
    }
  }
}

void UdspList::apply_to(PeerNi& peer_ni, PeerNet& peer_net, const NetTable& nets) const {
  peer_net.priority = priority_of(&Policy::dst, peer_net.net);
  peer_ni.priority = priority_of(&Policy::dst, peer_ni.nid);
  peer_ni.preferred_sources.clear();
  for (const NiId ni : nets.nis_of(peer_ni.nid.net())) {
    if (prefers(&Policy::src, peer_ni.nid, nets.ni(ni).nid))
      peer_ni.preferred_sources.push_back(ni);
  }
}

}  // namespace ulnet::core
