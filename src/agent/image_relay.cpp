#include "agent/image_relay.h"

#include "base/text.h"
#include "wire/codec.h"

namespace lockstep {
namespace {

void refuse_image(HttpExchange& exchange, const Error& error) {
  exchange.respond({http_status_of(error.code), "application/json", encode_error(error), {}});
}

}  // namespace

bool asks_for_image(const HttpRequest& request, std::string_view upgrade) {
  return upgrade == kImageProtocol && request.method == "GET" && request.path.ends_with("/image_source") &&
         (request.path.starts_with("/v1/steps/") || request.path.starts_with("/v1/jobs/"));
}

void ImageRelay::join(std::shared_ptr<HttpExchange> exchange, std::string_view route) {
  auto source = decode_step_route(route);
  if (!source.ok() || source->members.size() != 1)
    return refuse_image(*exchange, {Errc::kUnavailable, "the controller's answer names no node", {}});
  const StepMember member = std::move(source->members[0]);
  if (member.ticket.verbs != kStepImages || member.ticket.uid != exchange->request().peer.uid)
    return refuse_image(*exchange, denied("the ticket is not for images of yours"));
  auto opened = [this, exchange, node = member.node](std::unique_ptr<Stream> stream) {
    if (!stream)
      return refuse_image(*exchange, {Errc::kUnavailable, format("node {} cannot be reached", node), {}});
    if (auto client = exchange->upgrade(kImageProtocol))
      splices_.join(std::move(client), std::move(stream));
  };
  peers_.open(member, {member.ticket, {}, {}}, std::move(opened));
}

}  // namespace lockstep
