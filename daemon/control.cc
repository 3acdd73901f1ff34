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

// The `error` of a reply; ok if it has none that can be read.
Status parse_error(const Json& reply) {
  const auto error = reply.find("error");
  if (error == reply.end() || !error->is_object()) return Status::ok();
  const auto code = error->find("errno");
  const auto text = error->find("text");
  if (code == error->end() || !code->is_number_integer() || text == error->end() ||
      !text->is_string()) {
    return Status::ok();
  }
  return code->get<int>() > 0 ? Status(code->get<int>(), text->get<std::string>()) : Status::ok();
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
  const Result<Json> json = parse_object(line, "reply");
  if (!json) return Failure(json.error());
  NumberedReply numbered;
  numbered.id = (*json)["id"].get<uint64_t>();
  if (const auto result = json->find("result"); result != json->end()) {
    numbered.reply = *result;
    return numbered;
  }
  const Status error = parse_error(*json);
  if (error.is_ok())
    return fail(EBADMSG, "the reply has neither a 'result' nor an 'error' with 'errno' and 'text'");
  numbered.reply = Failure(error);
  return numbered;
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
