// One environment of each user is under way at a time, so that nobody waits behind another user's.
#include "controller/launch_lane.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "wire/long_environment.h"

namespace lockstep {

namespace {

constexpr std::size_t kPieceBytes = 256 << 10;  // of one turn
constexpr std::size_t kKeptBytes = 32 << 20;    // of environments on one node, beside those that come
constexpr std::size_t kOpeningBytes = kLongEnvironmentsMax - kKeptBytes;  // of those that come at once
constexpr std::size_t kHeldBackMax = 20'000;    // messages: a node that takes no environment for so long is stuck
constexpr std::size_t kHeldBytes = 256u << 20;  // of launches that wait, and of what they name; a user gets half
constexpr std::size_t kHeldMessage = 1u << 10;  // of one, besides its words

JobId job_of(const ToAgent& message) {
  return std::visit(
      [](const auto& m) {
        if constexpr (requires { m.job; })
          return m.job;
        else
          return JobId();
      },
      message);
}

// What of which job is launched.
std::string name_of(const ToAgent& message) {
  if (const auto* attempt = std::get_if<LaunchAttempt>(&message))
    return format("{}.{}", attempt->job.value, attempt->attempt);
  if (const auto* step = std::get_if<LaunchStep>(&message))
    return text_of(WorkId{step->job, step->attempt, StepPart{step->step}});
  if (const auto* task = std::get_if<LaunchTask>(&message))
    return text_of(WorkId{task->job, task->attempt, task->task});
  return {};
}

std::size_t length_of(const std::vector<std::string>& words) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size();
  return bytes;
}

// Bytes of a message that is long by itself; 0 = it is not.
std::size_t price_of(const ToAgent& message) {
  const std::size_t bytes = launch_bytes(message);
  return bytes > kLongEnvironment ? bytes : 0;
}

}  // namespace

std::size_t launch_bytes(const ToAgent& message) {
  const ProcessSpec* process = process_of(message);
  if (!process)
    return 0;
  std::size_t bytes = length_of(process->argv) + length_of(process->env) + length_of(process->task_env);
  if (const auto* attempt = std::get_if<LaunchAttempt>(&message))
    bytes += attempt->script.size();
  if (const auto* step = std::get_if<LaunchStep>(&message))
    for (const auto* by_rank : {&step->argv_by_rank, &step->env_by_rank})
      for (const auto& words : *by_rank) bytes += length_of(words);
  return bytes;
}

LaunchLane::LaunchLane(Ways ways)
    : ways_(std::move(ways)),
      memory_(std::make_shared<FairShare>(FairShare::Bounds{.limit = kHeldBytes, .each = kHeldBytes / 2})) {}

void LaunchLane::take(ToAgent message, SharedLines environment) {
  if (ended_)
    return;
  const JobId job = job_of(message);
  const std::size_t price = price_of(message);
  Waiting what{std::move(message), job, std::move(environment), price};
  if (const auto held = held_.find(job); held != held_.end())
    return hold_back(held->second.uid, std::move(what));
  if (use(what) && price == 0)
    return ways_.send(what.message);
  const ProcessSpec* process = process_of(what.message);
  CHECK(process, "only a launch is long");
  hold_back(process->uid, std::move(what));
}

void LaunchLane::end() {
  ended_ = true;
  for (auto& [uid, line] : std::exchange(lines_, {}))
    if (line.stream)
      end_stream(uid, line);
  held_.clear();
  held_back_ = 0;
  parked_.clear();
}

bool LaunchLane::use(const Waiting& what) {
  if (!what.environment)
    return true;
  const auto kept = kept_.find(process_of(what.message)->env_base);
  if (kept == kept_.end())
    return false;
  kept->second.used = ++uses_;
  return true;
}

