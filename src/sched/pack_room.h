// What packing looks at, and nothing else: what is free on a node, what a task asks for. Small plain values without
// names or ids, so that the planner, the simulator and tests fill them from whatever they have.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace lockstep {

inline constexpr std::int64_t kPackDeviceMilli = 1000;  // a whole device
inline constexpr std::int64_t kPackDevicesMax = 16;     // of one node
inline constexpr std::size_t kPackKindsMax = 64;        // device models

struct PackRoom {
  std::int64_t cpu_milli = 0;  // free
  std::int64_t memory_mib = 0;
  std::uint16_t kind = 0;    // device model, below kPackKindsMax
  std::uint8_t devices = 0;  // how many the node has, free or not
  std::array<std::uint16_t, kPackDevicesMax> free_milli{};
  friend auto operator<=>(const PackRoom&, const PackRoom&) = default;
};

struct PackShape {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  std::uint8_t devices = 0;                 // 0: none. Of more than one all are whole
  std::uint16_t milli = 0;                  // of each device, 1 to kPackDeviceMilli
  std::uint64_t kinds = ~std::uint64_t{0};  // a bit for each device model that will do

  std::int64_t gpu_milli() const { return std::int64_t{devices} * milli; }
  bool allows(std::uint16_t kind) const { return kinds >> kind & 1; }
  friend auto operator<=>(const PackShape&, const PackShape&) = default;
};

std::int64_t free_gpu_milli(const PackRoom& room);
bool fits(const PackRoom& room, const PackShape& shape);
// The device with the least room that is enough, the first on a tie; -1: none.
int tightest_device(const PackRoom& room, std::uint16_t milli);
// Takes what the shape asks for; it must fit. Shapes of one device take `device`, gangs the lowest whole ones.
void take(PackRoom& room, const PackShape& shape, int device);

}  // namespace lockstep
