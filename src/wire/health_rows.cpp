#include "wire/health_rows.h"

#include "wire/codec.h"
#include "wire/fields.h"

namespace lockstep {

namespace wire {

namespace {
struct HealthRows {
  std::vector<HealthRow> rows;
};
}  // namespace

template <class V>
constexpr void describe(V& v, const HealthRow*) {
  v.always("node", &HealthRow::node, kName);
  v("check", &HealthRow::check, kName);
  v.always("verdict", &HealthRow::verdict);
  v("closes", &HealthRow::closes);
  v("at_us", &HealthRow::at_us);
  v("job", &HealthRow::job);
  v("evidence", &HealthRow::evidence, kLines);
}

template <class V>
constexpr void describe(V& v, const HealthRows*) {
  v.always("rows", &HealthRows::rows, Ours{});
}

}  // namespace wire

std::string encode(const HealthRow& row) { return wire::encode_value(row); }
Result<std::vector<HealthRow>> decode_health_rows(std::string_view text) {
  return TRY(wire::decode_value<wire::HealthRows>(text, wire::Origin::kOurselves)).rows;
}

}  // namespace lockstep
