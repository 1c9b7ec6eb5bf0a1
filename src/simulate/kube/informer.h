// Informer: a client that keeps a copy of one resource by list and watch, as every controller and kubectl --watch do.
// Its connection is cut now and then, and it goes on from where it was. Every list and every event is held against the
// ledger: none is missing, none comes twice, none is out of order.
#pragma once

#include <map>
#include <string>

#include "base/rng.h"
#include "simulate/kube/api.h"

namespace lockstep::sim {

struct Watched {
  std::string path, type;     // "/apis/apps/v1/replicasets", "replicasets.apps"
  std::string ns = {};        // "" = all
  std::string label = {};     // "tier=a"; "" = all
  std::size_t page = 0;       // of lists; 0 = whole
  bool streams_list = false;  // sendInitialEvents
};

class Informer {
 public:
  Informer(World& world, SimApi& api, Ledger& ledger, Watched watched, std::uint64_t seed);

  void start();
  void stop_trouble() { cuts_ = 0; }
  // Nothing, or what it has not been told although it had the time.
  std::string behind() const;
  std::uint64_t events() const { return events_; }

 private:
  std::string path() const;
  bool keeps(const Object& object) const;
  KubeAsk ask() const;
  void list();
  void listed(const std::string& body, Seq floor);
  void check_list(Seq at);
  void watch();
  void heard(std::string_view lines);
  void event(const boost::json::object& event);
  void bookmark(Seq at, bool end_of_first);
  const Ledger::Entry* next_entry() const;
  void again(bool from_list);

  World& world_;
  SimApi& api_;
  Ledger& ledger_;
  Watched watched_;
  Rng dice_;
  double cuts_ = 0;
  std::map<ObjectKey, Seq> copy_;
  Seq at_ = 0;           // it knows everything up to here
  Seq floor_ = 0;        // what anybody had been told when its list began
  bool absent_ = false;  // its kind has no definition
  bool first_ = false;   // the events are of a list that is being streamed
  std::string next_;     // where the list goes on
  SimApi::CallId call_ = 0;
  std::uint64_t events_ = 0, round_ = 0;
};

}  // namespace lockstep::sim
