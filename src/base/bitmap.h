// A fixed-size bit set with the scans an allocator needs. Word-wise, no allocation, iterates in index order.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/check.h"

namespace lockstep {

template <std::uint32_t kBits>
class Bitmap {
 public:
  static constexpr std::uint32_t kCapacity = kBits;

  static Bitmap first_n(std::uint32_t n) {
    Bitmap b;
    for (std::uint32_t i = 0; i < n; ++i) b.set(i);
    return b;
  }

  void set(std::uint32_t i) {
    CHECK(i < kBits);
    words_[i / 64] |= bit(i);
  }
  void clear(std::uint32_t i) {
    CHECK(i < kBits);
    words_[i / 64] &= ~bit(i);
  }
  bool test(std::uint32_t i) const { return i < kBits && (words_[i / 64] & bit(i)) != 0; }
  bool any() const {
    for (auto w : words_)
      if (w)
        return true;
    return false;
  }
  std::uint32_t count() const {
    std::uint32_t n = 0;
    for (auto w : words_) n += static_cast<std::uint32_t>(std::popcount(w));
    return n;
  }
  bool intersects(const Bitmap& o) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (words_[i] & o.words_[i])
        return true;
    return false;
  }
  bool contains(const Bitmap& o) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (o.words_[i] & ~words_[i])
        return false;
    return true;
  }
  Bitmap operator|(const Bitmap& o) const {
    Bitmap r = *this;
    for (std::size_t i = 0; i < words_.size(); ++i) r.words_[i] |= o.words_[i];
    return r;
  }
  Bitmap operator&(const Bitmap& o) const {
    Bitmap r = *this;
    for (std::size_t i = 0; i < words_.size(); ++i) r.words_[i] &= o.words_[i];
    return r;
  }
  Bitmap minus(const Bitmap& o) const {
    Bitmap r = *this;
    for (std::size_t i = 0; i < words_.size(); ++i) r.words_[i] &= ~o.words_[i];
    return r;
  }
  // f(index) for every set bit, lowest first.
  template <class F>
  void for_each(F&& f) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      for (std::uint64_t w = words_[i]; w; w &= w - 1)
        f(static_cast<std::uint32_t>(i * 64) + static_cast<std::uint32_t>(std::countr_zero(w)));
  }
  // The lowest n set bits; CHECKs that there are as many.
  Bitmap lowest(std::uint32_t n) const {
    Bitmap r;
    for_each([&](std::uint32_t i) {
      if (n > 0)
        r.set(i), --n;
    });
    CHECK(n == 0);
    return r;
  }
  friend bool operator==(const Bitmap&, const Bitmap&) = default;

 private:
  static constexpr std::uint64_t bit(std::uint32_t i) { return std::uint64_t{1} << (i % 64); }
  std::array<std::uint64_t, (kBits + 63) / 64> words_{};
};

}  // namespace lockstep
