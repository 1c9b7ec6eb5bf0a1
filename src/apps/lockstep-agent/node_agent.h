// NodeAgent: the shell around AgentLogic. Feeds it messages, shim events and time; writes its journal before it acts,
// carries out its orders, sends its words; keeps the connection to the controller and the node's API socket.
#pragma once

#include <memory>
#include <set>

#include "agent/broker.h"
#include "agent/link.h"
#include "agent/logic.h"
#include "agent/peers.h"
#include "agent/splice.h"
#include "agent/step_switch.h"
#include "agent/ticket_gate.h"
#include "base/log_line.h"
#include "container_servers.h"
#include "container_sweep.h"
#include "first_look.h"
#include "gpu_parts.h"
#include "image_servers.h"
#include "job_places.h"
#include "node_health.h"
#include "node_hooks.h"
#include "node_meter.h"
#include "node_pressure.h"
#include "ports/clock.h"
#include "ports/devices.h"
#include "renewal.h"
#include "task_routes.h"
#include "wire/local_files.h"

namespace lockstep {

// An agent without them can do nothing, and says which file it is.
Result<void> check_certificates(const AgentFile& settings);

class NodeAgent {
 public:
  NodeAgent(EventLoop& loop, const Clock& clock, AgentFile settings, Node facts, std::unique_ptr<DeviceSource> devices,
            FirstLook look, std::unique_ptr<Shims> shims, const std::vector<WorkId>& survivors,
            std::shared_ptr<const Cgroups> groups);
  // For the server that other agents dial: it shows them a certificate that was renewed.
  void on_renewed(std::function<void(const TlsFiles&)> callback) { renewed_ = std::move(callback); }
  ~NodeAgent();
  NodeAgent(NodeAgent&&) = delete;

  Broker& broker() { return broker_; }
  void children_ended();                                      // processes of ours have
  void peer_request(std::shared_ptr<HttpExchange> exchange);  // another agent's, by its certificate
  void start();
  Result<void> outcome() const { return outcome_; }  // why it stopped the loop, if it did

 private:
  void dial();
  void dial_later();
  void linked(std::unique_ptr<Stream> stream);
  void unlink(const std::string& why);
  void reconnect(const std::string& why);
  void heard(ToAgent message);
  void launch(const LaunchAttempt& launch);
  void watch_link();
  void see_devices(Result<std::vector<Device>> found);
  void gpu_broke(std::uint32_t index, const std::string& why);
  void tell_measures();
  void follow_staging();
  void look_at_containers();
  void open_step(StepOpen what, std::unique_ptr<Stream> stream);
  Result<void> may_attach(const StepTicket& ticket) const;
  void reach_shim(const StepTicket& ticket, Peers::Opened done, int tries);
  void dial_peer(const StepMember& whom, Peers::Dialed done);
  void pump_soon();
  void tell_facts();
  void at_home(std::vector<std::string>& env, bool comes_first) const;
  void pump();
  void carry_out(AgentLogic::ShimOrder order);
  void start_hook(ShimStart start);
  void set_alarm();
  bool make_durable();
  bool write_journal();
  void look_at_room();
  void tell_trouble();
  void tell_shortages(std::vector<Shortage> shortages);
  void say(const std::string& text, LogLevel level = LogLevel::kWarning);

  EventLoop& loop_;
  const Clock& clock_;
  AgentFile settings_;
  Renewal renewal_;
  std::function<void(const TlsFiles&)> renewed_;
  Node facts_;
  JournalFile journal_;
  std::unique_ptr<Shims> shims_;
  GpuParts parts_;
  HookRunner hooks_;
  Telemetry measured_;  // last, but for what is copied at present
  bool follows_staging_ = false;
  NodeHealth health_;
  NodeMeter meter_;
  PressureWatch pressure_;
  Splices splices_;
  AgentLogic logic_;
  std::set<WorkId> stopping_;  // their stop stands in the log
  StepRefusals refusals_;
  ContainerSweep containers_;
  TaskRouteTable routes_;
  JobPlaces places_;
  TicketGate gate_;
  Peers peers_;
  StepSwitch switch_;
  ImageRelay image_relay_;
  ImageServers image_servers_;
  ContainerServers container_servers_;
  Broker broker_;
  std::unique_ptr<AgentLink> link_;
  bool welcome_ = false, refused_ = false;
  Instant welcomed_at_, unheard_since_;
  Duration backoff_, silence_max_;
  std::uint64_t links_ = 0;  // that were made so far: tells who watches one that it is another by now
  std::uint64_t frames_seen_ = 0;
  std::vector<std::string> unwritten_;  // journal lines the disk has not taken yet
  std::string trouble_;                 // what an administrator should know of the journal
  std::string full_;                    // directory in which there is no room for what may start; "" = none
  bool looked_ = false;                 // at what lies under the journal's name, for the first time
  Result<void> outcome_;
  bool pump_posted_ = false;
  TimerId alarm_ = 0;
  Instant alarm_at_ = kNever, lease_;
  std::string last_said_;
};

}  // namespace lockstep
