#include "io/local/start_note.h"

#include <unistd.h>

#include "base/text.h"

namespace lockstep {

namespace {
constexpr Duration kEvery = millis(200);
}

StartNote::~StartNote() { ::unlinkat(folder_.fd(), kStartNoteFile, 0); }

void StartNote::say(const std::string& what, std::uint64_t at, std::uint64_t of) {
  const Instant now = boot_now();
  if (what == last_what_ && now < next_)
    return;
  last_what_ = what;
  next_ = now + kEvery;
  if (const auto self = identify(getpid()))
    (void)folder_.write(kStartNoteFile, format("{}\n{}: entry {} of {}\n", process_text(*self), what, at, of), 0600);
}

std::optional<Starting> read_start_note(const std::string& path) {
  const auto text = read_file(path);
  if (!text)
    return std::nullopt;
  const auto lines = split(*text, '\n');
  const auto process = lines.size() < 2 ? std::nullopt : parse_process(lines[0]);
  if (!process || !alive(*process))
    return std::nullopt;
  return Starting{*process, lines[1]};
}

}  // namespace lockstep
