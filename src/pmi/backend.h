// PmiBackend: how the ranks of one node are served: by the wire protocols PMI-1 and PMI-2, or by PMIx. It speaks to the
// other nodes through the step's client (pmi/message.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pmi/message.h"
#include "pmi/world.h"

namespace lockstep {

// NAME=value for the tasks: those of all, and those of each, by its place among the ranks here.
struct PmiVariables {
  std::vector<std::string> common;
  std::vector<std::vector<std::string>> by_local;
};

struct PmiEnd {
  std::int32_t code = 0, signal = 0;
  // As the client's exit code of a world that ended because of it, which has not ended well.
  std::int32_t client_code() const { return signal ? 128 + signal : code ? code : 1; }
};
// "task 3 on n2 ended without MPI_Finalize (exit code 0)", and what else there is to say of such an end.
std::string words_of_end(const PmiWorld& world, std::uint32_t rank, const PmiEnd& end, std::string_view how);

class PmiBackend {
 public:
  using Up = std::function<void(const PmiMessage&)>;
  virtual ~PmiBackend() = default;

  virtual Result<PmiVariables> begin() = 0;
  virtual void hear(PmiMessage message) = 0;  // of the client
  virtual void rank_ended(std::uint32_t local, const PmiEnd& end) = 0;
  virtual void finish() {}  // all ranks here have ended

  // For backends that have descriptors of their own to wait for: -1 where there is none.
  virtual int wake_fd() const { return -1; }
  virtual void wake() {}
};

}  // namespace lockstep
