// Text in double quotes as Go's %q prints it, which is how the messages of Kubernetes' API quote names and values.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::kube {

// Quotes, backslashes and control characters are escaped; printable Unicode stays; a byte that is no part of UTF-8
// becomes \xNN.
std::string quoted(std::string_view text);

}  // namespace lockstep::kube
