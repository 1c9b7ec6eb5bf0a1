// The files of a backup and their digests: written as SHA256SUMS, as `sha256sum -c SHA256SUMS` reads it, and checked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/local/backup_note.h"
#include "io/local/folder.h"

namespace lockstep {

inline constexpr const char* kLogFile = "lockstep.db";
inline constexpr const char* kTipFile = "lockstep.tip";
inline constexpr const char* kAccountingFile = "history.db";

// What a backup can hold; of the folders, any plain file.
inline constexpr std::string_view kBackupFiles[] = {kLogFile,       kTipFile,        kAccountingFile,
                                                    "cluster.conf", "applying.list", kManifestFile};
inline constexpr std::string_view kBackupFolders[] = {"pki", "etc"};

// Between the name of a file that a restore exchanged and when it did.
inline constexpr std::string_view kReplaced = ".replaced-";

struct BackupFile {
  std::string name;  // "lockstep.db", "pki/ca.pem"
  std::string sha256;
};

// Told how many bytes of the file that is at hand are done; may wait. An error from it ends the work.
using Progress = std::function<Result<void>(std::int64_t bytes)>;

bool is_backup_file(const std::string& name);  // one of these, or in one of these folders

std::string sums_text(const std::vector<BackupFile>& files);
Result<std::vector<BackupFile>> parse_sums(const std::string& text);

Result<Folder> hold_folder(const std::string& path);  // whoever it belongs to; no link

// As it is on disk, not as the kernel remembers it.
Result<std::string> digest_of(const Folder& folder, const std::string& name, const Progress& progress);
// Copies a file to a new one, whose name is `to`, and syncs it; the digest of what was read. The new one belongs to the
// folder's owner.
Result<std::string> copy_file(const Folder& from, const std::string& name, const Folder& into, const std::string& to,
                              const Progress& progress);

// What a directory says of the backup in it, once every file has been read and is what it was.
struct Backup {
  BackupFacts facts;
  std::vector<BackupFile> files;  // without the manifest
};
Result<Backup> check_backup(const Folder& folder, const Progress& progress);

// Bytes of the file; 0 where it is none.
std::int64_t file_bytes(const Folder& folder, const std::string& name);
Result<void> sync_folder(const Folder& folder);
// That there is room for so many bytes. what: "the backup".
Result<void> check_room(const Folder& folder, const char* what, std::int64_t bytes);

// What is said while people wait: on a terminal one line that counts, elsewhere a line every few seconds.
class Counter {
 public:
  Counter(std::string what, std::int64_t total_bytes, std::int64_t bytes_per_second = 0);
  ~Counter();
  Counter(const Counter&) = delete;

  // Of the file that is at hand. Waits where more than bytes_per_second would go by; an error when a person gave up.
  Result<void> at(std::int64_t bytes);
  void next_file() { before_ += last_, last_ = 0; }

 private:
  void tell(std::int64_t now_us, std::int64_t done);

  std::string what_;
  std::int64_t total_, rate_;
  std::int64_t before_ = 0, last_ = 0;
  std::int64_t begun_us_, told_us_;
  bool is_terminal_, has_told_ = false;
};

// From now on SIGINT and SIGTERM end the work at its next step, so that what was made for it can be removed.
void stop_when_asked();

}  // namespace lockstep
