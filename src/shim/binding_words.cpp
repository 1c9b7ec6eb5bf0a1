#include "shim/binding_words.h"

#include <sched.h>

#include <algorithm>

#include "base/text.h"
#include "model/binding_note.h"

namespace lockstep {

namespace {

// Bits from the highest that is set on, as hexadecimal digits.
template <class Set>
std::string hexadecimal(const Set& bits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::vector<unsigned> digits(1);
  bits.for_each([&](std::uint32_t bit) {
    if (digits.size() <= bit / 4)
      digits.resize(bit / 4 + 1);
    digits[bit / 4] |= 1u << bit % 4;
  });
  std::string out = "0x";
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) out += kDigits[*digit];
  return out;
}

// The processors of who is not bound: those of whoever starts it.
CoreSet own_processors() {
  CoreSet out;
  cpu_set_t own;
  CPU_ZERO(&own);
  if (::sched_getaffinity(0, sizeof own, &own) == 0)
    for (std::uint32_t core = 0; core < std::min<std::uint32_t>(CoreSet::kCapacity, CPU_SETSIZE); ++core)
      if (CPU_ISSET(core, &own))
        out.set(core);
  return out;
}

std::string line(std::string_view what, std::string_view kind, const BoundTask& task, const std::string& mask,
                 bool is_set) {
  return format("{}={} - {}, task {:2} {:2} [\x01p]: mask {}{}\n", what, kind, task.node, task.rank, task.local, mask,
                is_set ? " set" : "");
}

std::string memory_line(const BoundTask& task) {
  using Mode = MemoryPolicy::Mode;
  switch (task.memory.mode) {
    case Mode::kNone: return line("mem-bind", "NONE", task, "0x0", false);
    case Mode::kLocal: return line("mem-bind", "LOC", task, "0x0", true);
    case Mode::kBound:
    case Mode::kPreferred: return line("mem-bind", "MASK", task, hexadecimal(task.memory.nodes), true);
  }
  return {};
}

}  // namespace

std::string binding_words(const std::vector<std::string>& variables, const BoundTask& task) {
  const auto asks = [&](std::string_view variable) {
    return std::find(variables.begin(), variables.end(), variable) != variables.end();
  };
  std::string out;
  if (asks("SLURM_CPU_BIND_VERBOSE=verbose"))
    out += task.cores.any() ? line("cpu-bind", "MASK", task, hexadecimal(task.cores), true)
                            : line("cpu-bind", "NONE", task, hexadecimal(own_processors()), false);
  if (asks("SLURM_MEM_BIND_VERBOSE=verbose"))
    out += memory_line(task);
  if (!task.gpus.empty())
    out += format("gpu-bind: {}\n", task.gpus);
  return out;
}

std::string take_gpu_binding(std::vector<std::string>& variables) {
  const std::string begin = std::string(kGpuBindingVariable) + "=";
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [&](const std::string& variable) { return variable.starts_with(begin); });
  if (found == variables.end())
    return {};
  std::string text = found->substr(begin.size());
  variables.erase(found);
  return text;
}

}  // namespace lockstep
