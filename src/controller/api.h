// Api: the HTTP surface (docs/api.md), on the I/O thread. Reads are answered from the live view; changes become
// commands and are answered when they are durable. Front ends add their pages. Who may ask what is in the rows of
// routes.h; whose turn it is, in turns.h; what one caller may have of everything, in ApiLimits.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/account_book.h"
#include "controller/body_loop.h"
#include "controller/cluster_clock.h"
#include "controller/core_loop.h"
#include "controller/followers.h"
#include "controller/history_loop.h"
#include "controller/identity.h"
#include "controller/links.h"
#include "controller/live_view.h"
#include "controller/plan_refusals.h"
#include "controller/presence.h"
#include "controller/question_loop.h"
#include "controller/read_loop.h"
#include "controller/routes.h"
#include "controller/step_io.h"
#include "controller/stored_room.h"
#include "controller/try_guard.h"
#include "controller/turns.h"
#include "controller/visit.h"
#include "controller/waiters.h"
#include "foresight/cluster_copy.h"
#include "model/bounds.h"
#include "ports/actor.h"
#include "views/read_context.h"
#include "wire/api.h"
#include "wire/step_route.h"

namespace lockstep {

struct SignedCertificate {
  std::string pem, serial;
};

// What the API needs of the machine, given by the program.
struct ApiPowers {
  std::function<std::string(std::string_view)> sha256_hex;
  std::function<std::string(std::size_t bytes)> random_hex;
  Mac hmac_sha256_hex;
  // A certificate for a request (PEM), whose subject becomes CN=name, OU=role.
  std::function<Result<SignedCertificate>(const std::string& csr, const std::string& name, const std::string& role)>
      sign;
  std::string ca_pem, ca_fingerprint;
  std::function<std::string()> ca_notice;         // for `lockstep status`, asked each time; "" and unset: nothing
  AccountBook::Lookup account = look_up_account;  // the machine's user database
  std::function<std::uint64_t()> free_bytes;      // of the disk under the log; unset: as many as anybody wants
  std::function<std::vector<std::string>()> own_addresses;  // of this machine, as they are now; unset: none are known
};

// What one caller may have of the controller. Administrators have no bound where none is said for them.
struct ApiLimits {
  TurnLimits turns;
  std::size_t reply_bytes_max = 64 << 20;                                // of every answer; also an administrator's
  std::size_t waits_max = 1'000;                                         // long polls; as many streamed answers besides
  CallerCounts::Most questions = {.each = 3, .all = 16, .reserved = 8};  // explain, what if, test-only
  CallerCounts::Most history = {.each = 8, .all = 128, .reserved = 32};  // sacct, sshare, sprio, watches that begin
  CallerCounts::Most bodies = {.each = 64, .all = 512, .reserved = 128};  // long ones, which are read aside
  std::size_t history_rows_max = 250'000;                                 // also an administrator's
  std::uint64_t pending_jobs_max = 100'000;                               // an array that waits counts once
  std::uint64_t stored_bytes_max = 1ull << 30;  // scripts, environments, long words of jobs and steps that are listed
  std::uint64_t stored_all_max = 16ull << 30;   // the same of all users together, and see StoredRoom
  StepNo steps_max = 100'000;                   // of one job; also an administrator's
};

struct ApiSettings {
  std::string cluster_name = "lockstep";
  std::size_t script_bytes_max = 4 << 20;
  std::size_t environment_bytes_max = kEnvironmentBytesMax;
  std::size_t submissions_max = 10'000;  // in one request
  Duration poll_max = seconds(30);
  std::optional<std::uint32_t> only_uid;  // whose work this cluster runs; nullopt: it can become any user
  CoreSettings core = {};                 // of the engine: copies of the cluster follow them
  ApiLimits limits;
  std::vector<std::string> notices;      // for `lockstep status`: what was found at the start
  std::shared_ptr<const Routes> routes;  // null: the API's own and no front end's
  std::vector<std::shared_ptr<FrontReader>> readers;
  std::function<std::unique_ptr<Actor>()> front_actor;  // what front ends see to by themselves; unset: nothing
  // Puts an explanation in a front end's words, on the thread of the questions; unset: suggestions stay without words.
  std::function<void(Explanation&)> word;
};

class Api {
 public:
  struct World {
    EventLoop& loop;
    CoreLoop& core;
    HistoryLoop& history;
    ReadLoop& reads;
    QuestionLoop& questions;
    BodyLoop& bodies;
    LiveView& view;
    LinkHub& links;
    StepIo& step_io;
    const TicketOffice& tickets;
    FairTurns& turns;
    Waiters& waiters;
    Followers& followers;
    Presence& presence;
    Presence& step_presence;
    const ClusterClock& clock;
    std::function<void(const BlobId&, std::function<void(Result<std::string>)>)> read_blob;
    const TurnWatch& watch;
    const PlanRefusals& plan_refusals;
  };
  Api(World world, ApiSettings settings, ApiPowers powers);

