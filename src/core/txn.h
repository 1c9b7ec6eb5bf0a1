// Txn: one command at work. It writes straight into the tables and indexes, so whoever reads afterwards sees its
// writes, and remembers how to take everything back if the command fails.
//
// Records in the tables are immutable and shared: copy one, change the copy, put() it. A reference into the tables
// dies with the next put() or remove() of that record; hold the Ref where it must outlive that.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/inner.h"
#include "model/bounds.h"
#include "model/job.h"

namespace lockstep {

// A job that some node is closed for, and where it has changed.
struct Closer {
  JobId job;
  NodeId node = {};
  bool everywhere = false;
};

class Txn {
 public:
  static constexpr std::uint64_t kWorkMost = 400;       // in changes of records: some milliseconds
  static constexpr std::size_t kBytesMost = 512 << 10;  // of records that were made or grew
  static constexpr std::uint64_t kActionsPerChange = 4, kLooksPerChange = 16;

  Txn(ClusterState::Inner& inner, const Caller& caller, Instant now, CommandPart part = {});
  Txn(const Txn&) = delete;
  Txn& operator=(const Txn&) = delete;

  Instant now() const { return now_; }
  Seq seq_before() const { return seq_before_; }  // of the last change of earlier commands
  const Caller& caller() const { return caller_; }
  const Tables& tables() const { return inner_.tables; }
  const CoreSettings& settings() const { return inner_.settings; }

  // What a command may cost. One that is tired leaves the rest: to its next part, or to Chores.
  bool tired() const { return work() >= kWorkMost || out_.bytes >= kBytesMost; }
  // What a company of commands may cost before its next one: as much as the largest record, since one alone may be so.
  bool exhausted() const { return work() >= kWorkMost || out_.bytes >= kRecordBytesMax; }
  void looked(std::size_t records = 1) { looks_ += records; }  // at records that it did not change
  const CommandPart& part() const { return part_; }            // what earlier parts of the same command did
  void cut(CommandPart rest) { out_.rest = rest; }             // go on there
  bool is_cut() const { return out_.rest.has_value(); }
  Chores& chores() { return inner_.chores; }
  void tried_layout() { ++inner_.layouts_tried; }
  void park(const Job& job) { inner_.park(job); }
  // Of the epoch (Epoch); it counts once the command has succeeded.
  void note_epoch();
  void note_heard(NodeId node) { heard_.push_back(node); }
  void note_attempt(const Job& job, AttemptNo seen) { noted_.push_back({job.id, {job.attempt, seen}}); }
  const ClusterState::Inner& inner() const { return inner_; }  // the indexes, to read

  // Null when absent. The Ref keeps the version alive.
  Ref<Job> job(JobId id) const;
  Ref<Node> node(NodeId id) const;
  Ref<Step> step(JobId job, StepNo number) const;
  Ref<Task> task(const TaskKey& key) const;

  // Writes a record: gives it the next seq, and uid and creation time if it is new (else the ones it had).
  // A job's change of state must be a legal transition.
  template <class T>
  Ref<T> put(T record);
  Ref<Node> put(Node record);
  Ref<Job> put(Job record);
  void remove(const Record& record);  // must be in the tables

  void act(NodeId node, const Job& job, ActionBody body);  // for job's current attempt
  void event(const Job& job, std::string what, std::string message = {});
  void event(Kind kind, const Meta& about, std::string what, std::string message = {});

  // The cluster record: edits are collected and written once, at the end.
  Cluster& edit_cluster();
  JobId new_job_id();
  NodeId new_node_id();
  UserId new_user_id();

  // The waiting part of an array. Edits are collected and written with the array's record at the end.
  const ArrayState& array(JobId id) const;
  ArrayState& edit_array(JobId id);

  void refresh_timers(JobId id) { inner_.refresh_timers(id); }

  // How long a job ran says something of its kin; it counts once the command has succeeded. limit: it ran under;
  // kForever = none.
  struct Learned {
    Ref<JobSpec> spec;
    Duration limit, ran;
  };
  void learn(const Job& ended, Duration limit, Duration ran) { learned_.push_back({ended.spec, limit, ran}); }
  std::vector<Learned> take_learned() { return std::exchange(learned_, {}); }
  Turns& turns() { return inner_.turns; }

  // The spec passed every check just now; hands out an equal one that jobs share already, if there is one,
  // else one that shares with the last what is the same in both.
  Ref<JobSpec> share(const Ref<JobSpec>& spec);

  // Job-state changes whose consequences for others (dependents, arrays) are drawn at the end of the command.
  std::vector<JobId> take_moved();
  std::vector<JobId> take_edited_arrays();
  std::vector<JobId> take_released();     // jobs for which nothing is held any more
  std::vector<NodeId> take_dark_nodes();  // that can no longer be used
  std::vector<ObjectKey> take_shown();    // objects that show what has changed, each once
  std::vector<Closer> take_closers();     // jobs that a node is closed for (Node::unconfirmed), and that have changed
  bool has_draft(JobId array) const { return drafts_.contains(array); }

  // Set once a record was put that takes more than kRecordBytesMax in the log: the command must be taken back.
  const std::optional<Error>& too_large() const { return too_large_; }
  // Whether this version of a job could be put.
  bool fits_log(const Job& job) const;

  // Writes what was collected, hands out the outcome. Nothing may follow.
  Outcome commit(Answer answer);
  void roll_back();

 private:
  std::uint64_t work() const {
    return out_.changes.size() + out_.actions.size() / kActionsPerChange + looks_ / kLooksPerChange;
  }
  template <class T>
  Ref<T> write(T record, const T* before);
  void weigh(const Record& record);
  void keep_notes();
  void count_element(const Job* before, const Job& after);
  template <class T>
  void note_shown(const T& record);
  void note_owners();

  struct Undo {
    Record before;  // a null ref of its kind if the record is new
    bool existed = false;
  };

  void note_closers(const Job& before, const Job& after);

  ClusterState::Inner& inner_;
  const Caller caller_;
  const Instant now_;
  const CommandPart part_;
  std::uint64_t looks_ = 0;
  const Seq seq_before_;
  const Instant last_before_;
  Outcome out_;
  std::optional<Error> too_large_;
  std::vector<Undo> undo_;  // one per change
  std::map<JobId, ArrayState> drafts_;
  std::set<JobId> edited_;
  std::vector<Learned> learned_;
  std::optional<Epoch> epoch_;  // set when one begins
  std::vector<NodeId> heard_;
  std::vector<std::pair<JobId, Epoch::Attempts>> noted_;
  std::vector<JobId> moved_, released_;
  std::vector<Closer> closers_;
  std::vector<NodeId> dark_;
  std::set<Uid> shown_;
  std::unique_ptr<Cluster> cluster_;  // set once it was edited
};

}  // namespace lockstep