// It was sent again.
bool LaunchLane::waits_already(std::uint32_t uid, const Waiting& what) const {
  const auto line = lines_.find(uid);
  const std::string name = name_of(what.message);
  return line != lines_.end() &&
         std::any_of(line->second.waiting.begin(), line->second.waiting.end(),
                     [&](const Waiting& other) { return other.job == what.job && name_of(other.message) == name; });
}

bool LaunchLane::has_room(std::uint32_t uid, Waiting& what) {
  if (held_back_ >= kHeldBackMax / 2)  // the rest is for what is said of jobs later
    return false;
  const std::string name = format("{}", uid);
  what.memory = FairHold(memory_, name);
  if (!what.memory.resize(launch_bytes(what.message) + kHeldMessage))
    return false;
  if (!what.environment)
    return true;
  if (const auto line = lines_.find(uid); line != lines_.end())
    for (const Waiting& other : line->second.waiting)
      if (other.environment == what.environment) {
        what.shared_memory = other.shared_memory;
        return true;
      }
  what.shared_memory = std::make_shared<FairHold>(memory_, name);
  return what.shared_memory->resize(what.environment->size());
}

void LaunchLane::hold_back(std::uint32_t uid, Waiting what) {
  if (process_of(what.message) && (waits_already(uid, what) || !has_room(uid, what)))
    return;
  if (held_back_ >= kHeldBackMax)
    return ways_.give_up(format("a node that takes no environment: {} messages wait for it", held_back_));
  Line& line = lines_[uid];
  Held& held = held_[what.job];
  held.uid = uid;
  ++held.messages;
  ++held_back_;
  line.waiting.push_back(std::move(what));
  if (line.waiting.size() == 1)
    advance(uid);
}

void LaunchLane::await_turn(std::uint32_t uid, std::size_t bytes, void (LaunchLane::*then)(std::uint32_t)) {
  const std::uint64_t turn = lines_.at(uid).turn = ++turns_;
  ways_.in_turn(uid, bytes, [weak = weak_from_this(), uid, turn, then] {
    const auto self = weak.lock();
    const auto line = self ? self->lines_.find(uid) : std::map<std::uint32_t, Line>::iterator();
    if (self && line != self->lines_.end() && line->second.turn == turn)
      (self.get()->*then)(uid);
  });
}

void LaunchLane::paid(std::uint32_t uid) {
  lines_.at(uid).waiting.front().price = 0;
  advance(uid);
}

// Sends what waits for nothing any more, and begins with the environment of the first that does. What is sent may end
// the link: then there is no line any more.
void LaunchLane::advance(std::uint32_t uid) {
  for (auto at = lines_.find(uid); at != lines_.end(); at = lines_.find(uid)) {
    Line& line = at->second;
    line.turn = 0;
    if (line.waiting.empty()) {
      lines_.erase(at);
      return;
    }
    const Waiting& first = line.waiting.front();
    if (!use(first))
      return open(uid, line);
    if (first.price > 0)
      return await_turn(uid, first.price, &LaunchLane::paid);
    const Waiting next = std::move(line.waiting.front());
    line.waiting.pop_front();
    left(next);
    ways_.send(next.message);
  }
}

void LaunchLane::left(const Waiting& one) {
  --held_back_;
  if (const auto held = held_.find(one.job); held != held_.end() && --held->second.messages == 0)
    held_.erase(held);
}

std::string LaunchLane::make_room(std::size_t bytes) {
  std::string forgotten;
  while (!kept_.empty() && kept_bytes_ + bytes > kKeptBytes) {
    auto oldest = kept_.begin();
    for (auto it = kept_.begin(); it != kept_.end(); ++it)
      if (it->second.used < oldest->second.used)
        oldest = it;
    kept_bytes_ -= oldest->second.bytes;
    forgotten += " " + oldest->first;
    kept_.erase(oldest);
  }
  return forgotten;
}

