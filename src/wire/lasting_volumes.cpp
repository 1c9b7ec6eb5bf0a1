#include "wire/lasting_volumes.h"

#include <boost/json.hpp>

#include "base/text.h"

namespace lockstep {

namespace json = boost::json;

Result<std::vector<LastingFate>> decode_lasting(std::string_view text, std::size_t asked) {
  boost::system::error_code wrong;
  const json::value value = json::parse({text.data(), text.size()}, wrong);
  const json::object* object = wrong ? nullptr : value.if_object();
  const json::value* list = object ? object->if_contains("volumes") : nullptr;
  const json::array* all = list ? list->if_array() : nullptr;
  if (!all || all->size() != asked)
    return Error{Errc::kInvalid, format("the answer does not say what becomes of {} volumes", asked), {}};
  std::vector<LastingFate> out;
  for (const json::value& one : *all) {
    const json::string* word = one.if_string();
    out.push_back(!word                ? LastingFate::kUnknown
                  : *word == "kept"    ? LastingFate::kKept
                  : *word == "passing" ? LastingFate::kPassing
                  : *word == "coming"  ? LastingFate::kComing
                  : *word == "gone"    ? LastingFate::kGone
                                       : LastingFate::kUnknown);
  }
  return out;
}

}  // namespace lockstep
