#include "container/pull_words.h"

namespace lockstep {

namespace {

// Up to the colon behind the quoted name, where the words begin so.
void drop_step(std::string_view& words, std::string_view beginning) {
  if (!words.starts_with(beginning))
    return;
  const std::size_t name = words.find('"', beginning.size());
  const std::size_t end = name == words.npos ? words.npos : words.find("\": ", name + 1);
  if (end != words.npos)
    words.remove_prefix(end + 3);
}

}  // namespace

std::string pull_words(std::string_view error) {
  std::string_view words = error;
  if (constexpr std::string_view kTool = "skopeo: "; words.starts_with(kTool))
    words.remove_prefix(kTool.size());
  for (const std::string_view step : {"Error parsing image name ", "Error retrieving manifest for image",
                                      "initializing source ", "Error reading manifest"})
    drop_step(words, step);
  return std::string(words.empty() ? error : words);
}

}  // namespace lockstep
