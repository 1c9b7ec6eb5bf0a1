#include "container/step_plan.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/documents.h"

namespace lockstep {
namespace {

constexpr std::string_view kGpu = "nvidia.com/gpu";

std::string variable(const char* name) {
  const char* value = ::getenv(name);
  return value ? value : "";
}

bool folder_exists(const std::string& path) {
  struct stat stat {};
  return ::stat(path.c_str(), &stat) == 0 && S_ISDIR(stat.st_mode);
}

Mount shown(const std::string& path) { return {path, path, true, {}}; }

// What the script needs that began inside: itself, the cluster's commands, and the node's agent, whom they ask.
void show_script(const std::string& script, std::vector<Mount>& mounts) {
  if (script.empty())
    return;
  mounts.push_back(shown(script));
  mounts.push_back(shown(own_program_folder()));
  if (const std::string socket = variable("LOCKSTEP_SOCKET"); socket.starts_with('/'))
    mounts.push_back({socket.substr(0, socket.rfind('/')), socket.substr(0, socket.rfind('/')), false, {"nofail"}});
}

// Where a process management interface has its files, beside those in /tmp.
void show_pmi(std::vector<Mount>& mounts) {
  const std::string folder = variable("PMIX_SERVER_TMPDIR");
  if (folder.starts_with('/') && !folder.starts_with("/tmp/") && folder_exists(folder))
    mounts.push_back({folder, folder, false, {"nofail"}});
}

// The job's directory for files of its own, as tasks outside find it.
void show_scratch(std::vector<Mount>& mounts) {
  const std::string folder = variable("LOCKSTEP_SCRATCH");
  if (folder.starts_with('/') && folder_exists(folder))
    mounts.push_back({folder, folder, false, {"nofail"}});
}

void show_home(const Container& wanted, std::vector<Mount>& mounts) {
  const std::string home = variable("HOME");
  if (wanted.mount_home && home.starts_with('/'))
    mounts.push_back({home, wanted.remap_root ? "/root" : home, false, {}});
}

std::vector<std::string> gpus_of_step() {
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "LOCKSTEP_GPUS"})
    if (const std::string list = variable(name); !list.empty())
      return split(list, ',');
  return {};
}

bool has_kind(const std::vector<CdiSpec>& specs, std::string_view kind) {
  for (const CdiSpec& spec : specs)
    if (spec.kind == kind)
      return true;
  return false;
}

// The device files alone, which a program that brings its own libraries can use.
CdiEdits bare_gpus() {
  CdiEdits edits;
  DIR* const dev = ::opendir("/dev");
  if (!dev)
    return edits;
  while (const dirent* entry = ::readdir(dev))
    if (const std::string name = entry->d_name; name.starts_with("nvidia"))
      edits.devices.emplace_back("/dev/" + name, "/dev/" + name);
  ::closedir(dev);
  return edits;
}

Result<void> make_layer(const std::string& path) {
  TRY(make_folders(path));
  return ::chmod(path.c_str(), 0755) == 0 ? Result<void>() : Result<void>(os_error(path));
}

Result<void> add_layers(const Container& wanted, const StepFiles& files, std::string rootfs, BoxPlan& box) {
  const std::string upper = files.box() + "/upper";
  box.at = files.box() + "/root";
  TRY(make_folders(box.at));
  box.lower = {std::move(rootfs)};
  if (wanted.writable) {
    box.upper = upper;
    box.work = files.box() + "/work";
    TRY(make_layer(box.upper));
    return make_folders(box.work);
  }
  box.read_only = true;
  if (folder_exists(upper))
    box.lower.insert(box.lower.begin(), upper);
  return {};
}

// In a tree that is somebody else's nothing could be mounted on what is not there yet. Folders of ours over its own, as
// far as it has folders there or nothing, are merged with them and may be added to.
Result<void> lay_folders_over(const std::string& rootfs, const StepFiles& files, BoxPlan& box) {
  const std::string ours = files.box() + "/over";
  TRY(make_layer(ours));
  std::vector<std::string> paths = {"/proc", "/sys", "/dev", "/tmp", "/etc", box.work_dir};
  for (const Mount& mount : box.mounts) paths.push_back(mount.target.substr(0, mount.target.rfind('/')));
  for (const std::string& path : paths) {
    std::string below = rootfs, over = ours;
    for (const std::string& name : split(path, '/')) {
      if (name.empty() || name == "." || name == "..")
        continue;
      struct stat stat {};
      below += "/" + name;
      over += "/" + name;
      if (::lstat(below.c_str(), &stat) == 0 && !S_ISDIR(stat.st_mode))
        break;
      TRY(make_layer(over));
    }
  }
  box.lower.insert(box.lower.begin(), ours);
  return {};
}

