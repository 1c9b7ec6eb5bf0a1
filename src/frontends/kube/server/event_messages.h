// The events of a watch as messages of a WebSocket, one each: texts of JSON, or bytes of protobuf without their length.
// Source: k8s.io/apiserver pkg/endpoints/handlers/watch.go (HandleWS).
#pragma once

#include <memory>

#include "ports/loop.h"

namespace lockstep::kube {

enum class EventForm : bool { kLines, kFrames };
// client: an upgraded connection. What is written to the stream is whole events, as a watch's answer has them one
// behind the other. What the client says is not read, but for pings and its farewell.
std::unique_ptr<Stream> event_messages(std::unique_ptr<Stream> client, EventForm form);

}  // namespace lockstep::kube
