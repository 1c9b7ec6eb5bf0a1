// Api: the HTTP surface (docs/api.md), on the I/O thread. Reads are answered from the live view; changes become
// commands and are answered when they are durable. Front ends add their pages.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/cluster_clock.h"
#include "controller/core_loop.h"
#include "controller/history_loop.h"
#include "controller/identity.h"
#include "controller/links.h"
#include "controller/live_view.h"
#include "controller/presence.h"
#include "controller/question_loop.h"
#include "controller/step_io.h"
#include "controller/waiters.h"
#include "foresight/cluster_copy.h"
#include "views/read_context.h"
#include "wire/api.h"
#include "wire/step_route.h"

namespace lockstep {

// What the API needs of the machine, given by the program.
struct ApiPowers {
  std::function<std::string(std::string_view)> sha256_hex;
  std::function<std::string(std::size_t bytes)> random_hex;
  Mac hmac_sha256_hex;
  // A certificate (PEM) for a request (PEM), whose subject becomes CN=name, OU=role.
  std::function<Result<std::string>(const std::string& csr, const std::string& name, const std::string& role)> sign;
  std::string ca_pem, ca_fingerprint;
};

struct ApiSettings {
  std::string cluster_name = "lockstep";
  std::size_t script_bytes_max = 4 << 20;
  std::size_t environment_bytes_max = 4 << 20;
  std::size_t submissions_max = 10'000;  // in one request
  Duration poll_max = seconds(30);
  std::optional<std::uint32_t> only_uid;  // whose work this cluster runs; nullopt: it can become any user
  CoreSettings core = {};                 // of the engine: copies of the cluster follow them
};

class Api {
 public:
  struct World {
    EventLoop& loop;
    CoreLoop& core;
    HistoryLoop& history;
    QuestionLoop& questions;
    LiveView& view;
    LinkHub& links;
    StepIo& step_io;
    Waiters& waiters;
    Presence& presence;
    const ClusterClock& clock;
    std::function<void(const BlobId&, std::function<void(Result<std::string>)>)> read_blob;
  };
  Api(World world, ApiSettings settings, ApiPowers powers);

  void add_pages(std::vector<PageEntry> pages);
  void handle(std::shared_ptr<HttpExchange> exchange);
  void set_read_only(bool read_only) { read_only_ = read_only; }

 private:
  // One request on its way: what its path named, and whose it is.
  struct Visit {
    std::shared_ptr<HttpExchange> exchange;
    std::vector<std::string> names;  // the path's variable parts
    Caller caller;

    const HttpRequest& http() const { return exchange->request(); }
    std::string_view query(std::string_view name) const;
    void answer(std::string json) const;
    void text(std::string body) const;
    void refuse(const Error& error, int status = 0) const;
  };
  using Handler = void (Api::*)(Visit);
  enum class Needs : unsigned char { kUser, kAgent, kNobody };
  struct Route {
    std::string_view method, path;  // "/v1/jobs/*/cancel"
    Handler handler;
    Needs needs = Needs::kUser;
  };
  static const std::vector<Route>& routes();

  void dispatch(Visit visit, const Route& route);
  void run_page(Visit visit, const PageEntry& page);
  // A command whose answer is {} or an error.
  void command(Visit visit, CommandBody body);
  // The body as a record with the name in the path; ?if_seq=… says which version it replaces, where a kind knows that.
  template <class Put, class Body>
  void put_record(Visit visit, Result<Body> (*decode)(std::string_view));
  template <class Remove>
  void remove_record(Visit visit);  // the one with the name in the path
  static Seq expected_seq(const Visit&);
  const Job* job_of(const Visit& visit) const;           // refuses by itself
  const Step* step_of(const Visit& visit) const;         // refuses by itself
  bool may_see(const Visit& visit, UserId owner) const;  // what is private to the owner
  Duration poll_time(const Visit& visit) const;

