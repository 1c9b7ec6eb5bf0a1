#include "container/step_container.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/box.h"
#include "container/image_store.h"
#include "container/sandbox_sweep.h"
#include "container/saved_image.h"
#include "container/seccomp.h"
#include "container/step_files.h"
#include "container/step_plan.h"
#include "container/store_room.h"
#include "container/task_environment.h"
#include "container/tool.h"
#include "io/client/unix_api_client.h"
#include "model/work_id.h"
#include "wire/container_text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kUnusedSeconds = 14 * 24 * 3600;  // so long an image stays that nobody asks for
constexpr std::int64_t kTasksIdleMs = 3'000;             // tasks of a group need not begin together
constexpr std::string_view kVariables[] = {"LOCKSTEP_CONTAINER", "LOCKSTEP_CONTAINER_HOME", "LOCKSTEP_CONTAINER_WORK",
                                           "LOCKSTEP_CONTAINER_BEGAN_FD"};

void tell(const std::string& line) { say("lockstep: container: " + line); }

// How many nodes the step has, if it says so: whoever is alone asks nobody.
bool is_alone(const WorkId& work) {
  const char* nodes = ::getenv("SLURM_STEP_NUM_NODES");
  return is_script(work) || (step_of(work) && nodes && std::string_view(nodes) == "1");
}

// The other nodes of the step, or those with tasks of the same group: they take from each other.
ImagePeers peers_of(const StepContainer& step, const StepFiles& files) {
  ImagePeers peers;
  const auto work = parse_work_id(work_in(step.work));
  if (!work || is_alone(*work))
    return peers;
  std::string target = format("/v1/jobs/{}/image_source?", work->job.value);
  ImagePatience patience;
  if (const StepPart* part = step_of(*work)) {
    target = format("/v1/steps/{}.{}/image_source?", work->job.value, part->step);
    peers.work = text_of(*work);
    peers.publish = [&files](std::string_view word) { (void)files.publish_key(word); };
  } else if (const TaskPart* task = task_of(*work)) {
    target += format("group={}&", task->group);
    patience.idle_ms = kTasksIdleMs;
  }
  peers.reach = [target, patience](unsigned hop) -> Result<ImagePeer> {
    auto agent = TRY(connect_unix(find_socket()));
    OpenFile stream(TRY(agent->upgrade(format("{}hop={}", target, hop), "lockstep-image/1")));
    return ImagePeer::greet(std::move(stream), patience);
  };
  return peers;
}

// The image that a step asks for, or that its named container was made of.
Result<StoredImage> image_of(const StepContainer& step, const StepFiles& files) {
  ImageStore store(step.home, tell);
  if (const std::string key = files.image_of_box(); !key.empty())
    return store.open(key);
  if (step.wanted.image.empty())
    return not_found(
        format("there is no container with the name \"{}\" in this job on this node, and no "
               "--container-image to make it of",
               step.wanted.name));
  return store.fetch(TRY(parse_image(step.wanted.image)), peers_of(step, files));
}

// A container with a name that is there already: what its flag says of that.
Result<void> check_reuse(const Container& wanted, bool there, bool running) {
  using Reuse = Container::Reuse;
  switch (wanted.reuse) {
    case Reuse::kAuto: return {};
    case Reuse::kMake:
      return there ? conflict(format("--container-name={}:create: there is one already", wanted.name)) : Result<void>();
    case Reuse::kEnter:
      return running ? Result<void>()
                     : not_found(format("--container-name={}:exec: no step runs in it now", wanted.name));
    case Reuse::kKeepOut:
      return !running ? Result<void>()
                      : conflict(format("--container-name={}:no_exec: another step runs in it; wait until that has "
                                        "ended, or enter it with :exec",
                                        wanted.name));
  }
  return {};
}

Result<BoxState> make_new(const StepContainer& step, const StepFiles& files, const OpenFile& running) {
  StepPlan plan = TRY(plan_step(step, files, [&] { return image_of(step, files); }));
  for (const std::string& note : plan.notes) tell(note);
  if (running.valid()) {
    ::flock(running.get(), LOCK_SH);
    plan.box.keep_open.push_back(running.get());
  }
  std::vector<std::string> notes;
  BoxState state;
  state.holder = TRY(make_box(plan.box, notes));
  for (const std::string& note : notes) tell(note);
  state.space = mount_space_of(state.holder);
  state.image = plan.image;
  state.env = plan.box.devices.env;
  TRY(files.keep_image(plan.image));
  return state;
}

