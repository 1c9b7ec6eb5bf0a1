// What somebody asks of one container of a task, where it runs: its output, a program beside it, its own input and
// output, or a port of its sandbox. The answer is a stream from its node.
//
// kLogs and kPort carry plain bytes. kExec and kAttach carry frames, both ways: a byte for the channel
// (ContainerChannel), four for the length, the highest first, and the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/ids.h"

namespace lockstep {

struct ContainerAsk {
  enum class What : unsigned char {
    kLogs,
    kExec,
    kAttach,
    kPort,
    kLook,  // nothing of a container: the sandbox asks its front end at once what has changed (wire/front_end_files.h)
  } what = What::kLogs;
  JobId job;
  std::uint16_t group = 0;
  std::uint32_t index = 0;
  std::string container;
  // Of a job that the cluster has forgotten, whose logs its node still has: where it ran, and whose it was.
  std::string ran_on;
  AttemptNo attempt = 0;
  UserId user;
  // kLogs: the lines as they were written, each behind its time ("2026-11-26T15:00:00.000000000Z hello") where `times`.
  bool previous = false;  // of the life before this one
  bool follow = false;    // goes on until the container has ended
  bool times = false;
  WallTime since;               // 0 = from the beginning
  std::int64_t tail = -1;       // the last so many lines; -1 = all
  std::int64_t bytes_max = -1;  // -1 = all
  // kExec, kAttach
  std::vector<std::string> argv;
  bool input = false, output = true, error = true, terminal = false;
  // kPort. With `input` the first byte from the node says that somebody listens there: a stream without one found
  // nobody.
  std::uint16_t port = 0;
};

enum class ContainerChannel : unsigned char {
  kInput = 0,   // to the container; empty: that was all
  kOutput = 1,  // from it
  kError = 2,
  kEnd = 3,   // from it, last: "" = it ended well, "exit 3", or "error …" if nothing ran
  kSize = 4,  // to it: "COLUMNS ROWS" of the terminal
};

}  // namespace lockstep
