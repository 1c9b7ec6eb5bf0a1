#include "frontends/slurm/client/container_ask.h"

#include "base/text.h"
#include "frontends/slurm/client/job_ask.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/values.h"
#include "wire/container_text.h"

namespace lockstep::slurm {

namespace {

// One environment variable of the node carries all that is said of a container.
constexpr std::size_t kTextMax = 96 << 10;

// Options with a value, by the ends of their names: --container-X is PYXIS_CONTAINER_X.
struct Valued {
  const char* option;
  const char* variable;
  bool inherited;
};
constexpr Valued kValued[] = {
    {"container-image", "PYXIS_CONTAINER_IMAGE", true},     {"container-mounts", "PYXIS_CONTAINER_MOUNTS", true},
    {"container-workdir", "PYXIS_CONTAINER_WORKDIR", true}, {"container-name", "PYXIS_CONTAINER_NAME", true},
    {"container-save", "PYXIS_CONTAINER_SAVE", false},      {"container-env", "PYXIS_CONTAINER_ENV", true},
};

// Pairs that switch something on and off.
struct Switch {
  const char* on;
  const char* off;
  const char* variable;
  const char* contrary;  // of a variable that says the opposite; null: there is none
};
constexpr Switch kSwitches[] = {
    {"container-mount-home", "no-container-mount-home", "PYXIS_CONTAINER_MOUNT_HOME", nullptr},
    {"container-remap-root", "no-container-remap-root", "PYXIS_CONTAINER_REMAP_ROOT", nullptr},
    {"container-entrypoint", "no-container-entrypoint", "PYXIS_CONTAINER_ENTRYPOINT", nullptr},
    {"container-writable", "container-readonly", "PYXIS_CONTAINER_WRITABLE", "PYXIS_CONTAINER_READONLY"},
};

bool is_on(const OptionSet& options, const Switch& pair, bool otherwise) {
  if (options.has(pair.on))
    return true;
  return options.has(pair.off) ? false : otherwise;
}

Error bad_part(const OptionSet& options, std::string_view name, std::string_view part, std::string_view why) {
  return invalid(format("{}: \"{}\": {}", where_given(name, *options.find(name)), part, why), std::string(name));
}

constexpr std::string_view kMountWords =
    "rw bind rbind suid nosuid dev nodev exec noexec atime noatime relatime nofail silent private rprivate slave "
    "rslave "
    "x-create=auto x-create=dir x-create=file x-detach";

Result<void> read_flags(const OptionSet& options, const std::string& part, std::string_view flags, Mount& mount) {
  for (const std::string& flag : split(flags, '+')) {
    if (flag == "ro")
      mount.read_only = true;
    else if (flag.starts_with("size=") || flag.starts_with("mode=") || is_among(kMountWords, flag))
      mount.options.push_back(flag);
    else
      return bad_part(options, "container-mounts", part, format("\"{}\" is no flag of a mount", flag));
  }
  return {};
}

bool is_path(std::string_view text) { return text.starts_with('/') || text.starts_with('.'); }

Result<Mount> mount_of(const OptionSet& options, const std::string& part, const std::string& work_dir) {
  const std::size_t first = part.find(':');
  const std::size_t second = first == part.npos ? part.npos : part.find(':', first + 1);
  Mount mount;
  const std::string source = part.substr(0, first);
  const std::string target = first == part.npos ? source : part.substr(first + 1, second - first - 1);
  if (source.empty() || target.empty())
    return bad_part(options, "container-mounts", part, "a mount is written SOURCE:TARGET[:FLAG+FLAG…]");
  if (!is_path(source) && source != "tmpfs" && source != "umount")
    return bad_part(options, "container-mounts", part,
                    "the source must be a path that begins with \"/\" or \".\", or tmpfs, or umount");
  if (!is_path(target))
    return bad_part(options, "container-mounts", part, "the target must be a path");
  mount.source = is_path(source) ? absolute_path(source, work_dir) : source;
  mount.target = absolute_path(target, work_dir);
  if (second != part.npos && second + 1 < part.size())
    TRY(read_flags(options, part, std::string_view(part).substr(second + 1), mount));
  return mount;
}

Result<void> read_name(const OptionSet& options, Container& container) {
  const Given* given = options.find("container-name");
  if (!given)
    return {};
  const std::size_t colon = given->text.find(':');
  container.name = given->text.substr(0, colon);
  const std::string flag = colon == std::string::npos ? "auto" : given->text.substr(colon + 1);
  using Reuse = Container::Reuse;
  constexpr std::pair<std::string_view, Reuse> kFlags[] = {{"auto", Reuse::kAuto},
                                                           {"", Reuse::kAuto},
                                                           {"create", Reuse::kMake},
                                                           {"exec", Reuse::kEnter},
                                                           {"no_exec", Reuse::kKeepOut}};
  const auto* const found =
      std::find_if(std::begin(kFlags), std::end(kFlags), [&](const auto& pair) { return pair.first == flag; });
  if (found == std::end(kFlags))
    return bad_part(options, "container-name", given->text, "the flag must be auto, create, exec or no_exec");
  const bool plain = container.name.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                         "_.-") == std::string::npos;
  if (container.name.empty() || container.name[0] == '.' || !plain)
    return bad_part(options, "container-name", given->text,
                    "a name is made of letters, digits, \"_\", \"-\" and \".\", and does not begin with \".\"");
  container.reuse = found->second;
  return {};
}

// Images in files are named by paths; "oci:DIR:TAG" and the like as well.
std::string image_of(const std::string& text, const std::string& work_dir) {
  if (is_path(text))
    return absolute_path(text, work_dir);
  for (const std::string_view scheme : {"oci:", "oci-archive:", "docker-archive:"})
    if (text.starts_with(scheme) && is_path(text.substr(scheme.size())))
      return std::string(scheme) + absolute_path(text.substr(scheme.size()), work_dir);
  return text;
}

Result<void> read_env_names(const OptionSet& options, Container& container) {
  if (!options.has("container-env"))
    return {};
  container.keep_env = split(options.text("container-env"), ',');
  for (const std::string& name : container.keep_env)
    if (name.empty() || name.find('=') != std::string::npos)
      return bad_part(options, "container-env", options.text("container-env"), "names of variables, with commas");
  return {};
}

Result<void> read_places(const OptionSet& options, const std::string& work_dir, Container& container) {
  container.work_dir = options.text("container-workdir");
  if (!container.work_dir.empty() && container.work_dir[0] != '/')
    return bad_part(options, "container-workdir", container.work_dir, "the folder is inside: its path begins with /");
  container.save = absolute_path(options.text("container-save"), work_dir);
  if (container.save.ends_with('/'))
    return bad_part(options, "container-save", container.save, "the target is a folder, not a file");
  return {};
}

// Said of a container where there is none.
void note_idle(const OptionSet& options, std::vector<std::string>& notes) {
  for (const auto& [name, text] : options.verbatim())
    if (name.starts_with("container-") || name.starts_with("no-container-"))
      notes.push_back(format("ignoring {} because neither --container-image nor --container-name is set",
                             where_given(name, *options.find(name))));
}

}  // namespace

