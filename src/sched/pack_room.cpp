// Fit and take on packing's plain values.
#include "sched/pack_room.h"

#include "base/check.h"

namespace lockstep {

std::int64_t free_gpu_milli(const PackRoom& room) {
  std::int64_t sum = 0;
  for (int d = 0; d < room.devices; ++d) sum += room.free_milli[d];
  return sum;
}

bool fits(const PackRoom& room, const PackShape& shape) {
  if (shape.cpu_milli > room.cpu_milli || shape.memory_mib > room.memory_mib)
    return false;
  if (shape.devices == 0)
    return true;
  if (room.devices == 0 || !shape.allows(room.kind))
    return false;
  int open = 0;
  for (int d = 0; d < room.devices; ++d) open += room.free_milli[d] >= shape.milli;
  return open >= shape.devices;
}

int tightest_device(const PackRoom& room, std::uint16_t milli) {
  int best = -1;
  for (int d = 0; d < room.devices; ++d)
    if (room.free_milli[d] >= milli && (best < 0 || room.free_milli[d] < room.free_milli[best]))
      best = d;
  return best;
}

void take(PackRoom& room, const PackShape& shape, int device) {
  CHECK(room.cpu_milli >= shape.cpu_milli && room.memory_mib >= shape.memory_mib);
  room.cpu_milli -= shape.cpu_milli;
  room.memory_mib -= shape.memory_mib;
  if (shape.devices == 1) {
    CHECK(device >= 0 && device < room.devices && room.free_milli[device] >= shape.milli);
    room.free_milli[device] -= shape.milli;
    return;
  }
  int left = shape.devices;
  for (int d = 0; d < room.devices && left > 0; ++d)
    if (room.free_milli[d] == kPackDeviceMilli) {
      room.free_milli[d] = 0;
      --left;
    }
  CHECK(left == 0);
}

}  // namespace lockstep
