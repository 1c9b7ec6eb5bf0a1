// StartNote: how far a controller is that does not answer yet, because it reads its log. A file in its directory, for
// `lockstep status`; it names the process, so that one that was left behind by a killed controller is nobody's.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "io/local/folder.h"
#include "io/local/process.h"

namespace lockstep {

inline constexpr const char* kStartNoteFile = "controller.starting";

class StartNote {
 public:
  explicit StartNote(const Folder& folder) : folder_(folder) {}
  ~StartNote();
  StartNote(const StartNote&) = delete;

  // "its log is read: entry 200 of 1000". Written some times a second at most; where it cannot be, nobody is told.
  void say(const std::string& what, std::uint64_t at, std::uint64_t of);

 private:
  const Folder& folder_;
  std::string last_what_;
  Instant next_;
};

struct Starting {
  ProcessId process;
  std::string what;
};
std::optional<Starting> read_start_note(const std::string& path);  // of a process that lives

}  // namespace lockstep