  void handle(std::shared_ptr<HttpExchange> exchange);
  // For the readers of front ends. They may keep it; it does nothing any more when this is gone.
  std::shared_ptr<FrontHands> hands();
  // Why changes are refused; "": they are not.
  void set_trouble(std::string trouble) {
    read_only_ = !trouble.empty();
    trouble_ = std::move(trouble);
  }
  // What `lockstep status` tells besides; asked on the loop's thread.
  void set_notices(std::function<std::vector<std::string>()> notices) { notices_ = std::move(notices); }
  // Asks for the lengths of stored scripts that were there at the start, some at a time.
  void learn_lengths();
  static std::span<const ApiRoute> own_routes();  // routes.cpp
  const Routes& routes() const { return *routes_; }

 private:
  Payer payer_of(const Peer& peer) const;
  // Runs the row's handler, or refuses: what the row demands is checked here, once.
  void dispatch(Visit visit, const Routes::Found& found);
  void run(Visit visit, const Routes::Found& found);
  // Goes on with the request when the caller's record is there, and as fresh as it can be had in a moment.
  void freshen(Visit visit, const Routes::Found& found, Who who);
  bool needs_freshening(const Visit& visit, const Who& who) const;
  // What root of an untrusted node may not do beyond that node.
  Result<void> check_reach(const Visit& visit, const Route& route, NodeId only_on) const;
  void sweep_accounts();
  bool is_allowed(const Visit& visit, const Route& route) const;  // refuses by itself
  const Job* job_there(const Visit& visit, const Route& route) const;
  // What front ends mount (api_front.cpp).
  class Front;
  class Hands;
  void run_front(Visit visit, const FrontRoute& row);
  std::shared_ptr<const ReadContext> read_as(const Visit& visit) const;
  void run_page_live(Visit visit, const FrontPage& page);
  // True once nobody waits for the answer any more; for who works it out on another thread.
  static std::shared_ptr<const std::atomic<bool>> gone_mark(const Visit& visit);
  void run_page_aside(Visit visit, const FrontPage& page);
  Result<void> check_work(const Caller& caller, const CommandBody& body, const std::vector<Blob>& blobs) const;
  void commit(const Visit& visit, CoreLoop::Submission all, std::function<void(Result<Answer>)> then);
  // Answers with what is pulled, for as long as it lasts.
  void follow(const Visit& visit, HttpResponse head, Pull pull, Duration longest);
  // Sends the reply, a long one piece by piece. On a turn of the caller.
  struct Writing;
  void write(Visit visit, PageReply reply, std::shared_ptr<const void> keep = nullptr);
  void write_on(const std::shared_ptr<Writing>& writing);
  // The work on the thread for long bodies, then `then` here: both in the caller's turn, and at its cost.
  Result<void> do_aside(const Payer& payer, std::function<void()> work, std::function<void()> then);
  // make(visit) on the thread for long bodies, then then(visit, what it made) here.
  template <class Make, class Then>
  void aside(Visit visit, Make make, Then then);
  // then(visit, its body as decode() reads it, aside where it is long).
  template <class Decode, class Then>
  void decoded(Visit visit, Decode decode, Then then);
  // A command whose answer is {} or an error.
  void command(Visit visit, CommandBody body);
  const Job* job_of(const Visit& visit) const;    // refuses by itself
  const Step* step_of(const Visit& visit) const;  // refuses by itself
  Duration poll_time(const Visit& visit) const;