  // jobs (api_jobs.cpp, api_job_reads.cpp)
  void submit(Visit);
  void submit_one(Visit, SubmitRequest);
  Result<void> can_become(UserId) const;  // a cluster of an ordinary user runs nobody else's work
  Result<CoreLoop::Submission> prepare(const Visit&, SubmitRequest) const;
  static int status_of_submission(const Error&);
  void wait_started(Visit, JobId, StepNo step, std::shared_ptr<void> keep, std::function<void()> gone = nullptr);
  void list_jobs(Visit);
  void get_job(Visit);
  void wait_job(Visit);
  void job_script(Visit);
  void job_environment(Visit);
  void send_blob(Visit, const Job&, BlobId);
  void cancel_job(Visit);
  void cancel_jobs(Visit);
  struct Cancels;
  void cancel_next(const std::shared_ptr<Cancels>&);
  void hold_job(Visit);
  void release_job(Visit);
  void requeue_job(Visit);
  void suspend_job(Visit);
  void resume_job(Visit);
  void checkpoint_job(Visit);
  void update_job(Visit);
  void end_job(Visit);
  std::string job_detail(const Job&) const;
  // what is to come (api_foresight.cpp)
  void try_submit(Visit, SubmitRequest);
  void explain_job(Visit);
  void ask_what_if(Visit);
  void ask_what_if_past(Visit, std::vector<ChangeAsk> changes, std::uint64_t days);
  // Answers with what the question makes of a copy of the tables, on the thread for such questions.
  using Question = std::function<Result<std::string>(const Tables&, const QuestionLoop::Rows&)>;
  void ask(Visit, Question question, std::optional<HistoryQuery> query = std::nullopt);
  ClusterCopy::Clock question_clock() const { return {world_.clock.now(), world_.clock.wall_offset()}; }
  // steps (api_steps.cpp)
  void create_step(Visit);
  void list_steps(Visit);
  void get_step(Visit);
  void signal_step(Visit);
  void step_stream(Visit);
  // cluster (api_cluster.cpp)
  void ping(Visit);
  void status(Visit);
  void metrics(Visit);
  void list_nodes(Visit);
  void get_node(Visit);
  void update_node(Visit);
  void remove_node(Visit);
  void list_partitions(Visit);
  void put_partition(Visit);
  void remove_partition(Visit);
  void get_topology(Visit);
  void put_topology(Visit);
  void remove_topology(Visit);
  void list_users(Visit);
  void put_user(Visit);
  // who may use what (api_accounting.cpp)
  void list_accounts(Visit);
  void put_account(Visit);
  void remove_account(Visit);
  void list_associations(Visit);
  void put_association(Visit);
  void remove_association(Visit);
  void list_qos(Visit);
  void put_qos(Visit);
  void remove_qos(Visit);
  void list_licences(Visit);
  void put_licence(Visit);
  void remove_licence(Visit);
  void list_reservations(Visit);
  void put_reservation(Visit);
  void remove_reservation(Visit);
  void get_policy(Visit);
  void put_policy(Visit);
  void reset_usage(Visit);
  void watch(Visit);
  void plan_notes(Visit);
  void history(Visit);
  // joining (api_join.cpp)
  void make_token(Visit);
  void join(Visit);
  void agent_link(Visit);

  World world_;
  ApiSettings settings_;
  ApiPowers powers_;
  std::map<std::string, PageEntry, std::less<>> pages_;
  std::set<std::uint32_t> checked_accounts_;  // local uids compared with the machine since the start
  std::uint64_t requests_ = 0;
  bool read_only_ = false;
  std::uint32_t own_uid_;
};

template <class Put, class Body>
void Api::put_record(Visit visit, Result<Body> (*decode)(std::string_view)) {
  Result<Body> body = decode(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  body->meta.name = visit.names[0];
  Put put{std::move(*body)};
  if constexpr (requires { put.if_seq; })
    put.if_seq = expected_seq(visit);
  command(std::move(visit), std::move(put));
}

template <class Remove>
void Api::remove_record(Visit visit) {
  Remove body{visit.names[0]};
  command(std::move(visit), std::move(body));
}

}  // namespace lockstep
