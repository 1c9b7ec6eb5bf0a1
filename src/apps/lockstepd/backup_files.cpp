#include "apps/lockstepd/backup_files.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/descriptor.h"
#include "io/local/as_owner.h"
#include "io/sha256.h"

namespace lockstep {

namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr std::size_t kDigits = 64;
constexpr std::int64_t kSyncEvery = 16 << 20;

volatile sig_atomic_t asked_to_stop = 0;

Error file_error(const std::string& doing, const Folder& folder, const std::string& name) {
  if (errno == ENOSPC || errno == EDQUOT)
    return {Errc::kExhausted, format("{} {}/{}: the disk is full", doing, folder.path(), name), {}};
  return os_error(format("{} {}/{}", doing, folder.path(), name));
}

template <class Names>
bool is_among(std::string_view name, const Names& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Result<Fd> open_in(const Folder& folder, const std::string& name) {
  Fd file(::openat(folder.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat found {};
  if (!file.valid() && errno == ENOENT)
    return not_found(format("{}/{} is missing", folder.path(), name));
  if (!file.valid())
    return file_error("cannot read", folder, name);
  if (::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode))
    return denied(format("{}/{} is no regular file", folder.path(), name));
  return file;
}

// `take` gets every piece, in order.
template <class Take>
Result<std::string> read_through(const Fd& file, const Folder& folder, const std::string& name,
                                 const Progress& progress, Take take) {
  Sha256 digest;
  std::string piece(kPiece, '\0');
  std::int64_t done = 0;
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return file_error("cannot read", folder, name);
    if (n == 0)
      return digest.hex();
    const std::string_view part(piece.data(), static_cast<std::size_t>(n));
    digest.add(part);
    TRY(take(part));
    done += n;
    TRY(progress(done));
  }
}

std::int64_t now_us() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000 + t.tv_nsec / 1'000;
}

}  // namespace

// Whoever wrote the list, nothing but these is brought into a state directory.
bool is_backup_file(const std::string& name) {
  const auto slash = name.find('/');
  if (slash == std::string::npos)
    return is_among(name, kBackupFiles);
  const std::string_view inner = std::string_view(name).substr(slash + 1);
  return is_among(std::string_view(name).substr(0, slash), kBackupFolders) && !inner.empty() && inner[0] != '.' &&
         inner.size() <= 255 && std::all_of(inner.begin(), inner.end(), [](unsigned char c) {
           return c > 32 && c < 127 && c != '/' && c != '\\';
         });
}

std::string sums_text(const std::vector<BackupFile>& files) {
  std::string out;
  for (const auto& file : files) out += format("{}  {}\n", file.sha256, file.name);
  return out;
}

Result<std::vector<BackupFile>> parse_sums(const std::string& text) {
  std::vector<BackupFile> out;
  if (text.size() <= kDigits || text.back() != '\n')
    return Error{Errc::kCorrupt, format("{} is damaged: its end is missing", kSumsFile), {}};
  for (const auto& line : split(std::string_view(text).substr(0, text.size() - 1), '\n')) {
    BackupFile file{line.size() > kDigits + 2 ? line.substr(kDigits + 2) : "", line.substr(0, kDigits)};
    const bool good = line.substr(std::min(line.size(), kDigits), 2) == "  " && is_backup_file(file.name) &&
                      file.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!good)
      return Error{
          Errc::kCorrupt, format("{} is damaged: line {} is no digest and name", kSumsFile, out.size() + 1), {}};
    out.push_back(std::move(file));
  }
  return out;
}

Result<Folder> hold_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return os_error("cannot open " + path);
  return Folder::held(path, fd);
}

