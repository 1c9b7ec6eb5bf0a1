// NameServer: answers DNS at one address of this node, over UDP and TCP: names of the cluster from the view, others
// from the node's own resolvers. Everything it holds for others is bounded, and a source has a share of it.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "ports/loop.h"
#include "services/service_view.h"

namespace lockstep {

class NameServer {
 public:
  NameServer(EventLoop& loop, const ServiceView& view);
  ~NameServer();
  NameServer(NameServer&&) = delete;

  // port: 53, but for tests.
  Result<void> listen(const std::string& address, std::uint16_t port = 53);
  void close();

 private:
  struct Inner;
  std::shared_ptr<Inner> inner_;
};

// Addresses of the nameserver lines of a resolv.conf, at most three, `own` left out.
std::vector<std::string> resolvers_in(std::string_view text, const std::string& own);

}  // namespace lockstep
