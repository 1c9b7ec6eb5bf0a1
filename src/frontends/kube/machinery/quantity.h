// Amounts of resources as Kubernetes writes them: "1500m", "2Gi", "1e3". Exact, in billionths.
//
// An amount remembers in which of three ways it was written; sums and canonical text keep to the first one's way.
// Rules and canonical forms are those of k8s.io/apimachinery pkg/api/resource. One difference: what lies beyond
// 10^28 in size is refused, where the original keeps decimals of any length.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::kube {

class Quantity {
 public:
  enum class Format : unsigned char { kDecimal, kBinary, kExponent };  // 12M, 12Mi, 12e6

  Quantity() = default;
  explicit Quantity(std::int64_t whole, Format format = Format::kDecimal);

  std::string text() const;  // canonical: no fraction, the largest suffix with which that is so
  Format format() const { return format_; }

  int sign() const { return nanos_ == 0 ? 0 : nanos_ < 0 ? -1 : 1; }
  // Rounded away from zero; what does not fit is the nearest bound.
  std::int64_t whole() const;
  std::int64_t thousandths() const;
  bool is_whole() const;  // no fraction, and within 64 bits
  double approximate() const;

  // As Kubernetes adds: an amount of nothing takes the other's format. Sums stop at the bounds.
  Quantity& operator+=(const Quantity& other);
  Quantity& operator-=(const Quantity& other);
  Quantity operator-() const;

  std::strong_ordering operator<=>(const Quantity& other) const { return nanos_ <=> other.nanos_; }
  bool operator==(const Quantity& other) const { return nanos_ == other.nanos_; }

 private:
  friend Result<Quantity> parse_quantity(std::string_view text);
  using Wide = __int128;

  Wide nanos_ = 0;
  Format format_ = Format::kDecimal;
};

// Errors in Kubernetes' words ("quantities must match the regular expression …").
Result<Quantity> parse_quantity(std::string_view text);

}  // namespace lockstep::kube