Result<std::string> root_of(const std::string& folder, const Bundle& bundle) {
  const std::string path = bundle.root.starts_with('/') ? bundle.root : folder + "/" + bundle.root;
  char real[PATH_MAX];
  if (!::realpath(path.c_str(), real))
    return os_error(path);
  return std::string(real);
}

}  // namespace

std::string own_program_folder() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string_view program(path, size > 0 ? static_cast<std::size_t>(size) : 0);
  return std::string(program.substr(0, program.rfind('/')));
}

CdiEdits devices_of_job(std::vector<std::string>& notes) {
  const std::vector<std::string> gpus = gpus_of_step();
  if (gpus.empty())
    return {};
  const std::vector<std::string> folders = {"/etc/cdi", "/var/run/cdi"};
  const std::vector<CdiSpec> specs = read_cdi(folders, notes);
  if (has_kind(specs, kGpu)) {
    auto edits = find_cdi(specs, kGpu, gpus);
    if (edits.ok())
      return std::move(*edits);
    notes.push_back(edits.error().message);
    return {};
  }
  CdiEdits bare = bare_gpus();
  if (!bare.devices.empty())
    notes.push_back(
        "the GPUs' device files are there, the driver's libraries are not: no file in /etc/cdi describes them on this "
        "node (nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)");
  return bare;
}

Result<Bundle> read_bundle(const std::string& folder) {
  const std::string path = folder + "/config.json";
  return parse_bundle(TRY(read_plain(path, Links::kFollowed, kDocumentMax)));
}

Result<StepPlan> plan_step(const StepContainer& step, const StepFiles& files,
                           const std::function<Result<StoredImage>()>& image) {
  const Container& wanted = step.wanted;
  StepPlan plan;
  BoxPlan& box = plan.box;
  std::string rootfs;
  if (wanted.bundle.empty()) {
    StoredImage stored = TRY(image());
    plan.image = stored.key;
    rootfs = std::move(stored.rootfs);
    box.work_dir = stored.config.work_dir;
  } else {
    Bundle bundle = TRY(read_bundle(wanted.bundle));
    rootfs = TRY(root_of(wanted.bundle, bundle));
    box.mounts = std::move(bundle.mounts);
    box.work_dir = bundle.config.work_dir;
  }
  if (!wanted.work_dir.empty())
    box.work_dir = wanted.work_dir;
  TRY(add_layers(wanted, files, std::move(rootfs), box));
  box.as_root = wanted.remap_root;
  box.home = variable("HOME");
  show_home(wanted, box.mounts);
  show_script(step.script, box.mounts);
  show_pmi(box.mounts);
  show_scratch(box.mounts);
  box.mounts.insert(box.mounts.end(), wanted.mounts.begin(), wanted.mounts.end());
  box.devices = devices_of_job(plan.notes);
  if (!wanted.bundle.empty())
    TRY(lay_folders_over(box.lower.back(), files, box));
  return plan;
}

Result<BoxPlan> plan_saving(const StepContainer& step, const StepFiles& files, const BoxState& state,
                            const ImageConfig& config) {
  BoxPlan plan;
  const std::string told = files.step() + "/told";
  TRY(make_layer(told));
  TRY(make_layer(told + "/etc"));
  TRY(write_file(told + "/etc/environment", enroot_environment(config), 0644));
  TRY(write_file(told + "/etc/rc", enroot_rc(config), 0755));
  plan.lower = {told};
  if (const std::string upper = files.box() + "/upper"; folder_exists(upper))
    plan.lower.push_back(upper);
  plan.lower.push_back(format("{}/images/{}/rootfs", step.home, state.image));
  plan.at = files.step() + "/saved";
  TRY(make_folders(plan.at));
  return plan;
}

}  // namespace lockstep
