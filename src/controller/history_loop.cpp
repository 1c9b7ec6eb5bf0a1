#include "controller/history_loop.h"

#include <chrono>
#include <cstdio>

#include "base/text.h"
#include "base/thread.h"
#include "controller/event_log.h"
#include "controller/poison.h"
#include "wire/entry_stream.h"

namespace lockstep {

namespace {

constexpr std::size_t kPage = 256;
constexpr std::size_t kChangesAtOnce = 20'000;  // in one transaction
constexpr Duration kGather = millis(50);        // batches share a transaction; a question does not wait for it
constexpr Duration kStoreRetry = seconds(5);    // after the store said no

Instant steady_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return Instant{std::chrono::duration_cast<std::chrono::microseconds>(now).count()};
}

}  // namespace

HistoryLoop::HistoryLoop(HistoryStore& store, CallerCounts::Most most, std::function<void(std::uint64_t)> on_cursor,
                         std::function<void(const std::vector<std::string>&)> tell)
    : store_(store), on_cursor_(std::move(on_cursor)), tell_(std::move(tell)), counts_(most) {}

HistoryLoop::~HistoryLoop() { stop(); }

Result<void> HistoryLoop::catch_up(Log& log, BlobStore& blobs, const std::vector<Change>& snapshot,
                                   const std::function<void(std::uint64_t entry, std::uint64_t last)>& told) {
  // The final records serve for names, which do not change; what happened comes from the entries.
  for (const auto& change : snapshot) tables_.apply(change);
  std::uint64_t cursor = TRY(store_.cursor());
  const std::uint64_t last = TRY(log.last_index());
  if (cursor > last)
    return Error{
        Errc::kCorrupt,
        format("history has seen log entry {}, but the log ends at {}: they are not of the same cluster", cursor, last),
        {}};
  LongValues apart(nullptr, [&blobs](const BlobId& id) { return blobs.blob(id); });
  EntryReader reader(nullptr, &apart);
  std::vector<Change> changes;  // of batches that are closed
  std::uint64_t index = cursor;
  while (index < last) {
    if (told)
      told(index, last);
    const auto entries = TRY(log.read(index + 1, kPage));
    const std::uint64_t first = entries.empty() ? last + 1 : entries.front().index;
    // What the log forgot is in the store as it came out, at least for jobs that are still known.
    if (first != index + 1)
      TRY(store_.take(first - 1, snapshot, tables_));
    if (entries.empty()) {
      cursor = last;
      break;
    }
    if (first != index + 1)
      std::fprintf(
          stderr,
          "lockstepd: accounting lacks what happened between log entries %llu and %llu: history.db is an older "
          "copy, or was damaged\n",
          static_cast<unsigned long long>(index + 1), static_cast<unsigned long long>(entries.front().index - 1));
    apart.sweep({}, UINT64_MAX);
    std::uint64_t closed = cursor;
    for (const auto& entry : entries) {
      index = entry.index;
      if (!TRY(reader.add(entry.bytes, entry.closing)))
        continue;
      auto body = reader.take();
      std::move(body.changes.begin(), body.changes.end(), std::back_inserter(changes));
      closed = index;
    }
    if (closed > cursor) {
      TRY(store_.take(closed, changes, tables_));
      cursor = closed;
      changes.clear();
    }
  }
  on_cursor_(cursor);
  return {};
}

void HistoryLoop::start() {
  thread_ = start_thread_or_exit("history", [this] { run(); });
}

void HistoryLoop::stop() {
  if (!thread_.joinable())
    return;
  inbox_.post(Stop{});
  thread_.join();
}

bool HistoryLoop::store_backlog() {
  while (!backlog_.empty()) {
    std::vector<Change> changes;
    std::uint64_t index = 0;
    std::size_t used = 0;
    for (; used < backlog_.size() && changes.size() < kChangesAtOnce; ++used) {
      const auto& batch = *backlog_[used];
      changes.insert(changes.end(), batch.changes.begin(), batch.changes.end());
      index = batch.index;
    }
    if (const auto done = store_.take(index, changes, tables_); !done.ok()) {
      if (!failing_)
        std::fprintf(stderr, "lockstepd: history cannot be written: %s\n", done.error().message.c_str());
      failing_ = true;
      return false;
    }
    failing_ = false;
    backlog_.erase(backlog_.begin(), backlog_.begin() + static_cast<std::ptrdiff_t>(used));
    gathered_ -= changes.size();
    stored_ += used;
    on_cursor_(index);
  }
  return true;
}

Result<void> HistoryLoop::ask(const Payer& payer, Question question) {
  TRY(counts_.enter(payer.name, payer.reserved, "questions about history"));
  inbox_.post(Asked{payer.name, std::move(question)});
  return {};
}

void HistoryLoop::take_in(Message& message) {
  if (auto* batch = std::get_if<std::shared_ptr<const Engine::Batch>>(&message)) {
    const AtWorkFor at_work((*batch)->commands);
    for (const auto& change : (*batch)->changes) tables_.apply(change);
    if (tell_)
      if (const auto lines = lines_of(**batch, tables_); !lines.empty())
        tell_(lines);
    if (!(*batch)->changes.empty()) {
      gathered_ += (*batch)->changes.size();
      backlog_.push_back(std::move(*batch));
    }
  } else if (auto* asked = std::get_if<Asked>(&message)) {
    const std::string caller = asked->caller;
    waiting_.push(caller, std::move(*asked));
  } else {
    stopping_ = true;
  }
}

void HistoryLoop::answer(const Asked& asked) {
  if (!backlog_.empty())
    store_backlog();
  asked.question(store_, tables_);
  if (!asked.caller.empty())
    counts_.leave(asked.caller);
}

void HistoryLoop::run() {
  Instant store_at = kNever;
  while (!stopping_) {
    const Duration patience = !waiting_.empty()    ? Duration{}
                              : store_at >= kNever ? kForever
                                                   : std::max(Duration{}, store_at - steady_now());
    for (auto& message : inbox_.take(patience)) take_in(message);
    if (!backlog_.empty() && store_at >= kNever)
      store_at = steady_now() + kGather;
    if (stopping_ || store_at <= steady_now() || (gathered_ > kChangesAtOnce && !failing_))
      store_at = store_backlog() ? kNever : steady_now() + kStoreRetry;
    // One at a time: batches that came meanwhile are in the tables before the next. What ends is still answered.
    while (!waiting_.empty()) {
      answer(waiting_.pop().second);
      if (!stopping_)
        break;
    }
    if (backlog_.empty())
      store_at = kNever;
  }
}

}  // namespace lockstep
