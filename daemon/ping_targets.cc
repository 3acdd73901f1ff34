#include "daemon/ping_targets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <memory>

#include "lnet/wire/nid.h"

namespace ulnet::daemon {
namespace {

std::vector<std::string> split_at_commas(std::string_view argument) {
  std::vector<std::string> words(1);
  bool in_brackets = false;
  for (const char c : argument) {
    if (c == '[') in_brackets = true;
    if (c == ']') in_brackets = false;
    if (c == ',' && !in_brackets) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  std::erase(words, std::string());
  return words;
}

// Letters, digits, '-' and '.', with a letter somewhere: what cannot be a mistyped address.
bool may_be_host_name(std::string_view word) {
  const auto is_part = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  };
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  return !word.empty() && std::all_of(word.begin(), word.end(), is_part) &&
         std::any_of(word.begin(), word.end(), is_letter);
}

Result<std::vector<Nid>> resolve_host(const std::string& word, const Status& otherwise,
                                      const Resolve& resolve) {
  const size_t at = word.find('@');
  const std::string name = word.substr(0, at);
  const Result<NetId> net =
      at == std::string::npos ? NetId{NetType::kTcp, 0} : NetId::parse(word.substr(at + 1));
  if (!net || !may_be_host_name(name)) return Failure(otherwise);
  const Result<std::vector<uint32_t>> addresses = resolve(name);
  if (!addresses) return Failure(addresses.error());
  std::vector<Nid> nids;
  for (const uint32_t address : *addresses) nids.push_back(Nid::from_ipv4(*net, address));
  return nids;
}

Result<std::vector<Nid>> expand_word(const std::string& word, size_t limit,
                                     const Resolve& resolve) {
  if (word.find_first_of("[*/") != std::string::npos) {
    const Result<NidList> list = NidList::parse(word);
    if (!list) return Failure(list.error());
    return list->expand(limit);
  }
  const Result<Nid> nid = Nid::parse(word);
  if (nid && nid->is_any()) return fail(EINVAL, fmt::format("'{}' names no node", word));
  if (nid) return std::vector<Nid>{*nid};
  return resolve_host(word, nid.error(), resolve);
}

}  // namespace

Resolve system_resolver() {
  return [](const std::string& name) -> Result<std::vector<uint32_t>> {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    if (const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &list); error != 0) {
      return fail(EHOSTUNREACH, fmt::format("host '{}': {}", name, ::gai_strerror(error)));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
    std::vector<uint32_t> addresses;
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
      addresses.push_back(
          ntohl(reinterpret_cast<const sockaddr_in*>(entry->ai_addr)->sin_addr.s_addr));
    }
    return addresses;
  };
}

Result<std::vector<PingTarget>> expand_ping_targets(const std::vector<std::string>& arguments,
                                                    size_t limit, const Resolve& resolve) {
  std::vector<PingTarget> targets;
  for (const std::string& argument : arguments) {
    for (const std::string& word : split_at_commas(argument)) {
      const Result<std::vector<Nid>> nids = expand_word(word, limit, resolve);
      if (!nids && nids.error().code() == E2BIG) return Failure(nids.error());
      if (!nids) {
        targets.push_back({word, Failure(nids.error())});
      } else {
        for (const Nid& nid : *nids) targets.push_back({nid.to_string(), nid});
      }
      if (targets.size() > limit) return fail(E2BIG, fmt::format("more than {} NIDs", limit));
    }
  }
  if (targets.empty()) return fail(EINVAL, "no NID is given");
  return targets;
}

}  // namespace ulnet::daemon
