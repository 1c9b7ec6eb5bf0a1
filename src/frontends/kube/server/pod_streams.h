// pods/exec, pods/attach and pods/portforward: a client's connection (WebSocket or SPDY) and streams to the node of the
// pod. Source: k8s.io/apimachinery pkg/util/remotecommand and pkg/util/portforward (protocol names), RFC 6455.
#pragma once

#include "frontends/kube/server/request.h"
#include "frontends/kube/server/stream_room.h"

namespace lockstep::kube {

struct StreamTools {
  std::shared_ptr<StreamRoom> room;
  std::function<std::string(std::string_view)> sha1;
  // TLS over a stream, whoever the server is; null: it cannot be. Empty: none is spoken.
  std::function<std::unique_ptr<Stream>(std::unique_ptr<Stream>)> over_tls = {};
};

void exec_in_pod(const Asked& request, const StreamTools& tools);  // and attach
void forward_ports(const Asked& request, const StreamTools& tools);
// pods/log: plain text, or messages of a WebSocket.
void log_of_pod(const Asked& request, const StreamTools& tools);

// Which container of which pod is meant, and where it runs. A Status: it cannot be reached.
struct PodPlace {
  JobId job;
  std::string container;
  bool started = false;   // it runs, or has run
  bool previous = false;  // it ran before it did for the last time
  std::string waits;      // why it has not started: "ImagePullBackOff"; "" = it never will
  // Of a pod whose job is forgotten: its node has the logs for some time.
  std::string ran_on;
  AttemptNo attempt = 0;
};
Answered<PodPlace> place_of(const Request& request, std::string_view subject);

}  // namespace lockstep::kube
