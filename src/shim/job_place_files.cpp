#include "shim/job_place_files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr int kPatienceMs = 5'000;
constexpr int kNotThere = 2;  // exit status of getent(1)
constexpr std::size_t kAccountNameMax = 32, kAccountPathMax = 4096, kGroupsMax = 64;
constexpr const char* kShellOtherwise = "/bin/sh";

// The third field of a line, or the first, of the file itself: no directory service is asked for what stands there.
bool stands_in_file(const char* database, const std::string& key) {
  const auto text = read_plain(format("/etc/{}", database), Links::kFollowed);
  if (!text)
    return false;
  const auto lines = split(*text, '\n');
  return std::any_of(lines.begin(), lines.end(), [&key](const std::string& line) {
    const auto fields = split(line, ':');
    return fields.size() > 2 && (fields[0] == key || fields[2] == key);
  });
}

bool is_account_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !text.empty() && text.size() <= kAccountNameMax && std::all_of(text.begin(), text.end(), fits) &&
         text[0] != '-' && text.find_first_not_of("0123456789") != text.npos;
}

bool is_account_path(std::string_view text) {
  return text.starts_with('/') && text.size() <= kAccountPathMax &&
         std::none_of(text.begin(), text.end(), [](char c) { return c == ':' || static_cast<unsigned char>(c) < ' '; });
}

std::string user_name(const JobPlace& place, const NameSource& names) {
  return is_account_name(place.user_name) && !names.knows("passwd", place.user_name) ? place.user_name
                                                                                     : format("user{}", place.uid);
}

std::string group_name(const JobPlace& place, std::uint32_t gid, const NameSource& names) {
  if (gid == place.gid && is_account_name(place.user_name) && !names.knows("group", place.user_name))
    return place.user_name;
  return format("group{}", gid);
}

}  // namespace

bool NodeNames::knows(const char* database, const std::string& key) const {
  if (stands_in_file(database, key))
    return true;
  std::string words[] = {"getent", database, key};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int stream : {0, 1, 2}) ::posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, words[0].c_str(), &actions, &attributes, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    return true;
  const int watch = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  pollfd ended{watch, POLLIN, 0};
  const bool in_time = watch < 0 || ::poll(&ended, 1, kPatienceMs) > 0;
  if (watch >= 0)
    ::close(watch);
  if (!in_time)
    ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return !in_time || !WIFEXITED(status) || WEXITSTATUS(status) != kNotThere;
}

std::string missing_passwd_line(const JobPlace& place, const NameSource& names) {
  if (names.knows("passwd", std::to_string(place.uid)))
    return {};
  return format("{}:x:{}:{}::{}:{}\n", user_name(place, names), place.uid, place.gid,
                is_account_path(place.user_home) ? place.user_home : "/",
                is_account_path(place.user_shell) ? place.user_shell : kShellOtherwise);
}

std::string missing_group_lines(const JobPlace& place, const NameSource& names) {
  std::vector<std::uint32_t> gids = place.groups;
  gids.push_back(place.gid);
  std::sort(gids.begin(), gids.end());
  gids.erase(std::unique(gids.begin(), gids.end()), gids.end());
  if (gids.size() > kGroupsMax)
    gids = {place.gid};  // each costs a question
  std::string lines;
  for (const std::uint32_t gid : gids)
    if (!names.knows("group", std::to_string(gid)))
      lines += format("{}:x:{}:\n", group_name(place, gid, names), gid);
  return lines;
}

}  // namespace lockstep
