// What client and server of ulnet_perf agree on, and the node that each of them is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ulnet/endpoint.h"

namespace ulnet::bench {

// Portals of the server ...
inline constexpr uint32_t kSinkPortal = 40;    // PUTs of any size, overwritten by the next one
inline constexpr uint32_t kSourcePortal = 41;  // GETs: block i of 1 MiB holds the pattern of seed i
inline constexpr uint32_t kVerifyPortal =
    42;  // PUTs with the pattern of seed hdr_data; checked one by one
inline constexpr uint32_t kDonePortal =
    43;  // an empty PUT: report on the verified PUTs that I sent, and forget them
// ... and of the client.
inline constexpr uint32_t kReportPortal =
    44;  // an empty PUT: match bits = PUTs that were right, hdr_data = wrong ones

inline constexpr uint32_t kSourceBlocks = 16;

struct PerfOptions {
  std::string config;   // a YAML file, or
  std::string nid;      // one NI by its NID
  uint16_t port = 988;  // with `nid`
  int threads = 0;      // with `nid`
};

// Brings the node up; with `nid`, everybody may connect. Errors: those of load_settings() and
// Endpoint::start().
Result<std::unique_ptr<Endpoint>> start_node(const PerfOptions& options);

}  // namespace ulnet::bench
