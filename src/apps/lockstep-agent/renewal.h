// Renewal: the node's certificate is made anew while it still counts. The next one, with a key of its own, lies beside
// it (node.key.next, node.crt.next) until the controller has welcomed the agent under it; both count till then, so that
// a crash at any point leaves one that does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/errand.h"
#include "io/pki.h"
#include "ports/clock.h"
#include "ports/loop.h"
#include "wire/local_files.h"

namespace lockstep {

// Brings a renewal that was cut short to its end, or takes it back. True: the next certificate is there to be used.
Result<bool> settle_renewal(const TlsFiles& files);

// Asks the controller for the next one, by the one that counts, and writes it down. Blocking.
Result<void> fetch_next_certificate(const AgentFile& settings);

class Renewal {
 public:
  struct Events {
    std::function<void()> next;                    // there is another one to connect with
    std::function<void(const TlsFiles&)> adopted;  // it is the node's now
    std::function<void(const std::string& trouble)> tell;
  };
  Renewal(EventLoop& loop, const Clock& clock, const AgentFile& settings, Events events);

  void start();
  TlsFiles files() const { return uses_next_ ? next_of(own_) : own_; }  // to connect with
  void welcomed();     // the controller has taken a hello under files()
  void turned_away();  // it has refused one: the other may count
  void disconnected() { is_linked_ = false; }

  static TlsFiles next_of(const TlsFiles& files);

 private:
  void look();
  void begin();
  bool is_due() const;
  void fetched(const Result<void>& result);

  EventLoop& loop_;
  const Clock& clock_;
  AgentFile settings_;
  Events events_;
  TlsFiles own_;
  bool has_next_ = false, uses_next_ = false, is_linked_ = false;
  Errand fetching_;
};

}  // namespace lockstep
