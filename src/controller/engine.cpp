#include "controller/engine.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <unordered_map>

#include "base/check.h"
#include "base/mutant.h"
#include "base/text.h"
#include "controller/entry_pieces.h"
#include "controller/log_upkeep.h"
#include "controller/poison.h"
#include "controller/quarantine.h"
#include "model/job.h"
#include "wire/entry_stream.h"

namespace lockstep {

namespace {

constexpr std::size_t kDocumentBytes = kEntryBytesMax - (64 << 10);  // ended there: most then are one entry
constexpr std::size_t kReadPage = 256;                               // entries per read while loading
constexpr std::size_t kBatchBytes = 2 << 20;                         // of records that are made in one batch
constexpr Duration kTellCost = millis(20);                           // commands that cost more are named to who watches
constexpr Duration kLookAtCpu = millis(1);

bool ends_work(const CommandBody& b) {
  return std::holds_alternative<AgentReport>(b) || std::holds_alternative<CancelJob>(b) ||
         std::holds_alternative<EndJob>(b) || std::holds_alternative<SignalStep>(b) ||
         std::holds_alternative<RemoveObject>(b) || std::holds_alternative<DisownJob>(b) ||
         std::holds_alternative<NodeHello>(b) || std::holds_alternative<NodeAway>(b) ||
         std::holds_alternative<NodeLost>(b) || std::holds_alternative<GiveUpMember>(b) ||
         std::holds_alternative<NodeFenced>(b) || std::holds_alternative<Tick>(b) ||
         std::holds_alternative<StartEpoch>(b);
}

// Whether the later version of a record tells all that the one before it in the same batch told.
bool tells_all(const Job& later, const Job& earlier) {
  return later.state == earlier.state && later.hold == earlier.hold && later.attempt == earlier.attempt &&
         later.spec == earlier.spec && later.allocation == earlier.allocation && later.promise == earlier.promise &&
         later.eviction == earlier.eviction;
}
bool tells_all(const Step& later, const Step& earlier) {
  return later.state == earlier.state && later.attempt == earlier.attempt;
}

// Of records that many commands of one batch write, an array of which many elements changed, a job or step of which
// many nodes reported, the versions between the first and the last that tell the same are left out. The first stays:
// records that follow it may name it. Of the cluster's clock and next ids only the last version counts.
class FewVersions {
 public:
  explicit FewVersions(std::vector<Change>& changes) : changes_(changes), needless_(changes.size()) {
    for (std::size_t i = 0; i < changes.size(); ++i) std::visit(Taker{*this, i}, changes[i].record);
    std::size_t i = 0;
    std::erase_if(changes, [&](const Change&) { return needless_[i++]; });
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Last {
    std::size_t at = kNone;
    bool alike = false;  // it tells what the one before it told
  };
  struct Taker {
    FewVersions& all;
    std::size_t at;
    void operator()(const Ref<Job>& job) const { all.look(all.jobs_[job->id], at, *job); }
    void operator()(const Ref<Step>& step) const { all.look(all.steps_[{step->job, step->number}], at, *step); }
    void operator()(const Ref<Cluster>&) const {
      if (all.cluster_ != kNone)
        all.needless_[all.cluster_] = true;
      all.cluster_ = at;
    }
    template <class T>
    void operator()(const T&) const {}
  };

  template <class T>
  void look(Last& last, std::size_t at, const T& record) {
    const bool alike = last.at != kNone && !changes_[at].removed && !changes_[last.at].removed &&
                       tells_all(record, *std::get<Ref<T>>(changes_[last.at].record));
    if (alike && last.alike)
      needless_[last.at] = true;
    last = {at, alike};
  }

  const std::vector<Change>& changes_;
  std::vector<bool> needless_;
  std::unordered_map<JobId, Last> jobs_;
  std::map<StepKey, Last> steps_;
  std::size_t cluster_ = kNone;
};

// The cause stands last: front ends put "for job 5" behind it.
Error read_only_error(const std::string& cause) {
  const bool full = cause.find("disk is full") != std::string::npos;
  return {Errc::kUnavailable,
          format("the controller is read-only {}; nothing was changed ({})",
                 full ? "until there is room on its disk again" : "until its log can be written again", cause),
          "read-only"};
}

Error quiet_error(const std::string& why) { return {Errc::kUnavailable, why, "read-only"}; }

Error deposed_error() {
  return {Errc::kUnavailable, "another controller has taken over the log; nothing was changed: try again", {}};
}

}  // namespace

bool goes_first(const Command& command) {
  return ends_work(command.body) && std::all_of(command.also.begin(), command.also.end(), ends_work);
}

struct Engine::Inner {
  struct Item {
    Command command;
    Reply reply;
    std::vector<Blob> blobs;
  };

