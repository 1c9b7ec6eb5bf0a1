#include "wire/container_word.h"

#include "base/text.h"
#include "wire/fields.h"

namespace lockstep {

static wire::WordList words_of(ContainerWord::What) {
  static constexpr std::string_view kWords[] = {"fetching", "image", "began", "cannot_yet", "failed", "ended"};
  return kWords;
}

namespace wire {

template <class V>
constexpr void describe(V& v, const ContainerWord*) {
  v.always("what", &ContainerWord::what);
  v("image", &ContainerWord::image, bounded::kName);
  v("fetch_time_us", &ContainerWord::fetch_time, bounded::kSpan);
  v("pid", &ContainerWord::pid);
  v("uid", &ContainerWord::uid);
  v("gid", &ContainerWord::gid);
  v("groups", &ContainerWord::groups, Items{2048});
  v("replaced", &ContainerWord::replaced, bounded::kName);
  v("stop_signal", &ContainerWord::stop_signal);
  v("reason", &ContainerWord::reason, bounded::kName);
  v("message", &ContainerWord::message, bounded::kPhrase);
  v("oom", &ContainerWord::oom);
}

}  // namespace wire

std::string encode_container_word(const ContainerWord& word) { return wire::encode_value(word); }

Result<ContainerWord> decode_container_word(std::string_view line) {
  return wire::decode_value<ContainerWord>(line, wire::Origin::kStranger);
}

std::string as_phrase(std::string_view text, std::size_t bytes_max) {
  std::string out;
  for (const char c : trim(text).substr(0, bytes_max))
    out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c);
  // Not in the middle of a character of several bytes.
  while (!out.empty() && out.size() + 4 > bytes_max && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80)
    out.pop_back();
  return out;
}

}  // namespace lockstep
