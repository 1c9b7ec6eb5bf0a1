#include "container/enroot.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/box.h"
#include "container/image_store.h"
#include "container/open_file.h"
#include "container/saved_image.h"
#include "container/step_container.h"
#include "container/step_files.h"
#include "container/step_plan.h"
#include "model/work_id.h"

namespace lockstep {
namespace {

constexpr std::string_view kPrefix = "pyxis_";
constexpr const char* kHelp =
    "Usage: enroot COMMAND [ARG...]\n"
    "\n"
    "The containers with a name that your jobs have on this node, as enroot shows them.\n"
    "\n"
    "  list [-f]                        their names; -f: with the processes that run in them\n"
    "  remove [-f] NAME...              remove them; -f asks nothing\n"
    "  export [-f] [-o FILE] NAME       write one as a squashfs image\n"
    "  import [-o FILE] IMAGE           write an image of a registry as a squashfs image\n"
    "  start [-r] [-w] [-m SRC:DST] [-e K=V] NAME [COMMAND...]   run a command in one\n"
    "\n"
    "What else enroot does, srun does with --container-image and the like.\n";

using Verb = EnrootAsk::Verb;

struct VerbWord {
  std::string_view word;
  Verb verb;
  std::string_view flags;   // letters without a value
  std::string_view values;  // letters with one
};
constexpr VerbWord kVerbs[] = {{"list", Verb::kList, "f", ""},
                               {"remove", Verb::kRemove, "f", ""},
                               {"export", Verb::kExport, "f", "o"},
                               {"import", Verb::kImport, "", "oa"},
                               {"start", Verb::kStart, "rw", "me"}};
constexpr std::pair<std::string_view, char> kLong[] = {{"--fancy", 'f'}, {"--force", 'f'}, {"--output", 'o'},
                                                       {"--arch", 'a'},  {"--root", 'r'},  {"--rw", 'w'},
                                                       {"--mount", 'm'}, {"--env", 'e'}};

void set_flag_of(EnrootAsk& ask, char letter) {
  if (letter == 'f')
    (ask.verb == Verb::kList ? ask.fancy : ask.force) = true;
  else
    (letter == 'r' ? ask.as_root : ask.writable) = true;
}

void set_value_of(EnrootAsk& ask, char letter, std::string value) {
  if (letter == 'o')
    ask.output = std::move(value);
  else if (letter == 'm')
    ask.mounts.push_back(std::move(value));
  else if (letter == 'e')
    ask.env.push_back(std::move(value));
}

// "-f", "--output=x", "-ox": the letter and its value, if it is in the same word.
struct CutOption {
  char letter = 0;
  std::string value;
  bool has_value = false;
};
CutOption cut_option(const std::string& word) {
  if (!word.starts_with("--"))
    return {word[1], word.substr(2), word.size() > 2};
  const std::size_t equals = word.find('=');
  for (const auto& [name, letter] : kLong)
    if (word.substr(0, equals) == name)
      return {letter, equals == word.npos ? "" : word.substr(equals + 1), equals != word.npos};
  return {};
}

Result<void> check_words(const EnrootAsk& ask, const VerbWord& verb) {
  const std::size_t count = ask.words.size();
  if ((ask.verb == Verb::kList && count > 0) || ((ask.verb == Verb::kExport || ask.verb == Verb::kImport) && count > 1))
    return invalid(format("Invalid argument: {}", ask.words.back()));
  if (ask.verb != Verb::kList && count == 0)
    return invalid(format("{}: {} is missing", verb.word, ask.verb == Verb::kImport ? "the image" : "a name"));
  return {};
}

}  // namespace

Result<EnrootAsk> parse_enroot(const std::vector<std::string>& words) {
  EnrootAsk ask;
  if (words.empty() || words[0] == "help" || words[0] == "-h" || words[0] == "--help")
    return ask;
  const auto* const verb =
      std::find_if(std::begin(kVerbs), std::end(kVerbs), [&](const VerbWord& known) { return known.word == words[0]; });
  if (verb == std::end(kVerbs))
    return invalid(format("Invalid command: {}", words[0]));
  ask.verb = verb->verb;
  std::size_t at = 1;
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    if (words[at] == "--") {
      ++at;
      break;
    }
    CutOption option = cut_option(words[at]);
    if (option.letter != 0 && verb->flags.find(option.letter) != std::string_view::npos && !option.has_value) {
      set_flag_of(ask, option.letter);
      continue;
    }
    if (option.letter == 0 || verb->values.find(option.letter) == std::string_view::npos)
      return invalid(format("Invalid option: {}", words[at]));
    if (!option.has_value && ++at == words.size())
      return invalid(format("{} needs a value", words[at - 1]));
    set_value_of(ask, option.letter, option.has_value ? std::move(option.value) : words[at]);
  }
  for (; at < words.size(); ++at) ask.words.push_back(words[at]);
  TRY(check_words(ask, *verb));
  return ask;
}