  // A batch that is applied and whose append has not ended.
  struct Pending {
    std::vector<Item> items;
    std::vector<Result<Answer>> answers;
    Batch batch;
    std::vector<LogEntry> entries;
    std::vector<Blob> blobs;
    Seq seq_before = 0;
  };

  Log& log;
  BlobStore& blobs;
  Term term = 0;
  EngineSettings settings;
  ClusterState state;
  std::unique_ptr<PoisonNote> poison;
  CrashNote* note = nullptr;  // poison, or what the settings name; null = none
  std::unique_ptr<Quarantine> quarantine;
  bool loading = false;  // the note says so
  std::deque<Item> queue;
  std::optional<Pending> pending;
  std::vector<Reader> readers;
  Aside aside;
  Watch watch;
  LongValues apart;
  LogUpkeep upkeep;
  std::uint64_t last_index = 0;
  std::size_t batch_bytes = 0;  // of what the batch that is being made brings
  Seq previous_seq = 0;         // before the last batch
  Instant clock;
  Instant retry_at;  // while read-only
  bool read_only = false;
  bool quiet = false;  // as the settings say, since the log is open
  bool trusted = true;
  std::string trouble = "it could not be read back";  // why the last write failed
  std::string deposed;

  Inner(Log& l, BlobStore& b, EngineSettings s)
      : log(l),
        blobs(b),
        settings(std::move(s)),
        state(settings.core),
        apart(
            settings.sha256_hex, [&b](const BlobId& id) { return b.blob(id); }, settings.long_value),
        upkeep(l, b, apart, {settings.snapshot_every, settings.snapshot_bytes}) {}

  void publish(Batch batch) {
    if (readers.empty())
      return;
    const auto shared = std::make_shared<const Batch>(std::move(batch));
    for (const auto& reader : readers) reader(shared);
  }

  // Rebuilds the state from the log. Entries that readers have not seen (an append that failed and is there all the
  // same) are published.
  Result<void> load(std::uint64_t seen) {
    auto snapshot = TRY(log.read_snapshot());
    SpecPool pool;
    EntryReader reader(&pool, &apart);
    for (std::size_t i = 0; i < snapshot.chunks.size(); ++i)
      TRY(reader.add(std::exchange(snapshot.chunks[i], {}), i + 1 == snapshot.chunks.size()));
    auto [changes, forgotten, at] = reader.take();
    std::vector<Batch> unseen;
    std::map<std::uint64_t, std::size_t> tail;  // bytes of entries behind the snapshot
    std::uint64_t index = snapshot.index;
    const std::uint64_t end = TRY(log.last_index());
    for (;;) {
      if (settings.loading)
        settings.loading(index, end);
      auto entries = TRY(log.read(index + 1, kReadPage));
      if (entries.empty())
        break;
      for (auto& entry : entries) {
        if (entry.index != index + 1)
          return Error{Errc::kCorrupt, format("the log has entry {} where {} belongs", entry.index, index + 1), {}};
        index = entry.index;
        tail.emplace_hint(tail.end(), index, entry.bytes.size());
        if (!TRY(reader.add(entry.bytes, entry.closing)))
          continue;
        auto body = reader.take();
        at = std::max(at, body.at);
        if (index > seen) {
          changes.insert(changes.end(), body.changes.begin(), body.changes.end());
          unseen.push_back({index, body.at, std::move(body.changes), std::move(body.events), {}});
        } else {
          std::move(body.changes.begin(), body.changes.end(), std::back_inserter(changes));
        }
      }
    }
    for (std::size_t i = 1; i < changes.size(); ++i)
      if (changes[i].seq <= changes[i - 1].seq)
        return Error{
            Errc::kCorrupt, format("the log goes back from change {} to {}", changes[i - 1].seq, changes[i].seq), {}};
    ClusterState fresh(settings.core);
    fresh.restore(changes);
    fresh.inherit(state);
    state = std::move(fresh);
    apart.settle(index);
    const auto oldest = TRY(log.read(1, 1));
    upkeep.loaded(snapshot.index, oldest.empty() ? index : oldest.front().index - 1, std::move(tail));
    last_index = index;
    previous_seq = state.tables().seq;
    clock = std::max(clock, at);
    if (state.tables().cluster)
      clock = std::max(clock, state.tables().cluster->clock);
    for (auto& batch : unseen) publish(std::move(batch));
    return {};
  }

