#include "container/lasting_sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "container/open_file.h"
#include "container/tool.h"
#include "io/client/unix_api_client.h"

namespace lockstep {
namespace {

constexpr Duration kFatesWithin = seconds(30);
constexpr std::size_t kFoldersMost = 10'000;  // that are asked about in one sweep
constexpr std::size_t kVolumeNameMax = 253;

// As provisioners call them; what begins with "." is ours.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kVolumeNameMax && name.front() != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; });
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> out;
  DIR* const dir = ::opendir(path.c_str());
  if (!dir)
    return out;
  while (const dirent* entry = ::readdir(dir)) {
    struct stat stat {};
    if (out.size() < kFoldersMost && is_name(entry->d_name) &&
        ::fstatat(::dirfd(dir), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(stat.st_mode))
      out.emplace_back(entry->d_name);
  }
  ::closedir(dir);
  return out;
}

bool is_marked(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Out of the way as a whole: what is half removed is nobody's volume.
Result<void> remove_folder(const std::string& home, const std::string& name) {
  const std::string aside = format("{}/trash/{}.{}", home, name, ::getpid());
  TRY(make_folders(home + "/trash"));
  if (::rename(format("{}/lasting/{}", home, name).c_str(), aside.c_str()) != 0)
    return os_error(aside);
  return remove_tree(aside);
}

Result<void> settle(const std::string& home, const std::string& name, LastingFate fate) {
  const std::string mark = format("{}/lasting/.passing/{}", home, name);
  switch (fate) {
    case LastingFate::kUnknown:
    case LastingFate::kComing: return {};
    case LastingFate::kKept: ::unlink(mark.c_str()); return {};
    case LastingFate::kPassing: return is_marked(mark) ? Result<void>() : write_file(mark, "");
    case LastingFate::kGone: break;
  }
  if (!is_marked(mark))
    return {};
  TRY(remove_folder(home, name));
  ::unlink(mark.c_str());
  return {};
}

Result<std::vector<LastingFate>> ask_agent(const std::vector<std::string>& names) {
  auto agent = TRY(connect_unix(find_socket()));
  const auto reply = TRY(agent->call("GET", format("{}?names={}", kLastingPath, join(names, ",")), {}, kFatesWithin));
  if (reply.status != 200)
    return Error{
        Errc::kUnavailable, format("the controller answers {}: {}", reply.status, reply.body.substr(0, 512)), {}};
  return decode_lasting(reply.body, names.size());
}

}  // namespace

Result<void> sweep_lasting(const std::string& home, const AskFates& ask) {
  const std::string lasting = home + "/lasting";
  const std::vector<std::string> all = folders_in(lasting);
  if (all.empty())
    return {};
  TRY(make_folders(lasting + "/.passing"));
  for (std::size_t from = 0; from < all.size(); from += kLastingAtOnce) {
    const std::vector<std::string> names(
        all.begin() + static_cast<std::ptrdiff_t>(from),
        all.begin() + static_cast<std::ptrdiff_t>(std::min(from + kLastingAtOnce, all.size())));
    const auto fates = TRY(ask(names));
    for (std::size_t i = 0; i < names.size(); ++i) TRY(settle(home, names[i], fates.at(i)));
  }
  return {};
}

int sweep_lasting_volumes(const std::string& home) {
  if (!home.starts_with('/'))
    return 2;
  return sweep_lasting(home, ask_agent).ok() ? 0 : 1;
}

}  // namespace lockstep
