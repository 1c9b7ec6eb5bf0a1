#include "frontends/slurm/server/cpu_binding.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace lockstep::slurm {

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

std::uint32_t socket_of(std::uint32_t core, const BindingPlace& place) {
  const std::uint32_t each = std::max(1u, place.node_cores / std::max(1u, place.node_sockets));
  return core / each;
}

// The step's cores socket by socket.
std::vector<std::vector<std::uint32_t>> by_socket(const BindingPlace& place) {
  std::vector<std::vector<std::uint32_t>> sockets;
  place.cores.for_each([&](std::uint32_t core) {
    const std::uint32_t socket = socket_of(core, place);
    if (sockets.size() <= socket)
      sockets.resize(socket + 1);
    sockets[socket].push_back(core);
  });
  std::erase_if(sockets, [](const auto& cores) { return cores.empty(); });
  return sockets;
}

// Its cores, for each task in turn. When all are given away it begins anew: tasks then share (--overcommit).
class Dealer {
 public:
  explicit Dealer(const BindingPlace& place) : place_(place), full_(by_socket(place)), left_(full_) {}

  CoreSet deal() {
    CoreSet out;
    std::uint32_t wanted = std::max(1u, place_.cores_per_task);
    if (std::all_of(left_.begin(), left_.end(), [](const auto& cores) { return cores.empty(); }))
      left_ = full_, next_ = 0;
    if (place_.fcyclic)
      return deal_round(wanted);
    if (place_.cyclic)
      next_ = whole_socket(wanted);
    for (std::size_t looked = 0; wanted > 0 && looked < left_.size(); ++looked) {
      auto& cores = left_[(next_ + looked) % left_.size()];
      while (wanted > 0 && !cores.empty()) {
        out.set(cores.front());
        cores.erase(cores.begin());
        --wanted;
      }
    }
    if (place_.cyclic)
      next_ = (next_ + 1) % left_.size();
    return out;
  }

 private:
  CoreSet deal_round(std::uint32_t wanted) {
    CoreSet out;
    for (std::size_t empty = 0; wanted > 0 && empty < left_.size(); next_ = (next_ + 1) % left_.size()) {
      auto& cores = left_[next_];
      empty = cores.empty() ? empty + 1 : 0;
      if (cores.empty())
        continue;
      out.set(cores.front());
      cores.erase(cores.begin());
      --wanted;
    }
    return out;
  }

  // The next one that has room for a whole task, else the next one.
  std::size_t whole_socket(std::uint32_t wanted) const {
    for (std::size_t i = 0; i < left_.size(); ++i)
      if (left_[(next_ + i) % left_.size()].size() >= wanted)
        return (next_ + i) % left_.size();
    return next_;
  }

  const BindingPlace& place_;
  const std::vector<std::vector<std::uint32_t>> full_;
  std::vector<std::vector<std::uint32_t>> left_;
  std::size_t next_ = 0;
};

CoreSet within(const CoreSet& asked, const BindingPlace& place) {
  const CoreSet both = asked & place.cores;
  return both.any() ? both : place.cores;
}

CoreSet whole_sockets(const CoreSet& cores, const BindingPlace& place) {
  CoreSet out;
  place.cores.for_each([&](std::uint32_t core) {
    bool shared = false;
    cores.for_each([&](std::uint32_t mine) { shared |= socket_of(mine, place) == socket_of(core, place); });
    if (shared)
      out.set(core);
  });
  return out;
}

CoreSet of_socket(std::uint64_t socket, const BindingPlace& place) {
  CoreSet out;
  for (std::uint32_t core = 0; core < std::min(place.node_cores, CoreSet::kCapacity); ++core)
    if (socket_of(core, place) == socket)
      out.set(core);
  return out;
}

// Decimal, or hexadecimal behind "0x".
std::uint64_t number_of(std::string_view word) {
  if (!word.starts_with("0x"))
    return parse_uint(word).value_or(UINT64_MAX);
  std::uint64_t number = UINT64_MAX;
  word.remove_prefix(2);
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number, 16);
  return read.ec == std::errc{} && read.ptr == word.data() + word.size() ? number : UINT64_MAX;
}

