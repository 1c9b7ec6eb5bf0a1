// The controller of an embedded cluster: started under a supervisor, waited for, ended.
#include <signal.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/local_cluster.h"
#include "io/client/unix_api_client.h"
#include "io/local/daemon.h"
#include "io/local/folder.h"
#include "io/local/restarts.h"
#include "io/local/supervisor.h"

namespace lockstep {

namespace {

constexpr const char* kControllerLog = "log/controller.log";
constexpr Duration kStartPatience = seconds(30);
constexpr Duration kLook = millis(5);

bool answers(const ClusterDir& dir) {
  const auto client = connect_unix(dir.socket());
  if (!client)
    return false;
  tell_of_silence(**client, dir);
  const auto reply = (*client)->call("GET", "/v1/ping", "", kStartPatience);
  return reply && reply->status < 300;
}

Supervised controller_of(const ClusterDir& dir, const ClusterConf& conf) {
  Supervised what;
  what.cluster_id = dir.id;
  what.note_path = dir.file(kControllerNoteFile);
  what.log_path = dir.file(kControllerLog);
  what.argv = {program_dir() + "/lockstepd",  "--dir", dir.root, "--cluster-name", conf.name, "--listen",
               as_argument(listener_of(conf))};
  what.argv.insert(what.argv.end(), {"--unkillable-after", std::to_string(conf.unkillable_s)});
  if (conf.namespace_objects > 0)
    what.argv.insert(what.argv.end(), {"--namespace-objects", std::to_string(conf.namespace_objects)});
  if (conf.move_after_s > 0)
    what.argv.insert(what.argv.end(), {"--defragment", "--move-after", std::to_string(conf.move_after_s)});
  return what;
}

// Waits for the controller of one `lockstep up`. It believes no number that was noted: a process that is just dying
// still has one. Only an answer counts, and while there is none somebody must be there who starts it.
class Wait {
 public:
  Wait(const ClusterDir& dir, const ClusterConf& conf) : dir_(dir), what_(controller_of(dir, conf)) {}

  Result<bool> run() {
    TRY(see_to_supervisor());
    if (!started_ && answers(dir_))
      return true;
    if (supervisor_ && !started_)
      supervisor_->signal(SIGHUP);  // it may be waiting before its next try
    for (const Instant until = boot_now() + kStartPatience; boot_now() < until;) {
      TRY(see_to_supervisor());
      if (answers(dir_))
        return false;
      TRY(look_at_note());
      ::usleep(static_cast<useconds_t>(kLook.us));
    }
    return Error{Errc::kTimeout,
                 format("the controller does not answer on {} after {} s; its log: {}", dir_.socket(),
                        kStartPatience.seconds(), what_.log_path),
                 {}};
  }

 private:
  Result<void> see_to_supervisor() {
    if (supervisor_ && !supervisor_->ended({}))
      return {};
    const auto note = read_run_note(what_.note_path);
    ends_before_ = note ? note->ends : 0;
    supervisor_ = note && note->supervisor ? own_process(*note->supervisor, dir_.id) : std::nullopt;
    if (supervisor_)
      return {};
    if (started_++ == kSupervisorsMax)
      return Error{Errc::kUnavailable, format("the controller's supervisor keeps ending; see {}", what_.log_path), {}};
    supervisor_.emplace(TRY(start_supervisor(what_)));
    return {};
  }

  // A controller that ends by itself has said why, and would say it again; one that crashed gets its second chance.
  Result<void> look_at_note() {
    const auto note = read_run_note(what_.note_path);
    const std::uint32_t before = started_ ? 0 : ends_before_;
    if (!note || !note->supervisor || !(*note->supervisor == supervisor_->id()) || note->ends <= before ||
        !note->ended_by_itself)
      return {};
    if (started_)
      supervisor_->end(seconds(15));
    return Error{Errc::kUnavailable, failed_start_text(dir_, *note), {}};
  }

  static constexpr int kSupervisorsMax = 3;
  const ClusterDir& dir_;
  Supervised what_;
  std::optional<OwnProcess> supervisor_;
  int started_ = 0;
  std::uint32_t ends_before_ = 0;
};

}  // namespace

Result<OwnProcess> start_supervisor(const Supervised& what) {
  Daemon daemon;
  daemon.argv = supervise_arguments(what);
  daemon.argv.insert(daemon.argv.begin(), program_dir() + "/lockstep");
  daemon.env = {{kClusterIdVariable, what.cluster_id}};
  daemon.log_path = what.log_path;
  return OwnProcess::prove(TRY(start_daemon(daemon)), what.cluster_id);
}

std::string failed_start_text(const ClusterDir& dir, const RunNote& note) {
  return format("the controller did not start: {}; its log: {}", note.ended, dir.file(kControllerLog));
}

Result<bool> start_controller(const ClusterDir& dir, const ClusterConf& conf) {
  TRY(TRY(Folder::open(dir.root)).folder("log", 0700));
  TRY(RunNoteFile::open(dir.file(kControllerNoteFile)));  // else a supervisor could say why only in its log
  return Wait(dir, conf).run();
}

Result<ClusterConf> move_controller(const ClusterDir& dir, const ClusterConf& conf, const ListenAt& at) {
  if (listener_of(conf) == at)
    return conf;
  const bool runs = answers(dir);
  TRY(check_can_listen(at, runs ? std::optional(listener_of(conf)) : std::nullopt));
  ClusterConf moved = conf;
  moved.listen = at.address;
  moved.port = at.port;
  TRY(dir.save(moved));
  TRY(stop_controller(dir));
  if (const auto started = start_controller(dir, moved); !started) {
    TRY(dir.save(conf));
    const auto back = runs ? start_controller(dir, conf) : Result<bool>(false);
    return Error{
        started.error().code,
        format("{}. The settings are as before{}", started.error().message, back ? "" : "; " + back.error().message),
        {}};
  }
  return moved;
}

Result<void> stop_controller(const ClusterDir& dir) {
  const auto note = read_run_note(dir.file(kControllerNoteFile));
  if (!note)
    return {};
  for (const auto& noted : {note->supervisor, note->process}) {
    const auto process = noted ? own_process(*noted, dir.id) : std::nullopt;
    // A supervisor gives the controller ten seconds.
    if (process && !end_and_tell(*process, seconds(20), "the controller"))
      return Error{Errc::kTimeout, format("process {} does not end", noted->pid), {}};
  }
  return {};
}

}  // namespace lockstep
