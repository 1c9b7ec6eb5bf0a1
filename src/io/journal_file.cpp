#include "io/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/text_check.h"

namespace lockstep {
namespace {

constexpr std::size_t kJournalMost = std::size_t{1} << 30;  // it is replaced long before
constexpr std::string_view kHead = "lockstep-journal 2 ";   // + boot, number of the line before the first
constexpr std::string_view kHeadOfOld = "boot ";            // of agents that wrote no checks
constexpr std::size_t kTipMost = 4096;
// Ends and reports of what runs are told in less. Asked for in larger pieces, so that few lines cost a call.
constexpr std::size_t kRoomBytes = 256 << 10, kRoomPiece = 1 << 20;

Error failed(const std::string& path) { return {Errc::kIo, format("{}: {}", path, ::strerror(errno)), {}}; }

Result<void> write_all(int fd, const std::string& bytes, std::size_t at, const std::string& path) {
  const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
  if (n == static_cast<ssize_t>(bytes.size()))
    return {};
  if (n >= 0)
    errno = ENOSPC;
  return failed(path);  // what was written lies behind the counted end and is overwritten by the next attempt
}

// Nothing when there is no journal yet. A link, a FIFO or a device under its name is no journal and is left alone.
Result<std::optional<std::string>> read_all(const std::string& path) {
  auto bytes = read_plain(path, Links::kRefused, kJournalMost);
  if (!bytes && bytes.error().code == Errc::kNotFound)
    return std::optional<std::string>();
  if (!bytes)
    return bytes.error();
  return std::optional<std::string>(std::move(*bytes));
}

std::string checked(std::string_view boot, std::uint64_t number, std::string_view text) {
  const std::uint64_t sum = text_check(format("{} {} ", boot, number)) ^ text_check(text);
  return format("{} {:08x} {}", number, static_cast<std::uint32_t>(sum ^ sum >> 32), text);
}

struct Line {
  std::uint64_t number = 0;
  std::string_view text;
};

// Nothing: it is damaged, or of another boot.
std::optional<Line> read_line(std::string_view line, std::string_view boot) {
  const auto space = line.find(' ');
  const auto number = space == line.npos ? std::nullopt : parse_uint(line.substr(0, space));
  const auto next = space == line.npos ? space : line.find(' ', space + 1);
  if (!number || next == line.npos)
    return {};
  const Line read{*number, line.substr(next + 1)};
  return checked(boot, read.number, read.text) == line ? std::optional(read) : std::nullopt;
}

// A tip is a line like those of the journal: the number of the last one and, as its text, the boot.
struct Tip {
  std::string boot;
  std::uint64_t last = 0;
};
std::optional<Tip> read_tip(const std::string& path) {
  const auto bytes = read_plain(path, Links::kRefused, kTipMost);
  const std::string_view text = bytes ? std::string_view(*bytes).substr(0, bytes->find('\n')) : std::string_view();
  const auto line = read_line(text, "tip");
  return line ? std::optional(Tip{std::string(line->text), line->number}) : std::nullopt;
}

}  // namespace

JournalFile::JournalFile(JournalFile&& other) noexcept
    : path_(std::move(other.path_)),
      tip_path_(std::move(other.tip_path_)),
      boot_id_(std::move(other.boot_id_)),
      fd_(std::exchange(other.fd_, -1)),
      tip_fd_(std::exchange(other.tip_fd_, -1)),
      last_(other.last_),
      size_(other.size_),
      size_after_replace_(other.size_after_replace_),
      set_aside_(other.set_aside_),
      state_(other.state_),
      damage_(std::move(other.damage_)),
      lines_(std::move(other.lines_)),
      older_(std::move(other.older_)) {}

JournalFile::~JournalFile() {
  for (const int fd : {fd_, tip_fd_})
    if (fd >= 0)
      ::close(fd);
}

// Of an agent from before the checks, which was upgraded in this boot.
void JournalFile::read_plain_lines(const std::string& bytes) {
  lines_ = split(bytes, '\n');
  lines_.pop_back();  // "" behind the last newline, or a torn line
  lines_.erase(lines_.begin());
  state_ = State::kWhole;
}

void JournalFile::read(const std::string& bytes) {
  const auto first_end = std::min(bytes.find('\n'), bytes.size());
  const auto header = read_line(std::string_view(bytes).substr(0, first_end), boot_id_);
  std::size_t bad = header && header->text == std::string(kHead) + boot_id_ ? 0 : 1;
  std::uint64_t next = header ? header->number + 1 : 0;
  for (std::size_t from = first_end + 1, end; from < bytes.size(); from = end + 1) {
    end = bytes.find('\n', from);
    if (end == bytes.npos)
      break;  // torn: it is overwritten
    const auto line = read_line(std::string_view(bytes).substr(from, end - from), boot_id_);
    if (!line || (next > 0 && line->number != next))
      ++bad;
    if (!line)
      continue;
    lines_.emplace_back(line->text);
    last_ = line->number;
    next = last_ + 1;
  }
  last_ = std::max(last_, header ? header->number : 0);
  state_ = bad == 0 ? State::kWhole : State::kDamaged;
  if (bad > 0)
    damage_ = format("{} is damaged in {} places", path_, bad);
}

void JournalFile::read_older(const std::string& bytes) {
  const std::string_view first = std::string_view(bytes).substr(0, bytes.find('\n'));
  const auto head = first.find(kHead);
  for (const std::string& line : split(bytes, '\n'))
    if (head == first.npos)
      older_.push_back(line);
    else if (const auto read = read_line(line, first.substr(head + kHead.size())))
      older_.emplace_back(read->text);
}

Result<JournalFile> JournalFile::open(const std::string& path, const std::string& tip_path,
                                      const std::string& boot_id) {
  JournalFile journal;
  journal.path_ = path;
  journal.tip_path_ = tip_path;
  journal.boot_id_ = boot_id;
  const std::optional<std::string> bytes = TRY(read_all(path));
  const auto tip = read_tip(tip_path);
  const bool was_here = tip && tip->boot == boot_id;
  const std::string_view first = bytes ? std::string_view(*bytes).substr(0, bytes->find('\n')) : std::string_view();
  const bool of_other_boot = first.find(kHead) != first.npos && !first.ends_with(" " + boot_id);
  const bool of_old = first == std::string(kHeadOfOld) + boot_id;
  if (bytes && of_old)
    journal.read_plain_lines(*bytes);
  else if (bytes && (was_here || (!of_other_boot && !first.starts_with(kHeadOfOld))))
    journal.read(*bytes);  // lines of another boot do not pass
  if (was_here && (journal.state_ == State::kNewBoot || journal.last_ < tip->last)) {
    if (journal.damage_.empty() || (of_other_boot && journal.lines_.empty()))
      journal.damage_ = !bytes          ? format("{} is missing", path)
                        : of_other_boot ? format("{} is of an older boot", path)
                                        : format("{} has lost its end, or was put back from an older copy", path);
    journal.state_ = State::kDamaged;
  }
  journal.last_ = std::max(journal.last_, was_here ? tip->last : 0);
  if (journal.state_ == State::kNewBoot)
    ::unlink(path.c_str());  // its place may be all that a full disk has
  if (bytes && journal.state_ == State::kNewBoot)
    journal.read_older(*bytes);
  if (journal.state_ == State::kNewBoot || (journal.state_ == State::kWhole && of_old))
    TRY(journal.replace(journal.lines_));
  else if (journal.state_ == State::kWhole)
    TRY(journal.go_on(bytes->rfind('\n') + 1));
  return journal;
}

Result<void> JournalFile::go_on(std::size_t size) {
  fd_ = TRY(open_plain(path_, O_WRONLY));
  size_ = size;  // a torn line is overwritten
  if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0)
    return failed(path_);
  write_tip();
  return {};
}

