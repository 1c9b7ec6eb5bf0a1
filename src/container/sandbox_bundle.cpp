#include "container/sandbox_bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/box.h"
#include "container/credentials.h"
#include "container/documents.h"
#include "container/image_store.h"
#include "container/oci_config.h"
#include "container/open_file.h"
#include "container/pull_words.h"
#include "container/step_container.h"
#include "container/step_plan.h"
#include "container/task_environment.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr std::size_t kUsersFileMax = 8 << 20, kSeccompMax = 1 << 20;
constexpr int kFetchesMax = 4;  // at a time, on a node
constexpr const char* kSeccompFolder = "/var/lib/kubelet/seccomp";
constexpr const char* kRuntimesFolders[] = {"/dev", "/proc", "/sys", "/run", "/etc"};
constexpr std::string_view kUsualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// What went wrong, in the words that its container's status has for it.
struct Failure {
  ContainerWord::What what = ContainerWord::What::kCannotYet;
  std::string reason, message;
};

std::int64_t steady_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}

void tell_line(const std::string& line) { say("lockstep: container: " + line); }

// By which images come, whatever network the sandbox has.
void enter_network_of_node() {
  if (const OpenFile node(::open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC)); node.valid())
    (void)::setns(node.get(), CLONE_NEWNET);
}

// What may take all goes first, and what may take much before what may take little: never what keeps the node.
// Source: kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction ("Node out of memory behavior").
std::int32_t oom_score_of(std::uint64_t memory_bytes) {
  constexpr std::int32_t kFirst = 1000, kLast = 2;
  const auto all =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (memory_bytes == 0 || memory_bytes >= all)
    return kFirst;
  return std::max(kLast, kFirst - static_cast<std::int32_t>(kFirst * (memory_bytes / 1024) / (all / 1024)));
}

class BundleMaker {
 public:
  BundleMaker(const BundleAsk& ask, const std::function<void(const ContainerWord&)>& tell)
      : ask_(ask),
        tell_(tell),
        one_(ask.sandbox.containers.at(0)),
        store_(ask.home, tell_line, ImageStore::Owners::kAsPacked),
        folder_(life_folder(ask.folder, one_.name, ask.life)) {}

  ContainerWord make() {
    if (!fetch())
      return word();
    const auto made = build();
    if (!made.ok()) {
      if (failure_.reason.empty())
        fail("CreateContainerError", made.error().message);
      return word();
    }
    ContainerWord told;
    told.image = digest();
    told.fetch_time = fetch_time_;
    told.uid = user_.uid;
    told.gid = user_.gid;
    told.groups = user_.groups;
    told.replaced = join(replaced_, ", ");
    told.stop_signal = image_.config.stop_signal;
    return told;
  }

 private:
  ContainerWord word() const {
    ContainerWord told;
    told.what = failure_.what;
    told.reason = failure_.reason;
    told.message = as_phrase(failure_.message);
    return told;
  }
  void fail(std::string reason, std::string message) {
    failure_ = {ContainerWord::What::kCannotYet, std::move(reason), std::move(message)};
  }

  std::string digest() const {
    const std::string_view key = image_.key;
    const std::string_view hex = key.substr(0, key.find('.'));
    return hex.starts_with("sha256-") ? format("sha256:{}", hex.substr(7)) : std::string();
  }

  bool fetch() {
    is_for_itself_ = true;
    auto image = image_of(one_.container.image, one_.fetch);
    is_for_itself_ = false;
    if (image.ok())
      image_ = std::move(*image);
    return image.ok();
  }

  // failure_ says why there is none.
  Result<StoredImage> image_of(const std::string& name, SandboxContainer::Fetch how) {
    const auto parsed = parse_image(name);
    if (!parsed.ok()) {
      fail("InvalidImageName", format("\"{}\" names no image: {}", name, parsed.error().message));
      return parsed.error();
    }
    const auto logins = logins_for(*parsed);
    using Fetch = SandboxContainer::Fetch;
    if (how != Fetch::kAlways)
      if (auto known = store_.known(name); known.ok() && store_.is_for(known->key, shown(logins)))
        return known;
    if (how == Fetch::kNever) {
      fail("ErrImageNeverPull", format("Container image \"{}\" is not present with pull policy of Never", name));
      return not_found(failure_.message);
    }
    if (is_for_itself_)
      tell_({.what = ContainerWord::What::kFetching});
    const std::int64_t began_us = steady_us();
    enter_network_of_node();
    const OpenFile turn = turn_to_fetch();
    auto fetched = fetch_as(*parsed, logins);
    if (!fetched.ok()) {
      fail("ErrImagePull",
           format("failed to pull image \"{}\": {}", plain_name(name), pull_words(fetched.error().message)));
      return fetched;
    }
    if (is_for_itself_)
      fetch_time_ = Duration{std::max<std::int64_t>(1, steady_us() - began_us)};
    store_.remember(name, fetched->key);
    return fetched;
  }

