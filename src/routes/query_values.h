// What may stand behind the "?" of a request: the names that a row (routes/route.h) lists, each with what its value
// must be. A name or a value that is not listed is refused by name, so that nobody takes the answer to another question
// for the answer to his.
//
//   name          any text: whoever reads it judges it
//   name=number   0 or more
//   name=integer  may be negative
//   name=flag     1 or 0
//   name=a|b      one of these words
#pragma once

#include <string_view>

#include "base/result.h"
#include "ports/http.h"

namespace lockstep {

// `listed`: "id,wait=started,presence=flag". `method` and `path` are for the message.
Result<void> check_query_values(std::string_view method, std::string_view path, std::string_view listed,
                                const HttpRequest& request);

// For tests and generators: calls f(name, kind) for each that is listed; the kind of plain text is "".
template <class F>
void each_query_name(std::string_view listed, F f) {
  while (!listed.empty()) {
    const auto end = listed.find(',');
    const auto one = listed.substr(0, end);
    const auto equals = one.find('=');
    f(one.substr(0, equals), equals == std::string_view::npos ? std::string_view() : one.substr(equals + 1));
    listed.remove_prefix(end == std::string_view::npos ? listed.size() : end + 1);
  }
}

}  // namespace lockstep