  // Cuts a batch into entries of at most kEntryBytesMax; the last one closes. A record may span several.
  std::vector<LogEntry> entries_of(const Batch& batch) {
    std::vector<LogEntry> out;
    write_pieces(batch.at, batch.changes, batch.events, kDocumentBytes, apart, [&](std::string bytes, Seq last_seq) {
      out.push_back({last_index + out.size() + 1, last_seq, false, std::move(bytes)});
    });
    out.back().closing = true;
    if (state.tables().cluster)
      out.back().next_job = state.tables().cluster->next_job;
    return out;
  }

  std::vector<Change> records() const {
    auto out = state.tables().snapshot();
    const auto& tables = state.tables();
    // The newest number may belong to a removal, which a snapshot does not hold: the cluster's record carries it, so
    // that no number is given out twice.
    if (tables.cluster && (out.empty() || out.back().seq < tables.seq)) {
      std::erase_if(out, [](const Change& c) { return kind_of(c.record) == Kind::kCluster; });
      out.push_back({tables.seq, tables.cluster, false});
    }
    return out;
  }

  void begin_snapshot() {
    auto now_there = records();
    if (mutant(Mutant::kSnapshotStale))
      std::erase_if(now_there, [&](const Change& c) { return c.seq > previous_seq; });
    const auto draft = upkeep.draft(last_index, clock, std::move(now_there));
    const auto encode = [draft] { draft->encode(); };
    const auto store = [this, draft] {
      if (trusted)
        upkeep.store(draft);
      else
        upkeep.drop_draft();
    };
    if (aside) {
      aside(encode, store);
    } else {
      encode();
      store();
    }
  }

  void upkeep_turn() {
    if (trusted && !pending)
      upkeep.turn(term, state.tables());
  }

  void refuse(std::vector<Item>& items, const Error& why) {
    for (auto& item : items)
      if (item.reply)
        item.reply(why);
  }

  Error low_space_error() const {
    return {Errc::kUnavailable,
            "the disk under the controller's state is full: only cancels and the ends of jobs are taken until there is "
            "room again",
            "read-only"};
  }

  // On its reserve the log takes what ends work; the rest is refused and nothing waits.
  void refuse_growth() {
    if (!settings.low_space || !settings.low_space())
      return;
    std::deque<Item> kept;
    std::vector<Item> refused;
    for (auto& item : queue) {
      if (goes_first(item.command))
        kept.push_back(std::move(item));
      else
        refused.push_back(std::move(item));
    }
    queue = std::move(kept);
    refuse(refused, low_space_error());
  }

  std::vector<Item> take_queued() {
    std::vector<Item> items;
    items.reserve(std::min(queue.size(), settings.batch_max));
    if (!read_only) {
      while (!queue.empty() && items.size() < settings.batch_max) {
        items.push_back(std::move(queue.front()));
        queue.pop_front();
      }
      return items;
    }
    // In trouble: what ends work is tried alone; without any, whatever there is.
    std::deque<Item> rest;
    for (auto& item : queue) {
      const bool now = items.size() < settings.batch_max && goes_first(item.command);
      if (now)
        items.push_back(std::move(item));
      else
        rest.push_back(std::move(item));
    }
    queue = std::move(rest);
    if (items.empty()) {
      const std::size_t count = std::min(queue.size(), settings.batch_max);
      for (std::size_t i = 0; i < count; ++i) {
        items.push_back(std::move(queue.front()));
        queue.pop_front();
      }
    }
    return items;
  }

