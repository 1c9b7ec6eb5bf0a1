#include "container/sandbox_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "container/open_file.h"
#include "io/client/unix_api_client.h"
#include "model/work_id.h"

namespace lockstep {
namespace {

constexpr const char* kData = "..data";
constexpr Duration kAnswerWithin = seconds(30);

// "a/b", without a way out; what begins with ".." is ours.
bool is_good_path(const std::string& path) {
  const auto parts = split(path, '/');
  return !path.empty() &&
         std::none_of(parts.begin(), parts.end(),
                      [](const std::string& part) {
                        return part.empty() || part == "." || part == ".." || part.size() > 255;
                      }) &&
         !parts[0].starts_with("..") && path.find('\0') == path.npos;
}

Result<void> write_one(const std::string& at, const FrontEndFiles::File& file, std::optional<std::uint32_t> group) {
  const auto bytes = bytes_from_base64(file.data);
  if (!bytes)
    return invalid(format("{}: its data is no base64", file.path));
  std::string folder = at;
  const auto parts = split(file.path, '/');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    folder += "/" + parts[i];
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
      return os_error(folder);
    ::chmod(folder.c_str(), 0755);
  }
  const std::string path = format("{}/{}", at, file.path);
  TRY(write_file(path, *bytes, 0600));
  if ((file.uid || group) &&
      ::chown(path.c_str(), file.uid.value_or(static_cast<uid_t>(-1)), group.value_or(static_cast<gid_t>(-1))) != 0)
    return os_error(path);
  const mode_t mode =
      static_cast<mode_t>(file.mode & 0777) | (group ? 0440 : 0);  // the group can read what is given it
  return ::chmod(path.c_str(), mode) == 0 ? Result<void>() : Result<void>(os_error(path));
}

std::string in_query(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.')
      out.push_back(c);
    else
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return out;
}

std::string version_name() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  char text[64];
  const std::size_t size = ::strftime(text, sizeof text, "..%Y_%m_%d_%H_%M_%S.", &parts);
  return format("{}{:09}", std::string_view(text, size), now.tv_nsec);
}

std::string target_of(const std::string& link) {
  char text[4096];
  const ssize_t size = ::readlink(link.c_str(), text, sizeof text);
  return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
}

// The first parts of the paths are links, and those of earlier versions that are no more go.
Result<void> settle_links(const std::string& folder, const std::set<std::string>& names, const std::string& version) {
  for (const std::string& name : names) {
    const std::string link = format("{}/{}", folder, name);
    if (target_of(link) != format("{}/{}", kData, name)) {
      ::unlink(link.c_str());
      if (::symlink(format("{}/{}", kData, name).c_str(), link.c_str()) != 0)
        return os_error(link);
    }
  }
  DIR* const dir = ::opendir(folder.c_str());
  if (!dir)
    return os_error(folder);
  std::vector<std::string> gone;
  while (const dirent* entry = ::readdir(dir))
    if (const std::string name = entry->d_name;
        name != "." && name != ".." && name != kData && name != version && !names.contains(name))
      gone.push_back(name);
  ::closedir(dir);
  for (const std::string& name : gone) (void)remove_tree(format("{}/{}", folder, name));
  return {};
}

}  // namespace

Result<void> write_volume(const std::string& folder, const FrontEndFiles::Volume& volume,
                          std::optional<std::uint32_t> group) {
  std::set<std::string> names;
  for (const FrontEndFiles::File& file : volume.files) {
    if (!is_good_path(file.path))
      return invalid(format("\"{}\" is no path of a file of volume {}", file.path, volume.name));
    names.insert(file.path.substr(0, file.path.find('/')));
  }
  const std::string version = version_name(), at = format("{}/{}", folder, version);
  if (::mkdir(at.c_str(), 0755) != 0)
    return os_error(at);
  ::chmod(at.c_str(), 0755);
  if (group) {
    [[maybe_unused]] const int given = ::chown(at.c_str(), static_cast<uid_t>(-1), *group);
  }
  for (const FrontEndFiles::File& file : volume.files)
    if (auto written = write_one(at, file, group); !written.ok()) {
      (void)remove_tree(at);
      return written;
    }
  const std::string link = format("{}/..data_tmp", folder), data = format("{}/{}", folder, kData);
  ::unlink(link.c_str());
  if (::symlink(version.c_str(), link.c_str()) != 0 || ::rename(link.c_str(), data.c_str()) != 0) {
    const Error error = os_error(link);
    (void)remove_tree(at);
    return error;
  }
  return settle_links(folder, names, version);
}

Result<std::optional<FrontEndFiles>> bring_front_end_files(const Sandbox& sandbox, const std::string& folder,
                                                           const std::string& work, const std::string& version) {
  const auto id = parse_work_id(work);
  const TaskPart* task = id ? task_of(*id) : nullptr;
  if (!task)
    return invalid(format("\"{}\" names no task", work));
  auto agent = TRY(connect_unix(find_socket()));
  std::string target = format("/v1/front-end-files?job={}&group={}&task={}", id->job.value, task->group, task->index);
  if (!version.empty())
    target += "&version=" + in_query(version);
  const auto reply = TRY(agent->call("GET", target, {}, kAnswerWithin));
  if (reply.status == 304)
    return std::optional<FrontEndFiles>();
  if (reply.status == 404)  // no front end has anything for it
    return std::optional<FrontEndFiles>(FrontEndFiles{});
  if (reply.status != 200)
    return Error{
        Errc::kUnavailable, format("the controller answers {}: {}", reply.status, reply.body.substr(0, 512)), {}};
  FrontEndFiles files = TRY(decode_front_end_files(reply.body));
  for (const FrontEndFiles::Volume& volume : files.volumes)
    for (const SandboxVolume& known : sandbox.volumes)
      if (known.name == volume.name && known.kind == SandboxVolume::Kind::kFiles)
        TRY(write_volume(format("{}/volumes/{}", folder, known.name), volume, sandbox.files_group));
  files.volumes.clear();
  return std::optional<FrontEndFiles>(std::move(files));
}

}  // namespace lockstep
