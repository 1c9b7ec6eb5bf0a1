// sacctmgr's verbs. Internal to the command.
#pragma once

#include <string>
#include <vector>

#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/sacct_fields.h"
#include "frontends/slurm/client/say.h"
#include "model/records.h"

namespace lockstep::slurm {

inline constexpr std::string_view kNoDatabase = "sacctmgr: error: Problem talking to the database";

struct SacctmgrSession {
  const ClientContext& context;
  Voice voice{"sacctmgr"};
  bool immediate = false;  // -i: no question
  bool quiet = false, with_associations = false, json = false;
  SacctLook look;
};

// Every record of a kind. T: Account, Association, Qos, User, Licence.
template <class T>
Result<std::vector<Ref<T>>> records(Query& query, std::string_view path, Kind kind);

// words: what stands behind the entity. Exit codes: 0, or 1 with the reason said.
int sacctmgr_show(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words);
int sacctmgr_add(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words);
int sacctmgr_modify(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words);
int sacctmgr_delete(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words);

// "acc" -> "account": entities may be cut short and put in the plural. "" = none.
std::string sacctmgr_entity(std::string_view word);

}  // namespace lockstep::slurm
