// ServiceTable: the lines of GET /v1/service-table, kept as records change: each is made once, whoever many nodes are
// told it. A line that changes moves behind all others, so what a node has not heard yet is what stands behind the
// place it has heard up to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "frontends/kube/admission/external_ranges.h"
#include "routes/front_end.h"
#include "wire/service_table.h"

namespace lockstep::kube {

class ServiceTable final : public FrontReader {
 public:
  // epoch: different for each start of the controller; places of another one count for nothing.
  // own: addresses of the controller's machine, which no Service has from outside.
  explicit ServiceTable(std::string epoch, std::function<std::vector<std::string>()> own = {})
      : epoch_(std::move(epoch)), own_(std::move(own)) {}

  void begin(const Tables& tables) override;
  void change(const Tables& before, const Change& change) override;

  // Where a reader begins that has heard so much. 0: anew.
  std::uint64_t place_after(std::string_view epoch, std::uint64_t version) const;
  // Adds what is behind the place, at most about 64 KiB, and moves it. At the end of all a mark is added if anything
  // was told since the last. kEnd: what went meanwhile is no longer known; the reader is to begin anew.
  struct Place {
    std::uint64_t version = 0;
    bool began = false, marked = false;
  };
  Pulled tell(Place& place, std::string& out) const;

  // Tells the stream what is behind the place, now and with every change, for as long as its node listens. One that
  // reads slowly is told when it has read; of one node's streams the newest two count.
  void follow(const std::string& node, std::unique_ptr<Stream> stream, Place place);
  std::size_t following() const { return followers_.size(); }

 private:
  struct Follower {
    std::string node;
    std::unique_ptr<Stream> stream;
    Place place;
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // kind, space, name
  struct Line {
    std::uint64_t version = 0;
    std::string text;  // "" = it is gone, as `gone` says
    std::string gone;
  };
  void put(Key key, std::string text);
  void remove(const Key& key);
  void look(const Object& object, bool there);
  void look_at_services(const Tables& tables);
  ServiceFact shown_fact(const Object& service) const;
  void feed(std::uint64_t id);
  void end(std::uint64_t id);
  const std::string& mark(std::uint64_t version) const;

  std::string epoch_;
  std::function<std::vector<std::string>()> own_;
  ExternalRanges listed_;
  std::map<Key, Line> lines_;
  std::map<std::uint64_t, Key> order_;
  std::uint64_t version_ = 0;
  std::uint64_t forgotten_ = 0;   // of removals up to this version nothing is known any more
  std::set<std::uint64_t> gone_;  // versions of removals that are still told
  mutable std::uint64_t marked_ = UINT64_MAX;
  mutable std::string mark_;  // of that version
  std::map<std::uint64_t, std::shared_ptr<Follower>> followers_;
  std::vector<std::shared_ptr<Follower>> ended_;  // a stream cannot go while it calls us
  std::uint64_t next_ = 1;
};

// Answers a node's agent, and nobody else.
void answer_service_table(FrontVisit& visit, ServiceTable& table);

}  // namespace lockstep::kube