std::string JournalFile::numbered(const std::vector<std::string>& lines, std::uint64_t last) const {
  std::string text;
  for (const auto& line : lines) text.append(checked(boot_id_, ++last, line)).push_back('\n');
  return text;
}

// Where it cannot be written it stays what it was: older is harmless, it only notices less.
void JournalFile::write_tip() {
  if (tip_fd_ < 0)
    if (const auto opened = open_plain(tip_path_, O_WRONLY | O_CREAT))
      tip_fd_ = *opened;
  const std::string text = checked("tip", last_, boot_id_) + "\n";
  if (tip_fd_ >= 0)
    (void)!::pwrite(tip_fd_, text.data(), text.size(), 0);
}

bool JournalFile::stands() const {
  struct stat ours {
  }, there{};
  return fd_ >= 0 && ::fstat(fd_, &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino && ours.st_size >= static_cast<off_t>(size_);
}

Result<void> JournalFile::append(const std::vector<std::string>& lines) {
  const std::string text = numbered(lines, last_);
  TRY(write_all(fd_, text, size_, path_));
  size_ += text.size();
  last_ += lines.size();
  write_tip();
  return {};
}

Result<void> JournalFile::replace(const std::vector<std::string>& lines) {
  const std::string fresh = path_ + ".new";
  const std::string head = checked(boot_id_, last_, std::string(kHead) + boot_id_) + "\n";
  const std::string text = head + numbered(lines, last_);
  ::unlink(fresh.c_str());  // of one that was interrupted
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    return failed(fresh);
  auto written = write_all(fd, text, 0, fresh);
  if (written.ok() && ::rename(fresh.c_str(), path_.c_str()) != 0)
    written = failed(fresh);
  if (!written.ok()) {
    ::close(fd);
    ::unlink(fresh.c_str());
    return written;
  }
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = fd;
  size_ = size_after_replace_ = text.size();
  set_aside_ = 0;
  last_ += lines.size();
  write_tip();
  return {};
}

bool JournalFile::has_room() {
  if (fd_ < 0)
    return false;
  if (size_ + kRoomBytes <= set_aside_)
    return true;
  const std::size_t to = size_ + kRoomPiece;
  if (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(to)) != 0)
    return errno != ENOSPC && errno != EDQUOT && errno != EFBIG;  // a file system that cannot set aside
  set_aside_ = to;
  return true;
}

}  // namespace lockstep
