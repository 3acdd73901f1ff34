// The control protocol between ulnetd and its clients: one JSON object per line, in both
// directions, over a Unix stream socket.
//
//   request  {"id": 7, "command": "net show", "args": {"level": 2}}
//   reply    {"id": 7, "ok": true, "result": {...}}
//            {"id": 7, "ok": false, "error": {"errno": 22, "name": "EINVAL", "text": "..."}}
//
// `id` is any number from 0 to 2^64-1 that the client likes; replies carry it, since a slow
// command's reply may come after that of a later one. A line that is no request is answered with id
// 0. `args` may be left out. The commands are listed in commands.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/show.h"
#include "ulnet/result.h"

namespace ulnet::daemon {

using config::Json;

inline constexpr const char* kDefaultSocketPath = "/run/ulnet/ulnetd.sock";
// A longer request is answered with EMSGSIZE, and its connection closed.
inline constexpr size_t kRequestBytesMax = 64 << 10;
// A client gives up on a longer reply.
inline constexpr size_t kReplyBytesMax = 256 << 20;

struct Request {
  uint64_t id = 0;
  std::string command;
  Json args = Json::object();
};

// What a command answers: a tree, or why there is none.
using Reply = Result<Json>;

struct NumberedReply {
  uint64_t id = 0;
  Reply reply;
};

// `line` is without its newline. Errors: EBADMSG that says what is wrong with it.
Result<Request> parse_request(std::string_view line);
Result<NumberedReply> parse_reply(std::string_view line);

// With the newline.
std::string format_request(const Request& request);
std::string format_reply(uint64_t id, const Reply& reply);

}  // namespace ulnet::daemon
