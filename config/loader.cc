#include "config/loader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "config/blocks.h"
#include "lnet/base/unique_fd.h"
#include "ulnet/endpoint.h"

namespace ulnet::config {

Reader LoadContext::skip() {
  return [this](const YamlEntry& entry) {
    if (!first_skipped) first_skipped = entry;
    ++skipped;
  };
}

namespace {

using BlockReader = void (*)(LoadContext&, const YamlNode&);

Field block(LoadContext& context, std::string_view key, BlockReader read) {
  return {key, [&context, read](const YamlEntry& entry) { read(context, *entry.value); }};
}

// A block that ulnet knows and does not act on yet: files that hold one load, and nobody is misled.
Field not_yet(LoadContext& context, std::string_view key) {
  return {key, [&context](const YamlEntry& entry) {
            if (entry.value->is_null()) return;
            context.report.warn(entry.place,
                                fmt::format("block '{}' is not yet in effect", entry.key));
          }};
}

void read_top(LoadContext& context, const YamlNode& root) {
  if (root.is_list()) {
    context.report.error(
        root.place,
        "the file begins with a list; is the line 'net:' missing above it? Nothing is configured");
    return;
  }
  read_map(context.report, root, "the file",
           {block(context, "net", read_net_block), block(context, "global", read_global_block),
            block(context, "numa", read_numa_block), block(context, "ulnet", read_ulnet_block),
            not_yet(context, "ip2nets"), not_yet(context, "route"),
            block(context, "peer", read_peer_block), not_yet(context, "routing"),
            not_yet(context, "buffers"), not_yet(context, "udsp"),
            block(context, "fault", read_fault_block), not_yet(context, "ping"),
            not_yet(context, "discover"), Field{"statistics", context.skip()}});
}

void warn_about_the_whole(LoadContext& context) {
  if (const auto& first = context.first_skipped) {
    context.report.warn(
        first->place,
        fmt::format(
            "keys that only 'show' prints are skipped: '{}' here{}", first->key,
            context.skipped > 1 ? fmt::format(", {} in all", context.skipped) : std::string()));
  }
  if (const auto& first = context.first_without_effect) {
    context.report.warn(first->place, fmt::format("'{}' is kept and has no effect", first->key));
  }
  if (context.settings.nis.empty() && !context.report.failed()) {
    context.report.warn(
        {}, "no net is configured: the node has no address but 0@lo and reaches nobody");
  }
}

Result<std::string> read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail(errno, fmt::format("{}: cannot be opened: {}", path, errno_text(errno)));
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t bytes = ::read(fd.get(), buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0)
      return fail(errno, fmt::format("{}: cannot be read: {}", path, errno_text(errno)));
    if (bytes == 0) return text;
    text.append(buffer, static_cast<size_t>(bytes));
    if (text.size() > kFileBytesMax) {
      return fail(EFBIG, fmt::format("{}: longer than {} MiB", path, kFileBytesMax >> 20));
    }
  }
}

}  // namespace

Loaded load_text(std::string_view text, const std::string& file) {
  LoadContext context(file);
  if (const auto root = parse_yaml(text); !root) {
    context.report.error(root.error().place, root.error().text);
  } else {
    read_top(context, **root);
    check_timeouts(context);
    warn_about_the_whole(context);
  }
  return {std::move(context.settings), context.report.errors(), context.report.warnings()};
}

}  // namespace ulnet::config

namespace ulnet {

Result<Settings> load_settings(const std::string& path, std::vector<std::string>* warnings) {
  const Result<std::string> text = config::read_file(path);
  if (!text) return Failure(text.error());
  config::Loaded loaded = config::load_text(*text, path);
  if (warnings != nullptr) *warnings = std::move(loaded.warnings);
  if (!loaded.errors.empty())
    return fail(EINVAL, fmt::format("{}", fmt::join(loaded.errors, "\n")));
  return std::move(loaded.settings);
}

}  // namespace ulnet
