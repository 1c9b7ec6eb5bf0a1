#include "frontends/kube/kinds/node_pressure.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace lockstep::kube {

namespace {

struct ConditionWords {
  const char *type, *taint, *has, *has_message, *lacks, *lacks_message;
};
constexpr ConditionWords kMemoryWords{"MemoryPressure",
                                      kMemoryTaint,
                                      "KubeletHasSufficientMemory",
                                      "kubelet has sufficient memory available",
                                      "KubeletHasInsufficientMemory",
                                      "kubelet has insufficient memory available"};
constexpr ConditionWords kDiskWords{"DiskPressure",
                                    "node.kubernetes.io/disk-pressure",
                                    "KubeletHasNoDiskPressure",
                                    "kubelet has no disk pressure",
                                    "KubeletHasDiskPressure",
                                    "kubelet has disk pressure"};
constexpr ConditionWords kPidWords{"PIDPressure",
                                   "node.kubernetes.io/pid-pressure",
                                   "KubeletHasSufficientPID",
                                   "kubelet has sufficient PID available",
                                   "KubeletHasInsufficientPID",
                                   "kubelet has insufficient PID available"};
constexpr const ConditionWords* kAll[] = {&kMemoryWords, &kDiskWords, &kPidWords};

const ConditionWords& condition_words_of(Shortage::What what) {
  return what == Shortage::What::kMemory ? kMemoryWords : what == Shortage::What::kProcesses ? kPidWords : kDiskWords;
}

}  // namespace

std::vector<PressureCondition> pressures_of(const Node& node) {
  std::vector<PressureCondition> out;
  for (const ConditionWords* words : kAll) {
    PressureCondition one{words->type, words->taint, false, {}, words->has, words->has_message};
    for (const Shortage& shortage : node.shortages) {
      if (&condition_words_of(shortage.what) != words)
        continue;
      one.since = one.is ? std::min(one.since, shortage.since) : shortage.since;
      one.is = true;
      one.reason = words->lacks;
      one.message = words->lacks_message;
    }
    out.push_back(one);
  }
  return out;
}

bool is_pressure_taint(std::string_view key) {
  return std::ranges::any_of(kAll, [&](const ConditionWords* words) { return key == words->taint; });
}

const char* starved_resource(Shortage::What what) {
  switch (what) {
    case Shortage::What::kMemory: return "memory";
    case Shortage::What::kDisk:
    case Shortage::What::kImages: return kEphemeralStorage;
    case Shortage::What::kDiskFiles:
    case Shortage::What::kImageFiles: return "inodes";
    case Shortage::What::kProcesses: return "pids";
  }
  return "";
}

std::string binary_quantity(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return format("{}{}", bytes, kUnits[unit]);
}

std::string shortage_words(const Shortage& shortage) {
  using enum Shortage::What;
  const bool bytes = shortage.what == kMemory || shortage.what == kDisk || shortage.what == kImages;
  // A figure to the byte would say nothing more.
  const auto text = [bytes](std::int64_t amount) {
    constexpr std::int64_t kKi = 1024;
    return bytes ? binary_quantity(amount >= kKi ? amount / kKi * kKi : amount) : std::to_string(amount);
  };
  return format("The node was low on resource: {}. Threshold quantity: {}, available: {}. ",
                starved_resource(shortage.what), text(shortage.threshold), text(shortage.available));
}

}  // namespace lockstep::kube
