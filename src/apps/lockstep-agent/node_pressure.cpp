#include "node_pressure.h"

#include "base/log_line.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMoreShare = 20;  // one part in so many of the disk is freed beyond what is lacking

bool is_of_disk(Shortage::What what) { return what != Shortage::What::kMemory && what != Shortage::What::kProcesses; }

// Nodes that share a machine are measured by their own work alone.
StockAsk ask_of(const AgentFile& settings, std::shared_ptr<const Cgroups> groups) {
  const bool shares_machine = !settings.cluster_dir.empty();
  StockAsk ask;
  ask.disk_mb = settings.pressure.disk_mb;
  if (!shares_machine || ask.disk_mb > 0)
    ask.disk = settings.state_dir;
  ask.memory_mb = shares_machine ? settings.memory_mb : 0;
  ask.groups = std::move(groups);
  ask.processes = !settings.pressure.processes.empty();
  return ask;
}

std::vector<Stock> stocks_of(const Stocks& seen) {
  using enum Shortage::What;
  std::vector<Stock> out;
  const auto add = [&out](Shortage::What what, const std::optional<StockOf>& one) {
    if (one)
      out.push_back({what, one->available, one->total});
  };
  add(kMemory, seen.memory);
  add(kDisk, seen.disk);
  add(kDiskFiles, seen.files);
  add(kImages, seen.disk);
  add(kImageFiles, seen.files);
  add(kProcesses, seen.processes);
  return out;
}

}  // namespace

PressureWatch::PressureWatch(EventLoop& loop, const Clock& clock, const AgentFile& settings,
                             std::shared_ptr<const Cgroups> groups, Asks asks)
    : loop_(loop),
      clock_(clock),
      settings_(settings),
      asks_(std::move(asks)),
      book_(settings.pressure),
      ask_(ask_of(settings, std::move(groups))),
      errand_(loop) {}

void PressureWatch::start() {
  if (settings_.pressure.look_s > 0)
    look();
}

void PressureWatch::look_later() {
  loop_.after(seconds(settings_.pressure.look_s), [this] { look(); });
}

void PressureWatch::look() {
  auto seen = std::make_shared<Stocks>();
  const auto begun = errand_.start(
      [seen, ask = ask_]() -> Result<void> {
        *seen = look_at_stocks(ask);
        return {};
      },
      [this, seen](const Result<void>&) {
        take(*seen);
        look_later();
      });
  if (!begun)
    look_later();
}

void PressureWatch::take(const Stocks& seen) {
  std::vector<Stock> stocks = stocks_of(seen);
  std::int64_t lacks = 0;
  for (const Stock& stock : stocks)
    if (is_of_disk(stock.what) && book_.is_short(stock))
      lacks = std::max(lacks, (stock.what == Shortage::What::kDisk || stock.what == Shortage::What::kImages
                                   ? book_.threshold(stock) - stock.available
                                   : 0) +
                                  (seen.disk ? seen.disk->total / kMoreShare : 0) + 1);
  if (lacks > 0 && !images_dropped_) {
    log_line(LogLevel::kWarning,
             format("lockstep-agent: the disk runs short: images that nobody uses go, {} MiB at most", lacks >> 20));
    asks_.drop_images(static_cast<std::uint64_t>(lacks));
    std::erase_if(stocks, [](const Stock& stock) { return is_of_disk(stock.what); });  // the next look tells
  }
  images_dropped_ = lacks > 0;
  if (!book_.take(stocks, clock_.boot()))
    return;
  asks_.told(book_.all());
}

}  // namespace lockstep
