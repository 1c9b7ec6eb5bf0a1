// What the controllers of workloads have in common: they read objects, own them, and tell how far they have come.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/reconciler.h"
#include "frontends/kube/machinery/selectors.h"

namespace lockstep::kube {

inline constexpr std::string_view kPodType = "pods";

// A kind, as its objects are stored and as references name it.
struct WorkloadKind {
  std::string_view type;               // "replicasets.apps"
  std::string_view api_version, kind;  // "apps/v1", "ReplicaSet"
  const char* component;               // of its events: "replicaset-controller"
};

inline json::string_view as_json(std::string_view text) { return {text.data(), text.size()}; }

// --- reading ---

std::string_view label_value(const Object& object, std::string_view key);  // "" where there is none
std::string_view annotation_value(const Object& object, std::string_view key);
bool selects(const LabelSelector& selector, const Object& object);
// A spec's LabelSelector; one that is missing or malformed selects nothing.
LabelSelector selector_in(const json::value& spec);

std::int64_t whole_in(const json::value& value, std::string_view key, std::int64_t otherwise);
std::int64_t whole_in(const json::object& value, std::string_view key, std::int64_t otherwise);
bool truth_in(const json::value& value, std::string_view key);
// A number, or "30%" of the whole, rounded up or down. Nothing: it is neither.
enum class Round : bool { kDown, kUp };
std::optional<std::int64_t> amount_in(const json::value& value, std::int64_t whole, Round round);

std::int64_t generation_of(const json::object& tree);
WallTime wall_time(const ObjectView& view, Instant now);
// When the cluster's clock shows that time.
Instant instant_of(const ObjectView& view, WallTime time);

// Refused when the object is not the version that was read.
Reading resting_on(const Object& object);
void add_reading(Reading& read, ObjectKey key, Seq seq);  // 0: there is none
// The new object is not there, and its namespace is as it was: what is made in one that has begun to go would stay.
void add_new(Reading& read, const ObjectView& view, const Object& made);

// The whole tree, labels and owners within; and the record that is to stand in its place.
json::object whole_tree(const Object& object);
Object in_place_of(const Object& before, json::object tree);

// FNV-1a over the text of the value, its members in the order of their names.
std::uint64_t hash_of_tree(const json::value& value);
std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325ull);
// Letters without vowels and digits that resemble none: no words come out.
std::string safe_letters(std::uint64_t hash, std::size_t length);

// --- owning ---

const OwnerRef* controller_ref(const Object& object);  // null: nobody controls it
bool controlled_by(const Object& object, const Object& owner);
json::object reference_to(const Object& owner, const WorkloadKind& kind);

// What the owner controls of a type and what it takes or gives up: objects without a controller that it selects are
// adopted, its own that it selects no more are released. Those that `may` leaves out are looked at no further.
// Returned are those that it has afterwards, in the order of their names. finalizer: comes and goes with the owner.
std::vector<Ref<Object>> claim(const ObjectView& view, const Object& owner, const WorkloadKind& kind,
                               const LabelSelector& selector, std::string_view type, Wishes& out,
                               const std::function<bool(const Object&)>& may, std::string_view finalizer = {});

// Wakes the object of the kind that controls the changed one; where nobody does, all of its namespace that select it.
void wake_owner(const ObjectView& view, const Object& changed, const WorkloadKind& kind, std::vector<ObjectKey>& out);

// Nothing new is made where the namespace is missing or being deleted.
bool takes_new_objects(const ObjectView& view, const std::string& ns);

// --- telling ---

const json::value* find_condition(const json::object& status, std::string_view type);
bool has_condition(const json::object& status, std::string_view type);  // with status "True"
void drop_condition(json::object& status, std::string_view type);
void add_condition(json::object& status, json::object condition);  // behind the others, in place of one of its type

// Changes the status in the record, where it is another one. With it goes what else the body says.
void wish_status(Wishes& out, const Object& object, json::object body, json::object status);

// Which of two events about one object comes first, where both fell into one second. 0: nobody says.
enum class EventOrder : std::uint16_t {};

// An event about the object, as it is written. One that says the same again is counted, by itself twice a minute at
// most.
Object event_about(const ObjectView& view, Instant now, const Object& object, const WorkloadKind& kind,
                   const char* type, const char* reason, const std::string& message, EventOrder order = {});
// Null: it was not told yet.
Ref<Object> known_event(const ObjectView& view, const Object& about, const char* reason, const std::string& message,
                        EventOrder order = {});
void wish_event(Wishes& out, const ObjectView& view, Instant now, const Object& object, const WorkloadKind& kind,
                const char* type, const char* reason, const std::string& message);
inline constexpr const char* kNormal = "Normal";
inline constexpr const char* kWarning = "Warning";

}  // namespace lockstep::kube
