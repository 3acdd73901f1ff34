// The control socket itself: clients that behave badly, and the file it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/control_fixture.h"

namespace ulnet::daemon {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// ---- bad clients.

TEST_F(ControlTest, ABadLineIsAnsweredAndTheNextOneServed) {
  start();
  RawClient client(path_);
  client.send("rubbish\n{\"id\":3,\"command\":\"peer list\"}\n");
  EXPECT_EQ(
      client.line(),
      R"({"id":0,"ok":false,"error":{"errno":74,"name":"EBADMSG","text":"the request is not JSON"}})");
  EXPECT_THAT(client.line(), HasSubstr(R"({"id":3,"ok":true)"));
}

TEST_F(ControlTest, ALongRequestIsRefused) {
  start();
  for (const char* end : {"", "\n"}) {
    RawClient client(path_);
    client.send_what_fits(std::string(kRequestBytesMax + 1000, ' ') + end);
    EXPECT_THAT(
        client.line(),
        HasSubstr("\"name\":\"EMSGSIZE\",\"text\":\"the request is longer than 65536 bytes\""));
    EXPECT_TRUE(client.at_end());
  }
}

TEST_F(ControlTest, ARequestMayComeByteByByte) {
  start();
  RawClient client(path_);
  for (const char c : std::string("{\"id\":5,\"command\":\"peer list\"}\n"))
    client.send(std::string(1, c));
  EXPECT_THAT(client.line(), HasSubstr(R"({"id":5,"ok":true)"));
}

TEST_F(ControlTest, HalfARequestTimesOutHoweverSlowlyItGrows) {
  start({.half_request_timeout = milliseconds(200)});
  RawClient client(path_);
  const auto begin = std::chrono::steady_clock::now();
  std::thread drip([&] {
    for (int i = 0; i < 8; ++i) {
      client.send("{");
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  EXPECT_TRUE(client.at_end());
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, milliseconds(190));
  drip.join();
  EXPECT_TRUE(call("peer list"));
}

TEST_F(ControlTest, AnIdleClientIsClosed) {
  start({.idle_timeout = milliseconds(100)});
  RawClient client(path_);
  EXPECT_TRUE(client.at_end());
}

TEST_F(ControlTest, AClientThatDoesNotReadIsClosedAndHoldsLittle) {
  start({.write_timeout = milliseconds(200)});
  RawClient client(path_);
  std::string requests;
  for (int i = 0; i < 20000; ++i)
    requests += "{\"id\":1,\"command\":\"net show\",\"args\":{\"level\":4}}\n";
  // Far more than the socket buffers and 16 requests hold: the server stops reading.
  EXPECT_LT(client.send_what_fits(requests), requests.size());
  std::this_thread::sleep_for(milliseconds(400));
  size_t lines = 0;
  while (!client.line().empty()) ++lines;
  EXPECT_LT(lines, 20000u);
  EXPECT_TRUE(call("peer list"));
}

TEST_F(ControlTest, AClientThatReadsSlowlyIsServed) {
  start({.write_timeout = milliseconds(1000)});
  RawClient client(path_);
  std::string requests;
  for (int i = 0; i < 20000; ++i)
    requests += "{\"id\":1,\"command\":\"net show\",\"args\":{\"level\":4}}\n";
  size_t sent = 0;
  const auto end = std::chrono::steady_clock::now() + milliseconds(2500);
  while (std::chrono::steady_clock::now() < end) {  // replies are always waiting to be written
    sent += client.send_what_fits(std::string_view(requests).substr(sent));
    ASSERT_FALSE(client.line().empty());
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST_F(ControlTest, OneClientTooManyIsTold) {
  start({.clients_max = 3});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(path_));
    clients.back()->send("{\"id\":1,\"command\":\"peer list\"}\n");
    EXPECT_THAT(clients.back()->line(), HasSubstr("\"ok\":true"));
  }
  EXPECT_EQ(call("peer list").error().text(), "the daemon has 3 clients already");
  clients.pop_back();
  Reply reply = call("peer list");
  for (int i = 0; i < 100 && !reply;
       ++i) {  // the server notices the end of a client a moment later
    std::this_thread::sleep_for(milliseconds(10));
    reply = call("peer list");
  }
  EXPECT_TRUE(reply);
}

// ---- the socket file.

TEST_F(ControlTest, FileIsOpenToAllAndGoesAway) {
  start();
  struct stat file {};
  ASSERT_EQ(::stat(path_.c_str(), &file), 0);
  EXPECT_TRUE(S_ISSOCK(file.st_mode));
  EXPECT_EQ(file.st_mode & 0777, 0666u);
  server_.reset();
  EXPECT_NE(::stat(path_.c_str(), &file), 0);
}

TEST_F(ControlTest, ALiveDaemonIsNotReplacedADeadOneIs) {
  start();
  const auto second = ControlSocket::listen(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), EADDRINUSE);
  EXPECT_EQ(second.error().text(),
            fmt::format("control socket {}: another daemon answers there", path_));
  EXPECT_TRUE(call("peer list"));
  server_.reset();

  {  // what a killed daemon leaves
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_EQ(call("peer list").error().code(), ECONNREFUSED);
  start();
  EXPECT_TRUE(call("peer list"));
}

TEST_F(ControlTest, OtherFilesAreLeftAlone) {
  std::ofstream(path_) << "mine";
  const auto socket = ControlSocket::listen(path_);
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().text(),
            fmt::format("control socket {}: the file exists and is no socket", path_));
  EXPECT_EQ(::unlink(path_.c_str()), 0);
  EXPECT_EQ(ControlSocket::listen(std::string(108, 'x')).error().code(), ENAMETOOLONG);
  EXPECT_EQ(ControlSocket::listen("/nonexistent/a/b.sock").error().code(), ENOENT);
}

}  // namespace
}  // namespace ulnet::daemon