std::string enroot_name(const std::string& job, const std::string& name) {
  return format("{}{}_{}", kPrefix, job, name);
}

EnrootName parse_enroot_name(std::string_view text) {
  if (!text.starts_with(kPrefix))
    return {};
  text.remove_prefix(kPrefix.size());
  const std::size_t bar = text.find('_');
  if (bar == text.npos || !parse_uint(text.substr(0, bar)) || bar + 1 == text.size() || text.find('/') != text.npos ||
      text[bar + 1] == '.')
    return {};
  return {std::string(text.substr(0, bar)), std::string(text.substr(bar + 1))};
}

std::string enroot_file_of(std::string_view image) {
  if (image.starts_with("docker://"))
    image.remove_prefix(9);
  if (const std::size_t hash = image.find('#'); hash != image.npos)
    image.remove_prefix(hash + 1);
  std::string out(image);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '/' || c == ':' || c == '@'; }, '+');
  return out + ".sqsh";
}

namespace {

void tell_of_enroot(const std::string& line) { say("[INFO] " + line); }

int fail_enroot(const Error& error) {
  say("[ERROR] " + error.message);
  return 1;
}

std::vector<std::string> entries_in(const std::string& folder) {
  std::vector<std::string> out;
  DIR* const open = ::opendir(folder.c_str());
  while (const dirent* entry = open ? ::readdir(open) : nullptr)
    if (entry->d_name[0] != '.')
      out.emplace_back(entry->d_name);
  if (open)
    ::closedir(open);
  std::sort(out.begin(), out.end());
  return out;
}

// A container with a name, and what it takes to reach it.
struct NamedBox {
  std::string job, name;
  StepContainer step;
  StepFiles files;

