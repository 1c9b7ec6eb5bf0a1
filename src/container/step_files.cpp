#include "container/step_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/plain_file.h"
#include "base/text.h"
#include "model/work_id.h"

namespace lockstep {
namespace {

constexpr std::size_t kStateMax = 1 << 20;

pid_t process_in(std::string_view text) {
  const auto number = parse_uint(text);
  return number && *number <= static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())
             ? static_cast<pid_t>(*number)
             : 0;
}

Result<OpenFile> open_lock(const std::string& path) {
  OpenFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid())
    return os_error(path);
  return file;
}

Result<OpenFile> locked(const std::string& path) {
  OpenFile file = TRY(open_lock(path));
  while (::flock(file.get(), LOCK_EX) != 0)
    if (errno != EINTR)
      return os_error(path);
  return file;
}

}  // namespace

std::string step_key_path(const std::string& home, const WorkId& work) {
  return format("{}/jobs/{}/keys/{}", home, work.job.value, text_of(work));
}

std::string encode_state(const BoxState& state) {
  std::string out = format("holder {}\nspace {}\nimage {}\n", state.holder, state.space, state.image);
  for (const pid_t other : state.others) out += format("other {}\n", other);
  for (const std::string& line : state.env)
    if (line.find('\n') == line.npos)
      out += "env " + line + "\n";
  return out;
}

BoxState decode_state(std::string_view text) {
  BoxState state;
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with("holder "))
      state.holder = process_in(std::string_view(line).substr(7));
    else if (line.starts_with("other "))
      state.others.push_back(process_in(std::string_view(line).substr(6)));
    else if (line.starts_with("space "))
      state.space = line.substr(6);
    else if (line.starts_with("image "))
      state.image = line.substr(6);
    else if (line.starts_with("env "))
      state.env.push_back(line.substr(4));
  return state;
}

Result<void> remove_all_but(const std::string& folder, const std::vector<std::string>& kept) {
  DIR* const open = ::opendir(folder.c_str());
  if (!open)
    return errno == ENOENT ? Result<void>() : Result<void>(os_error(folder));
  Result<void> done;
  while (const dirent* entry = ::readdir(open)) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || std::find(kept.begin(), kept.end(), name) != kept.end())
      continue;
    if (auto removed = remove_tree(folder + "/" + name); !removed.ok())
      done = std::move(removed);
  }
  ::closedir(open);
  return done;
}

Result<StepFiles> StepFiles::of(const StepContainer& step) {
  const auto work = parse_work_id(work_in(step.work));
  if (!work)
    return invalid(format("\"{}\" names no step", step.work));
  StepFiles files;
  files.trash_ = step.home + "/trash";
  files.job_ = format("{}/jobs/{}", step.home, work->job.value);
  files.step_ = format("{}/steps/{}", files.job_, step.work);
  files.box_ = step.wanted.name.empty() ? files.step_ + "/box" : format("{}/names/{}", files.job_, step.wanted.name);
  files.key_ = step_key_path(step.home, *work);
  TRY(make_folders(files.step_));
  return files;
}

Result<void> StepFiles::make_box_folder() const { return make_folders(box_); }
Result<OpenFile> StepFiles::lock_step() const { return locked(step_ + "/lock"); }
Result<OpenFile> StepFiles::lock_box() const { return locked(box_ + "/lock"); }
Result<OpenFile> StepFiles::open_running() const { return open_lock(box_ + "/running"); }

Result<std::optional<BoxState>> StepFiles::state_of_step() const {
  const auto text = read_plain(step_ + "/state", Links::kRefused, kStateMax);
  if (text.ok())
    return std::optional<BoxState>(decode_state(*text));
  if (text.error().code == Errc::kNotFound)
    return std::optional<BoxState>();
  return text.error();
}

Result<void> StepFiles::keep_state_of_step(const BoxState& state) const {
  return write_file(step_ + "/state", encode_state(state));
}

Result<BoxState> StepFiles::state_of_box() const {
  return decode_state(TRY(read_plain(box_ + "/state", Links::kRefused, kStateMax)));
}

Result<void> StepFiles::keep_state_of_box(const BoxState& state) const {
  return write_file(box_ + "/state", encode_state(state));
}

std::string StepFiles::image_of_box() const {
  const auto text = read_plain(box_ + "/image", Links::kRefused, kStateMax);
  return text.ok() ? std::string(trim(*text)) : std::string();
}

Result<void> StepFiles::keep_image(const std::string& key) const { return write_file(box_ + "/image", key + "\n"); }

// Whole or not at all: somebody may read it at any moment.
Result<void> StepFiles::publish_key(std::string_view word) const {
  TRY(make_folders(key_.substr(0, key_.rfind('/'))));
  const std::string fresh = format("{}.{}", key_, ::getpid());
  TRY(write_file(fresh, format("{}\n", word)));
  return ::rename(fresh.c_str(), key_.c_str()) == 0 ? Result<void>() : Result<void>(os_error(key_));
}

void StepFiles::remove_step() const {
  const std::string name = step_.substr(step_.rfind('/') + 1);
  if (!make_folders(trash_).ok() || ::rename(step_.c_str(), format("{}/{}.{}", trash_, name, ::getpid()).c_str()) != 0)
    (void)remove_tree(step_);
}

}  // namespace lockstep
