// One environment of each user is under way at a time, so that nobody waits behind another user's.
#include "controller/launch_lane.h"

#include "base/check.h"
#include "base/text.h"
#include "wire/long_environment.h"

namespace lockstep {

namespace {

constexpr std::size_t kPieceBytes = 256 << 10;  // of one turn
constexpr std::size_t kKeptBytes = 32 << 20;    // of environments on one node, beside those that come
constexpr std::size_t kHeldBackMax = 20'000;    // messages: a node that takes no environment for so long is stuck

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

// What of which job is launched. A launch that waits is not held back a second time when it is sent again.
std::string name_of(const ToAgent& message) {
  if (const auto* attempt = std::get_if<LaunchAttempt>(&message))
    return format("{}.{}", attempt->job.value, attempt->attempt);
  if (const auto* step = std::get_if<LaunchStep>(&message))
    return format("{}.{}.{}", step->job.value, step->attempt, step->step);
  if (const auto* task = std::get_if<LaunchTask>(&message))
    return format("{}.{}:{}.{}.{}", task->job.value, task->attempt, task->group, task->index, task->incarnation);
  return {};
}

std::size_t length_of(const std::vector<std::string>& words) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size();
  return bytes;
}

// Bytes of a message that is long by itself; 0 = it is not.
std::size_t price_of(const ToAgent& message) {
  const ProcessSpec* process = process_of(message);
  if (!process)
    return 0;
  std::size_t bytes = length_of(process->argv) + length_of(process->env);
  if (const auto* attempt = std::get_if<LaunchAttempt>(&message))
    bytes += attempt->script.size();
  if (const auto* step = std::get_if<LaunchStep>(&message))
    for (const auto& argv : step->argv_by_rank) bytes += length_of(argv);
  return bytes > kLongEnvironment ? bytes : 0;
}

}  // namespace

void LaunchLane::take(ToAgent message, SharedLines environment) {
  const JobId job = job_of(message);
  const auto held = held_.find(job);
  const std::size_t price = price_of(message);
  if (!environment && held == held_.end() && price == 0)
    return ways_.send(message);
  if (held != held_.end())
    return hold_back(held->second.uid, {std::move(message), job, std::move(environment), price});
  const ProcessSpec* process = process_of(message);
  CHECK(process, "only a launch is long");
  const std::uint32_t uid = process->uid;
  const auto kept = kept_.find(process->env_base);
  if (environment && kept != kept_.end()) {
    kept->second.used = ++uses_;
    environment = nullptr;
    if (price == 0)
      return ways_.send(message);
  }
  hold_back(uid, {std::move(message), job, std::move(environment), price});
}

void LaunchLane::hold_back(std::uint32_t uid, Waiting what) {
  Line& line = lines_[uid];
  if (const std::string name = name_of(what.message); !name.empty())
    for (const Waiting& other : line.waiting)
      if (other.job == what.job && name_of(other.message) == name)
        return;
  if (held_back_ >= kHeldBackMax)
    return ways_.give_up(format("a node that takes no environment: {} messages wait for it", held_back_));
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

// Sends what waits for nothing any more, and begins with the environment of the first that does.
void LaunchLane::advance(std::uint32_t uid) {
  const auto at = lines_.find(uid);
  if (at == lines_.end())
    return;
  Line& line = at->second;
  while (!line.waiting.empty()) {
    const Waiting& first = line.waiting.front();
    if (first.environment) {
      const auto kept = kept_.find(process_of(first.message)->env_base);
      if (kept == kept_.end())
        return open(uid, line);
      kept->second.used = ++uses_;
    }
    if (first.price > 0)
      return await_turn(uid, first.price, &LaunchLane::paid);
    const Waiting next = std::move(line.waiting.front());
    line.waiting.pop_front();
    --held_back_;
    if (const auto held = held_.find(next.job); --held->second.messages == 0)
      held_.erase(held);
    ways_.send(next.message);
  }
  lines_.erase(at);
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

void LaunchLane::open(std::uint32_t uid, Line& line) {
  const Waiting& first = line.waiting.front();
  const std::size_t bytes = first.environment->size();
  line.sent = 0;
  line.stream = ways_.open(encode(LongEnvironment{process_of(first.message)->env_base, bytes, make_room(bytes)}), uid);
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
  // A callback of this very stream may be running.
  const std::shared_ptr<Stream> done = std::move(line.stream);
  done->on_drained(nullptr);
  done->on_close(nullptr);
  done->close();
  ways_.in_turn(uid, 0, [done] {});
  await_turn(uid, 0, &LaunchLane::advance);
}

void LaunchLane::refused(std::uint32_t uid) {
  const auto at = lines_.find(uid);
  if (at == lines_.end())
    return;
  for (const Waiting& one : at->second.waiting) {
    --held_back_;
    if (const auto held = held_.find(one.job); held != held_.end() && --held->second.messages == 0)
      held_.erase(held);
  }
  const std::shared_ptr<Stream> gone = std::move(at->second.stream);  // it is calling us
  lines_.erase(at);
  ways_.in_turn(uid, 0, [gone] {});
}

}  // namespace lockstep