  // jobs (api_jobs.cpp, api_job_reads.cpp)
  void submit(Visit);
  Result<void> can_become(UserId) const;  // a cluster of an ordinary user runs nobody else's work
  struct Submissions;
  Submissions read_submissions(const Visit&) const;  // on any thread
  void submit_read(Visit, Submissions);
  void submit_settled(Visit, Submissions);  // its dependencies are on what is listed, or said to be met or not
  struct List;
  void submit_list(Visit, List);
  struct Single;  // one submission: whose, by which name, and how it is to be answered
  void submit_one(Visit, CoreLoop::Submission, Single);
  void known_submission(Visit, JobId, const Single&);  // one of its name was made
  void submitted(Visit, const Result<Answer>&, const Single&);
  Result<CoreLoop::Submission> prepare(const Visit&, SubmitRequest, std::string_view name) const;  // on any thread
  // What submissions add to what their user holds; refuses what goes beyond a user's share. Counts as held from here
  // on; dropped when the live view knows.
  struct Load;
  Result<std::shared_ptr<Load>> take_load(const Visit&, std::span<const CoreLoop::Submission>);
  Result<std::shared_ptr<Load>> take_update(const Visit&, std::size_t bytes);
  void drop_load(const Load&);
  std::shared_ptr<Load> load_of(const Visit&, std::span<const CoreLoop::Submission>) const;
  Result<void> check_load(const Visit&, const Load&, StoredRoom::For) const;
  void count_load(const Load&, int sign);
  Result<void> check_disk(const Visit&) const;  // that there is room for what brings no end
  StoredRoom stored_room() const;
  std::optional<std::string> stored_notice() const;  // where the room is short: who holds most
  static int status_of_submission(const Error&);
  void wait_started(Visit, JobId, StepNo step, std::shared_ptr<void> keep, std::function<void()> gone = nullptr);
  void get_job(Visit);
  void wait_job(Visit);
  void job_script(Visit);
  void job_environment(Visit);
  void send_blob(Visit, const Job&, BlobId);
  void cancel_job(Visit);
  void cancel_jobs(Visit);
  void cancel_many(Visit, Result<CancelMany>);
  struct Cancels;
  void select_next(const std::shared_ptr<Cancels>&);
  void cancel_next(const std::shared_ptr<Cancels>&);
  void hold_job(Visit);
  void release_job(Visit);
  void requeue_job(Visit);
  void suspend_job(Visit);
  void resume_job(Visit);
  void checkpoint_job(Visit);
  void update_job(Visit);
  void update_read(Visit, Result<UpdateJob>);
  void end_job(Visit);
  std::string job_detail(const Viewer&, const Job&) const;
  // what is to come (api_foresight.cpp)
  void try_submit(Visit, Command);
  void explain_job(Visit);
  void ask_what_if(Visit);
  void ask_what_if_read(Visit, Result<std::vector<ChangeAsk>>);
  void ask_what_if_past(Visit, std::vector<ChangeAsk> changes, std::uint64_t days);
  // Answers with what the question makes of a copy of the tables, on the thread for such questions.
  using Question = std::function<Result<std::string>(const Tables&, const QuestionLoop::Rows&)>;
  void ask(Visit, Question question, std::optional<HistoryQuery> query = std::nullopt);
  ClusterCopy::Clock question_clock() const { return {world_.clock.now(), world_.clock.wall_offset()}; }
  // steps (api_steps.cpp)
  void create_step(Visit);
  Result<CoreLoop::Submission> read_step(const Visit&, JobId) const;  // on any thread
  void submit_step(Visit, JobId, Result<CoreLoop::Submission>);
  void step_created(Visit, StepKey);
  // The client is there, for the job and for the step, until the result is dropped.
  std::shared_ptr<void> client_of(const Visit&, StepKey);
  void get_step(Visit);
  void signal_step(Visit);
  void step_stream(Visit);
  void step_image_source(Visit);
  void job_image_source(Visit);
  void answer_image_source(const Visit&, const Job&, struct ImageAsk);
  // what nodes measured last (api_use.cpp)
  void step_use(Visit);
  void node_use(Visit);
  // cluster (api_cluster.cpp)
  void ping(Visit);
  void status(Visit);
  void metrics(Visit);
  void update_node(Visit);
  void update_node_read(Visit, Result<UpdateNode>);
  // Root of a node, such as the site's health program there, drains it, and opens it again where the drain was its own.
  void own_word(Visit visit, NodeId node);
  void own_word_read(Visit visit, NodeId node, Result<UpdateNode> body);
  void watch(Visit);
  struct AllRecords;
  struct Watching;
  Result<std::shared_ptr<const void>> begin_watch(const Payer&);
  void watch_from_the_start(Visit, KindSet kinds);
  static void say_records(Watching&, std::string& out);
  std::optional<std::string> next_changes(Watching&, std::size_t bytes);
  void follow_changes(const Visit&, Watching);
  void plan_notes(Visit);
  void history(Visit);
  // joining (api_join.cpp)
  void make_token(Visit);
  void join(Visit);
  void refuse_stranger(Visit, const Error&);
  void renew(Visit);
  Result<void> check_not_own(const std::string& task_range) const;
  const JoinToken* token_of(const JoinRequest&) const;  // null: its secret is none
  void agent_link(Visit);
  Result<LinkHub::Holder> link_holder(const Peer&) const;

