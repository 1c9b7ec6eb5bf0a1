#include "frontends/slurm/client/invocation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"

namespace lockstep::slurm {

int error_exit_code() {
  const char* text = ::getenv("SLURM_EXIT_ERROR");
  const auto value = text ? parse_uint(text) : std::nullopt;
  return value && *value <= 255 ? static_cast<int>(*value) : 1;
}

namespace {

// Slurm leaves with -1 where its options cannot be read, with 1 where a number is none or the cluster refuses.
int code_of_unread(const Error& error) {
  const bool unread = error.field == "usage" || error.message.starts_with("Invalid --") ||
                      error.message.find("is not a valid node count") != std::string::npos;
  const bool asked_of_cluster = error.field == "devices" || error.field == "array" || error.field == "dependencies" ||
                                error.field == "licenses" || error.field == "partition" ||
                                error.field == "only_nodes" || error.field == "exclude_nodes";
  return unread && !asked_of_cluster && !::getenv("SLURM_EXIT_ERROR") ? 255 : error_exit_code();
}

}  // namespace

int say_option_error(const Voice& voice, const Error& error) {
  if (error.field == "usage")
    write_all(STDERR_FILENO,
              format("{0}: {1}\nTry \"{0} --help\" for more information\n", voice.command(), error.message));
  else
    voice.error(error.message);
  return code_of_unread(error);
}

Begun begin(SlurmCommand command, int argc, char** argv, const Voice& voice) {
  Begun out;
  const auto fail = [&](const Error& error) {
    out.exit_code = say_option_error(voice, error);
    return out;
  };
  int start = 0;  // the word before the component's first option
  while (start < argc) {
    OptionSet options(command);
    if (const auto read = options.read_environment([](const char* name) { return ::getenv(name); }); !read)
      return fail(read.error());
    // A component ends at a bare ":". Only srun has a program in each: what stands behind the script of sbatch and the
    // command of salloc is theirs.
    int end = argc;
    if (command == SlurmCommand::kSrun) {
      end = start + 1;
      while (end < argc && strcmp(argv[end], ":") != 0) ++end;
    }
    const auto first_word = options.read_command_line(end - start, argv + start);
    if (!first_word)
      return fail(first_word.error());
    if (command != SlurmCommand::kSrun && start + *first_word < argc && strcmp(argv[start + *first_word], ":") == 0)
      end = start + *first_word;
    out.invocation.words.emplace_back(argv + start + *first_word, argv + end);
    out.invocation.components.push_back(std::move(options));
    start = end;
    if (end == argc)
      break;
  }
  if (out.invocation.components.empty())
    out.invocation.components.emplace_back(command), out.invocation.words.emplace_back();
  const OptionSet& first = out.invocation.components.front();
  if (first.has("help"))
    say(help_text(command)), out.exit_code = 0;
  else if (first.has("usage"))
    say(usage_text(command)), out.exit_code = 0;
  else if (first.has("version"))
    out.exit_code = print_version();
  return out;
}

Result<std::string> read_descriptor(int fd, const std::string& name, std::size_t limit) {
  std::string out;
  char buffer[65536];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return os_error(name);
    if (n == 0)
      return out;
    out.append(buffer, static_cast<std::size_t>(n));
    if (out.size() > limit)
      return Error{Errc::kExhausted, format("{}: larger than {} bytes", name, limit), {}};
  }
}

Result<std::string> read_whole_file(const std::string& path, std::size_t limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return Error{errno == ENOENT ? Errc::kNotFound : Errc::kIo,
                 format("Unable to open file {}: {}", path, ::strerror(errno)),
                 {}};
  struct ::stat facts {};
  if (::fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    ::close(fd);
    return Error{Errc::kIo, format("Unable to read file {}: it is a directory", path), {}};
  }
  auto text = read_descriptor(fd, path, limit);
  ::close(fd);
  return text;
}

Surroundings read_surroundings() {
  Surroundings out;
  char buffer[4096];
  out.work_dir = ::getcwd(buffer, sizeof buffer) ? buffer : "/";
  if (::gethostname(buffer, sizeof buffer) == 0)
    out.host_name = buffer;
  ::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  out.now = WallTime{now.tv_sec * 1'000'000 + now.tv_nsec / 1000};
  out.umask = static_cast<std::int32_t>(::umask(0));
  ::umask(static_cast<::mode_t>(out.umask));
  out.read_file = [](const std::string& path) { return read_whole_file(path, 16 << 20); };
  return out;
}

std::string base_name(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace lockstep::slurm
