// scontrol's verbs, each a function of the words behind it. Exit codes: 0, or 1 with the reason said.
#pragma once

#include <string>
#include <vector>

#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/say.h"

namespace lockstep::slurm {

struct ScontrolSession {
  const ClientContext& context;
  Voice voice{"scontrol"};
  std::string clusters = variable_or("SLURM_CLUSTERS");
  bool one_line = false, detail = false, quiet = false;
};
using Words = std::vector<std::string>;

// Needs no cluster: "hostnames", "hostlist", "hostlistsorted". nullopt if the entity is another one.
std::optional<int> scontrol_hosts(const ScontrolSession& session, const Words& words);
int scontrol_show(const ScontrolSession& session, const Words& words);
int scontrol_update(const ScontrolSession& session, const Words& words);
int scontrol_create(const ScontrolSession& session, const Words& words);
int scontrol_delete(const ScontrolSession& session, const Words& words);
// Reservations: "create", "update" or "delete". nullopt when the words are about something else.
std::optional<int> scontrol_reservation(const ScontrolSession& session, std::string_view verb, const Words& words);
// hold, uhold, release, requeue, requeuehold, wait_job, write batch_script, ping.
int scontrol_job_verb(const ScontrolSession& session, const std::string& verb, const Words& words);
int scontrol_ping(const ScontrolSession& session);
int scontrol_write(const ScontrolSession& session, const Words& words);

// "hostname" of "hostnames": a beginning, at least `shortest` letters, in any case.
bool abbreviates(std::string_view word, std::string_view whole, std::size_t shortest);
// "Key=Value" -> key in lower case and value. nullopt without '='.
std::optional<std::pair<std::string, std::string>> key_value(const std::string& word);

}  // namespace lockstep::slurm
