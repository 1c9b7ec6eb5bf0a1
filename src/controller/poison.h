// PoisonNote: remembers across a crash which command was being applied, so that one which trips a CHECK is refused
// after the restart instead of crashing the controller for ever. The note lives in a shared file mapping: it costs no
// system call per command, and the page cache keeps it when the process dies (it need not survive the machine).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/command.h"

namespace lockstep {

// Names a command well enough to recognise it when it is sent again.
std::string fingerprint(const Command& command);

class PoisonNote {
 public:
  // path: the note; path + ".list": what has been quarantined so far, one fingerprint a line.
  static Result<std::unique_ptr<PoisonNote>> open(const std::string& path);
  ~PoisonNote();
  PoisonNote(const PoisonNote&) = delete;
  PoisonNote& operator=(const PoisonNote&) = delete;

  bool quarantined(std::string_view fingerprint) const { return quarantined_.count(fingerprint) != 0; }
  bool any() const { return !quarantined_.empty(); }
  void applying(std::string_view fingerprint);
  void done();

 private:
  PoisonNote() = default;
  char* note_ = nullptr;
  std::set<std::string, std::less<>> quarantined_;
};

}  // namespace lockstep
