#include "shim/control_group.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "shim/process_tree.h"

namespace lockstep {
namespace {

constexpr std::string_view kFreezerState = "/freezer.state";

bool write_group_file(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

std::uint64_t count_oom_kills(const std::string& file) {
  return file.empty() ? 0 : number_behind(read_proc_text(file), "oom_kill");
}

}  // namespace

std::uint64_t number_behind(std::string_view text, std::string_view word) {
  for (const std::string& line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[0] == word)
      return parse_uint(words[1]).value_or(0);
  }
  return 0;
}

ControlGroup::ControlGroup(std::string oom_file, std::string freeze_file)
    : oom_file_(std::move(oom_file)),
      freeze_file_(std::move(freeze_file)),
      oom_kills_before_(count_oom_kills(oom_file_)) {}

std::uint64_t ControlGroup::oom_kills() const {
  const std::uint64_t now = count_oom_kills(oom_file_);
  return now > oom_kills_before_ ? now - oom_kills_before_ : 0;
}

bool ControlGroup::is_v1() const { return freeze_file_.ends_with(kFreezerState); }

bool ControlGroup::freeze() {
  if (!freeze_file_.empty())
    frozen_ = write_group_file(freeze_file_, is_v1() ? "FROZEN" : "1");
  return frozen_;
}

void ControlGroup::thaw() {
  if (std::exchange(frozen_, false))
    write_group_file(freeze_file_, is_v1() ? "THAWED" : "0");
}

bool ControlGroup::is_frozen() const {
  if (!frozen_)
    return false;
  if (is_v1())
    return trim(read_proc_text(freeze_file_)) == "FROZEN";
  const std::string events = freeze_file_.substr(0, freeze_file_.rfind('/')) + "/cgroup.events";
  return number_behind(read_proc_text(events), "frozen") == 1;
}

}  // namespace lockstep
