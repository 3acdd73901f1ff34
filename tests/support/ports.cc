#include "tests/support/ports.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "lnet/base/assert.h"
#include "lnet/base/unique_fd.h"

namespace ulnet::test {

uint16_t free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  const bool bound = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ULNET_ASSERT(bound, "the kernel gives a free port");
  return ntohs(address.sin_port);
}

}  // namespace ulnet::test
