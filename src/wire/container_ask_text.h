// What is asked of one container (model/container_ask.h), as text for its node.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/container_ask.h"

namespace lockstep {

struct NodeContainerAsk {
  ContainerAsk ask;
  std::string work;  // the task's life that is meant, as text_of(WorkId)
};
std::string encode_container_ask(const NodeContainerAsk& ask);  // one line
Result<NodeContainerAsk> decode_container_ask(std::string_view text);

}  // namespace lockstep
