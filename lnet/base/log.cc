#include "lnet/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace ulnet {
namespace {

constexpr std::array<std::string_view, 6> kLevelWords = {"trace", "debug", "info",
                                                         "warn",  "error", "off"};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// sd-daemon's "<N>" prefixes, which the journal turns into priorities.
std::string_view journal_prefix(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
    case LogLevel::kDebug:
      return "<7>";
    case LogLevel::kInfo:
      return "<6>";
    case LogLevel::kWarn:
      return "<4>";
    case LogLevel::kError:
    case LogLevel::kOff:
      break;
  }
  return "<3>";
}

class NullLogger final : public Logger {
 public:
  NullLogger() : Logger(LogLevel::kOff) {}
  void write(LogLevel, std::string_view) override {}
};

class SpdlogLogger final : public Logger {
 public:
  explicit SpdlogLogger(LogLevel level)
      : Logger(level),
        to_journal_(std::getenv("JOURNAL_STREAM") != nullptr),
        logger_("ulnet", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_level(spdlog::level::trace);
    logger_.set_pattern(to_journal_ ? "%v" : "%Y-%m-%dT%H:%M:%S.%f %l %v");
    logger_.flush_on(spdlog::level::trace);
  }
  void write(LogLevel level, std::string_view line) override {
    if (to_journal_) {
      logger_.log(to_spdlog(level), "{}{}", journal_prefix(level), line);
    } else {
      logger_.log(to_spdlog(level), "{}", line);
    }
  }

 private:
  const bool to_journal_;
  spdlog::logger logger_;
};

}  // namespace

Result<LogLevel> parse_log_level(std::string_view word) {
  for (size_t i = 0; i < kLevelWords.size(); ++i) {
    if (word == kLevelWords[i]) return static_cast<LogLevel>(i);
  }
  return fail(EINVAL,
              fmt::format("log level '{}' is not one of {}", word, fmt::join(kLevelWords, ", ")));
}

std::string_view to_string(LogLevel level) {
  return kLevelWords[static_cast<size_t>(level)];
}

std::unique_ptr<Logger> make_null_logger() {
  return std::make_unique<NullLogger>();
}
std::unique_ptr<Logger> make_stderr_logger(LogLevel level) {
  return std::make_unique<SpdlogLogger>(level);
}

bool LogLimiter::admit(Time now, std::string_view cause, uint64_t* similar) {
  const std::lock_guard lock(mutex_);
  auto it = causes_.find(cause);
  if (it == causes_.end()) {
    if (causes_.size() >= kCausesMax) cause = "(other causes)";
    it = causes_.try_emplace(std::string(cause)).first;
  }
  if (now < it->second.next) {
    ++it->second.similar;
    return false;
  }
  *similar = std::exchange(it->second.similar, 0);
  it->second.next = now + interval_;
  return true;
}

void LogLimiter::write(LogLevel level, std::string line, uint64_t similar) {
  if (similar > 0) line += fmt::format(" ({} similar before)", similar);
  logger_.write(level, line);
}

}  // namespace ulnet
