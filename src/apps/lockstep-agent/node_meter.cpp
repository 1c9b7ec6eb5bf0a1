#include "node_meter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "shim/sandbox_disk.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr Duration kMeasureContainersEvery = seconds(10);  // at most between two looks: who scales by them waits for it
constexpr Duration kFirstLook = seconds(2);                // at what has just started
constexpr Duration kGpuTimeMost = seconds(10);             // that one sample speaks for
constexpr Duration kDriverPatience = seconds(60);
constexpr Duration kOpenAgain = seconds(30);     // a library that could not be opened
constexpr Duration kDevicesEvery = seconds(30);  // at least; the node's health may ask for more
// GPUs that came or went show to who opens the driver anew, which takes long where nobody keeps it loaded.
constexpr int kOpenAnewEvery = 10;
constexpr std::size_t kLinesMost = 8 << 20;

std::string lines_path(const AgentFile& settings) {
  return (settings.run_dir.empty() ? settings.state_dir : settings.run_dir) + "/use";
}

// Whole or not at all, as far as whoever reads it is concerned.
Result<void> replace_lines(const std::string& path, const std::vector<std::string>& lines) {
  const std::string fresh = path + ".new", text = join(lines, "\n") + "\n";
  const int fd = TRY(open_plain(fresh, O_WRONLY | O_CREAT | O_TRUNC));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  if (!written || ::rename(fresh.c_str(), path.c_str()) != 0)
    return os_error(path);
  return {};
}

// Behind these nothing that computes on the GPU goes on. Of other errors the work itself hears, if they are its own.
bool ends_work(std::uint32_t xid) {
  constexpr std::uint32_t kEnding[] = {62, 79, 95, 119, 120, 140, 143};
  return std::find(std::begin(kEnding), std::end(kEnding), xid) != std::end(kEnding);
}

}  // namespace

std::string gpu_loss(const GpuSample& sample) {
  const auto xid = std::find_if(sample.xids.begin(), sample.xids.end(), ends_work);
  const std::string name =
      sample.uuid.empty() ? format("GPU {}", sample.index) : format("GPU {} ({})", sample.index, sample.uuid);
  if (xid != sample.xids.end())
    return format("{} {}Xid {}", name,
                  *xid == 79 || !sample.answers ? "has fallen off the bus: " : "has failed: ", *xid);
  return sample.answers ? std::string() : name + " does not answer any more";
}

// What sandboxes of root's have on the disk: logs and layers of each container, and with the first of them its volumes.
static std::vector<std::int64_t> disks_of(const WorkLook& work, const std::string& home) {
  const std::string folder = sandbox_folder(home, work.key);
  std::vector<std::int64_t> out;
  for (const ContainerLook& one : work.containers)
    out.push_back(static_cast<std::int64_t>(bytes_of_container(container_folder(folder, one.name)) +
                                            (out.empty() ? bytes_in_folder(folder + "/volumes") : 0)));
  return out;
}

struct NodeMeter::Seen {
  bool has_work = false, has_gpus = false;
  std::optional<Result<std::vector<Device>>> devices;
  std::vector<WorkLook> work;
  std::vector<std::vector<std::int64_t>> disks;  // of the containers of each; empty: not looked at
  std::vector<GpuSample> gpus;
  std::vector<GpuShare> shares;
  std::uint32_t load = 0;
  std::int64_t free_mb = 0, used_mb = 0;
  Duration cpu;
  Instant looked;
};

struct NodeMeter::Eyes {
  WorkLooks looks;
  std::unique_ptr<DeviceSource> source;
  std::optional<GpuSampler> sampler;
  Instant opened;
  int lists = 0;

  void see_gpus(Seen& seen, Instant now) {
    if (!sampler && (!opened || now - opened >= kOpenAgain)) {
      opened = now;
      if (auto made = GpuSampler::open(); made.ok())
        sampler.emplace(std::move(*made));
    }
    if (!sampler)
      return;
    seen.has_gpus = true;
    seen.gpus = sampler->sample();
    seen.shares = gpu_shares(seen.gpus, [this](pid_t pid) { return looks.work_of(pid); });
  }
  void see_devices(Seen& seen) {
    if (++lists % kOpenAnewEvery == 0) {
      sampler.reset();
      opened = {};
    }
    seen.devices = source->list();
  }
  void see_work(Seen& seen, Instant now, const std::string& disks_below) {
    seen.has_work = true;
    seen.work = looks.look();
    if (!disks_below.empty())
      for (const WorkLook& work : seen.work) seen.disks.push_back(disks_of(work, disks_below));
    seen.load = load_percent();
    seen.free_mb = memory_free_mb();
    seen.used_mb = memory_used_mb();
    seen.cpu = processors_busy();
    seen.looked = now;
  }
};

NodeMeter::NodeMeter(EventLoop& loop, const Clock& clock, const AgentFile& settings,
                     std::shared_ptr<const Cgroups> groups, std::unique_ptr<DeviceSource> source, std::size_t devices,
                     Asks asks)
    : loop_(loop),
      clock_(clock),
      settings_(settings),
      asks_(std::move(asks)),
      eyes_(new Eyes{WorkLooks(settings.run_dir, std::move(groups)), std::move(source), std::nullopt, {}}),
      gpus_(devices),
      errand_(loop) {
  if (const auto before = read_plain(lines_path(settings_), Links::kRefused, kLinesMost); before.ok())
    book_.restore(split(*before, '\n'));
}

NodeMeter::~NodeMeter() = default;

Duration NodeMeter::devices_every() const {
  const std::uint32_t look_s = settings_.health.look_s;
  return look_s > 0 ? std::min(kDevicesEvery, seconds(look_s)) : kDevicesEvery;
}