  // Whoever may have stopped the controller is applied alone, so that the note tells whether it was that one.
  void isolate_suspects(std::vector<Item>& items) {
    if (!quarantine || !quarantine->any_suspects())
      return;
    std::size_t keep = 0;
    while (keep < items.size() && !quarantine->suspects(fingerprint(items[keep].command))) ++keep;
    keep = std::max<std::size_t>(1, keep);
    for (; items.size() > keep; items.pop_back()) queue.push_front(std::move(items.back()));
  }

  void ready() {
    if (loading)
      note->loaded();
    loading = false;
  }

  void run(Instant now) {
    if (queue.empty() || pending)
      return;
    clock = std::max(clock, now);
    if (!deposed.empty())
      return refuse_all(deposed_error());
    if (quiet)
      return refuse_all(quiet_error(settings.quiet));
    if (read_only && clock < retry_at)
      return refuse_all(read_only_error(trouble));
    refuse_growth();
    std::vector<Item> items = take_queued();
    if (items.empty())
      return;
    isolate_suspects(items);
    if (!trusted && !reload()) {
      refuse(items, read_only_error(trouble));
      return;
    }

    ready();
    if (note)
      note->begin();
    Pending made{.items = std::move(items), .seq_before = state.tables().seq};
    made.batch.at = clock;
    made.answers.reserve(made.items.size());
    apply_all(made.items, made.answers, made.batch, made.blobs);
    const FewVersions kept(made.batch.changes);
    if (note && mutant(Mutant::kLateQuarantine))
      note->done();
    else if (note)
      note->stage(CrashStage::kStoring);

    if (mutant(Mutant::kEarlyAck))
      answer(made.items, made.answers);
    if (mutant(Mutant::kPublishUncommitted)) {
      Batch early = made.batch;
      early.index = last_index + 1;
      publish(std::move(early));
    }
    if (made.batch.changes.empty())
      return conclude(std::move(made));
    made.entries = entries_of(made.batch);
    for (const auto& [id, text] : apart.fresh()) made.blobs.push_back({id, text});
    pending.emplace(std::move(made));
    blobs.put(pending->blobs);
    log.append(term, pending->entries, [this](const Log::End& end) { appended(end); });
    if (pending && mutant(Mutant::kAnsweredTwice))
      answer(pending->items, std::vector(pending->answers));
  }

  void appended(const Log::End& end) {
    CHECK(pending.has_value(), "an append ends once");
    Pending made = std::move(*pending);
    pending.reset();
    if (end.stored == Stored::kDeposed)
      deposed = end.why;
    if (end.stored != Stored::kYes) {
      trouble = end.why;
      fail(made.items);
      over();
      return;
    }
    last_index = made.entries.back().index;
    apart.settle(last_index);
    upkeep.appended(made.entries, std::move(made.blobs));
    previous_seq = made.seq_before;
    read_only = false;
    conclude(std::move(made));
  }

  // All of it is durable: now others may know.
  void conclude(Pending made) {
    state.stored();
    made.batch.index = last_index;
    if (note && !mutant(Mutant::kLateQuarantine))
      note->stage(CrashStage::kPublishing);
    const std::string alone = made.batch.commands.size() == 1 ? made.batch.commands.front() : std::string();
    if (!mutant(Mutant::kPublishUncommitted) && !(made.batch.changes.empty() && made.batch.actions.empty()))
      publish(std::move(made.batch));
    if (!mutant(Mutant::kEarlyAck))
      answer(made.items, std::move(made.answers));
    if (quarantine)
      quarantine->survived(alone);
    if (upkeep.snapshot_due(last_index))
      begin_snapshot();
    upkeep_turn();
    over();
  }

  // However a batch ended, nothing is to be noted of it any more.
  void over() {
    if (note)
      note->done();
  }

