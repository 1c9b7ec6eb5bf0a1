#include "io/shortage_looks.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "shim/sandbox_disk.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

// Of /proc/meminfo, in bytes.
std::optional<std::int64_t> of_memory(std::string_view word) {
  const auto text = read_plain("/proc/meminfo", Links::kFollowed);
  if (!text.ok())
    return std::nullopt;
  for (const std::string& line : split(*text, '\n')) {
    const auto words = split_words(line);
    if (words.size() >= 2 && words[0] == word)
      if (const auto kib = parse_int(words[1]))
        return *kib * 1024;
  }
  return std::nullopt;
}

// A part of a machine is measured by what its own work holds: its neighbours are none of its business.
std::optional<StockOf> memory_of(const StockAsk& ask) {
  const auto available = of_memory("MemAvailable:"), total = of_memory("MemTotal:");
  if (!available || !total)
    return std::nullopt;
  if (ask.memory_mb <= 0)
    return StockOf{*available, *total};
  if (!ask.groups)
    return std::nullopt;
  const std::int64_t own = ask.memory_mb * kMebibyte;
  return StockOf{std::max<std::int64_t>(0, own - ask.groups->memory_held()), own};
}

void look_at_own_disk(const StockAsk& ask, Stocks& out) {
  struct statvfs disk {};
  if (ask.disk.empty() || ::statvfs(ask.disk.c_str(), &disk) != 0)
    return;
  const auto block = static_cast<std::int64_t>(disk.f_frsize);
  out.disk =
      StockOf{static_cast<std::int64_t>(disk.f_bavail) * block, static_cast<std::int64_t>(disk.f_blocks) * block};
  if (disk.f_files > 0)
    out.files = StockOf{static_cast<std::int64_t>(disk.f_favail), static_cast<std::int64_t>(disk.f_files)};
  if (ask.disk_mb <= 0)
    return;
  const std::int64_t own = ask.disk_mb * kMebibyte, taken = static_cast<std::int64_t>(bytes_in_folder(ask.disk));
  out.disk = StockOf{std::clamp<std::int64_t>(own - taken, 0, out.disk->available), own};
}

// Threads count: they have numbers, too.
std::optional<StockOf> processes_of() {
  const auto most = read_plain("/proc/sys/kernel/pid_max", Links::kFollowed);
  const auto load = read_plain("/proc/loadavg", Links::kFollowed);  // "… 2/463 9812": running and all
  if (!most.ok() || !load.ok())
    return std::nullopt;
  const auto words = split_words(*load);
  const auto total = parse_int(trim(*most));
  const auto slash = words.size() < 4 ? std::string::npos : words[3].find('/');
  const auto taken = slash == std::string::npos ? std::nullopt : parse_int(words[3].substr(slash + 1));
  if (!total || !taken)
    return std::nullopt;
  return StockOf{std::max<std::int64_t>(0, *total - *taken), *total};
}

}  // namespace

Stocks look_at_stocks(const StockAsk& ask) {
  Stocks out;
  out.memory = memory_of(ask);
  look_at_own_disk(ask, out);
  if (ask.processes)
    out.processes = processes_of();
  return out;
}

}  // namespace lockstep
