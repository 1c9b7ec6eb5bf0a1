// Ledger: what Kubernetes' clients may be told: every version of every object that is durable, in its order. What a
// client hears is held against it: lists, events, answers, and what statuses say of the world.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/change.h"
#include "model/records.h"
#include "model/tables.h"
#include "sim/process_checker.h"
#include "sim/verdict.h"

namespace lockstep::sim {

class Ledger {
 public:
  Ledger(Verdict& verdict, const ProcessChecker& processes) : verdict_(verdict), processes_(processes) {}

  struct Entry {
    Seq seq = 0;
    Ref<Object> before, after;  // null: it was made, it was removed
    const Object& object() const { return after ? *after : *before; }
  };
  using Keeps = std::function<bool(const Object&)>;

  void saw(std::span<const Change> changes);
  // Everybody else who looks at each change of an object, with the tables as they are with it.
  std::function<void(const Entry&)> on_entry;

  const Tables& tables() const { return tables_; }
  const std::vector<Entry>& of(const std::string& type) const;
  // Name and version of what a list shows at that point, by namespace and name.
  std::map<ObjectKey, Seq> list_at(const std::string& type, const Keeps& keeps, Seq at) const;
  // The newest version that an object had at that point; 0: it was not there.
  Seq version_at(const ObjectKey& key, Seq at) const;
  bool went_since(const ObjectKey& key, Seq after) const;         // it was removed since
  const Entry* entry_at(const std::string& type, Seq seq) const;  // null: nothing happened to one of these then

  // --- what clients hear ---

  // The newest that any of them was told: nobody is shown older things from then on.
  Seq told() const { return told_; }
  void tell(Seq seq) { told_ = std::max(told_, seq); }
  // An object as it was told. seq 0: whatever its own text says. Fails where it never was so.
  void check_told(const std::string& type, const boost::json::object& object, bool removed = false);

 private:
  void check_pod(const boost::json::object& pod, const Object& record);

  Verdict& verdict_;
  const ProcessChecker& processes_;
  Tables tables_;
  std::map<std::string, std::vector<Entry>> by_type_;
  std::map<Uid, std::pair<std::string, int>> phases_;  // of pods, as clients were told: how far they came
  Seq told_ = 0;
};

// --- reading what was told ---

ObjectKey key_told(const std::string& type, const boost::json::object& object);
Seq version_told(const boost::json::object& object);  // 0: it says none

}  // namespace lockstep::sim
