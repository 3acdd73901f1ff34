// Logging: a Logger object handed to whoever logs (no global), and a limiter for lines that a peer
// can provoke.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "lnet/base/time.h"
#include "ulnet/result.h"

namespace ulnet {

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

// "trace" ... "off". Errors: EINVAL that lists the words.
Result<LogLevel> parse_log_level(std::string_view word);
std::string_view to_string(LogLevel level);

// Thread: any.
class Logger {
 public:
  explicit Logger(LogLevel level) : level_(level) {}
  virtual ~Logger() = default;
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  bool enabled(LogLevel level) const { return level >= level_; }
  LogLevel level() const { return level_; }

  template <typename... Args>
  void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::kDebug, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::kInfo, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::kWarn, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) {
    log(LogLevel::kError, format, std::forward<Args>(args)...);
  }

  // One finished line, without a newline.
  virtual void write(LogLevel level, std::string_view line) = 0;

 private:
  const LogLevel level_;
};

// Writes nothing.
std::unique_ptr<Logger> make_null_logger();
// Writes to standard error by spdlog: time, level, line; with journald's level prefix and no time
// when standard error is the journal.
std::unique_ptr<Logger> make_stderr_logger(LogLevel level);

// Lets one line per cause and interval through and counts the rest: "LINE (37 similar in 10 s)".
// Causes are kept for the life of the limiter, at most kCausesMax of them; beyond that they share
// one entry. Thread: any.
class LogLimiter {
 public:
  LogLimiter(Logger& logger, Duration interval = std::chrono::seconds(10))
      : logger_(logger), interval_(interval) {}

  template <typename... Args>
  void log(Time now, LogLevel level, std::string_view cause, fmt::format_string<Args...> format,
           Args&&... args) {
    if (!logger_.enabled(level)) return;
    uint64_t similar = 0;
    if (!admit(now, cause, &similar)) return;
    write(level, fmt::format(format, std::forward<Args>(args)...), similar);
  }

  static constexpr size_t kCausesMax = 1024;

 private:
  struct Cause {
    Time next = Time::min();
    uint64_t similar = 0;
  };
  bool admit(Time now, std::string_view cause, uint64_t* similar);
  void write(LogLevel level, std::string line, uint64_t similar);

  Logger& logger_;
  const Duration interval_;
  std::mutex mutex_;
  std::map<std::string, Cause, std::less<>> causes_;
};

}  // namespace ulnet