  // Applies items until they took long enough; what is left goes back to the front of the queue, where it came from.
  // A command that was cut goes to its end, behind those who wait.
  void apply_all(std::vector<Item>& items, std::vector<Result<Answer>>& answers, Batch& batch,
                 std::vector<Blob>& blobs) {
    std::size_t applied = 0;
    batch_bytes = 0;
    const Duration begin = watch.cpu_lately ? watch.cpu_lately() : watch.cpu ? watch.cpu() : Duration{};
    Duration last = begin;
    Instant looked = watch.now ? watch.now() : Instant{};
    // A thread's own time is a system call; no command costs more of it than passes on the wall.
    const auto due = [&] {
      if (!watch.cpu || !watch.now)
        return bool(watch.cpu);
      const Instant now_is = watch.now();
      return now_is - looked >= kLookAtCpu && (looked = now_is, true);
    };
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::optional<CommandPart> rest;
      Result<Answer> answer = apply_one(items[i], batch, blobs, rest);
      if (due()) {
        const Duration now_at = watch.cpu();
        watch.took(now_at - last > kTellCost ? fingerprint(items[i].command) : std::string(), now_at - last);
        last = now_at;
      }
      if (rest) {
        items[i].command.part = *rest;
        queue.push_back(std::move(items[i]));
      } else {
        if (applied != i)
          items[applied] = std::move(items[i]);
        ++applied;
        answers.push_back(std::move(answer));
      }
      if (last - begin >= watch.enough || batch_bytes >= kBatchBytes) {
        queue.insert(queue.begin(), std::make_move_iterator(items.begin() + static_cast<std::ptrdiff_t>(i) + 1),
                     std::make_move_iterator(items.end()));
        break;
      }
    }
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(applied), items.end());
  }

  // As a whole, or one of its bodies by itself.
  bool is_quarantined(const std::string& name, const Command& command) const {
    if (quarantine->refuses(name))
      return true;
    if (command.also.empty())
      return false;
    const auto names = fingerprints(command);
    return std::any_of(names.begin(), names.end(), [&](const std::string& one) { return quarantine->refuses(one); });
  }

  Result<Answer> apply_one(Item& item, Batch& batch, std::vector<Blob>& blobs, std::optional<CommandPart>& rest) {
    if (note) {
      std::string name = fingerprint(item.command);
      if (is_quarantined(name, item.command))
        return Error{Errc::kInternal, format("quarantined: this request stopped the controller before ({})", name), {}};
      note->applying(name);
      batch.commands.push_back(std::move(name));
    }
    auto outcome = apply(state, item.command, clock);
    if (note && item.command.caller.user && item.command.part.from == 0)
      for (std::string& name : fingerprints(item.command)) batch.acts.push_back({std::move(name), !outcome.ok()});
    if (!outcome.ok())
      return std::move(outcome).error();
    auto& o = *outcome;
    batch_bytes += o.bytes;
    for (const Blob& blob : item.blobs) batch_bytes += blob.bytes.size();
    std::move(o.changes.begin(), o.changes.end(), std::back_inserter(batch.changes));
    std::move(o.events.begin(), o.events.end(), std::back_inserter(batch.events));
    std::move(o.actions.begin(), o.actions.end(), std::back_inserter(batch.actions));
    for (auto& blob : item.blobs)
      if (!upkeep.knows(blob.id) &&
          std::none_of(blobs.begin(), blobs.end(), [&](const Blob& b) { return b.id == blob.id; }))
        blobs.push_back(std::move(blob));
    rest = o.rest;
    return std::move(o.answer);
  }

  static void answer(std::vector<Item>& items, std::vector<Result<Answer>> answers) {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (items[i].reply)
        items[i].reply(std::move(answers[i]));
  }

