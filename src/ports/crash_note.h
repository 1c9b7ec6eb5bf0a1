// CrashNote: what the controller is doing, written where it outlives the process, so that the next life knows at what
// the last one stopped itself. A process that was killed, or lost its machine, leaves nothing that counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

// What a batch of commands goes through; the last two cover every command of the batch.
enum class CrashStage : unsigned char {
  kNone,
  kLoading,     // the state is read back; no command is at work
  kApplying,    // one command
  kStoring,     // encoded and appended to the log
  kPublishing,  // durable; shown to readers, on whatever thread
};

class CrashNote {
 public:
  virtual ~CrashNote() = default;

  struct Death {
    CrashStage stage = CrashStage::kNone;  // kNone: the last life did not stop itself at anything
    std::vector<std::string> commands;     // kApplying: the one; later stages: the batch. "" = one without a name
    std::uint32_t loads = 0;               // kLoading: how many lives in a row have died of it
  };
  // Of the last life. Asked once, before anything is noted.
  virtual Death last_death() = 0;

  // No system calls; each replaces what was noted before.
  virtual void loading() = 0;
  virtual void loaded() = 0;
  virtual void begin() = 0;                          // a batch, without commands so far
  virtual void applying(std::string_view name) = 0;  // the next command of the batch
  virtual void stage(CrashStage stage) = 0;          // kStoring, kPublishing: of the whole batch
  virtual void done() = 0;

  // Lists of names, kept for ever.
  enum class List : unsigned char { kQuarantined, kSuspects };
  virtual std::vector<std::string> names(List list) = 0;
  virtual Result<void> keep(List list, const std::vector<std::string>& names) = 0;
};

}  // namespace lockstep
