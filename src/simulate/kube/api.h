// SimApi: Kubernetes' API as it lives in the simulated controller: the real server and controllers, an I/O thread that
// follows the core's a little later, and connections that break. Clients speak to it as over HTTP.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/live_view.h"
#include "frontends/kube/server/server.h"
#include "simulate/chaos/resident.h"
#include "simulate/kube/ledger.h"

namespace lockstep::sim {

struct World;

// What a client sends. It is an administrator of the cluster.
struct KubeAsk {
  std::string method, path;
  std::map<std::string, std::string, std::less<>> query = {};
  std::string body = {}, content_type = "application/json";
};

// What comes back, a while later. Each call ends with on_reply(), or, where the answer is a stream, with on_end().
struct KubeClient {
  std::function<void(int status, const std::string& body)> on_reply;  // 0: the connection broke: it may be done or not
  std::function<void(std::string_view lines)> on_lines = nullptr;     // of a stream, whole lines
  std::function<void()> on_end = nullptr;                             // of a stream, also when it broke
};

class SimApi final : public Resident {
 public:
  SimApi(World& world, Ledger& ledger);
  ~SimApi() override;

  using CallId = std::uint64_t;
  CallId call(KubeAsk ask, KubeClient client);
  void cut(CallId id);  // as if a cable had been pulled: what is under way is lost
  void stop_trouble();  // connections are quick from now on, and nobody races the controllers
  bool up() const { return server_ != nullptr; }

  // --- Resident ---
  std::vector<Part> actors() override;
  void begun(const std::vector<Change>& snapshot) override;
  void ended() override;
  void durable(std::span<const Change> changes) override;
  void committed(const Engine::Batch& batch) override;

 private:
  struct Call;
  class Visit;
  void arrive(const std::shared_ptr<Call>& call);
  void handle(const std::shared_ptr<Call>& call);
  void pull(const std::shared_ptr<Call>& call);
  void finish(const std::shared_ptr<Call>& call);
  void deliver(const std::shared_ptr<Call>& call, std::function<void()> task);
  void lose(const std::shared_ptr<Call>& call);
  void on_io(std::function<void()> task);
  void race(const Actor::Turn& turn);
  Duration delay();

  World& world_;
  Ledger& ledger_;
  Rng dice_;
  double slow_ = 0, races_ = 0;  // how often: of messages, of what controllers ask
  std::unique_ptr<kube::KubeServer> server_;
  std::vector<FrontRoute> routes_;
  std::unique_ptr<LiveView> view_;
  // Lives of the controller, and their ends; 0: we are gone ourselves. Who waits may outlive us.
  std::shared_ptr<std::uint64_t> life_ = std::make_shared<std::uint64_t>(1);
  Instant io_free_;  // when the I/O thread has done what it was given
  std::map<CallId, std::shared_ptr<Call>> calls_;
  CallId last_call_ = 0;
  std::uint64_t raced_ = 0;
};

}  // namespace lockstep::sim