Result<std::string> digest_of(const Folder& folder, const std::string& name, const Progress& progress) {
  const Fd file = TRY(open_in(folder, name));
  (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  return read_through(file, folder, name, progress, [](std::string_view) { return Result<void>(); });
}

Result<std::string> copy_file(const Folder& from, const std::string& name, const Folder& into, const std::string& to,
                              const Progress& progress) {
  const Fd source = TRY(open_in(from, name));
  const AsOwner owner(into.fd());
  const Fd copy(::openat(into.fd(), to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!copy.valid())
    return file_error("cannot make", into, to);
  std::int64_t unsynced = 0;
  const std::string digest = TRY(read_through(source, from, name, progress, [&](std::string_view part) -> Result<void> {
    for (std::size_t at = 0; at < part.size();) {
      const ssize_t n = ::write(copy.get(), part.data() + at, part.size() - at);
      if (n < 0 && errno != EINTR)
        return file_error("cannot write", into, to);
      at += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    unsynced += static_cast<std::int64_t>(part.size());
    if (unsynced >= kSyncEvery && ::fdatasync(copy.get()) != 0)
      return file_error("cannot write", into, to);
    unsynced %= kSyncEvery;
    return {};
  }));
  if (::fsync(copy.get()) != 0)
    return file_error("cannot write", into, to);
  return digest;
}

namespace {

Result<void> check_file(const Folder& folder, const BackupFile& file, const Progress& progress) {
  const auto digest = digest_of(folder, file.name, progress);
  if (!digest && digest.error().code == Errc::kNotFound)
    return Error{
        Errc::kCorrupt, format("{}: the backup is not whole any more, use another one", digest.error().message), {}};
  if (TRY(digest) != file.sha256)
    return Error{Errc::kCorrupt,
                 format("{}/{} is damaged: it is not what was written (see {}/{}). Use another backup", folder.path(),
                        file.name, folder.path(), kSumsFile),
                 {}};
  return {};
}

// Whoever it belongs to: a backup may have been copied here.
Result<std::string> text_in(const Folder& folder, const char* name) {
  constexpr std::size_t kMost = 1 << 20;
  return read_plain(folder.path() + "/" + name, Links::kRefused, kMost);
}

}  // namespace

Result<Backup> check_backup(const Folder& folder, const Progress& progress) {
  const auto names = TRY(folder.names());
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has(kUnfinishedFile))
    return Error{Errc::kCorrupt,
                 format("{} holds a backup that was interrupted while it was made: use another one", folder.path()),
                 {}};
  if (!has(kSumsFile))
    return not_found(format("{} is no backup: it holds no {}{}", folder.path(), kSumsFile,
                            has(kManifestFile) ? ", which lists its files" : ""));
  Backup out;
  out.files = TRY(parse_sums(TRY(text_in(folder, kSumsFile))));
  const auto manifest = std::find_if(out.files.begin(), out.files.end(),
                                     [](const BackupFile& file) { return file.name == kManifestFile; });
  if (manifest == out.files.end())
    return Error{
        Errc::kCorrupt, format("{}/{} is damaged: it does not name {}", folder.path(), kSumsFile, kManifestFile), {}};
  TRY(check_file(folder, *manifest, progress));
  auto facts = parse_facts(TRY(text_in(folder, kManifestFile)));
  if (!facts)
    return Error{facts.error().code, format("{}/{}: {}", folder.path(), kManifestFile, facts.error().message), {}};
  out.facts = std::move(*facts);
  out.files.erase(manifest);
  for (const BackupFile& file : out.files) TRY(check_file(folder, file, progress));
  if (std::none_of(out.files.begin(), out.files.end(), [](const BackupFile& f) { return f.name == kLogFile; }))
    return Error{Errc::kCorrupt, format("{}/{} is damaged: it names no lockstep.db", folder.path(), kSumsFile), {}};
  return out;
}

std::int64_t file_bytes(const Folder& folder, const std::string& name) {
  struct stat found {};
  return ::fstatat(folder.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_size : 0;
}

Result<void> check_room(const Folder& folder, const char* what, std::int64_t bytes) {
  struct statvfs disk {};
  if (::fstatvfs(folder.fd(), &disk) != 0 || disk.f_blocks == 0)
    return {};
  const auto free = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize);
  if (bytes <= free)
    return {};
  return Error{Errc::kExhausted,
               format("the disk under {} has {} MiB free, and {} takes {} MiB", folder.path(), free >> 20, what,
                      (bytes >> 20) + 1),
               {}};
}

Result<void> sync_folder(const Folder& folder) {
  if (::fsync(folder.fd()) != 0)
    return os_error("cannot write " + folder.path());
  return {};
}

Counter::Counter(std::string what, std::int64_t total_bytes, std::int64_t bytes_per_second)
    : what_(std::move(what)),
      total_(total_bytes),
      rate_(bytes_per_second),
      begun_us_(now_us()),
      told_us_(begun_us_),
      is_terminal_(::isatty(STDERR_FILENO) == 1) {}

Counter::~Counter() {
  if (has_told_ && is_terminal_)
    ::fputs("\n", stderr);
}

void Counter::tell(std::int64_t now, std::int64_t done) {
  constexpr std::int64_t kEveryUs = 200'000, kElsewhereUs = 5'000'000;
  if (now - told_us_ < (is_terminal_ ? kEveryUs : kElsewhereUs))
    return;
  told_us_ = now;
  has_told_ = true;
  ::fprintf(stderr, "%s%s: %lld of %lld MiB%s", is_terminal_ ? "\r" : "", what_.c_str(),
            static_cast<long long>(done >> 20), static_cast<long long>(std::max(total_, done) >> 20),
            is_terminal_ ? "" : "\n");
}

Result<void> Counter::at(std::int64_t bytes) {
  last_ = bytes;
  const std::int64_t done = before_ + bytes;
  for (std::int64_t now = now_us();; now = now_us()) {
    if (asked_to_stop)
      return Error{Errc::kUnavailable, "it was interrupted", {}};
    tell(now, done);
    const std::int64_t ahead_us = rate_ > 0 ? done * 1'000'000 / rate_ - (now - begun_us_) : 0;
    if (ahead_us <= 0)
      return {};
    ::usleep(static_cast<useconds_t>(std::min<std::int64_t>(ahead_us, 100'000)));
  }
}

void stop_when_asked() {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // `lockstep backup` was killed: nobody waits for us
  struct sigaction act {};
  act.sa_handler = [](int) { asked_to_stop = 1; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &act, nullptr);
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
}

}  // namespace lockstep
