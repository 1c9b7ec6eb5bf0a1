#include "cli/node_fault.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "io/local/folder.h"
#include "io/local/state_dir.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kGpusMax = 64;
constexpr std::string_view kPlain[] = {"lost",
                                       "missing",
                                       "ecc",
                                       "throttle=thermal",
                                       "throttle=sw_thermal",
                                       "throttle=power",
                                       "throttle=power_brake",
                                       "remap=pending",
                                       "remap=failure"};
struct Numbered {
  std::string_view name;
  std::uint64_t least, most;
};
constexpr Numbered kNumbered[] = {
    {"xid", 1, 999}, {"ecc", 0, 1'000'000'000}, {"ecc_corrected", 0, 1'000'000'000}, {"link", 0, 17}};

// The library writes the same file when somebody changes a GPU through it, under the same lock.
struct FileLock {
  int fd = -1;
  ~FileLock() {
    if (fd >= 0)
      close(fd);
  }
};

bool is_fault_of(std::string_view line, std::uint64_t gpu) {
  const auto equals = line.find('=');
  const auto words = equals == line.npos ? std::vector<std::string>() : split_words(line.substr(equals + 1));
  return !words.empty() && trim(line.substr(0, equals)) == "fault" && words[0] == std::to_string(gpu);
}

std::optional<std::uint64_t> gpu_count_in(const std::string& text) {
  for (const std::string& line : split(text, '\n'))
    if (const auto equals = line.find('='); equals != line.npos && trim(line.substr(0, equals)) == "count")
      return parse_uint(trim(line.substr(equals + 1)));
  return std::nullopt;
}

}  // namespace

bool is_gpu_fault(std::string_view fault) {
  if (std::find(std::begin(kPlain), std::end(kPlain), fault) != std::end(kPlain))
    return true;
  const auto equals = fault.find('=');
  const auto number = equals == fault.npos ? std::nullopt : parse_uint(fault.substr(equals + 1));
  return number && std::any_of(std::begin(kNumbered), std::end(kNumbered), [&](const Numbered& known) {
           return known.name == fault.substr(0, equals) && *number >= known.least && *number <= known.most;
         });
}

std::string with_gpu_faults(const std::string& text, std::uint64_t gpu, const std::vector<std::string>& faults) {
  std::string out;
  const bool mended = faults == std::vector<std::string>{"none"};
  for (const auto& line : split(text, '\n'))
    if (!line.empty() && !(mended && is_fault_of(line, gpu)))
      out += line + "\n";
  if (!mended)
    for (const auto& fault : faults) out += format("fault = {} {}\n", gpu, fault);
  return out;
}

Result<void> add_gpu_faults(const ClusterDir& dir, const std::vector<std::string>& words) {
  if (words.size() < 3)
    return invalid(
        "say which node, which of its GPUs by number, and what happens to it: lockstep node fault n1 0 xid=79");
  const std::string& node = words[0];
  const auto gpu = parse_uint(words[1]);
  if (!is_node_name(node))
    return invalid(format("{} is no name of a node", node));
  if (!gpu || *gpu >= kGpusMax)
    return invalid(format("{} is no number of a GPU", words[1]));
  const std::vector<std::string> faults(words.begin() + 2, words.end());
  for (const auto& fault : faults)
    if (!is_gpu_fault(fault) && faults != std::vector<std::string>{"none"})
      return invalid(
          format("{} is no fault that a simulated GPU can have: xid=N, lost, missing, ecc=N, ecc_corrected=N, "
                 "link=N, throttle=thermal|sw_thermal|power|power_brake, remap=pending|failure, or none alone",
                 fault));
  const auto folder = Folder::open(absolute_path(dir.node_dir(node)));
  if (!folder && folder.error().code == Errc::kNotFound)
    return not_found(format("{} is not a node that `lockstep up` made in {}", node, dir.root));
  if (!folder)
    return folder.error();
  const FileLock lock{openat(folder->fd(), "gpus.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (lock.fd < 0 || flock(lock.fd, LOCK_EX) != 0)
    return os_error(format("cannot lock {}/gpus.lock", folder->path()));
  const auto text = folder->read("gpus");
  if (!text)
    return text.error().code == Errc::kNotFound ? not_found(format("{} has no simulated GPUs", node)) : text.error();
  if (const auto count = gpu_count_in(*text); !count)
    return invalid(format("{}/gpus does not say how many GPUs there are (count = N)", folder->path()));
  else if (*gpu >= *count)
    return invalid(format("{} has {} GPUs: there is no number {}", node, *count, *gpu));
  return folder->write("gpus", with_gpu_faults(*text, *gpu, faults), 0644);
}

}  // namespace lockstep
