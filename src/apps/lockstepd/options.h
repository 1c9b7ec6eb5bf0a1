// The controller's command line.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

struct DaemonOptions {
  std::string dir;                    // state directory
  std::string address = "127.0.0.1";  // of the TLS port
  std::uint16_t port = 0;             // 0 = any that is free
  std::string socket;                 // "" = DIR/public/api.sock
  std::string cluster_name = "lockstep";
  std::string fence_command;             // run with a node's name; exit 0 = proven stopped. "" = none
  Duration fence_silence = seconds(30);  // of a node, before the command is asked
  Duration unkillable_after = seconds(60);
  bool defragment = false;
  bool kill_invalid_dependency = false;
  Duration move_after = minutes(10);
  std::uint64_t namespace_objects = 100'000;  // that a namespace may hold
  std::uint64_t namespace_mib = 1024;         // that they may take
  bool serve_everyone = false;                // of this machine, whoever runs the controller
  // Instead of running: what `lockstep backup` and `lockstep restore` ask for.
  std::string backup;         // where to
  std::string restore;        // which backup, into dir
  std::string settings;       // files of this directory belong to the backup; "" = none
  std::uint64_t keep = 0;     // dated backups below it; 0 = it is one itself
  std::int64_t rate_mib = 0;  // a second; 0 = as fast as it goes
  bool replace = false;
  bool json = false;
  bool rights = false;  // print the table of rights and end
  bool help = false, version = false;
};
Result<DaemonOptions> parse_options(int argc, char** argv);
extern const char* const kDaemonHelp;

}  // namespace lockstep
