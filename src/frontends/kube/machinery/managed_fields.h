// Who manages which fields of an object: metadata.managedFields, and server-side apply, which rests on it.
//
// Every request that writes an object goes through one of the two functions below, whatever its verb. They follow
// k8s.io/apimachinery pkg/util/managedfields; where a manager wrote another version of the API, its fields are taken to
// have the same names in this one.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "base/time.h"
#include "frontends/kube/machinery/field_set.h"
#include "frontends/kube/machinery/schema.h"
#include "frontends/kube/machinery/status.h"

namespace lockstep::kube {

inline constexpr std::size_t kManagerNameMax = 128;    // bytes of ?fieldManager=
inline constexpr std::size_t kUpdateManagersMax = 10;  // older ones are put together as "ancient-changes"

struct FieldManager {
  std::string name;         // ?fieldManager=, or what its user agent says up to the first "/"; "" = "unknown"
  std::string api_version;  // "apps/v1": of the request
  std::string subresource;  // "status", "scale"; "" for the object itself
  WallTime now;
  // What this endpoint does not let anyone change (`status` outside of /status): nobody comes to own it. Null: nothing.
  const FieldSet* ignored = nullptr;
};

struct ManagedEntry {
  std::string manager;
  bool applied = false;  // operation Apply; else Update
  std::string api_version;
  std::string time;  // "" = not said
  std::string subresource;
  FieldSet fields;

  // Entries of one manager are one: of an applier whatever the version.
  bool same_manager(const ManagedEntry& other) const {
    return manager == other.manager && applied == other.applied && subresource == other.subresource &&
           (applied || api_version == other.api_version);
  }
};

// Error: an entry is not what an entry has to be. A list that is absent has no entries.
Result<std::vector<ManagedEntry>> read_managed_fields(const json::value& object);
// Sorted as the real server sorts them; none: the member goes.
void write_managed_fields(json::value& object, std::vector<ManagedEntry> entries);

// For create, update and every patch but apply: `changed` is what will be stored in place of `live` (null: there was
// none). Sets its managedFields: the manager owns what changed, the others lose it. A request may also set the entries
// itself; `[{}]` or an empty list clears them. What of entries cannot be read is dropped, never the request.
void track_update(const json::value& live, json::value& changed, const Schema& schema, const FieldManager& manager);

enum class Force : bool { kNo, kYes };

// An apply: the object that results, with its managedFields. `live` is null where there is none: the object is created.
// `config` has apiVersion, kind and metadata.name. 400: the config does not fit the schema, or brings managedFields.
// 409: others own fields with other values; the causes name them. Fields that this manager applied before, applies no
// more, and that nobody else owns, are removed. A manager "kubectl" takes over what client-side apply put there.
Answered<json::value> apply_configuration(const json::value& live, const json::value& config, const Schema& schema,
                                          const FieldManager& manager, Force force);

// True: nothing differs but times in managedFields, so that nothing needs to be written.
bool only_times_differ(const json::value& live, const json::value& changed);

}  // namespace lockstep::kube
