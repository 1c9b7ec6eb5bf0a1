// What a step's client said of itself when it made the step: by which name it may ask again, and whether the step is
// nothing without it. Kept among the words of the step, so that the next controller knows it too.
#pragma once

#include <string>
#include <string_view>

#include "model/records.h"

namespace lockstep {

struct LaunchClient {
  std::string request;             // the name of its request; "" = none
  bool step_ends_with_it = false;  // once it has been away for its patience
};

// Nobody says so but by the query: what the words of the step say of it is taken out.
void set_client(StepSpec& spec, const LaunchClient& client);
std::string_view request_of(const StepSpec& spec);
bool ends_with_client(const StepSpec& spec);

}  // namespace lockstep
