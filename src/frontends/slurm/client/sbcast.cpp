// sbcast: copies a file to all nodes of a job. The bytes are the input of a step with one task per node.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/say.h"

namespace lockstep::slurm {

namespace {

struct Wish {
  std::string job;
  bool force = false, preserve = false, verbose = false;
};

Result<void> set_job(Wish& wish, const std::string& text) {
  if (!parse_uint(text.substr(0, text.find_first_of("._+"))))
    return invalid(format("Invalid job id: {}", text));
  wish.job = text.substr(0, text.find('.'));
  return {};
}

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'f', "force", Takes::kNothing, "", "replace the destination if it is there", &Wish::force},
  {'j', "jobid", Takes::kValue, "JOB", "to the nodes of this job (default: the one this runs in)", set_job},
  {'p', "preserve", Takes::kNothing, "", "keep the file's mode and time", &Wish::preserve},
  {'v', "verbose", Takes::kNothing, "", "say what is done", &Wish::verbose},
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {'h', "help usage", Takes::kNothing, "", "", Shows::kHelp},
  {'C', "compress", Takes::kMaybe, "", "", Nothing{}},
  {'F', "fanout", Takes::kValue, "", "", Nothing{}},
  {'s', "size", Takes::kValue, "", "", Nothing{}},
  {'t', "timeout", Takes::kValue, "", "", Nothing{}},
  {0, "send-libs", Takes::kMaybe, "", "", Refusal{"copying the libraries of a program is not supported: put it on a shared file system"}},
  {0, "exclude", Takes::kValue, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {.head =
                                             "Usage: sbcast [OPTIONS] SOURCE DESTINATION\n\n"
                                             "Copies a file to DESTINATION on every node of a job, within the job.\n\n",
                                         .options = kOptions};

// On each node. $0 destination, $1 name of the source, $2 mode, $3 time of the last change, $4 "force".
constexpr const char* kReceive = R"sh(
to=$0
case $to in */) to=$to$1 ;; esac
[ ! -d "$to" ] || to=$to/$1
if [ -e "$to" ] && [ "$4" != force ]; then
  echo "sbcast: error: $to is there on $(hostname): --force replaces it" >&2
  cat > /dev/null
  exit 17
fi
umask 077
part=$(mktemp "$to.lockstep-part.XXXXXX") || exit 1
trap 'rm -f "$part"' EXIT
cat > "$part" && chmod "$2" "$part" && { [ -z "$3" ] || touch -d "@$3" "$part"; } && mv -f "$part" "$to"
)sh";

}  // namespace

int sbcast_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sbcast");
  Wish wish;
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  if (line.words.size() != 2) {
    voice.error(format("Need two file names, have {} names", line.words.size()));
    return 1;
  }
  const std::string source = line.words[0], destination = line.words[1];
  const std::string job = wish.job.empty() ? variable_or("SLURM_JOB_ID") : wish.job;
  if (job.empty()) {
    voice.error("Need a job id to run this command.  Run from within a Slurm job or use the --jobid option.");
    return 1;
  }
  const int fd = ::open(source.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat stat {};
  if (fd < 0 || ::fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
    voice.error(format("Can't open `{}`: {}", source, fd < 0 ? ::strerror(errno) : "not a regular file"));
    return 1;
  }
  ::dup2(fd, STDIN_FILENO);
  ::close(fd);
  if (wish.verbose)
    voice.info(format("{} bytes of {} to {} on the nodes of job {}", stat.st_size, source, destination, job));

  // What the job's variables say of its own steps says nothing of this one.
  for (const char* name :
       {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_TRES_PER_TASK",
        "SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_DISTRIBUTION",
        "SLURM_MPI_TYPE", "SLURM_CPU_BIND", "SLURM_LABELIO", "SLURM_OVERCOMMIT"})
    ::unsetenv(name);
  const std::string mode = format("{:o}", wish.preserve ? stat.st_mode & 07777 : stat.st_mode & 0777);
  std::vector<std::string> words = {"srun",
                                    "-Q",
                                    "--jobid=" + job,
                                    "--overlap",
                                    "--ntasks-per-node=1",
                                    "--gres=none",
                                    "--mpi=none",
                                    "--kill-on-bad-exit=1",
                                    "--chdir=" + variable_or("PWD", "/"),
                                    "--job-name=sbcast",
                                    "/bin/sh",
                                    "-c",
                                    kReceive,
                                    destination,
                                    source.substr(source.rfind('/') + 1),
                                    mode,
                                    wish.preserve ? std::to_string(stat.st_mtime) : "",
                                    wish.force ? "force" : ""};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int code = srun_main(context, static_cast<int>(words.size()), arguments.data());
  if (code != 0)
    voice.error(format("{} was not copied to every node of job {}", source, job));
  return code == 0 ? 0 : 1;
}

}  // namespace lockstep::slurm