Result<BoxState> enter_running(const StepContainer& step, const StepFiles& files, const OpenFile& running) {
  if (!step.wanted.mounts.empty())
    tell(format("ignoring --container-mounts: the container \"{}\" runs already", step.wanted.name));
  BoxState state = TRY(files.state_of_box());
  ::flock(running.get(), LOCK_SH);
  // Any step's process will do, and each ends with its step.
  state.others.insert(state.others.begin(), state.holder);
  std::erase_if(state.others, [&](pid_t holder) { return mount_space_of(holder) != state.space; });
  Result<pid_t> held = not_found(format("the last step in the container \"{}\" has just ended", step.wanted.name));
  for (std::size_t i = 0; i < state.others.size() && !held.ok(); ++i) held = hold_box(state.others[i], {running.get()});
  state.holder = TRY(std::move(held));
  return state;
}

// Now, not when all the work has been done.
Result<void> check_can_save(const std::string& path) {
  const std::string folder = path.substr(0, std::max<std::size_t>(1, path.rfind('/')));
  return path.empty() || ::access(folder.c_str(), W_OK | X_OK) == 0
             ? Result<void>()
             : Result<void>(os_error(format("cannot save the container at {}: {}", path, folder)));
}

Result<BoxState> prepare(const StepContainer& step, const StepFiles& files) {
  TRY(check_can_save(step.wanted.save));
  TRY(files.make_box_folder());
  if (step.wanted.name.empty())
    return make_new(step, files, OpenFile());
  const OpenFile lock = TRY(files.lock_box());
  const OpenFile running = TRY(files.open_running());
  const bool runs = ::flock(running.get(), LOCK_EX | LOCK_NB) != 0;
  TRY(check_reuse(step.wanted, !files.image_of_box().empty(), runs));
  BoxState state = runs ? TRY(enter_running(step, files, running)) : TRY(make_new(step, files, running));
  TRY(files.keep_state_of_box(state));
  return state;
}

// By the first task of the step here; the others wait for it. Nothing: it has failed and said so.
Result<std::optional<BoxState>> state_of(const StepContainer& step, const StepFiles& files) {
  const OpenFile lock = TRY(files.lock_step());
  if (auto state = TRY(files.state_of_step()))
    return state->holder == 0 ? std::optional<BoxState>() : state;
  auto state = prepare(step, files);
  TRY(files.keep_state_of_step(state.ok() ? *state : BoxState{}));
  return std::optional<BoxState>(TRY(std::move(state)));
}

Result<ImageConfig> config_of(const StepContainer& step, const BoxState& state) {
  if (!step.wanted.bundle.empty())
    return TRY(read_bundle(step.wanted.bundle)).config;
  return TRY(ImageStore(step.home, tell).open(state.image)).config;
}

Result<void> enter_folder(const Container& wanted, const ImageConfig& config) {
  if (!wanted.work_dir.empty())
    return ::chdir(wanted.work_dir.c_str()) == 0
               ? Result<void>()
               : Result<void>(os_error(format("--container-workdir={}", wanted.work_dir)));
  return ::chdir(config.work_dir.c_str()) == 0 || ::chdir("/") == 0 ? Result<void>() : Result<void>(os_error("/"));
}

