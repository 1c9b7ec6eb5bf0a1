// PmiHub: the middle of the star in a step's client. It keeps with each node the two streams of wire/pmi_frame.h, over
// as many connections as it takes, gathers what nodes do together, passes on what one has for another, and notices
// what can never come to pass because a rank has ended. What nodes say is their user's word: bounded, never trusted.
// Pure: frames in, frames out.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pmi/message.h"
#include "wire/frame.h"
#include "wire/resend_log.h"

namespace lockstep {

class PmiHub {
 public:
  static constexpr std::size_t kGatheredMax = kPmiMessageMax / 2;  // of one gathering
  static constexpr std::size_t kNamesMax = 4096;

  // The first rank on each node, by the nodes' indexes.
  explicit PmiHub(std::vector<std::uint32_t> first_ranks);

  void take(const Frame& frame);  // IoFrame::kPmi; others, and what is malformed, are passed over
  void disconnected();            // nothing is under way any more
  std::string frames();           // to be sent now
  std::optional<PmiAbort> take_abort();

 private:
  struct Node {
    std::uint32_t first_rank = 0;
    PmiMessageReader reader;
    bool broken = false;    // what it says is not understood any more
    std::uint64_t got = 0;  // of its stream up
    bool owes_ack = false;
    bool connected = false;  // its shim has said how far it is, on this connection
    ResendLog own;
    std::uint64_t sent_own = 0, sent_all = 0;  // on this connection
    std::uint64_t got_all = 0;
  };
  struct Gathering {
    std::vector<std::uint32_t> nodes;  // ascending
    std::map<std::uint32_t, std::string> parts;
    std::size_t bytes = 0;
  };

  void hear(std::uint32_t index, PmiMessage message);
  void hear_of(std::uint32_t index, PmiGather gather);
  void hear_of(std::uint32_t index, PmiPassed passed);
  void hear_of(std::uint32_t index, PmiName name);
  void hear_of(std::uint32_t, PmiAbort abort) { end(std::move(abort)); }
  void hear_of(std::uint32_t, const PmiJoined&);
  void hear_of(std::uint32_t, PmiLeft left);
  void hear_of(std::uint32_t, const PmiGathered&) {}
  void end(PmiAbort why);
  void check_joined();
  bool do_name(PmiName& name);
  void tell(std::uint32_t index, const PmiMessage& message) { nodes_[index].own.append(encode_pmi_message(message)); }
  void trim_all();
  std::string frames_to(Node& node);
  void send_to_all(std::string& out);

  std::vector<Node> nodes_;
  std::map<std::uint32_t, std::uint32_t> index_of_;  // by first rank
  ResendLog all_;
  std::map<std::string, Gathering> gatherings_;
  std::map<std::string, std::string> names_;
  bool joined_ = false;
  std::optional<PmiLeft> left_;
  std::optional<PmiAbort> abort_;
  bool aborted_ = false;  // told
};

}  // namespace lockstep