  // As whoever asked for it has named it.
  static std::string_view plain_name(std::string_view name) {
    constexpr std::string_view kRegistry = "docker://";
    return name.substr(name.starts_with(kRegistry) ? kRegistry.size() : 0);
  }

  // Held for as long as it fetches: of a node's containers a few do at a time, the others wait for their turn.
  OpenFile turn_to_fetch() const {
    (void)make_folders(ask_.home + "/turns");
    OpenFile held;
    for (int i = 0; i < kFetchesMax; ++i) {
      held = OpenFile(::open(format("{}/turns/{}", ask_.home, (i + ::getpid()) % kFetchesMax).c_str(),
                             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (held.valid() && ::flock(held.get(), LOCK_EX | LOCK_NB) == 0)
        return held;
    }
    while (held.valid() && ::flock(held.get(), LOCK_EX) != 0 && errno == EINTR) {}
    return held;
  }

  using Logins = std::vector<const FrontEndFiles::Login*>;

  Logins logins_for(const ImageReference& image) const {
    Logins out;
    const std::string name = format("{}/{}", image.registry, image.repository);
    for (const FrontEndFiles::Login& login : ask_.logins)
      if (image.source == ImageReference::Source::kRegistry && login_is_for(login.images, name))
        out.push_back(&login);
    return out;
  }

  static std::string words_of(const FrontEndFiles::Login& login) { return login.user + ":" + login.password; }
  static std::vector<std::string> shown(const Logins& logins) {
    std::vector<std::string> out;
    for (const FrontEndFiles::Login* login : logins) out.push_back(words_of(*login));
    return out;
  }

  // With each of the logins, and as whoever asks: what the last one was told, if all were refused.
  Result<StoredImage> fetch_as(ImageReference image, const Logins& logins) {
    if (!image.digest.empty())
      image.asks_always = !store_.is_for(store_.key_of(image.digest), shown(logins));
    for (const FrontEndFiles::Login* login : logins) {
      image.login = login->user;
      image.password = login->password;
      auto fetched = store_.fetch(image);
      if (!fetched.ok())
        continue;
      store_.note_login(fetched->key, words_of(*login));
      return fetched;
    }
    image.login.clear();
    image.password.clear();
    auto fetched = store_.fetch(image);
    if (fetched.ok() && (image.digest.empty() || image.asks_always))
      store_.note_login(fetched->key, "");
    return fetched;
  }

  // Its own folder is new: of a life there is one try after another.
  Result<void> build() {
    for (const char* part : {"rootfs", "sources", "upper", "work"}) {
      const std::string path = format("{}/{}", folder_, part);
      while (::umount2(path.c_str(), MNT_DETACH) == 0) {}
      TRY(make_folders(path));
    }
    ::chmod((folder_ + "/upper").c_str(), 0755);
    TRY(write_file(format("{}/{}", folder_, kImageOfLife), image_.key + "\n"));
    BoxPlan layers;
    layers.lower = {image_.rootfs};
    layers.upper = folder_ + "/upper";
    layers.work = folder_ + "/work";
    const std::string root = folder_ + "/rootfs";
    // Without the part for user namespaces: the marks of the overlay are root's own.
    std::string options = overlay_options(layers);
    options.resize(options.rfind(",userxattr"));
    if (::mount("overlay", root.c_str(), "overlay", MS_NODEV, options.c_str()) != 0)
      return os_error(format("cannot mount the image's layers on {}", root));
    const OpenFile inside(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    OciPlan plan = TRY(plan_process(inside.get()));
    TRY(plan_mounts(plan));
    std::vector<std::string> notes;
    plan.devices = devices_of_job(notes);
    TRY(settle_targets(inside.get(), plan));
    for (const std::string& note : notes) tell_line(note);
    for (const std::string& line : plan.devices.env) plan.env.push_back(line);
    plan.group = ask_.group;
    plan.process_space = ask_.process_space;
    plan.node_processes = ask_.sandbox.node_processes;
    plan.node_ipc = ask_.sandbox.node_ipc;
    plan.milli_cores = one_.milli_cores;
    // What asks for nothing has the least, as Kubernetes gives it.
    plan.cpu_weight = one_.cpu_weight == 0 && ask_.sandbox.front_end_files ? 1 : one_.cpu_weight;
    plan.memory_bytes = one_.memory_bytes;
    plan.oom_score = oom_score_of(one_.memory_bytes);
    TRY(read_filter(plan));
    auto config = oci_config(plan);
    if (!config.ok()) {
      fail("CreateContainerConfigError", config.error().message);
      return config.error();
    }
    TRY(write_file(folder_ + "/config.json", *config));
    return write_file(format("{}/{}", folder_, kProcessFile), TRY(oci_process_head(plan)));
  }

  Result<OciPlan> plan_process(int root) {
    OciPlan plan;
    plan.rights = one_.rights;
    plan.at_hand = 0;
    for (unsigned number = 0; number < 64; ++number)
      if (::prctl(PR_CAPBSET_READ, number, 0, 0, 0) > 0)
        plan.at_hand |= 1ull << number;
    plan.terminal = one_.terminal;
    const std::string passwd = read_in_root(root, "/etc/passwd", kUsersFileMax);
    const std::string group = read_in_root(root, "/etc/group", kUsersFileMax);
    auto user = find_image_user(image_.config.user, one_.rights.uid, passwd, group);
    if (!user.ok()) {
      fail("CreateContainerError", user.error().message);
      return user.error();
    }
    plan.user = std::move(*user);
    if (one_.rights.never_root && !may_run(plan.user))
      return denied(failure_.message);
    if (one_.rights.gid)
      plan.user.gid = *one_.rights.gid;
    std::vector<std::uint32_t>& groups = plan.user.groups;
    if (one_.rights.only_given_groups)
      groups.clear();
    groups.insert(groups.end(), one_.rights.groups.begin(), one_.rights.groups.end());
    if (ask_.sandbox.files_group)
      groups.push_back(*ask_.sandbox.files_group);
    user_ = plan.user;
    if (one_.container.entrypoint || one_.argv.empty())
      plan.argv = image_.config.entrypoint;
    plan.argv.insert(plan.argv.end(), one_.argv.begin(), one_.argv.end());
    if (one_.argv.empty())
      plan.argv.insert(plan.argv.end(), image_.config.command.begin(), image_.config.command.end());
    if (plan.argv.empty()) {
      failure_ = {ContainerWord::What::kFailed, "RunContainerError", "no command specified"};
      return invalid("no command specified");
    }
    plan.work_dir = one_.container.work_dir.empty() ? image_.config.work_dir : one_.container.work_dir;
    plan.env = image_.config.env;
    if (value_in(plan.env, "PATH").empty())
      set_in(plan.env, "PATH", kUsualPath);
    if (one_.terminal)
      set_in(plan.env, "TERM", "xterm");
    char host[256] = "";
    if (::gethostname(host, sizeof host - 1) == 0)
      set_in(plan.env, "HOSTNAME", host);
    tell_gpus(plan.env);
    for (const auto& [name, value] : one_.env) set_in(plan.env, name, value);
    if (value_in(plan.env, "HOME").empty())
      set_in(plan.env, "HOME", plan.user.home);
    return plan;
  }

  // Which GPUs of the node the job has, as programs outside of containers are told. Images for GPUs say "all".
  static void tell_gpus(std::vector<std::string>& env) {
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES"})
      if (const char* value = ::getenv(name); value && *value)
        set_in(env, name, value);
    if (const char* value = ::getenv("CUDA_VISIBLE_DEVICES"); value && *value)
      set_in(env, "NVIDIA_VISIBLE_DEVICES", value);
  }

  // Source: kubernetes.io/docs/tasks/configure-pod-container/security-context (runAsNonRoot): a name may be anybody's.
  bool may_run(const ImageUser& user) {
    const std::string_view name = std::string_view(image_.config.user).substr(0, image_.config.user.find(':'));
    if (!one_.rights.uid && !name.empty() && !parse_uint(name))
      fail("CreateContainerConfigError",
           format("container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root "
                  "(container: {})",
                  name, one_.name));
    else if (user.uid == 0)
      fail("CreateContainerConfigError",
           format("container has runAsNonRoot and image will run as root (container: {})", one_.name));
    else
      return true;
    return false;
  }

  const SandboxVolume* volume_of(std::string_view name) const {
    for (const SandboxVolume& volume : ask_.sandbox.volumes)
      if (volume.name == name)
        return &volume;
    return nullptr;
  }

  std::optional<SandboxVolume::Kind> kind_of(const Mount& mount) const {
    const std::string_view path = std::string_view(mount.source).substr(kVolumePrefix.size());
    const SandboxVolume* volume = volume_of(path.substr(0, path.find('/')));
    return volume ? std::optional(volume->kind) : std::nullopt;
  }

  // What lies in a volume, whatever links those who write there have made: bound to a place of ours, so that it is the
  // same when runc comes to it.
  Result<std::string> bind_source(const Mount& mount, std::size_t number) {
    const std::string_view path = std::string_view(mount.source).substr(kVolumePrefix.size());
    const std::size_t slash = path.find('/');
    const SandboxVolume* volume = volume_of(path.substr(0, slash));
    if (!volume)
      return not_found(format("there is no volume {}", path.substr(0, slash)));
    using Kind = SandboxVolume::Kind;
    std::string at = volume->kind == Kind::kHost ? TRY(path_of_lasting(volume->path, ask_.home))
                                                 : format("{}/volumes/{}", ask_.folder, volume->name);
    if (volume->kind == Kind::kImage) {
      using Fetch = SandboxContainer::Fetch;
      const std::string& how = volume->path_type;
      const StoredImage image = TRY(image_of(volume->path, how == "Always"  ? Fetch::kAlways
                                                           : how == "Never" ? Fetch::kNever
                                                                            : Fetch::kMissing));
      TRY(write_file(format("{}/{}.{}", folder_, kImageOfLife, volume->name), image.key + "\n"));
      at = image.rootfs;
    }
    const std::string below = slash == path.npos ? std::string() : std::string(path.substr(slash + 1));
    OpenFile source(::open(at.c_str(), O_PATH | O_CLOEXEC));
    if (!source.valid())
      return os_error(format("volume {}: {}", volume->name, at));
    if (!below.empty()) {
      OpenFile root = std::move(source);
      source = open_in_root(root.get(), below, O_PATH);
      if (!source.valid() && errno == ENOENT) {
        source = TRY(make_in_root(root.get(), below, Target::kFolder));
        settle_made(source.get(), root.get());
      }
      if (!source.valid())
        return os_error(format("failed to prepare subPath {} of volume {}", below, volume->name));
    }
    struct stat stat {};
    if (::fstat(source.get(), &stat) != 0)
      return os_error(at);
    const std::string place = format("{}/sources/{}", folder_, number);
    while (::umount2(place.c_str(), MNT_DETACH) == 0) {}
    if (S_ISDIR(stat.st_mode))
      TRY(make_folders(place));
    else
      TRY(write_file(place, ""));
    if (::mount(format("/proc/self/fd/{}", source.get()).c_str(), place.c_str(), nullptr, MS_BIND | MS_REC, nullptr) !=
        0)
      return os_error(format("cannot show volume {}", volume->name));
    return place;
  }

  // A folder that was missing is as open as the one it lies in.
  static void settle_made(int folder, int root) {
    struct stat stat {};
    if (::fstat(root, &stat) != 0)
      return;
    const std::string path = format("/proc/self/fd/{}", folder);
    [[maybe_unused]] const int owned = ::chown(path.c_str(), stat.st_uid, stat.st_gid);
    ::chmod(path.c_str(), (stat.st_mode & 07777) | 0750);
  }

  Result<void> plan_mounts(OciPlan& plan) {
    const auto mounts_at = [this](std::string_view target) {
      return std::any_of(one_.container.mounts.begin(), one_.container.mounts.end(),
                         [&](const Mount& mount) { return mount.target == target; });
    };
    for (const char* name : {"hosts", "hostname", "resolv.conf"})
      if (const std::string target = format("/etc/{}", name); !mounts_at(target))
        plan.mounts.push_back({format("{}/etc/{}", ask_.folder, name), target, one_.rights.read_only_root, {}});
    if (!ask_.sandbox.node_ipc)
      plan.shm = ask_.folder + "/shm";
    else
      plan.shm = "/dev/shm";
    std::size_t number = 0;
    for (const Mount& mount : one_.container.mounts) {
      OciMount out{mount.source, mount.target, mount.read_only, mount.options};
      if (mount.source.starts_with(kVolumePrefix)) {
        auto source = bind_source(mount, number++);
        if (!source.ok()) {
          if (failure_.reason.empty())
            fail("CreateContainerConfigError", source.error().message);
          return source.error();
        }
        out.source = std::move(*source);
        // What root writes into such a volume later goes where its names lead: nobody inside may change them. Source:
        // CVE-2017-1002102.
        if (kind_of(mount) == SandboxVolume::Kind::kFiles)
          out.read_only = true;
        if (kind_of(mount) == SandboxVolume::Kind::kImage) {
          out.read_only = true;
          out.options.insert(out.options.end(), {"nosuid", "nodev", "noexec"});
        }
      }
      plan.mounts.push_back(std::move(out));
    }
    if (!one_.message_file.empty()) {
      const std::string file = folder_ + "/message";
      TRY(write_file(file, "", 0666));
      ::chmod(file.c_str(), 0666);
      plan.mounts.push_back({file, one_.message_file, false, {}});
    }
    return {};
  }

  // Before runc makes what it mounts on. It makes devices and links in /dev by plain paths, which an image's own link
  // would lead to the node's folders. Where its mounts go it looks within the root, and is given places without links.
  Result<void> settle_targets(int root, OciPlan& plan) {
    for (const char* folder : kRuntimesFolders)
      if (TRY(settle_folder_in_root(root, folder)))
        replaced_.emplace_back(folder);
    std::vector<std::string> targets;  // what lies below one of them lies in what is mounted there
    for (const char* folder : {"/dev", "/proc", "/sys"}) targets.emplace_back(folder);
    for (OciMount& mount : plan.mounts) {
      const bool below = std::any_of(targets.begin(), targets.end(), [&](const std::string& other) {
        return mount.target.size() > other.size() && mount.target.starts_with(other) &&
               mount.target[other.size()] == '/';
      });
      struct stat stat {};
      if (below || ::stat(mount.source.c_str(), &stat) != 0)
        continue;
      const OpenFile at = TRY(make_in_root(root, mount.target, S_ISDIR(stat.st_mode) ? Target::kFolder : Target::kFile,
                                           Dangling::kReplaced));
      if (std::string place = path_in_root(at, root); !place.empty() && place != "/")
        mount.target = std::move(place);
      targets.push_back(mount.target);
    }
    return {};
  }

  // A name within the folder of the node's filters.
  Result<void> read_filter(OciPlan& plan) {
    const std::string& name = one_.rights.seccomp;
    if (name.empty() || name == "unconfined" || one_.rights.privileged)
      return {};
    const OpenFile folder(::open(kSeccompFolder, O_PATH | O_DIRECTORY | O_CLOEXEC));
    plan.seccomp = folder.valid() ? read_in_root(folder.get(), name, kSeccompMax) : std::string();
    if (!plan.seccomp.empty() && read_document(plan.seccomp, "seccomp filter").ok())
      return {};
    fail("CreateContainerError", format("there is no filter {}/{} of system calls on this node", kSeccompFolder, name));
    return not_found(failure_.message);
  }

  const BundleAsk& ask_;
  const std::function<void(const ContainerWord&)>& tell_;
  const SandboxContainer& one_;
  ImageStore store_;
  std::string folder_;
  StoredImage image_;
  ImageUser user_;
  std::vector<std::string> replaced_;  // what stood in the image where a folder must be
  bool is_for_itself_ = false;         // what is fetched is the container's own image, not a volume's
  Duration fetch_time_;
  Failure failure_;
};

}  // namespace

ContainerWord make_bundle(const BundleAsk& ask, const std::function<void(const ContainerWord&)>& tell) {
  return BundleMaker(ask, tell).make();
}

}  // namespace lockstep
