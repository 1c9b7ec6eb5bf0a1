// How the tasks of a group are kept running, and how others reach them and see that they work.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace lockstep {

enum class RestartRule : unsigned char { kNever, kOnFailure, kAlways };

struct Port {
  std::string name;
  std::uint16_t port = 0;
  friend bool operator==(const Port&, const Port&) = default;
};

struct Probe {
  enum class What : unsigned char { kStartup, kReadiness, kLiveness } what = What::kReadiness;
  enum class How : unsigned char { kHttp, kTcp, kExec, kGrpc } how = How::kHttp;
  std::string path;  // kHttp
  std::uint16_t port = 0;
  std::vector<std::string> argv;  // kExec
  std::string post_data;          // kHttp: POST instead of GET when set
  Duration initial_delay, period = seconds(10), timeout = seconds(1);
  std::uint32_t failures = 3;
  std::uint32_t successes = 1;                               // of readiness: in a row, after a failure
  std::string host;                                          // "" = the task's own address
  bool tls = false;                                          // kHttp: the certificate is not looked at
  std::vector<std::pair<std::string, std::string>> headers;  // kHttp
  std::string service;                                       // kGrpc
  Duration kill_wait = kForever;                             // of liveness: instead of the job's, if shorter
  friend bool operator==(const Probe&, const Probe&) = default;
};

struct Service {
  RestartRule restart = RestartRule::kNever;
  std::uint32_t restarts_max = 0;         // per task; 0 with kAlways = no bound
  bool one_failure_restarts_all = false;  // a lost member restarts the whole attempt (gangs), not one task
  std::vector<Port> ports;
  std::vector<Probe> probes;
  friend bool operator==(const Service&, const Service&) = default;
};

}  // namespace lockstep
