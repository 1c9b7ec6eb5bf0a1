#include "shim/relay.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "wire/io_attach.h"

namespace lockstep {
namespace {

constexpr std::size_t kChunk = 64 << 10;
constexpr std::size_t kClientQueueMax = 256 << 10;
constexpr std::size_t kInputQueueMax = 4 << 20;   // per rank; a client keeps far less unacknowledged
constexpr std::size_t kWordsQueueMax = 64 << 20;  // of onlookers, for all tasks

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

std::uint64_t number_at(std::string_view payload, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = at; i < at + bytes; ++i) value = value << 8 | static_cast<unsigned char>(payload[i]);
  return value;
}

void send(StepClient& client, IoFrame type, std::uint32_t rank, std::string_view payload) {
  client.send(encode_frame(static_cast<std::uint8_t>(type), rank, payload));
}

// f(index) for the rank a frame names, or for all; how many those were.
template <class F>
std::size_t for_ranks(const StepTasks& tasks, std::uint64_t stream, F&& f) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (stream == kAllRanks || stream == tasks[i]->rank()) {
      f(i);
      ++count;
    }
  return count;
}

std::uint64_t written(const StepTask& task, std::size_t stream) {
  const OutputLog* log = task.log(static_cast<int>(stream));
  return log ? log->end() : 0;
}

bool take_stdin(const StepTasks& tasks, std::uint64_t stream, std::string_view payload) {
  if (payload.size() < 8)
    return false;
  bool too_much = false;
  const std::size_t ranks = for_ranks(tasks, stream, [&](std::size_t i) {
    tasks[i]->take_input(number_at(payload, 0, 8), payload.substr(8));
    too_much = too_much || tasks[i]->input_queued() > kInputQueueMax;
  });
  return ranks > 0 && !too_much;
}

// Offsets of an onlooker are its own: it may begin anywhere, and what we have of it already is skipped.
bool take_words(const StepTasks& tasks, StepClient& client, std::uint64_t stream, std::string_view payload) {
  if (payload.size() < 8 || !client.attached)
    return false;
  const std::uint64_t offset = number_at(payload, 0, 8);
  const std::string_view bytes = payload.substr(8);
  if (offset > UINT64_MAX - bytes.size())
    return false;
  const std::size_t ranks = for_ranks(tasks, stream, [&](std::size_t i) {
    std::uint64_t& said = client.ranks[i].said;
    const std::uint64_t known = said > offset ? said - offset : 0;
    if (known >= bytes.size())
      return;
    tasks[i]->take_words(bytes.substr(known));
    said = offset + bytes.size();
  });
  std::size_t queued = 0;
  for (const auto& task : tasks) queued += task->words_queued();
  return ranks > 0 && queued <= kWordsQueueMax;
}

bool take_ack(const StepTasks& tasks, StepClient& client, std::uint64_t stream, std::string_view payload) {
  if (payload.size() != 9 || !client.attached)
    return false;
  const std::uint64_t fd = number_at(payload, 0, 1), offset = number_at(payload, 1, 8);
  if (fd != 1 && fd != 2)
    return false;
  bool true_words = true;
  const std::size_t ranks = for_ranks(tasks, stream, [&](std::size_t i) {
    auto& cursor = client.ranks[i].outputs[fd - 1];
    true_words = true_words && offset <= written(*tasks[i], fd - 1);
    // It may have got more from us by a connection before this one; then that is sent once more.
    cursor.acked = std::max(cursor.acked, std::min(offset, cursor.sent));
    CHECK(cursor.acked <= cursor.sent);
  });
  return ranks > 0 && true_words;
}

}  // namespace

bool apply_attach(StepClient& client, const StepTasks& tasks, std::string_view json) {
  client.ranks.assign(tasks.size(), {});
  for (std::size_t i = 0; i < tasks.size(); ++i)
    for (int stream : {0, 1})
      if (OutputLog* log = tasks[i]->log(stream)) {
        client.ranks[i].outputs[stream].sent = log->base();
        client.ranks[i].outputs[stream].acked = log->base();
      }
  const auto attach = decode_io_attach(json);
  if (!attach.ok())
    return false;
  client.onlooker = attach->onlooker;
  bool true_words = true;
  for (const auto& [rank, have] : attach->have)
    for_ranks(tasks, rank, [&, &have = have](std::size_t i) {
      for (std::size_t stream : {0, 1})
        if (const OutputLog* log = tasks[i]->log(static_cast<int>(stream))) {
          auto& cursor = client.ranks[i].outputs[stream];
          true_words = true_words && have[stream] <= log->end();
          cursor.sent = cursor.acked = std::clamp(have[stream], log->base(), log->end());
        }
    });
  client.attached = true_words;
  return true_words;
}

