// ImageRelay: joins a program of a user on this node, which wants an image, with the agent of a node that has it. The
// controller says which node that is and signs the ticket; the program is shown neither.
#pragma once

#include <functional>
#include <memory>

#include "agent/peers.h"
#include "agent/splice.h"
#include "ports/http.h"

namespace lockstep {

inline constexpr const char* kImageProtocol = "lockstep-image/1";

bool asks_for_image(const HttpRequest& request, std::string_view upgrade);

class ImageRelay {
 public:
  ImageRelay(Peers& peers, Splices& splices) : peers_(peers), splices_(splices) {}

  // route: the controller's answer. The exchange is upgraded, or refused when the node cannot be reached.
  void join(std::shared_ptr<HttpExchange> exchange, std::string_view route);

 private:
  Peers& peers_;
  Splices& splices_;
};

}  // namespace lockstep
