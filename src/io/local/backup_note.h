// What a backup says of itself, and what a restored directory says of the backup it came from.
//
//   BACKUP/manifest              which cluster, when, up to which entry of its log; written before SHA256SUMS
//   BACKUP/SHA256SUMS            every file of it; written last: without it the backup is not whole
//   BACKUP/UNFINISHED            while it is made
//   DIR/lockstep.restored        in a state directory: what was put there, and whether all of it is
//
// A restored cluster is quiet until somebody takes it over: it shows what was, changes nothing, starts nothing. So a
// copy that is looked at beside the original runs none of its jobs a second time.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace lockstep {

inline constexpr const char* kManifestFile = "manifest";
inline constexpr const char* kSumsFile = "SHA256SUMS";
inline constexpr const char* kUnfinishedFile = "UNFINISHED";
inline constexpr const char* kRestoreNote = "lockstep.restored";
inline constexpr std::uint64_t kBackupFormat = 1;  // what is read is not newer

struct BackupFacts {
  std::string version;      // of the program that made it
  std::string cluster;      // its name
  std::string made_at;      // UTC: 2026-03-01T12:00:00Z
  std::uint64_t entry = 0;  // last of its log
  std::uint64_t seq = 0;    // of the last change in it
  std::string host, from;   // the machine, and the state directory there
  std::string mark;         // of that directory (lockstep.id), which tells it from another one under its name
};

std::string facts_text(const BackupFacts& facts);
// kUnsupported: a newer version made it. kCorrupt: it is no manifest.
Result<BackupFacts> parse_facts(const std::string& text);

struct RestoreNote {
  bool is_whole = false;  // else a restore was interrupted, and nothing can be started from what is there
  BackupFacts of;
};
std::string restore_note_text(const RestoreNote& note);
// nullopt: the directory was not restored, or is taken over. An error: the note is damaged.
Result<std::optional<RestoreNote>> read_restore_note(const std::string& dir);

// That a cluster is quiet, why, and what ends it.
std::string quiet_text(const RestoreNote& note, const std::string& dir);
std::string half_restored_text(const std::string& dir);

// Which id the mark of a state directory holds, whoever it belongs to; "" = none can be read.
std::string mark_in(const std::string& dir);

std::string utc_text(std::int64_t at_s);

}  // namespace lockstep