// What another line is sending already is waited for, and so is room at the agent.
void LaunchLane::open(std::uint32_t uid, Line& line) {
  const Waiting& first = line.waiting.front();
  const BlobId& id = process_of(first.message)->env_base;
  const std::size_t bytes = first.environment->size();
  const bool comes = opening_.contains(id);
  if (comes || room_wanted_ || opening_bytes_ + bytes > kOpeningBytes) {
    room_wanted_ = room_wanted_ || !comes;
    parked_.push_back(uid);
    return;
  }
  opening_[id] = bytes;
  opening_bytes_ += bytes;
  line.sent = 0;
  auto stream = ways_.open(encode(LongEnvironment{id, bytes, make_room(bytes)}), uid);
  const auto now = lines_.find(uid);  // unless the link ended with the announcement
  if (now == lines_.end() || !stream)
    return;
  now->second.stream = std::move(stream);
  opened(uid, now->second);
}

void LaunchLane::opened(std::uint32_t uid, Line& line) {
  const std::weak_ptr<LaunchLane> weak = weak_from_this();
  line.stream->on_drained([weak, uid] {
    if (const auto self = weak.lock())
      self->next_piece(uid);
  });
  line.stream->on_close([weak, uid] {  // perhaps at once
    if (const auto self = weak.lock())
      self->refused(uid);
  });
  if (const auto now = lines_.find(uid); now != lines_.end() && now->second.stream)
    next_piece(uid);
}

void LaunchLane::next_piece(std::uint32_t uid) {
  const Line& line = lines_.at(uid);
  const std::size_t left = line.waiting.front().environment->size() - line.sent;
  if (left == 0)
    return sent(uid);
  await_turn(uid, std::min(left, kPieceBytes), &LaunchLane::send_piece);
}

void LaunchLane::send_piece(std::uint32_t uid) {
  Line& line = lines_.at(uid);
  std::string piece = line.waiting.front().environment->substr(line.sent, kPieceBytes);
  line.sent += piece.size();
  line.stream->write(std::move(piece));
  if (const auto now = lines_.find(uid); now != lines_.end() && now->second.stream && now->second.stream->unsent() == 0)
    next_piece(uid);
}

void LaunchLane::sent(std::uint32_t uid) {
  Line& line = lines_.at(uid);
  const Waiting& first = line.waiting.front();
  kept_[process_of(first.message)->env_base] = {first.environment->size(), ++uses_};
  kept_bytes_ += first.environment->size();
  end_stream(uid, line);
  advance_parked();
  advance(uid);  // at once: later it might be forgotten again
}

// A callback of this very stream may be running: it is destroyed later.
void LaunchLane::end_stream(std::uint32_t uid, Line& line) {
  if (const auto at = opening_.find(process_of(line.waiting.front().message)->env_base); at != opening_.end()) {
    opening_bytes_ -= at->second;
    opening_.erase(at);
  }
  const std::shared_ptr<Stream> done = std::move(line.stream);
  done->on_drained(nullptr);
  done->on_close(nullptr);
  done->close();
  ways_.in_turn(uid, 0, [done] {});
}

void LaunchLane::advance_parked() {
  room_wanted_ = false;
  for (const std::uint32_t uid : std::exchange(parked_, {})) advance(uid);
}

// The launches that name it are dropped: the desk says them again. What else was said of the user's jobs is not.
void LaunchLane::refused(std::uint32_t uid) {
  const auto at = lines_.find(uid);
  if (at == lines_.end() || !at->second.stream)
    return;
  Line& line = at->second;
  end_stream(uid, line);
  const BlobId id = process_of(line.waiting.front().message)->env_base;
  std::erase_if(line.waiting, [&](const Waiting& one) {
    if (!one.environment || process_of(one.message)->env_base != id)
      return false;
    left(one);
    return true;
  });
  if (line.waiting.empty())
    lines_.erase(at);
  else
    await_turn(uid, 0, &LaunchLane::advance);
  advance_parked();
}

}  // namespace lockstep