void NodeMeter::start() {
  work_due_ = clock_.boot() + kFirstLook;
  devices_due_ = clock_.boot() + devices_every();
  tick();
}

void NodeMeter::look_soon() { work_due_ = std::min(work_due_, clock_.boot() + kFirstLook); }

void NodeMeter::tick() {
  loop_.after(seconds(std::max(1U, gpus_.empty() ? 1 : settings_.sampling.gpus_s)), [this] { tick(); });
  if (!errand_.is_out())
    return look();
  const Instant now = clock_.boot();
  if (!gpus_asked_ || now - begun_ < kDriverPatience || now < devices_due_)
    return;
  devices_due_ = now + devices_every();
  asks_.devices(
      Error{Errc::kUnavailable, format("NVIDIA's driver has not answered for {} s", (now - begun_).seconds()), {}});
}

void NodeMeter::look() {
  const Instant now = clock_.boot();
  const bool work = now >= work_due_, devices = now >= devices_due_;
  const bool gpus = !gpus_.empty() && settings_.sampling.gpus_s > 0;
  if (!work && !devices && !gpus)
    return;
  if (work)
    work_due_ = now + seconds(settings_.sampling.work_s);
  if (devices)
    devices_due_ = now + devices_every();
  begun_ = now;
  gpus_asked_ = gpus || devices;
  auto seen = std::make_shared<Seen>();
  const auto begun = errand_.start(
      [seen, eyes = eyes_, work, devices, gpus, now,
       below = disks_ ? settings_.state_dir + "/containers/0" : std::string()]() -> Result<void> {
        if (gpus)
          eyes->see_gpus(*seen, now);
        if (devices)
          eyes->see_devices(*seen);
        if (work)
          eyes->see_work(*seen, now, below);
        return {};
      },
      [this, seen](const Result<void>&) { take(*seen); });
  if (!begun)
    log_line(LogLevel::kWarning, "lockstep-agent: what runs is not looked at: " + begun.error().message);
}

void NodeMeter::take(const Seen& seen) {
  if (seen.has_gpus)
    take_gpus(seen);
  if (seen.devices) {
    if (seen.devices->ok())
      gpus_.resize(std::max(gpus_.size(), (*seen.devices)->size()));
    asks_.devices(*seen.devices);
  }
  if (!seen.has_work)
    return;
  book_.see(seen.work);
  keep_lines();
  Telemetry told{seen.load, seen.free_mb, book_.take_devices(), book_.work()};
  told.seen_boot_us = seen.looked.us;
  told.cpu = seen.cpu;
  told.memory_used_mb = seen.used_mb;
  for (std::size_t w = 0; w < seen.work.size(); ++w)
    for (std::size_t c = 0; c < seen.work[w].containers.size(); ++c) {
      const WorkLook& work = seen.work[w];
      const ContainerLook& one = work.containers[c];
      told.containers.push_back({work.key.job, work.key.attempt, work.key.part, one.name, one.cpu, one.memory,
                                 w < seen.disks.size() ? seen.disks[w][c] : -1});
    }
  if (!told.containers.empty())
    work_due_ = std::min(work_due_, clock_.boot() + kMeasureContainersEvery);
  asks_.measured(std::move(told));
}

void NodeMeter::take_gpus(const Seen& seen) {
  const Instant now = clock_.boot();
  const Duration since = gpus_seen_ ? now - gpus_seen_ : seconds(settings_.sampling.gpus_s);
  gpus_seen_ = now;
  book_.see(seen.gpus, seen.shares, std::min(since, kGpuTimeMost));
  gpus_.resize(std::max(gpus_.size(), seen.gpus.size()));
  bool news = false;
  for (const GpuSample& sample : seen.gpus) news = take_fault(sample) || news;
  if (!news)
    return;
  devices_due_ = clock_.boot();
  look();
}

// Its first words stay, because they name the cause. Where the driver does not say what a GPU needs, an Xid counts
// until the GPU was away and is back.
bool NodeMeter::take_fault(const GpuSample& sample) {
  Gpu& gpu = gpus_[sample.index];
  for (const std::uint32_t xid : sample.xids)
    log_line(LogLevel::kWarning, format("lockstep-agent: GPU {} ({}): Xid {}", sample.index, sample.uuid, xid));
  const std::string loss = gpu_loss(sample);
  const bool was_silent = std::exchange(gpu.silent, !sample.answers), was_told = std::exchange(gpu.told, !loss.empty());
  std::string fault = loss;
  if (fault.empty() && sample.recovery != GpuRecovery::kNone && sample.recovery != GpuRecovery::kUnknown)
    fault = format("GPU {} ({}) needs this: {}", sample.index, sample.uuid, GpuSampler::recovery_text(sample.recovery));
  const bool still = !fault.empty() || (sample.recovery == GpuRecovery::kUnknown && !was_silent);
  if (still && !gpu.fault.empty())
    fault = gpu.fault;
  const bool news = fault != gpu.fault || !sample.xids.empty();
  gpu.fault = std::move(fault);
  if (!loss.empty() && !was_told)
    asks_.broken(sample.index, loss);
  return news;
}

void NodeMeter::keep_lines() {
  if (const auto kept = replace_lines(lines_path(settings_), book_.lines()); !kept.ok())
    log_line(LogLevel::kWarning, "lockstep-agent: what runs has used so far is not kept: " + kept.error().message);
}

WorkUse NodeMeter::complete(const WorkId& key, const WorkUse& counted) {
  const WorkUse use = book_.complete(key, counted);
  book_.forget(key);
  return use;
}

}  // namespace lockstep
