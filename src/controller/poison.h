// Names of commands, and PoisonNote: the CrashNote of a real controller. It lives in a shared file mapping: it costs no
// system call per command, and the page cache keeps it when the process dies (it need not survive the machine).
//
// Only a process that stops itself (abort, as a failed CHECK does, or a fault) leaves something that counts, and only
// if the thread that stopped it was at work for a batch: somebody else's thread says nothing against the batch.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/command.h"
#include "ports/crash_note.h"

namespace lockstep {

// Names a command well enough to recognise it when it is sent again. "" for those that can never be refused.
std::string fingerprint(const Command& command);
// The same of each of its bodies by itself.
std::vector<std::string> fingerprints(const Command& command);

class PoisonNote : public CrashNote {
 public:
  // path: the note; path + ".list": what is quarantined, path + ".suspects", one name a line. One a process.
  static Result<std::unique_ptr<PoisonNote>> open(const std::string& path);
  ~PoisonNote() override;
  PoisonNote(const PoisonNote&) = delete;
  PoisonNote& operator=(const PoisonNote&) = delete;

  Death last_death() override { return std::move(last_death_); }
  void loading() override;
  void loaded() override;
  void begin() override;
  void applying(std::string_view name) override;
  void stage(CrashStage stage) override;
  void done() override;
  std::vector<std::string> names(List list) override;
  Result<void> keep(List list, const std::vector<std::string>& names) override;

 private:
  struct Pages;
  explicit PoisonNote(std::string path) : path_(std::move(path)) {}
  Death read_death() const;

  const std::string path_;
  Pages* pages_ = nullptr;
  Death last_death_;
};

// While it lives, this thread is at work for a batch of these commands that is durable already: the planner that learns
// of it, the I/O thread that shows it. The list must outlive it.
class AtWorkFor {
 public:
  explicit AtWorkFor(const std::vector<std::string>& commands);
  ~AtWorkFor();
  AtWorkFor(const AtWorkFor&) = delete;
};

}  // namespace lockstep