  bool is_made() const { return !files.image_of_box().empty(); }
};

// A step of its own, which is none of the cluster's: of it the files that are made meanwhile have their names.
Result<NamedBox> box_named(const std::string& home, const std::string& job, const std::string& name) {
  StepContainer step;
  step.home = home;
  step.work = format("{}+enroot.{}", text_of(WorkId{JobId(parse_uint(job).value_or(0)), 1, ScriptPart{}}), ::getpid());
  step.wanted.name = name;
  StepFiles files = TRY(StepFiles::of(step));
  return NamedBox{job, name, std::move(step), std::move(files)};
}

Result<NamedBox> existing_box(const std::string& home, const std::string& text) {
  const EnrootName name = parse_enroot_name(text);
  if (home.empty() || name.job.empty() ||
      ::access(format("{}/jobs/{}/names/{}/image", home, name.job, name.name).c_str(), F_OK) != 0)
    return not_found(format("No such container: {}", text));
  return box_named(home, name.job, name.name);
}

// The processes that hold it, of which one is told.
std::optional<pid_t> runs_in(const std::string& folder) {
  const auto text = read_plain(folder + "/state", Links::kRefused, std::size_t{1} << 20);
  if (!text.ok())
    return std::nullopt;
  const BoxState state = decode_state(*text);
  std::vector<pid_t> holders = state.others;
  holders.insert(holders.begin(), state.holder);
  for (const pid_t holder : holders)
    if (holder > 1 && !state.space.empty() && mount_space_of(holder) == state.space)
      return holder;
  return std::nullopt;
}

int list_boxes(const std::string& home, const EnrootAsk& ask) {
  std::string out = ask.fancy ? "NAME PID COMM STATE STARTED TIME MNTNS USERNS COMMAND\n" : "";
  for (const std::string& job : home.empty() ? std::vector<std::string>{} : entries_in(home + "/jobs"))
    for (const std::string& name : entries_in(format("{}/jobs/{}/names", home, job))) {
      const std::string folder = format("{}/jobs/{}/names/{}", home, job, name);
      if (::access((folder + "/image").c_str(), F_OK) != 0)
        continue;
      const auto holder = ask.fancy ? runs_in(folder) : std::nullopt;
      out += enroot_name(job, name) +
             (holder ? format(" {} lockstep-contai R - - {}", *holder, mount_space_of(*holder)) : "") + "\n";
    }
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0 ? 0 : 1;
}

bool agrees(const std::string& name) {
  say(format("Do you really want to delete {}? [y/N]", name));
  char answer[16];
  return std::fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

// Out of the way at once; what runs in it goes on with the files it has open. The agent's sweep removes it.
Result<void> remove_box(const std::string& home, const std::string& text) {
  const NamedBox box = TRY(existing_box(home, text));
  const std::string trash = home + "/trash";
  box.files.remove_step();
  TRY(make_folders(trash));
  const std::string to = format("{}/{}.{}", trash, text, ::getpid());
  if (::rename(box.files.box().c_str(), to.c_str()) != 0)
    return os_error(text);
  if (!runs_in(to))
    TRY(remove_tree(to));
  return {};
}

Result<void> check_output(const EnrootAsk& ask, const std::string& path) {
  return !ask.force && ::access(path.c_str(), F_OK) == 0
             ? Result<void>(Error{Errc::kConflict, format("File already exists: {}", path), {}})
             : Result<void>();
}

Result<ImageConfig> config_of_box(const std::string& home, const BoxState& state) {
  return TRY(ImageStore(home, tell_of_enroot).open(state.image)).config;
}

Result<void> export_box(const std::string& home, const EnrootAsk& ask) {
  const NamedBox box = TRY(existing_box(home, ask.words[0]));
  const auto done = [&]() -> Result<void> {
    const std::string path = ask.output.empty() ? ask.words[0] + ".sqsh" : ask.output;
    TRY(check_output(ask, path));
    BoxState state;
    state.image = box.files.image_of_box();
    const BoxPlan layers = TRY(plan_saving(box.step, box.files, state, TRY(config_of_box(home, state))));
    tell_of_enroot(format("Creating squashfs filesystem: {}", path));
    return write_image(layers, path);
  }();
  box.files.remove_step();
  return done;
}

// Of who has no container here yet the image goes by a store of its own.
Result<void> import_image(const std::string& home, const EnrootAsk& ask) {
  const std::string path = ask.output.empty() ? enroot_file_of(ask.words[0]) : ask.output;
  TRY(check_output(ask, path));
  char own[] = "/tmp/lockstep-enroot-XXXXXX";
  if (home.empty() && !::mkdtemp(own))
    return os_error(own);
  const std::string store = home.empty() ? own : home;
  const auto done = [&]() -> Result<void> {
    const StoredImage image = TRY(ImageStore(store, tell_of_enroot).fetch(TRY(parse_image(ask.words[0]))));
    NamedBox box = TRY(box_named(store, "1", "import"));
    box.step.home = store;
    BoxState state;
    state.image = image.key;
    const auto written = [&]() -> Result<void> {
      const BoxPlan layers = TRY(plan_saving(box.step, box.files, state, image.config));
      tell_of_enroot(format("Creating squashfs filesystem: {}", path));
      return write_image(layers, path);
    }();
    box.files.remove_step();
    return written;
  }();
  if (home.empty())
    (void)remove_tree(store);
  return done;
}

Result<Mount> mount_asked(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string from = text.substr(0, colon), to = colon == text.npos ? from : text.substr(colon + 1);
  if (!from.starts_with('/') || !to.starts_with('/') || to.find(':') != to.npos)
    return invalid(format("{}: a mount is written SOURCE:TARGET, two paths", text));
  return Mount{from, to, false, {}};
}

int code_of_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The process that holds the container for this command goes with it; those of steps stay.
void let_go(const NamedBox& box) {
  if (const auto state = box.files.state_of_step(); state.ok() && *state && (*state)->holder > 1)
    ::kill((*state)->holder, SIGKILL);
  box.files.remove_step();
}

Result<int> start_in_box(const std::string& home, const EnrootAsk& ask) {
  NamedBox box = TRY(existing_box(home, ask.words[0]));
  box.step.wanted.remap_root = ask.as_root;
  box.step.wanted.writable = ask.writable;
  for (const std::string& text : ask.mounts) box.step.wanted.mounts.push_back(TRY(mount_asked(text)));
  InnerTask task;
  for (char** line = environ; *line; ++line) task.env.emplace_back(*line);
  for (const std::string& line : ask.env)
    if (line.find('=') != line.npos)
      task.env.push_back(line);
  task.words.assign(ask.words.begin() + 1, ask.words.end());
  if (task.words.empty())
    task.words = {"/bin/sh"};
  const pid_t child = ::fork();
  if (child < 0)
    return os_error("fork");
  if (child == 0)
    ::_exit(run_in_container(box.step, std::move(task)));
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);  // the command's
  const int code = code_of_child(child);
  let_go(box);
  return code;
}

}  // namespace

int run_enroot(const std::string& home, const std::vector<std::string>& words) {
  const auto ask = parse_enroot(words);
  if (!ask.ok()) {
    fail_enroot(ask.error());
    std::fputs(kHelp, stderr);
    return 1;
  }
  Result<void> done;
  switch (ask->verb) {
    case Verb::kHelp: std::fputs(kHelp, stdout); return 0;
    case Verb::kList: return list_boxes(home, *ask);
    case Verb::kRemove:
      for (const std::string& name : ask->words)
        if (ask->force || agrees(name))
          if (const auto removed = remove_box(home, name); !removed.ok())
            done = removed;
      break;
    case Verb::kExport: done = export_box(home, *ask); break;
    case Verb::kImport: done = import_image(home, *ask); break;
    case Verb::kStart: {
      const auto code = start_in_box(home, *ask);
      return code.ok() ? *code : fail_enroot(code.error());
    }
  }
  return done.ok() ? 0 : fail_enroot(done.error());
}

}  // namespace lockstep