  World world_;
  ApiSettings settings_;
  ApiPowers powers_;
  std::function<std::vector<std::string>()> notices_;
  std::map<UserId, Holdings::Of> on_the_way_;  // of submissions that are not in the live view yet
  std::uint64_t coming_bytes_ = 0;             // the sum of their stored bytes
  // Named ones that are on their way, also steps and lists, with those that were sent again meanwhile and wait for the
  // same answer.
  std::map<std::pair<UserId, std::string>, std::vector<std::function<void(const Result<Answer>&)>>> named_;
  // How many watches of each caller have not read everything there was yet; none is 0.
  std::shared_ptr<std::map<std::string, std::size_t>> beginning_ =
      std::make_shared<std::map<std::string, std::size_t>>();
  Refusals refusals_;
  AccountBook accounts_;
  TryGuard join_guard_, renewals_;
  std::uint64_t requests_ = 0;
  bool read_only_ = false;
  std::string trouble_;
  std::shared_ptr<const Routes> routes_;
  std::uint32_t own_uid_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // of the hands that others keep; last, so it goes first
};

template <class Make, class Then>
void Api::aside(Visit visit, Make make, Then then) {
  const auto held = std::make_shared<Visit>(std::move(visit));
  const auto made = std::make_shared<std::optional<decltype(make(*held))>>();
  if (const auto taken = do_aside(
          held->payer, [held, made, make] { made->emplace(make(*held)); },
          [held, made, then]() mutable { then(std::move(*held), std::move(**made)); });
      !taken.ok())
    held->refuse(taken.error());
}

template <class Decode, class Then>
void Api::decoded(Visit visit, Decode decode, Then then) {
  if (visit.http().body.size() <= kReadAtOnce) {
    auto body = decode(visit.http().body);
    return then(std::move(visit), std::move(body));
  }
  aside(
      std::move(visit), [decode](const Visit& v) { return decode(v.http().body); }, std::move(then));
}

}  // namespace lockstep