bool apply_frame(const StepTasks& tasks, StepClient& client, const Frame& frame) {
  const std::string_view payload = frame.payload;
  switch (static_cast<IoFrame>(frame.type)) {
    case IoFrame::kStdin:
      return client.onlooker ? take_words(tasks, client, frame.stream, payload)
                             : take_stdin(tasks, frame.stream, payload);
    case IoFrame::kStdinEof:
      if (client.onlooker)
        return true;  // the tasks' input is not its to end
      if (payload.size() != 8)
        return false;
      return for_ranks(tasks, frame.stream, [&](std::size_t i) { tasks[i]->end_input(number_at(payload, 0, 8)); }) > 0;
    case IoFrame::kOutputAck: return take_ack(tasks, client, frame.stream, payload);
    case IoFrame::kWindowSize:
      if (payload.size() != 4)
        return false;
      if (client.onlooker)
        return true;  // the terminal is as large as that of whose step it is
      for_ranks(tasks, frame.stream, [&](std::size_t i) {
        tasks[i]->resize_terminal(static_cast<std::uint16_t>(number_at(payload, 0, 2)),
                                  static_cast<std::uint16_t>(number_at(payload, 2, 2)));
      });
      return true;
    default: return true;  // a later client's word
  }
}

namespace {

using RankCursor = StepClient::RankCursor;

void send_beginning(const StepTask& task, StepClient& client, RankCursor& rank) {
  if (!rank.started_sent && task.pid() > 0 && task.failure().empty()) {
    send(client, IoFrame::kStarted, task.rank(), number(static_cast<std::uint32_t>(task.pid()), 4));
    rank.started_sent = true;
  }
  if (!rank.failed_sent && !task.failure().empty()) {
    send(client, IoFrame::kFailed, task.rank(), task.failure());
    rank.failed_sent = true;
  }
}

// As much as the client's queue takes; true: it left something out.
bool send_output(const StepTask& task, int stream, StepClient& client, StepClient::OutputCursor& cursor) {
  OutputLog& log = *task.log(stream);
  cursor.sent = std::max(cursor.sent, log.base());
  CHECK(cursor.acked <= cursor.sent && cursor.sent <= log.end(),
        format("acknowledged {}, sent {} of {}", cursor.acked, cursor.sent, log.end()));
  const auto fd = static_cast<std::uint64_t>(stream + 1);
  while (cursor.sent < log.end() && client.unsent() < kClientQueueMax) {
    const std::string_view bytes = log.read(cursor.sent, kChunk);
    if (bytes.empty())
      break;
    send(client, IoFrame::kOutput, task.rank(), (number(fd, 1) + number(cursor.sent, 8)).append(bytes));
    cursor.sent += bytes.size();
  }
  CHECK(cursor.sent <= log.end());
  if (task.output_ended(stream) && cursor.sent == log.end() && !cursor.eof_sent) {
    send(client, IoFrame::kOutputEof, task.rank(), number(fd, 1) + number(cursor.sent, 8));
    cursor.eof_sent = true;
  }
  return cursor.sent < log.end();
}

bool all_output_sent(const StepTask& task, const RankCursor& rank) {
  return (!task.log(0) || rank.outputs[0].eof_sent) && (!task.log(1) || rank.outputs[1].eof_sent);
}

void send_exit(const StepTask& task, StepClient& client, RankCursor& rank) {
  const ExitStatus& exit = task.exit();
  send(client, IoFrame::kExited, task.rank(),
       number(static_cast<std::uint64_t>(exit.code), 1) + number(static_cast<std::uint64_t>(exit.signal), 1) +
           number(exit_flags(exit), 1));
  rank.exit_sent = true;
}

}  // namespace

bool pump(const StepTasks& tasks, StepClient& client) {
  bool more = false;
  if (!client.attached)
    return more;
  CHECK(client.ranks.size() == tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const StepTask& task = *tasks[i];
    RankCursor& rank = client.ranks[i];
    send_beginning(task, client, rank);
    for (int stream : {0, 1})
      if (task.log(stream))
        more = send_output(task, stream, client, rank.outputs[stream]) || more;
    const std::uint64_t heard = !client.onlooker           ? task.input_done()
                                : task.words_queued() == 0 ? rank.said
                                                           : rank.input_acked;
    if (heard > rank.input_acked) {
      rank.input_acked = heard;
      send(client, IoFrame::kStdinAck, task.rank(), number(rank.input_acked, 8));
    }
    if (task.over() && !rank.exit_sent && all_output_sent(task, rank))
      send_exit(task, client, rank);
  }
  return more;
}

void trim_outputs(const StepTasks& tasks, const StepClients& clients) {
  for (std::size_t i = 0; i < tasks.size(); ++i)
    for (int stream : {0, 1}) {
      OutputLog* log = tasks[i]->log(stream);
      if (!log)
        continue;
      std::uint64_t least = ~std::uint64_t{0}, most = 0;
      bool has_owner = false;
      for (const auto& client : clients)
        if (client->attached && !client->gone()) {
          CHECK(client->ranks.size() == tasks.size());
          least = std::min(least, client->ranks[i].outputs[stream].acked);
          has_owner = has_owner || !client->onlooker;
          if (!client->onlooker)
            most = std::max(most, client->ranks[i].outputs[stream].acked);
        }
      if (has_owner)
        log->trim(least);
      if (!log->has_room())
        log->trim(most);  // one slow onlooker does not hold up the task
    }
}

bool told_everything(const StepTasks& tasks, const StepClient& client) {
  if (!client.attached || client.unsent() > 0)
    return false;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (!client.ranks[i].exit_sent)
      return false;
  return true;
}

bool all_acknowledged(const StepTasks& tasks) {
  for (const auto& task : tasks)
    for (int stream : {0, 1})
      if (OutputLog* log = task->log(stream); log && log->base() < log->end())
        return false;
  return true;
}

}  // namespace lockstep
