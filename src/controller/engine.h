// Engine: the one writer. Queued commands become one batch; the batch becomes one durable log entry; only then callers
// are answered and readers see the changes. Deterministic: the production thread and the chaos simulator both drive it.
//
// If an append fails nothing is answered as done and nothing is published: the state is reloaded from the log, the
// batch's callers get kUnavailable, and the engine is read-only until an append succeeds (completions and cancels are
// tried first, within the log's reserve). Where another controller writes the log now, it never succeeds again.
//
// While an append is under way, storing(), state() holds what may yet be undone: nobody may read it, or hand it on, and
// only submit(), poll() and settle() may be called.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "ports/crash_note.h"
#include "ports/log.h"
#include "wire/long_values.h"

namespace lockstep {

// A command of the controller itself.
inline Command own(CommandBody body) { return {{UserId{}, true}, std::move(body)}; }

// Whether all of it ends work, or tells of the fate of nodes: it still goes through, and first, when the log is in
// trouble.
bool goes_first(const Command& command);

struct EngineSettings {
  CoreSettings core;
  std::size_t batch_max = 512;             // commands in one entry
  std::size_t inbox_max = 100'000;         // commands waiting; further ones are refused with kExhausted
  std::uint64_t snapshot_every = 20'000;   // entries
  std::size_t snapshot_bytes = 256 << 20;  // or so many bytes of them
  // Names long values, which are stored once (wire/long_values.h). Unset: they stay in their records.
  std::function<std::string(std::string_view)> sha256_hex;
  std::size_t long_value = kLongValue;
  Duration retry_after = millis(500);  // read-only: between two tries of the log
  std::string cluster_name = "lockstep";
  // True while the log lives on its reserve: only what ends work is taken then. Unset = never.
  std::function<bool()> low_space;
  // Told while open() reads the log, some entries at a time.
  std::function<void(std::uint64_t entry, std::uint64_t last)> loading;
  // Why nothing is changed once the log is open: every command is refused with it. "" = everything is taken.
  std::string quiet;
  std::string poison;               // file for what is being done (controller/poison.h); "" = none
  CrashNote* crash_note = nullptr;  // instead of that file; must outlive the engine
};

class Engine {
 public:
  using Reply = std::function<void(Result<Answer>)>;

  // Takes the lead of the log, loads snapshot and tail, then commits StartEpoch at now, or at the log's own clock where
  // that is later. A command
  // that stopped the controller, in whatever stage, is quarantined: refused from then on (controller/quarantine.h).
  // Refuses, with kCorrupt, where the state itself stopped the last two lives.
  static Result<std::unique_ptr<Engine>> open(Log& log, BlobStore& blobs, EngineSettings settings, Instant now);

  // What is built on the state (planner, views) stands: from now on a death is no fault of the state. The first batch
  // says so, too. On the thread that opened it.
  void ready();
  // Names of the commands that are refused because they stopped the controller, sorted.
  std::vector<std::string> quarantined() const;

  // Queues a command. blobs are stored with it. reply is called after the covering entry is durable (or with an error).
  void submit(Command command, Reply reply, std::vector<Blob> blobs = {});
  // What jobs that are only known from history teach predictions (ClusterState::teach).
  void teach(std::span<const PastRun> runs);
  bool has_work() const;
  // The log's upkeep: storing a snapshot, trimming what it covers, sweeping blobs that nobody names. A batch does a
  // piece of it; where there are more, and no batch comes, upkeep() does the next one.
  bool has_upkeep() const;
  void upkeep();
  // Applies what is queued as one batch, and begins to store it. Call again while has_work().
  void run_batch(Instant now);
  // A batch is applied, and its append has not ended. poll() publishes and answers when it has; settle() sleeps until
  // then.
  bool storing() const;
  void poll();
  void settle();
  // Another controller writes the log: nothing that this one does will ever count. "": it leads.
  const std::string& deposed() const;

  // A reader gets every committed batch in order, after callers' answers are decided and before they are sent.
  struct Batch {
    std::uint64_t index = 0;  // log index of its closing entry; of the one before when nothing had to be stored
    Instant at;
    std::vector<Change> changes;
    std::vector<Event> events;
    std::vector<Action> actions;
    std::vector<std::string> commands;  // names of what is in it, for AtWorkFor; empty where nobody keeps a note
    struct Act {
      std::string name;
      bool refused = false;  // it changed nothing
    };
    std::vector<Act> acts;  // what users asked for, each once; empty where nobody keeps a note
  };
  using Reader = std::function<void(const std::shared_ptr<const Batch>&)>;
  void add_reader(Reader reader);
  // Runs `work` elsewhere, then `done` on the engine's own thread. Unset: both at once. For encoding a snapshot, which
  // takes long and needs nothing but the records, which nobody changes.
  using Aside = std::function<void(std::function<void()> work, std::function<void()> done)>;
  void set_aside(Aside aside);
  // Who watches what commands cost. cpu: CPU time of this thread; took: what one command, or "commit" (encoding and
  // publishing a batch), cost of it. A batch ends early once its commands took `enough`. now: any clock that is cheap
  // to read; where there is one, what is shorter than a millisecond on it is counted with what follows.
  struct Watch {
    std::function<Duration()> cpu;
    std::function<void(const std::string& fingerprint, Duration cost)> took;
    Duration enough = kForever;
    std::function<Instant()> now = {};
    std::function<Duration()> cpu_lately = {};  // cheaper than cpu, and up to a millisecond behind it; unset: none is
  };
  void set_watch(Watch watch);
  // Every record, as of the last committed batch.
  std::vector<Change> snapshot() const;

  const ClusterState& state() const;
  bool read_only() const;
  // Why changes are refused now: the log cannot be written, or its disk is full and only what ends work is taken. "":
  // everything is taken.
  std::string trouble() const;
  // False while the state could not be reloaded after a failed append: decide nothing by state() until it is true
  // again.
  bool trusted() const;
  Instant clock() const;  // cluster time of the last batch: time never goes back behind it
  std::uint64_t last_index() const;
  // The log may be trimmed up to here (the slowest durable reader); kept at 0 until history reports.
  void set_trim_floor(std::uint64_t index);

 private:
  Engine(Log& log, BlobStore& blobs, EngineSettings settings);
  struct Inner;
  std::unique_ptr<Inner> inner_;

 public:
  ~Engine();
};

}  // namespace lockstep
