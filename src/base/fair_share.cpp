#include "base/fair_share.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"

namespace lockstep {

bool FairShare::take(std::string_view holder, std::size_t amount, Standing standing) {
  if (amount == 0)
    return true;
  if (mutant(Mutant::kLaneStarved))
    standing = Standing::kOrdinary;
  if (!fits(held(holder), amount, standing))
    return false;
  const auto it = holders_.try_emplace(std::string(holder), Held{0, standing}).first;
  total_ += amount;
  change(it, it->second.amount + amount);
  return true;
}

// Compared without sums: an amount may be anything that a stranger announced.
bool FairShare::fits(std::size_t has, std::size_t amount, Standing standing) const {
  if (standing == Standing::kReserved) {
    const std::size_t all = bounds_.limit + bounds_.reserve;
    return total_ <= all && amount <= all - total_;
  }
  const std::size_t free = bounds_.limit - std::min(bounds_.limit, total_);
  const std::size_t most = std::min(bounds_.each, free);
  return has <= most && amount <= most - has;
}

void FairShare::give(std::string_view holder, std::size_t amount) {
  if (amount == 0)
    return;
  const auto it = holders_.find(holder);
  CHECK(it != holders_.end() && it->second.amount >= amount, "a holder gives back what it took");
  total_ -= amount;
  change(it, it->second.amount - amount);
  if (it->second.amount == 0)
    holders_.erase(it);
}

std::size_t FairShare::held(std::string_view holder) const {
  const auto it = holders_.find(holder);
  return it == holders_.end() ? 0 : it->second.amount;
}

std::string_view FairShare::greediest() const {
  return ranking_.empty() ? std::string_view() : ranking_.rbegin()->second;
}

void FairShare::change(Holders::iterator holder, std::size_t amount) {
  if (holder->second.standing == Standing::kOrdinary) {
    ranking_.erase({holder->second.amount, holder->first});
    if (amount > 0)
      ranking_.emplace(amount, holder->first);
  }
  holder->second.amount = amount;
}

}  // namespace lockstep