Result<Container> container_of(const OptionSet& options, const std::string& work_dir, std::vector<std::string>& notes) {
  for (const Valued& row : kValued)
    if (options.has(row.option) && options.text(row.option).empty())
      return invalid(
          format("{} needs a value: an empty variable, perhaps?", where_given(row.option, *options.find(row.option))),
          row.option);
  Container container;
  container.image = image_of(options.text("container-image"), work_dir);
  container.bundle = absolute_path(options.text("container"), work_dir);
  TRY(read_name(options, container));
  if (container.image.empty() && container.name.empty() && container.bundle.empty()) {
    note_idle(options, notes);
    return container;
  }
  if (!container.bundle.empty() && !(container.image.empty() && container.name.empty()))
    return invalid("--container names a bundle: --container-image and --container-name cannot stand beside it",
                   "container");
  if (options.has("container-mounts"))
    for (const std::string& part : split(options.text("container-mounts"), ','))
      container.mounts.push_back(TRY(mount_of(options, part, work_dir)));
  TRY(read_env_names(options, container));
  TRY(read_places(options, work_dir, container));
  container.mount_home = is_on(options, kSwitches[0], false);
  container.remap_root = is_on(options, kSwitches[1], false);
  container.entrypoint = is_on(options, kSwitches[2], false);
  container.writable = is_on(options, kSwitches[3], container.bundle.empty());
  if (encode_container(container).size() > kTextMax)
    return invalid(format("the options of the container are too long: together they may have {} bytes", kTextMax),
                   "container-mounts");
  return container;
}

Result<void> read_container_variables(OptionSet& options, const OptionSet::GetVariable& get_variable) {
  const auto set = [&](const char* option, const char* variable, std::string text) {
    return options.set(option, {std::move(text), Origin::kEnvironment, 0, variable});
  };
  for (const Valued& row : kValued)
    if (const char* value = get_variable(row.variable); value && *value)
      TRY(set(row.option, row.variable, value));
  for (const Switch& pair : kSwitches)
    for (const char* variable : {pair.contrary, pair.variable}) {
      const char* value = variable ? get_variable(variable) : nullptr;
      if (!value || !*value)
        continue;
      const auto on = flag_value(value);
      if (!on)
        return invalid(format("Invalid value \"{}\" for environment variable {}", value, variable), pair.on);
      TRY(set(*on == (variable == pair.variable) ? pair.on : pair.off, variable, ""));
    }
  return {};
}

void put_container_variables(const OptionSet& options, Variables& variables) {
  for (const Valued& row : kValued)
    if (row.inherited && options.has(row.option))
      put(variables, row.variable, options.text(row.option));
  for (const Switch& pair : kSwitches)
    if (options.has(pair.on) || options.has(pair.off))
      put(variables, pair.variable, options.has(pair.on) ? "1" : "0");
  if (options.has("container"))
    put(variables, "SLURM_CONTAINER", options.text("container"));
}

}  // namespace lockstep::slurm
