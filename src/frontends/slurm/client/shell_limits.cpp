#include "frontends/slurm/client/shell_limits.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/items.h"
#include "base/text.h"

namespace lockstep::slurm {

namespace {

struct Known {
  std::string_view name;
  __rlimit_resource_t resource;
};
constexpr Known kKnown[] = {{"AS", RLIMIT_AS},         {"CORE", RLIMIT_CORE},   {"CPU", RLIMIT_CPU},
                            {"DATA", RLIMIT_DATA},     {"FSIZE", RLIMIT_FSIZE}, {"MEMLOCK", RLIMIT_MEMLOCK},
                            {"NOFILE", RLIMIT_NOFILE}, {"NPROC", RLIMIT_NPROC}, {"RSS", RLIMIT_RSS},
                            {"STACK", RLIMIT_STACK}};
constexpr std::string_view kPrefix = "SLURM_RLIMIT_";

// "rlimit_stack" -> "STACK".
std::string plain_name(std::string_view word) {
  std::string name(trim(word));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  constexpr std::string_view kLong = "RLIMIT_";
  return name.starts_with(kLong) ? name.substr(kLong.size()) : name;
}

void put_limit(Variables& variables, const Known& known) {
  rlimit limit{};
  if (::getrlimit(known.resource, &limit) == 0)
    put(variables, std::string(kPrefix) + std::string(known.name), std::to_string(limit.rlim_cur));
}

}  // namespace

Result<void> put_shell_limits(Variables& variables, const std::string& propagate) {
  std::erase_if(variables, [](const auto& one) { return one.first.starts_with(kPrefix); });
  const std::string all = plain_name(propagate);
  if (all == "NONE")
    return {};
  if (all.empty() || all == "ALL") {
    for (const Known& known : kKnown) put_limit(variables, known);
    return {};
  }
  for (const auto& word : items_of(propagate)) {
    const std::string name = plain_name(word);
    const auto known =
        std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& k) { return k.name == name; });
    if (known == std::end(kKnown))
      return invalid(
          format("\"{}\" is no limit: write ALL, NONE or some of AS, CORE, CPU, DATA, FSIZE, MEMLOCK, NOFILE, "
                 "NPROC, RSS, STACK",
                 word),
          "propagate");
    put_limit(variables, *known);
  }
  return {};
}

}  // namespace lockstep::slurm
