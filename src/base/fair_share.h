// FairShare: a bounded amount of something (connections, bytes, calls) among holders who do not trust each other.
// Nobody may hold more than `each`, nor more than is still free: one greedy holder gets half at most, two a third each,
// and whoever comes last always finds something.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

class FairShare {
 public:
  struct Bounds {
    std::size_t limit = 0;    // of all holders together
    std::size_t each = 0;     // of one ordinary holder
    std::size_t reserve = 0;  // beyond the limit, for reserved holders alone
  };
  // A reserved holder is bounded by limit and reserve only. A holder keeps its standing while it holds anything.
  enum class Standing : unsigned char { kOrdinary, kReserved };

  explicit FairShare(Bounds bounds) : bounds_(bounds) {}

  // False: refused, and nothing has changed.
  bool take(std::string_view holder, std::size_t amount, Standing standing = Standing::kOrdinary);
  void give(std::string_view holder, std::size_t amount);  // at most what it holds

  std::size_t held(std::string_view holder) const;
  std::size_t total() const { return total_; }
  std::size_t each() const { return bounds_.each; }
  // The ordinary holder who holds most; empty when there is none.
  std::string_view greediest() const;

 private:
  struct Held {
    std::size_t amount = 0;
    Standing standing = Standing::kOrdinary;
  };
  using Holders = std::map<std::string, Held, std::less<>>;
  bool fits(std::size_t has, std::size_t amount, Standing standing) const;
  void change(Holders::iterator holder, std::size_t amount);

  Bounds bounds_;
  std::size_t total_ = 0;
  Holders holders_;
  // Ordinary holders by what they hold; the names are the keys of holders_.
  std::set<std::pair<std::size_t, std::string_view>> ranking_;
};

// What one holder took of a share, given back when this is destroyed.
class FairHold {
 public:
  FairHold() = default;
  FairHold(std::shared_ptr<FairShare> share, std::string holder,
           FairShare::Standing standing = FairShare::Standing::kOrdinary)
      : share_(std::move(share)), holder_(std::move(holder)), standing_(standing) {}
  FairHold(FairHold&& from) noexcept { *this = std::move(from); }
  FairHold& operator=(FairHold&& from) noexcept {
    (void)resize(0);
    share_ = std::move(from.share_);
    holder_ = std::move(from.holder_);
    standing_ = from.standing_;
    amount_ = std::exchange(from.amount_, 0);
    return *this;
  }
  ~FairHold() { (void)resize(0); }

  // False: refused, and nothing has changed. Smaller is always granted.
  bool resize(std::size_t amount) {
    if (amount > amount_ && (!share_ || !share_->take(holder_, amount - amount_, standing_)))
      return false;
    if (amount < amount_)
      share_->give(holder_, amount_ - amount);
    amount_ = amount;
    return true;
  }
  std::size_t amount() const { return amount_; }

 private:
  std::shared_ptr<FairShare> share_;
  std::string holder_;
  FairShare::Standing standing_ = FairShare::Standing::kOrdinary;
  std::size_t amount_ = 0;
};

}  // namespace lockstep