  void fail(std::vector<Item>& items) {
    read_only = true;
    retry_at = clock + settings.retry_after;
    apart.withdraw();
    (void)reload();
    const Error why = deposed.empty() ? read_only_error(trouble) : deposed_error();
    if (!mutant(Mutant::kEarlyAck))
      refuse(items, why);
    // What waits behind the failed batch may rest on it: it fails with it, so that who repeats both keeps their order.
    refuse_all(why);
    if (mutant(Mutant::kAppendedTwice))
      queue.insert(queue.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
  }

  void refuse_all(const Error& why) {
    std::vector<Item> all(std::make_move_iterator(queue.begin()), std::make_move_iterator(queue.end()));
    queue.clear();
    refuse(all, why);
  }

  // What the log holds by now is another's; nothing may rest on the state as it was applied.
  bool reload() {
    trusted = deposed.empty() && load(last_index).ok();
    if (!trusted)
      retry_at = clock + settings.retry_after;
    return trusted;
  }
};

Engine::Engine(Log& log, BlobStore& blobs, EngineSettings settings)
    : inner_(std::make_unique<Inner>(log, blobs, std::move(settings))) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(Log& log, BlobStore& blobs, EngineSettings settings, Instant now) {
  std::unique_ptr<Engine> engine(new Engine(log, blobs, std::move(settings)));
  Inner& in = *engine->inner_;
  in.note = in.settings.crash_note;
  if (!in.note && !in.settings.poison.empty()) {
    in.poison = TRY(PoisonNote::open(in.settings.poison));
    in.note = in.poison.get();
  }
  if (in.note) {
    in.quarantine = TRY(Quarantine::open(*in.note));
    in.note->loading();
  }
  if (in.poison)
    for (const std::string& name : in.quarantine->quarantined())
      std::fprintf(stderr, "lockstepd: quarantined, because it stopped the controller: %s\n", name.c_str());
  in.term = TRY(log.lead());
  TRY(in.load(UINT64_MAX));
  in.settings.loading = nullptr;
  std::optional<Error> failure;
  engine->submit({{UserId{}, true}, StartEpoch{in.settings.cluster_name}}, [&](Result<Answer> answer) {
    if (!answer.ok())
      failure = std::move(answer).error();
  });
  engine->run_batch(now);
  engine->settle();
  if (failure)
    return std::move(*failure);
  if (in.note) {
    in.loading = true;
    in.note->loading();
  }
  in.quiet = !in.settings.quiet.empty();
  return engine;
}

void Engine::submit(Command command, Reply reply, std::vector<Blob> blobs) {
  if (inner_->queue.size() >= inner_->settings.inbox_max) {
    if (reply)
      reply(Error{Errc::kExhausted,
                  format("the controller has {} requests waiting; try again", inner_->settings.inbox_max),
                  {}});
    return;
  }
  inner_->queue.push_back({std::move(command), std::move(reply), std::move(blobs)});
}

void Engine::ready() { inner_->ready(); }
std::vector<std::string> Engine::quarantined() const {
  return inner_->quarantine ? inner_->quarantine->quarantined() : std::vector<std::string>();
}

void Engine::teach(std::span<const PastRun> runs) { inner_->state.teach(runs); }
bool Engine::has_work() const { return !inner_->queue.empty() && !inner_->pending; }
bool Engine::storing() const { return inner_->pending.has_value(); }
void Engine::poll() { inner_->log.poll(); }
void Engine::settle() {
  while (storing()) {
    inner_->log.wait();
    inner_->log.poll();
  }
}
const std::string& Engine::deposed() const { return inner_->deposed; }
void Engine::run_batch(Instant now) { inner_->run(now); }
bool Engine::has_upkeep() const {
  return inner_->upkeep.has_more() && inner_->trusted && !inner_->read_only && !inner_->pending;
}
void Engine::upkeep() { inner_->upkeep_turn(); }
void Engine::set_watch(Watch watch) { inner_->watch = std::move(watch); }
void Engine::set_aside(Aside aside) { inner_->aside = std::move(aside); }
void Engine::add_reader(Reader reader) { inner_->readers.push_back(std::move(reader)); }
std::vector<Change> Engine::snapshot() const { return inner_->records(); }
const ClusterState& Engine::state() const { return inner_->state; }
bool Engine::read_only() const { return inner_->read_only || inner_->quiet; }
std::string Engine::trouble() const {
  if (inner_->quiet)
    return inner_->settings.quiet;
  if (inner_->read_only)
    return format("the log cannot be written now ({}): nothing can be changed until it can", inner_->trouble);
  return inner_->settings.low_space && inner_->settings.low_space() ? inner_->low_space_error().message : std::string();
}
bool Engine::trusted() const { return inner_->trusted; }
Instant Engine::clock() const { return inner_->clock; }
std::uint64_t Engine::last_index() const { return inner_->last_index; }

void Engine::set_trim_floor(std::uint64_t index) {
  inner_->upkeep.raise_floor(index);
  if (!inner_->upkeep.has_more())  // else the next turn goes on
    inner_->upkeep_turn();
}

}  // namespace lockstep
