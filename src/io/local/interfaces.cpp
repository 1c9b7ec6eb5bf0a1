#include "io/local/interfaces.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kAnswerBytes = 64 << 10;

std::string text_of(const rtattr* attribute) {
  const std::string_view bytes(static_cast<const char*>(RTA_DATA(attribute)), RTA_PAYLOAD(attribute));
  return std::string(bytes.substr(0, bytes.find('\0')));
}

Interface read_interface(const nlmsghdr* head) {
  const auto* info = static_cast<const ifinfomsg*>(NLMSG_DATA(head));
  Interface one;
  one.index = info->ifi_index;
  auto left = static_cast<int>(IFLA_PAYLOAD(head));
  for (const rtattr* at = IFLA_RTA(info); RTA_OK(at, left); at = RTA_NEXT(at, left)) switch (at->rta_type) {
      case IFLA_IFNAME: one.name = text_of(at); break;
      case IFLA_IFALIAS: one.alias = text_of(at); break;
      case IFLA_MASTER: std::memcpy(&one.master, RTA_DATA(at), sizeof one.master); break;
      default: break;
    }
  return one;
}

// One piece of the answer. True: it was the last.
Result<bool> read_piece(const char* bytes, std::size_t size, std::vector<Interface>& out) {
  auto left = static_cast<unsigned>(size);
  for (const auto* head = reinterpret_cast<const nlmsghdr*>(bytes); NLMSG_OK(head, left);
       head = NLMSG_NEXT(head, left)) {
    if (head->nlmsg_type == NLMSG_DONE)
      return true;
    if (head->nlmsg_type == NLMSG_ERROR) {
      errno = -static_cast<const nlmsgerr*>(NLMSG_DATA(head))->error;
      return os_error("cannot list the network interfaces");
    }
    if (head->nlmsg_type == RTM_NEWLINK)
      out.push_back(read_interface(head));
  }
  return false;
}

Result<std::vector<Interface>> ask(int fd) {
  struct {
    nlmsghdr head;
    ifinfomsg info;
  } question{};
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = RTM_GETLINK;
  question.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (::send(fd, &question, sizeof question, 0) < 0)
    return os_error("cannot ask for the network interfaces");
  std::vector<Interface> out;
  std::vector<char> answer(kAnswerBytes);
  for (;;) {
    const ssize_t n = ::recv(fd, answer.data(), answer.size(), 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return os_error("cannot list the network interfaces");
    if (TRY(read_piece(answer.data(), static_cast<std::size_t>(n), out)))
      return out;
  }
}

}  // namespace

Result<std::vector<Interface>> list_interfaces() {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0)
    return os_error("cannot ask for the network interfaces");
  auto found = ask(fd);
  ::close(fd);
  return found;
}

std::string interface_mark(const std::string& cluster_id) { return "lockstep:" + cluster_id; }

}  // namespace lockstep
