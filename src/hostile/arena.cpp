#include "hostile/arena.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <thread>

#include "base/text.h"
#include "frontends/slurm/server/explain_words.h"
#include "frontends/slurm/server/words.h"
#include "hostile/front_ends.h"
#include "io/clock.h"
#include "io/event_loop.h"
#include "io/random.h"
#include "io/sha256.h"
#include "io/sqlite_history.h"
#include "io/sqlite_log.h"

namespace lockstep::hostile {

struct Arena::Stores {
  std::unique_ptr<SqliteLog> log;
  std::unique_ptr<HistoryStore> history;
  std::thread thread;  // of the loop
};

namespace {

ApiPowers powers() {
  ApiPowers out;
  out.sha256_hex = sha256_hex;
  out.random_hex = random_hex;
  out.hmac_sha256_hex = hmac_sha256_hex;
  out.sign = [](const std::string& csr, const std::string& name, const std::string& role) -> Result<SignedCertificate> {
    if (csr != "csr")
      return invalid("is no request", "csr");
    return SignedCertificate{format("certificate of {} as {}", name, role), "serial of " + name};
  };
  out.ca_fingerprint = "cafe";
  return out;
}

ComposerHooks slurm_hooks() {
  const auto facts = [] { return slurm::SlurmFacts{"hostile", Duration{}, RealClock().wall()}; };
  ComposerHooks hooks;
  hooks.attempt = [facts](LaunchAttempt& launch, const Tables& tables, const Job& job, std::size_t grant) {
    slurm::add_slurm_words(launch, tables, job, grant, facts());
  };
  hooks.step = [facts](LaunchStep& launch, const Tables& tables, const Job& job, const Step& step, std::size_t place) {
    slurm::add_slurm_words(launch, tables, job, step, place, facts());
  };
  return hooks;
}

}  // namespace

Arena::Arena() = default;
Arena::~Arena() { close(); }

Result<void> Arena::open() {
  loop_ = make_event_loop();
  clock_ = std::make_unique<RealClock>();
  stores_ = std::make_unique<Stores>();
  SqliteLogOptions options;
  options.reserve_bytes = 0;
  stores_->log = TRY(open_sqlite_log(dir_.file("lockstep.db"), options));
  stores_->history = TRY(open_sqlite_history(dir_.file("history.db")));
  ControllerSettings settings;
  settings.engine.cluster_name = "hostile";
  settings.api.word = slurm::put_in_words;
  settings.engine.sha256_hex = sha256_hex;
  settings.engine.snapshot_every = 500;
  settings.engine.poison = dir_.file("applying");
  mount_front_ends(settings, [loop = loop_.get()](std::function<void()> task) { loop->post(std::move(task)); });
  routes_ = settings.api.routes;
  controller_ = TRY(ControllerLoop::open({*loop_, *stores_->log, *stores_->log, *stores_->history, *clock_}, settings,
                                         powers(), slurm_hooks(), nullptr));
  controller_->start();
  stores_->thread = std::thread([this] { loop_->run(); });
  return {};
}

void Arena::close() {
  if (stores_ && stores_->thread.joinable()) {
    loop_->stop();
    stores_->thread.join();
  }
  if (controller_)
    controller_->stop();
  controller_.reset();
  stores_.reset();
  loop_.reset();
}

bool Arena::call(HttpRequest request, const std::shared_ptr<Call>& call, Duration patience) {
  loop_->post([this, request = std::move(request), call]() mutable {
    controller_->handle(make_exchange(std::move(request), call));
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(patience.us);
  for (int turn = 0; !call->over; ++turn) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    if (turn < 200)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

void Arena::on_loop(std::function<void()> task) {
  std::promise<void> done;
  loop_->post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace lockstep::hostile
