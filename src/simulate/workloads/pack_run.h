// One run of the packing experiment: pods arrive, each is placed where the policy's score is highest or dropped, none
// leaves.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "simulate/workloads/pack_trace.h"

namespace lockstep::sim {

// A place for a shape on one node, as the policy sees it.
struct PackScore {
  std::int64_t score = 0;
  std::int8_t device = -1;  // for shapes of one device; -1: the shape asks for others
};

class PackPolicy {
 public:
  virtual ~PackPolicy() = default;
  // A request comes in, before it is placed. True: scores given earlier no longer hold.
  virtual bool arrives(std::span<const PackRoom> /*rooms*/, std::uint32_t /*shape*/) { return false; }
  // The shape fits the room. Equal rooms get equal scores until arrives() says otherwise.
  virtual PackScore score(std::size_t node, const PackRoom& room, std::uint32_t shape) = 0;
  virtual void placed(std::size_t /*node*/, std::uint32_t /*shape*/) {}
};

// The default is the product itself (make_planner_world).
enum class PackRule : unsigned char { kRandom, kDotProduct, kBestFit, kFgd, kDefaultKnown, kDefaultOnline };
std::unique_ptr<PackPolicy> make_policy(PackRule rule, const PackTrace& trace, std::uint64_t seed);  // of a rival

// The cluster as pods arrive.
class PackWorld {
 public:
  virtual ~PackWorld() = default;
  virtual std::ptrdiff_t arrive(std::uint32_t shape) = 0;  // the node it was placed on, or -1
  virtual const PackRoom& room(std::size_t node) const = 0;
};
// The real core and planner. told: they know the mix.
std::unique_ptr<PackWorld> make_planner_world(const PackTrace& trace, std::vector<PackRoom> rooms, bool told);

// F of FGD: the milli-GPU of a room that a request drawn from the mix could not use.
class Fragmentation {
 public:
  explicit Fragmentation(
      const PackTrace& trace);  // typical requests: the most popular ones that make up 95 % of the list
  double of(const PackRoom& room) const;

 private:
  struct Typical {
    std::int64_t cpu_milli;
    std::uint8_t devices;
    std::uint16_t milli;
    std::uint64_t kinds;
    double weight;
  };
  std::vector<Typical> typical_;
};

inline constexpr int kDemandPercent = 130;

// By per cent of the cluster's GPUs asked for so far: the mean over the arrivals that round to it.
struct PackCurve {
  std::array<double, kDemandPercent + 1> alloc_pct{}, frag_pct{};
  double us_a_pod = 0;  // of deciding
};
PackCurve run_pack(const PackTrace& trace, PackRule rule, std::uint64_t seed, const Fragmentation* fragmentation);

}  // namespace lockstep::sim