CoreSet of_mask(std::string_view word) {
  CoreSet out;
  if (word.starts_with("0x") || word.starts_with("0X"))
    word.remove_prefix(2);
  std::uint32_t bit = 0;
  for (std::size_t i = word.size(); i-- > 0 && bit < CoreSet::kCapacity; bit += 4) {
    const auto digit = kHexDigits.find(static_cast<char>(word[i] >= 'A' && word[i] <= 'F' ? word[i] + 32 : word[i]));
    for (std::uint32_t k = 0; digit != kHexDigits.npos && k < 4; ++k)
      if ((digit >> k & 1) != 0 && bit + k < CoreSet::kCapacity)
        out.set(bit + k);
  }
  return out;
}

CoreSet of_core(std::uint64_t core) {
  CoreSet out;
  if (core < CoreSet::kCapacity)
    out.set(static_cast<std::uint32_t>(core));
  return out;
}

// "mask_cpu" and its list; "1*3" stands for "1,1,1".
struct Words {
  std::string kind;
  std::vector<std::string> list;
};
Words words_of(std::string_view binding) {
  constexpr std::size_t kListMost = 4096;  // tasks of a step on a node
  Words out;
  for (const std::string& part : split(binding, ',')) {
    const auto colon = part.find(':');
    const std::string word = lower(part.substr(0, colon));
    if (out.list.empty() && colon != std::string::npos) {
      out.kind = word;
      out.list.push_back(part.substr(colon + 1));
    } else if (!out.list.empty()) {
      out.list.push_back(part);
    } else if (word != "q" && word != "quiet" && word != "v" && word != "verbose") {
      out.kind = word;
    }
  }
  std::vector<std::string> whole;
  for (const std::string& item : out.list) {
    const auto star = item.find('*');
    const std::uint64_t times = star == std::string::npos ? 1 : parse_uint(item.substr(star + 1)).value_or(1);
    for (std::uint64_t i = 0; i < times && whole.size() < kListMost; ++i) whole.push_back(item.substr(0, star));
  }
  out.list = std::move(whole);
  return out;
}

}  // namespace

std::vector<CoreSet> bound_cores(std::string_view binding, const BindingPlace& place) {
  const Words words = words_of(binding);
  const bool mapped = words.kind.starts_with("map_") || words.kind.starts_with("mask_");
  if (!place.cores.any() || (mapped && words.list.empty()))
    return {};
  std::vector<CoreSet> out;
  Dealer dealer(place);
  for (std::uint32_t task = 0; task < place.tasks; ++task) {
    const std::string word = mapped ? words.list[task % words.list.size()] : std::string();
    if (words.kind == "cores" || words.kind == "core" || words.kind == "threads" || words.kind == "thread")
      out.push_back(dealer.deal());
    else if (words.kind == "sockets" || words.kind == "socket" || words.kind == "ldoms" || words.kind == "ldom")
      out.push_back(whole_sockets(dealer.deal(), place));
    else if (words.kind == "rank")
      out.push_back(within(of_core(task), place));
    else if (words.kind == "rank_ldom")
      out.push_back(within(of_socket(task % std::max(1u, place.node_sockets), place), place));
    else if (words.kind == "map_cpu")
      out.push_back(within(of_core(number_of(word)), place));
    else if (words.kind == "mask_cpu")
      out.push_back(within(of_mask(word), place));
    else if (words.kind == "map_ldom")
      out.push_back(within(of_socket(number_of(word), place), place));
    else if (words.kind == "mask_ldom") {
      CoreSet sockets;
      of_mask(word).for_each([&](std::uint32_t socket) { sockets = sockets | of_socket(socket, place); });
      out.push_back(within(sockets, place));
    } else {
      return {};  // none, no, and what is no kind of binding
    }
  }
  return out;
}

bool spreads_over_sockets(std::string_view distribution) {
  const auto colon = distribution.find(':');
  if (colon == distribution.npos)
    return true;
  const std::string_view second = distribution.substr(colon + 1);
  return !second.starts_with("block");
}

std::string mask_text(const CoreSet& cores) {
  std::string digits;
  cores.for_each([&](std::uint32_t core) {
    if (digits.size() <= core / 4)
      digits.resize(core / 4 + 1, '0');
    char& digit = digits[core / 4];
    digit = kHexDigits[kHexDigits.find(digit) | 1u << (core % 4)];
  });
  std::reverse(digits.begin(), digits.end());
  return "0x" + (digits.empty() ? "0" : digits);
}

}  // namespace lockstep::slurm
