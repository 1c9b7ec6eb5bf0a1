// StepIo: a client's view of a running step. Its stream is joined with one stream to each node's shim; frames go to
// and from the right node by rank. A node whose link breaks is attached again from where its output stopped; the client
// notices nothing. A node that can never be reached again is told as kNodeGone.
//
// An agent that forwards for a client may reach other nodes itself: it gets their addresses and tickets (kRoute), and
// only what it cannot dial (kRelay) goes through here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/fair_share.h"
#include "controller/links.h"
#include "controller/live_view.h"
#include "controller/tickets.h"
#include "ports/loop.h"

namespace lockstep {

class StepIo {
 public:
  StepIo(EventLoop& loop, const LiveView& view, LinkHub& links, const TicketOffice& tickets,
         std::function<Instant()> now)
      : loop_(loop), view_(view), links_(links), tickets_(tickets), now_(std::move(now)) {}
  ~StepIo();

  struct Ask {
    std::uint8_t verbs = kStepEverything;
    bool direct = false;  // the client is an agent that dials others
  };
  // keep: dropped when the client is gone. caller: whose memory its half frames are, by whatever name.
  void attach(std::unique_ptr<Stream> client, StepKey step, Ask ask, std::shared_ptr<void> keep,
              std::string caller = {});

  void changed(const std::set<JobId>& jobs);    // records changed: nodes may have become reachable, or gone for good
  void welcomed(const std::string& node_name);  // a node's link is there (again)
  std::size_t sessions() const { return sessions_.size(); }

  struct Session;

 private:
  void remove(std::uint64_t id);

  EventLoop& loop_;
  const LiveView& view_;
  LinkHub& links_;
  const TicketOffice& tickets_;
  std::function<Instant()> now_;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::map<JobId, std::set<std::uint64_t>> by_job_;
  std::uint64_t next_ = 1;
  std::shared_ptr<FairShare> memory_ = std::make_shared<FairShare>(FairShare::Bounds{256u << 20, 64u << 20});
};

}  // namespace lockstep
