// One connection to a shim: the agent's control lines, or a client's step I/O frames. Knows how far this client has
// come with every rank's output; what to do with its words is the step's business.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/frame.h"

namespace lockstep {

class StepClient {
 public:
  enum class Kind : unsigned char { kUnknown, kControl, kFrames };
  struct OutputCursor {
    std::uint64_t sent = 0, acked = 0;
    bool eof_sent = false;
  };
  struct RankCursor {
    OutputCursor outputs[2];
    bool started_sent = false, failed_sent = false, exit_sent = false;
    std::uint64_t input_acked = 0;
    std::uint64_t said = 0;  // offset up to which we have what an onlooker says to it; 0 = nothing yet
  };
  // How far it has come with what its step's lockstep-pmi has for it, and what it was told of the other direction.
  struct PmiCursor {
    std::uint64_t sent = 0, told_own = 0, told_all = 0;
    bool fresh = true;  // nothing was sent yet
  };

  StepClient(int fd, Kind kind) : fd_(fd), kind_(kind) {}
  StepClient(StepClient&&) = delete;
  ~StepClient();

  int fd() const { return fd_; }
  Kind kind() const { return kind_; }
  bool gone() const { return gone_; }
  void drop() { gone_ = true; }

  // Reads what has come. Lines and frames are appended to the two vectors.
  void receive(std::vector<std::string>& lines, std::vector<Frame>& frames);
  void send(std::string_view bytes);
  void flush();
  std::size_t unsent() const { return out_.size() - out_done_; }

  bool attached = false;
  bool onlooker = false;  // beside the one whose step it is (wire/io_attach.h)
  std::vector<RankCursor> ranks;
  PmiCursor pmi;

 private:
  int fd_;
  Kind kind_;
  bool gone_ = false;
  std::string head_;  // until the kind is known, then the unfinished line
  FrameReader frames_;
  std::size_t unfinished_ = 0;  // bytes since the last whole frame
  std::string out_;
  std::size_t out_done_ = 0;
};

}  // namespace lockstep
