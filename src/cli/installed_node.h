// This machine as a node of an installed cluster: its settings, its agent, and whether the controller has it.
#pragma once

#include <string>

#include "base/result.h"
#include "wire/api.h"
#include "wire/local_files.h"

namespace lockstep {

// This machine's host name, without its domain.
std::string host_name();

// For a node whose controller is there. What an administrator does not set the agent finds out at every start.
AgentFile new_agent_file(const std::string& node, const std::string& controller_host, std::uint16_t controller_port);
Result<AgentFile> read_agent_file();
Result<void> write_agent_file(const AgentFile& file);
// A key and a certificate for the settings, by a token, in pki_dir.
// Takes into the settings what the token gave.
Result<void> join_with_token(AgentFile& file, const std::string& token);
// Whether this machine is a node of the cluster whose controller it has.
bool is_own_node(const AgentFile& file);
// Settings, key, certificate and journal: nothing of the node stays.
Result<void> remove_node_files();

// Under systemd where that runs, else under a supervisor of our own. One that runs is started anew where it has to read
// its settings again; jobs go on.
Result<void> start_agent();
Result<void> restart_agent();
Result<void> stop_agent();  // also at the next start of the machine
bool agent_runs();
std::string agent_log_hint();  // where to read what it says

// Waits until the controller says through the agent that it has the node. Asked for again and again.
Result<Ping> wait_for_node(Duration patience);
// "n1: 64 cores, 512 GiB, 8 x h100 (idle)"
std::string offer_text(const Ping& ping);
bool is_usable_state(const std::string& state);

}  // namespace lockstep