std::vector<char*> pointers_of(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// As the shim does it outside.
int become_program(std::vector<std::string> words, std::vector<std::string> env) {
  if (words.empty()) {
    say("lockstep: error: no program to run: neither the command line nor the image names one");
    return 1;
  }
  const std::vector<std::string> candidates = candidates_for(words[0], value_in(env, "PATH"));
  const std::vector<char*> argv = pointers_of(words), variables = pointers_of(env);
  int failed = ENOENT;
  for (const std::string& path : candidates) {
    ::execve(path.c_str(), argv.data(), variables.data());
    if (errno != ENOENT && errno != ENOTDIR)
      failed = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
      break;
  }
  say(format("lockstep: error: execve(): {}: {} (in the container)", words[0], ::strerror(failed)));
  return failed;
}

struct Ready {
  std::vector<std::string> words, env;
};

// Everything up to the program. Nothing: another task has said why not.
Result<std::optional<Ready>> get_ready(const StepContainer& step, InnerTask task) {
  const pid_t parent = ::getppid();
  const StepFiles files = TRY(StepFiles::of(step));
  const auto state = TRY(state_of(step, files));
  if (!state)
    return std::optional<Ready>();
  const ImageConfig config = TRY(config_of(step, *state));
  Ready ready;
  ready.env = task_environment(task.env, config, step.wanted);
  for (const std::string& line : state->env)
    if (const std::size_t equals = line.find('='); equals != line.npos)
      set_in(ready.env, line.substr(0, equals), line.substr(equals + 1));
  if (!step.script.empty())
    set_in(ready.env, "PATH", format("{}:{}", value_in(ready.env, "PATH"), own_program_folder()));
  if (step.wanted.entrypoint)
    ready.words = config.entrypoint;
  if (!step.script.empty())
    ready.words.push_back(step.script);
  ready.words.insert(ready.words.end(), task.words.begin(), task.words.end());
  if (task.words.empty() && step.script.empty())
    ready.words.insert(ready.words.end(), config.command.begin(), config.command.end());
  TRY(join_box(state->holder));
  TRY(enter_folder(step.wanted, config));
  TRY(drop_capabilities());
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(1);
  TRY(forbid_system_calls(step.wanted.remap_root));
  return std::optional<Ready>(std::move(ready));
}

Result<void> save(const StepContainer& step, const StepFiles& files, const BoxState& state) {
  const ImageConfig config = TRY(config_of(step, state));
  const BoxPlan plan = TRY(plan_saving(step, files, state, config));
  tell(format("saving container filesystem at {}", step.wanted.save));
  return write_image(plan, step.wanted.save);
}

}  // namespace

void say(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t size = ::write(2, text.data(), text.size());
}

Result<StepContainer> take_step_container(std::vector<std::string>& env) {
  StepContainer step;
  if (const std::string_view home = value_in(env, kOuterHome); home.starts_with('/'))
    ::setenv("HOME", std::string(home).c_str(), 1);
  step.wanted = TRY(decode_container(value_in(env, kVariables[0])));
  step.home = value_in(env, kVariables[1]);
  step.work = value_in(env, kVariables[2]);
  if (const auto began = parse_uint(value_in(env, kVariables[3])); began && *began > 2 && *began < 1024)
    step.began = static_cast<int>(*began);
  if (!step.home.starts_with('/') || !parse_work_id(work_in(step.work)))
    return invalid("lockstep-container is started by lockstep-shim, for the tasks of a step");
  std::erase_if(env, [](const std::string& line) {
    return std::any_of(std::begin(kVariables), std::end(kVariables), [&](std::string_view name) {
      return line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=';
    });
  });
  return step;
}

namespace {

void tell_not_begun(const StepContainer& step) {
  if (step.began >= 0 && ::write(step.began, "-", 1) != 1)
    say("lockstep: error: container: nobody hears that it could not be made");
}

}  // namespace

int run_in_container(const StepContainer& step, InnerTask task) {
  auto ready = get_ready(step, std::move(task));
  if (!ready.ok()) {
    say("lockstep: error: container: " + ready.error().message);
    tell_not_begun(step);
    return 1;
  }
  if (step.began >= 0)
    ::fcntl(step.began, F_SETFD, FD_CLOEXEC);
  const int code = *ready ? become_program(std::move((*ready)->words), std::move((*ready)->env)) : 1;
  tell_not_begun(step);
  return code;
}

int sweep_containers(const std::string& home, const std::vector<std::string>& jobs_here) {
  if (!home.starts_with('/'))
    return 2;
  bool good = sweep_sandboxes(home, jobs_here).ok();
  good = remove_all_but(home + "/trash", {}).ok() && good;
  if (jobs_here.empty())
    good = ImageStore(home, tell).remove_unused(kUnusedSeconds).ok() && good;
  return good ? 0 : 1;
}

int drop_unused_images(const std::string& home, const std::string& bytes) {
  const auto wanted = parse_uint(bytes);
  if (!home.starts_with('/') || !wanted)
    return 2;
  const bool good = remove_all_but(home + "/trash", {}).ok();
  StoreRoom(home).drop(static_cast<std::int64_t>(std::min<std::uint64_t>(*wanted, INT64_MAX)));
  return good ? 0 : 1;
}

int finish_container(const StepContainer& step) {
  const auto files = StepFiles::of(step);
  if (!files.ok())
    return 1;
  int code = 0;
  const auto state = files->state_of_step();
  if (state.ok() && *state && (*state)->holder != 0 && !step.wanted.save.empty() && step.wanted.bundle.empty())
    if (const auto saved = save(step, *files, **state); !saved.ok()) {
      say("lockstep: error: container: " + saved.error().message);
      code = 1;
    }
  files->remove_step();
  return code;
}

}  // namespace lockstep
