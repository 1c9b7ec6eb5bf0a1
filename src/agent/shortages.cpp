#include "agent/shortages.h"

namespace lockstep {

ShortageBook::ShortageBook(const NodePressure& settings) : lasts_(seconds(settings.lasts_s)) {
  using enum Shortage::What;
  const std::pair<Shortage::What, const std::string*> texts[] = {
      {kMemory, &settings.memory},          {kDisk, &settings.disk},
      {kDiskFiles, &settings.disk_files},   {kImages, &settings.images},
      {kImageFiles, &settings.image_files}, {kProcesses, &settings.processes}};
  for (const auto& [what, text] : texts)
    if (const auto bound = parse_shortage_bound(*text); bound.ok() && *bound != ShortageBound())
      bounds_[what] = *bound;
}

std::int64_t ShortageBook::threshold(const Stock& stock) const {
  const auto bound = bounds_.find(stock.what);
  if (bound == bounds_.end() || stock.total <= 0)
    return 0;
  return bound->second.percent > 0 ? stock.total / 100 * bound->second.percent : bound->second.amount;
}

bool ShortageBook::is_short(const Stock& stock) const { return stock.available < threshold(stock); }

bool ShortageBook::take(const std::vector<Stock>& stocks, Instant now) {
  bool tell = false;
  for (const Stock& stock : stocks) {
    const bool acute = is_short(stock);
    const auto known = known_.find(stock.what);
    if (!acute && known == known_.end())
      continue;
    if (!acute && now - known->second.acute_at >= lasts_) {
      known_.erase(known);
      tell = true;
      continue;
    }
    Known& one = known_[stock.what];
    tell = tell || acute || one.shortage.acute;
    one.shortage = {.what = stock.what, .acute = acute, .available = stock.available, .threshold = threshold(stock)};
    if (acute)
      one.acute_at = now;
  }
  return tell;
}

std::vector<Shortage> ShortageBook::all() const {
  std::vector<Shortage> out;
  for (const auto& [what, one] : known_) out.push_back(one.shortage);
  return out;
}

}  // namespace lockstep
