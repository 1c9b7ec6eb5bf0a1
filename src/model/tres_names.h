// TRES by the names users know them by, and as they write them: "cpu=8,mem=4G,gres/gpu:h100=2,license/matlab=1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tres.h"

namespace lockstep {

// The amounts that have a field of their own.
struct TresField {
  std::string_view name;
  std::int64_t Tres::*count;
  std::int64_t TresLimit::*limit;
};
inline constexpr TresField kTresFields[] = {
    {"cpu", &Tres::cpu, &TresLimit::cpu},
    {"mem", &Tres::memory_mb, &TresLimit::memory_mb},
    {"node", &Tres::nodes, &TresLimit::nodes},
    {"gres/gpu", &Tres::gpus, &TresLimit::gpus},
    {"billing", &Tres::billing, &TresLimit::billing},
};

std::int64_t count_of(const Tres& tres, std::string_view name);        // 0 when there is none
std::int64_t bound_of(const TresLimit& limit, std::string_view name);  // kNoLimit when there is none
// False when the name can be none: no field's, and neither "gres/…" nor "license/…".
bool set_count(Tres& tres, std::string_view name, std::int64_t count);
bool set_bound(TresLimit& limit, std::string_view name, std::int64_t bound);
bool bounds_nothing(const TresLimit& limit);

// Adds to a sorted list of names, dropping what becomes zero. Stops at the ends of 64 bits.
void add_named(std::vector<NamedCount>& list, std::string_view name, std::int64_t count);

// Sets what the text names and leaves the rest; -1 takes a bound away. Memory in MB, or with K, M, G, T behind it.
Result<void> read_tres(std::string_view text, TresLimit& into);
// Memory with the largest unit that is exact. What bounds nothing is left out; "" = nothing does.
std::string tres_text(const TresLimit& limit);
std::string tres_text(const Tres& tres);  // what is not 0

// "a:2,b" as --licenses takes it (also "a=2", and ";" between). Sorted by name; a name twice adds up.
Result<std::vector<NamedCount>> parse_licenses(std::string_view text);

}  // namespace lockstep
