#include "daemon/control.h"

#include <fmt/format.h>

#include <cerrno>

namespace ulnet::daemon {
namespace {

// Text from files and peers need not be UTF-8; JSON must be.
std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<Json> parse_object(std::string_view line, std::string_view what) {
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return fail(EBADMSG, fmt::format("the {} is not JSON", what));
  if (!json.is_object()) return fail(EBADMSG, fmt::format("the {} is not a JSON object", what));
  const auto id = json.find("id");
  if (id == json.end() || !id->is_number_unsigned()) {
    return fail(EBADMSG, fmt::format("the {}'s 'id' is not a number from 0 to 2^64-1", what));
  }
  return json;
}

}  // namespace

Result<Request> parse_request(std::string_view line) {
  Result<Json> json = parse_object(line, "request");
  if (!json) return Failure(json.error());
  Request request{.id = (*json)["id"].get<uint64_t>(), .command = {}};
  for (const auto& [key, value] : json->items()) {
    if (key == "id") continue;
    if (key == "command" && value.is_string()) {
      request.command = value.get<std::string>();
    } else if (key == "args" && value.is_object()) {
      request.args = value;
    } else if (key == "command" || key == "args") {
      return fail(EBADMSG, fmt::format("the request's '{}' is not {}", key,
                                       key == "args" ? "an object" : "a string"));
    } else {
      return fail(
          EBADMSG,
          fmt::format("the request has the unknown key '{}'; known are id, command, args", key));
    }
  }
  if (request.command.empty()) return fail(EBADMSG, "the request has no 'command'");
  return request;
}

Result<NumberedReply> parse_reply(std::string_view line) {
  Result<Json> json = parse_object(line, "reply");
  if (!json) return Failure(json.error());
  const uint64_t id = (*json)["id"].get<uint64_t>();
  const auto result = json->find("result");
  if (result != json->end()) return NumberedReply{id, Json(*result)};
  const auto error = json->find("error");
  if (error == json->end() || !error->is_object())
    return fail(EBADMSG, "the reply has neither 'result' nor 'error'");
  const auto code = error->find("errno");
  const auto text = error->find("text");
  if (code == error->end() || !code->is_number_integer() || code->get<int>() <= 0 ||
      text == error->end() || !text->is_string()) {
    return fail(EBADMSG, "the reply's 'error' has no 'errno' or no 'text'");
  }
  return NumberedReply{id, fail(code->get<int>(), text->get<std::string>())};
}

std::string format_request(const Request& request) {
  return line_of({{"id", request.id}, {"command", request.command}, {"args", request.args}});
}

std::string format_reply(uint64_t id, const Reply& reply) {
  if (reply) return line_of({{"id", id}, {"ok", true}, {"result", *reply}});
  const Status& status = reply.error();
  return line_of(
      {{"id", id},
       {"ok", false},
       {"error",
        {{"errno", status.code()}, {"name", errno_name(status.code())}, {"text", status.text()}}}});
}

}  // namespace ulnet::daemon
