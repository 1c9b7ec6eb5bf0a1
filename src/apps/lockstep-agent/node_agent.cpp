#include "node_agent.h"

#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log_line.h"
#include "base/text.h"
#include "io/dialer.h"
#include "io/fd_stream.h"
#include "io/hook_programs.h"
#include "io/sha256.h"
#include "io/shims.h"
#include "io/tls.h"
#include "model/hook_part.h"
#include "wire/words.h"

namespace lockstep {
namespace {

constexpr Duration kBackoffMin = millis(50);
constexpr Duration kBackoffMax = seconds(5);
constexpr Duration kRoutesUnheard = seconds(60);  // without the controller, until routes that it told are dropped
constexpr Duration kBackoffShort = millis(500);   // at most, behind a link that was welcomed
constexpr Duration kSteadyAfter =
    seconds(3);  // a link that lasted so long is made again at once, others later and later
constexpr Duration kSilenceMin = seconds(10);   // a link that says nothing for longer is dead
constexpr Duration kJournalAgain = seconds(1);  // after a failed write
constexpr Duration kAttachAgain = millis(1);    // a shim that is about to make its socket
constexpr int kAttachTries = 5000;
constexpr Duration kStagingEvery = seconds(2);
constexpr Duration kContainersEvery = seconds(5);
constexpr Duration kLookEvery = seconds(2);     // at the boot clock; less than the drift that the controller allows
constexpr Duration kPeerPatience = seconds(2);  // for an answer of another agent; then the controller carries the bytes
constexpr const char* kPeerProtocol = "lockstep-peer/1";

// As every line about a piece of work names it.
std::string work_text(const WorkId& key) {
  std::string which = "step=batch";
  if (is_hook(key))
    which = text_of(key).substr(text_of(key).rfind('-') + 1);
  else if (const StepPart* step = step_of(key))
    which = format("step={}", step->step);
  else if (const TaskPart* task = task_of(key))
    which = format("task={}.{}.{}", task->group, task->index, task->incarnation);
  return format("job={} attempt={} {}", key.job.value, key.attempt, which);
}

void tell_event(const ShimEvent& event) {
  if (event.what == ShimEvent::What::kFailed)
    return log_line(LogLevel::kWarning, format("failed {}: {}", work_text(event.key), event.why));
  if (event.what != ShimEvent::What::kEnded)
    return;
  std::string bad;
  for (const TaskResult& result : event.results)
    if (bad.empty() && !result.exit.ok())
      bad = format(" first failure: rank={} exit={}:{}", result.rank, result.exit.code, result.exit.signal);
  log_line(LogLevel::kInfo, format("end {}{}", work_text(event.key), bad));
}

// Daemons of jobs that share GPUs: of them the logic knows nothing.
const WorkId& key_of(const WorkId& work) { return work; }
const WorkId& key_of(const FoundWork& work) { return work.key; }
template <class Work>
std::vector<Work> without_daemons(std::vector<Work> works) {
  std::erase_if(works, [](const Work& work) { return is_mps_daemon(key_of(work)); });
  return works;
}

constexpr const char* kNoRoom = "a disk of this node is full";
const std::string kUnhealthy = "health check failed: ", kSuspect = "suspect: ";
constexpr const char* kLeaving = "this node leaves the cluster";

}  // namespace

Result<void> check_certificates(const AgentFile& settings) {
  const auto usable = TlsContext::client({settings.ca, settings.certificate, settings.key});
  if (usable.ok())
    return {};
  const std::string anew =
      settings.cluster_dir.empty()
          ? "join anew: lockstep node join --help"
          : format("`lockstep down --dir {0}` and `lockstep up --dir {0}` give it new ones", settings.cluster_dir);
  return Error{usable.error().code,
               format("the certificate of this node cannot be used: {}. Put back {}, {} and {}, or {}",
                      usable.error().message, settings.ca, settings.certificate, settings.key, anew),
               {}};
}

NodeAgent::NodeAgent(EventLoop& loop, const Clock& clock, AgentFile settings, Node facts,
                     std::unique_ptr<DeviceSource> devices, FirstLook look, std::unique_ptr<Shims> shims,
                     const std::vector<WorkId>& survivors, std::shared_ptr<const Cgroups> groups)
    : loop_(loop),
      clock_(clock),
      settings_(std::move(settings)),
      renewal_(loop, clock, settings_,
               {.next = [this] { reconnect("to show the renewed certificate"); },
                .adopted =
                    [this](const TlsFiles& files) {
                      say("the certificate of this node is renewed", LogLevel::kInfo);
                      if (renewed_)
                        renewed_(files);
                    },
                .tell = [this](const std::string& trouble) { say(trouble); }}),
      facts_(std::move(facts)),
      journal_(std::move(look.journal)),
      shims_(std::move(shims)),
      parts_(loop, settings_, *shims_),
      hooks_(settings_),
      health_(loop, clock, settings_,
              {.jobs = [this] { return logic_.jobs(); }, .changed = [this] { tell_trouble(); }}),
      meter_(loop, clock, settings_, groups, std::move(devices), facts_.devices.size(),
             {.measured =
                  [this](Telemetry told) {
                    measured_ = std::move(told);
                    tell_measures();
                  },
              .broken = [this](std::uint32_t index, const std::string& why) { gpu_broke(index, why); },
              .devices = [this](Result<std::vector<Device>> found) { see_devices(std::move(found)); }}),
      pressure_(loop, clock, settings_, std::move(groups),
                {.told = [this](std::vector<Shortage> shortages) { tell_shortages(std::move(shortages)); },
                 .drop_images = [this](std::uint64_t bytes) { containers_.drop_images(bytes, clock_.boot()); }}),
      splices_(loop),
      logic_({.peer_port = settings_.peer_port,
              .hooks = hook_settings(settings_.hooks),
              .no_addresses = ::geteuid() == 0 ? "" : "its agent is not root"},
             facts_, look.lines, without_daemons(survivors), clock.boot(), without_daemons(look.found)),
      refusals_(loop),
      containers_(settings_.state_dir + "/containers",
                  settings_.shim.substr(0, settings_.shim.rfind('/') + 1) + "lockstep-container", settings_.socket),
      routes_(facts_.task_range, settings_.controller_host),
      places_(settings_, facts_.meta.name),
      gate_(facts_.meta.name, hmac_sha256_hex),
      peers_(
          loop, [this](const StepMember& whom, Peers::Dialed done) { dial_peer(whom, std::move(done)); },
          [this](StepOpen what, std::unique_ptr<Stream> stream) { open_step(std::move(what), std::move(stream)); }),
      switch_(loop, peers_, facts_.meta.name,
              [this](const StepTicket& ticket, Peers::Opened done) {
                if (may_attach(ticket).ok())
                  reach_shim(ticket, std::move(done), kAttachTries);
                else
                  done(nullptr);
              }),
      image_relay_(peers_, splices_),
      image_servers_(loop, splices_, facts_.meta.name, settings_.state_dir + "/containers",
                     settings_.shim.substr(0, settings_.shim.rfind('/') + 1) + "lockstep-container"),
      container_servers_(loop, splices_, settings_.state_dir + "/containers", settings_.shim),
      broker_(loop, splices_),
      backoff_(kBackoffMin),
      silence_max_(kSilenceMin),
      trouble_(std::move(look.trouble)) {
  broker_.use_switch(switch_);
  broker_.use_images(image_relay_);
  parts_.recover(logic_.parts(), facts_.devices, survivors);
}

NodeAgent::~NodeAgent() {
  broker_.link_down();
  link_.reset();
}

void NodeAgent::start() {
  CHECK(!link_ && alarm_at_ == kNever, "started twice");
  unheard_since_ = clock_.boot();
  shims_->on_event([this](ShimEvent event) {
    if (is_hook(event.key))
      hooks_.hear_out(event);
    tell_event(event);
    if (parts_.hear(event))
      return;
    if (event.what == ShimEvent::What::kStarted && is_staging(event.key))
      follow_staging();
    if (event.what == ShimEvent::What::kStarted)
      meter_.look_soon();
    else if (event.what == ShimEvent::What::kEnded && !is_hook(event.key))
      event.use = meter_.complete(event.key, event.use);
    logic_.shim_event(event, clock_.boot());
    pump_soon();
  });
  health_.see_devices(facts_.devices);
  if (auto written = write_store_limits(settings_.state_dir + "/containers",
                                        {settings_.images.user_mb, settings_.images.free_percent});
      !written.ok())
    say(written.error().message);
  loop_.after(kContainersEvery, [this] { look_at_containers(); });
  tell_trouble();
  health_.start();
  meter_.start();
  pressure_.start();
  pump_soon();
  renewal_.start();
  dial();
}

void NodeAgent::tell_measures() {
  if (!link_ || !welcome_)
    return;
  Telemetry told = measured_;
  told.staging = hooks_.staging(logic_.staging());
  link_->send(std::move(told));
}

// While something is copied, more often than anything else is measured: people wait for it. The last word says that
// nothing is any more.
void NodeAgent::follow_staging() {
  if (std::exchange(follows_staging_, true))
    return;
  loop_.after(kStagingEvery, [this] {
    follows_staging_ = false;
    tell_measures();
    if (!logic_.staging().empty())
      follow_staging();
  });
}

void NodeAgent::look_at_containers() {
  // First, or where work comes and goes all the time root's other sweep would always be under way.
  if (::geteuid() == 0 && welcome_)
    containers_.look_at_lasting(clock_.boot());
  containers_.look([this](std::uint32_t uid) { return logic_.jobs_of(uid); }, clock_.boot());
  image_servers_.reap(clock_.boot());
  container_servers_.reap();
  places_.look(logic_.attempts());
  loop_.after(kContainersEvery, [this] { look_at_containers(); });
}

void NodeAgent::children_ended() {
  container_servers_.reap();
  shims_->reap_orphans();
}

void NodeAgent::reconnect(const std::string& why) {
  if (link_)
    link_->close(why);
}

void NodeAgent::say(const std::string& text, LogLevel level) {
  if (text == last_said_)
    return;  // the same trouble again while it lasts
  last_said_ = text;
  log_line(level, "lockstep-agent: " + text);
}

// --- the connection ---

void NodeAgent::dial() {
  DialAsk ask;
  ask.host = settings_.controller_host;
  ask.port = settings_.controller_port;
  ask.tls = renewal_.files();
  ask.target = "/v1/link";
  ask.protocol = "lockstep-link/1";
  dial_tls(loop_, std::move(ask), [this](Result<std::unique_ptr<Stream>> stream) {
    if (stream.ok())
      return linked(std::move(*stream));
    if (stream.error().code == Errc::kDenied)
      renewal_.turned_away();
    // Where its machine is reached, and says that nobody listens, no route is to blame.
    if (stream.error().code != Errc::kNotFound && clock_.boot() - unheard_since_ >= kRoutesUnheard)
      routes_.forget();
    const auto usable = check_certificates(settings_);
    say(usable.ok() ? format("cannot reach the controller at {}:{}: {}", settings_.controller_host,
                             settings_.controller_port, stream.error().message)
                    : usable.error().message);
    // Its supervisor starts the agent of a local cluster again, and tells everybody who asks what it said last. Nobody
    // starts another: whoever exchanges its files may be between two of them.
    if (!usable.ok() && !settings_.cluster_dir.empty()) {
      outcome_ = usable;
      return loop_.stop();
    }
    dial_later();
  });
}

void NodeAgent::dial_later() {
  CHECK(!link_ && backoff_ > Duration{} && backoff_ <= kBackoffMax);
  const Duration wait = refused_ ? kBackoffMax : backoff_;
  backoff_ = std::min(backoff_ * 2, kBackoffMax);
  refused_ = false;
  loop_.after(wait, [this] { dial(); });
}

void NodeAgent::linked(std::unique_ptr<Stream> stream) {
  AgentLink::Handlers handlers;
  handlers.message = [this](ToAgent message) { heard(std::move(message)); };
  handlers.open_step = [this](StepOpen what, std::unique_ptr<Stream> stream) {
    open_step(std::move(what), std::move(stream));
  };
  handlers.closed = [this](const std::string& why) { unlink(why); };
  CHECK(stream && !link_, "two connections to the controller");
  link_ = std::make_unique<AgentLink>(std::move(stream), std::move(handlers));
  ++links_;
  welcome_ = false;
  frames_seen_ = 0;
  logic_.connected(clock_.boot());
  watch_link();
  pump_soon();
}

void NodeAgent::unlink(const std::string& why) {
  if (welcome_)
    unheard_since_ = clock_.boot();
  if (welcome_)
    renewal_.disconnected();
  else
    renewal_.turned_away();
  if (welcome_)
    say("connection lost: " + why);
  else if (!refused_)
    say(format(
        "the controller at {}:{} ended the connection before it let node {} in ({}): its log and `lockstep status` "
        "there say why",
        settings_.controller_host, settings_.controller_port, facts_.meta.name, why.empty() ? "no reason" : why));
  if (welcome_)
    backoff_ = clock_.boot() - welcomed_at_ >= kSteadyAfter ? kBackoffMin : std::min(backoff_, kBackoffShort);
  welcome_ = false;
  broker_.link_down();
  logic_.disconnected(clock_.boot());
  // The link is calling us: it is destroyed from the loop.
  loop_.post([dead = std::shared_ptr<AgentLink>(std::move(link_))] {});
  dial_later();
  pump_soon();
}

// What it shares with others is there before the first of its processes is, and before anything is noted of it: what
// then belongs to no attempt goes again.
void NodeAgent::launch(const LaunchAttempt& launch) {
  auto ready = places_.note(launch);
  if (ready)
    ready = parts_.prepare(launch, facts_.devices);
  if (ready)
    logic_.receive(launch, clock_.boot());
  else
    logic_.cannot_start(launch, ready.error().message, clock_.boot());
}

void NodeAgent::heard(ToAgent message) {
  if (const auto* attempt = std::get_if<LaunchAttempt>(&message))
    launch(*attempt);
  else
    logic_.receive(message, clock_.boot());
  if (const auto* ack = std::get_if<RenewAck>(&message); ack && ack->wall_us != 0) {
    const Duration trip = clock_.boot() - Instant{ack->sent_boot_us};
    health_.see_clock(Duration{clock_.wall().us - trip.us / 2 - ack->wall_us}, trip);
  }
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    welcome_ = true;
    meter_.look_soon();
    welcomed_at_ = clock_.boot();
    renewal_.welcomed();
    gate_.set_key(welcome->ticket_key, Instant{welcome->now_us}, clock_.boot());
    silence_max_ = std::max(kSilenceMin, welcome->renew_every * 3);
    say(format("connected to cluster {} as node {}", welcome->cluster, facts_.meta.name), LogLevel::kInfo);
    broker_.link_up(*link_);
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    say(format(
        "the controller at {}:{} refuses this node, {}: {}. It is tried again every {} s; settings of this node: "
        "agent.json, of the cluster: lockstep status, lockstep node --help",
        settings_.controller_host, settings_.controller_port, facts_.meta.name, refused->why, kBackoffMax.seconds()));
    refused_ = true;
  } else if (const auto* revoked = std::get_if<Revoked>(&message)) {
    gate_.set_key(revoked->ticket_key, Instant{revoked->now_us}, clock_.boot());
    peers_.revoke(revoked->node, revoked->certificate);
  } else if (const auto* routes = std::get_if<TaskRoutes>(&message)) {
    if (const std::string trouble = routes_.take(*routes); !trouble.empty())
      say(trouble);
  }
  pump_soon();
}

// A peer that lost its power closes nothing. Renewals are answered, so a living link is never silent for long.
void NodeAgent::watch_link() {
  loop_.after(silence_max_, [this, watched = links_] {
    if (!link_ || links_ != watched)
      return;
    if (link_->frames_received() == frames_seen_)
      return link_->close("the controller is silent");
    frames_seen_ = link_->frames_received();
    watch_link();
  });
}

// --- step input and output ---

Result<void> NodeAgent::may_attach(const StepTicket& ticket) const {
  return gate_.check(ticket, logic_.step(ticket.job, ticket.attempt, ticket.step).uid, clock_.boot());
}

// Dropping the stream tells who asked that there is nothing (any more).
void NodeAgent::open_step(StepOpen what, std::unique_ptr<Stream> stream) {
  if (const auto good = may_attach(what.ticket); !good.ok())
    return say(format("refused: input and output of step {}.{}: {}", what.ticket.job.value, what.ticket.step,
                      good.error().message));
  if (what.ticket.verbs == kStepImages)
    return image_servers_.serve(what.ticket, std::move(stream), clock_.boot());
  if (what.ticket.verbs == kStepContainer)
    return container_servers_.serve(what, std::move(stream));
  auto client = guarded(std::move(stream), what.ticket.verbs);
  if (!what.below.empty())
    return switch_.spread(std::move(what), std::move(client));
  reach_shim(
      what.ticket,
      [this, client = std::shared_ptr<Stream>(std::move(client))](std::unique_ptr<Stream> shim) {
        if (shim)
          splices_.join(std::move(shim), client);
      },
      kAttachTries);
}

// The words of another agent may be faster than the controller's, by which the step starts here.
void NodeAgent::reach_shim(const StepTicket& ticket, Peers::Opened done, int tries) {
  const WorkId key{ticket.job, ticket.attempt, StepPart{ticket.step}};
  if (auto refused = refusals_.stream(key))
    return done(std::move(refused));
  if (const auto fd = connect_to_shim(settings_.run_dir, key); fd.ok())
    return done(std::make_unique<FdStream>(loop_, *fd, nullptr));
  const bool may_come = logic_.step(ticket.job, ticket.attempt, ticket.step).here != AgentLogic::StepHere::kNever ||
                        shim_folder_exists(settings_.run_dir, key);
  if (!may_come || tries == 0)
    return done(nullptr);
  loop_.after(kAttachAgain, [this, ticket, done = std::move(done), tries] { reach_shim(ticket, done, tries - 1); });
}

void NodeAgent::dial_peer(const StepMember& whom, Peers::Dialed done) {
  DialAsk ask;
  ask.host = whom.address;
  ask.port = whom.port;
  ask.tls = renewal_.files();
  ask.target = "/v1/peer";
  ask.protocol = kPeerProtocol;
  ask.node = whom.node;
  ask.certificate = whom.certificate;
  ask.timeout = kPeerPatience;
  dial_tls(loop_, std::move(ask),
           [this, name = whom.node, done = std::move(done)](Result<std::unique_ptr<Stream>> got) {
             if (!got.ok())
               say(format("cannot dial node {}: {}", name, got.error().message));
             done(std::move(got));
           });
}

void NodeAgent::peer_request(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  const Peer& peer = request.peer;
  const auto upgrade = request.headers.find("upgrade");
  const bool node = peer.how == Peer::How::kCertificate && peer.certificate_name.starts_with("node:");
  if (!node || request.path != "/v1/peer" || upgrade == request.headers.end() || upgrade->second != kPeerProtocol)
    return exchange->respond({403, "text/plain", "other nodes of the cluster connect here, nobody else\n", {}});
  if (auto stream = exchange->upgrade(kPeerProtocol))
    peers_.accept(std::move(stream), peer.certificate_name.substr(peer.certificate_name.find(':') + 1),
                  peer.certificate_serial);
}

// --- devices ---

void NodeAgent::see_devices(Result<std::vector<Device>> found) {
  if (!found.ok()) {
    health_.see_no_devices(found.error().message);
    return say("GPUs: " + found.error().message);
  }
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < found->size(); ++i) {
    Device& device = (*found)[i];
    faults.push_back(meter_.fault(i));
    device.healthy = device.healthy && faults.back().empty();
    // One that does not answer says neither what it was: its place and its name are still those.
    if (device.uuid.empty() && i < facts_.devices.size() && found->size() == facts_.devices.size()) {
      device = facts_.devices[i];
      device.healthy = false;
    }
  }
  health_.see_devices(*found, faults);
  if (*found == facts_.devices)
    return;
  facts_.devices = std::move(*found);
  say("the GPUs of this node have changed");
  tell_facts();
}

void NodeAgent::gpu_broke(std::uint32_t index, const std::string& why) {
  log_line(LogLevel::kWarning, "lockstep-agent: " + why);
  logic_.device_failed(index, why, clock_.boot());
  pump_soon();
}

// --- turning the logic's decisions into deeds ---

void NodeAgent::pump_soon() {
  if (std::exchange(pump_posted_, true))
    return;
  loop_.post([this] {
    pump_posted_ = false;
    pump();
  });
}

// Somebody may have removed it, put an older one in its place, or cut it: then all that is known is written anew.
bool NodeAgent::write_journal() {
  const bool stands = journal_.stands();
  const auto written = stands ? journal_.append(unwritten_) : journal_.replace(logic_.journal_snapshot());
  if (!written.ok()) {
    say(written.error().message);
    return false;
  }
  unwritten_.clear();
  if (std::exchange(looked_, true) && !stands) {
    trouble_ = settings_.state_dir + "/journal was removed, exchanged or cut while the agent ran: it was written anew";
    say(trouble_);
    tell_trouble();
  }
  return true;
}

namespace {

// Room for the folders, records and sockets of shims. Once it was short there must be twice as much.
bool holds_shims(const std::string& run_dir, bool was_short) {
  constexpr std::uint64_t kBytes = 4 << 20, kFiles = 64;
  struct statvfs disk {};
  if (::statvfs(run_dir.c_str(), &disk) != 0)
    return true;
  const std::uint64_t times = was_short ? 2 : 1;
  const bool counts_files = disk.f_files > 0;
  const std::uint64_t least = std::min<std::uint64_t>(kBytes, disk.f_blocks * disk.f_frsize / 8);
  return disk.f_bavail * disk.f_frsize >= times * least && (!counts_files || disk.f_favail >= times * kFiles);
}

}  // namespace

// Nothing more starts while there is only room for the ends of what runs.
void NodeAgent::look_at_room() {
  const std::string full = !journal_.has_room()                                          ? settings_.state_dir
                           : !holds_shims(settings_.run_dir, full_ == settings_.run_dir) ? settings_.run_dir
                                                                                         : std::string();
  if (full == full_)
    return;
  say(full.empty() ? full_ + ": the disk has room again" : full + ": the disk is full");
  full_ = full;
  logic_.refuse_starts(full.empty() ? "" : format("{} ({})", kNoRoom, full));
  tell_trouble();
}

// As the reason of the node's record. Facts travel with a hello, and a hello begins a connection.
void NodeAgent::tell_trouble() {
  std::vector<std::string> reasons;
  if (settings_.leaving)
    reasons.emplace_back(kLeaving);
  if (!full_.empty())
    reasons.push_back(format("{} ({})", kNoRoom, full_));
  const std::string bad = health_.bad(), suspect = health_.suspect();
  if (!bad.empty())
    reasons.push_back(kUnhealthy + bad);
  if (!suspect.empty())
    reasons.push_back(kSuspect + suspect);
  if (!trouble_.empty())
    reasons.push_back(trouble_);
  std::string reason = join(reasons, "; ");
  const bool drain = settings_.leaving || !full_.empty() || !bad.empty();
  if (reason == facts_.reason && facts_.drain == drain)
    return;
  facts_.reason = std::move(reason);
  facts_.drain = drain;
  tell_facts();
}

// While it is short of something each look is told: who makes room goes by the latest one.
void NodeAgent::tell_shortages(std::vector<Shortage> shortages) {
  const auto of_disk = [](const Shortage& one) {
    return one.acute && one.what != Shortage::What::kMemory && one.what != Shortage::What::kProcesses;
  };
  meter_.look_at_disks(std::any_of(shortages.begin(), shortages.end(), of_disk));
  std::vector<std::string> words;
  for (const Shortage& one : shortages)
    if (one.acute)
      words.push_back(format("{}: {} left, {} wanted", wire::word(one.what), one.available, one.threshold));
  if (!words.empty())
    meter_.look_soon();
  // Said once, not at each look.
  const auto said = [&](const Shortage& one) {
    return !one.acute || std::ranges::any_of(facts_.shortages, [&](const Shortage& before) {
      return before.what == one.what && before.acute;
    });
  };
  if (!std::ranges::all_of(shortages, said))
    say("this node runs short of " + join(words, "; "));
  facts_.shortages = std::move(shortages);
  tell_facts();
}

void NodeAgent::tell_facts() {
  logic_.set_facts(facts_, clock_.boot());
  pump_soon();
}

bool NodeAgent::make_durable() {
  auto lines = logic_.take_journal();
  unwritten_.insert(unwritten_.end(), std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
  if ((!unwritten_.empty() || !looked_) && !write_journal())
    return false;
  look_at_room();
  if (journal_.is_long())
    if (auto replaced = journal_.replace(logic_.journal_snapshot()); !replaced.ok())
      say(replaced.error().message);
  if (logic_.renewed() != lease_) {
    lease_ = logic_.renewed();
    if (auto written = write_lease(settings_.run_dir, lease_); !written.ok())
      say(written.error().message);
  }
  return true;
}

// What runs here speaks to the cluster through this node's own socket, whichever one it was submitted through, and
// finds the commands that came with this agent when its PATH has none.
// A hook finds them first: on a machine that was of a Slurm cluster the others' are still there.
void NodeAgent::at_home(std::vector<std::string>& env, bool comes_first) const {
  std::erase_if(env, [](const std::string& line) {
    return line.starts_with("LOCKSTEP_SOCKET=") || line.starts_with("LOCKSTEP_DIR=");
  });
  env.push_back("LOCKSTEP_SOCKET=" + settings_.socket);
  const std::string commands = settings_.shim.substr(0, settings_.shim.rfind('/'));
  for (std::string& line : env)
    if (line.starts_with("PATH=") && comes_first)
      line = "PATH=" + commands + ":" + line.substr(5);
    else if (line.starts_with("PATH=") && (":" + line.substr(5) + ":").find(":" + commands + ":") == std::string::npos)
      line += ":" + commands;
}

void NodeAgent::pump() {
  if (logic_.next_timer() <= clock_.boot())
    logic_.tick(clock_.boot());
  if (!make_durable()) {
    // Nothing is started or reported that a restart would not know of.
    loop_.after(kJournalAgain, [this] { pump_soon(); });
    return;
  }
  for (StepRefusal& refusal : logic_.take_refusals()) refusals_.add(std::move(refusal));
  for (auto& order : logic_.take_orders()) carry_out(std::move(order));
  parts_.settle(logic_.parts());  // before anybody hears that it is free
  for (const auto& message : logic_.take_messages())
    if (link_)
      link_->send(message);
  if (const auto here = logic_.attempts(); places_.is_due(here))
    places_.look(here);
  set_alarm();
}

// Of programs that may not run, the logic hears as of any that fail.
void NodeAgent::start_hook(ShimStart start) {
  log_line(LogLevel::kInfo, "start " + work_text(start.key));
  if (const auto ready = hooks_.complete(start); !ready)
    return loop_.post(
        [this, event = ShimEvent{.what = ShimEvent::What::kFailed, .key = start.key, .why = ready.error().message}] {
          tell_event(event);
          logic_.shim_event(event, clock_.boot());
          pump_soon();
        });
  shims_->start(start);
}

void NodeAgent::carry_out(AgentLogic::ShimOrder order) {
  using enum AgentLogic::ShimOrder::What;
  CHECK(unwritten_.empty(), "an order is carried out that a restart would not know of");
  if (order.what != kStart)
    parts_.start_now(order.key);
  switch (order.what) {
    case kStart:
      CHECK(order.start.key == order.key && !order.start.launch.ranks.empty(), work_text(order.key));
      at_home(order.start.launch.process.env, is_hook(order.key));
      if (is_hook(order.key))
        return start_hook(std::move(order.start));
      hooks_.add_task_programs(order.start.launch.process);
      order.start.no_new_privs = settings_.no_new_privs;
      if (order.start.launch.process.container != Container{} || is_sandbox(order.start.sandbox))
        containers_.used(order.start.launch.process.uid);
      log_line(LogLevel::kInfo, format("start {} uid={}", work_text(order.key), order.start.launch.process.uid));
      return parts_.start(std::move(order.start));
    case kSignal: return shims_->signal(order.key, order.signal, order.reach);
    case kStop:
      if (stopping_.insert(order.key).second)  // what hangs is told again and again
        log_line(LogLevel::kInfo, format("stop {} within {} s", work_text(order.key), order.kill_wait.seconds()));
      return shims_->stop(order.key, order.kill_wait, order.why);
    case kNotice: return shims_->notice(order.key, order.kill_wait, order.why);
    case kForget: stopping_.erase(order.key); return shims_->forget(order.key);
    case kPause:
    case kResume: return shims_->pause(order.key, order.what == kPause, order.number);
  }
}

// The loop's timers stand still while the machine is suspended, fences do not: look often enough to strike in time.
void NodeAgent::set_alarm() {
  const Instant next = logic_.next_timer();
  const Instant due = next < kNever ? std::min(next, clock_.boot() + kLookEvery) : kNever;
  if (alarm_at_ < kNever && due >= alarm_at_)
    return;
  if (alarm_at_ < kNever)
    loop_.cancel(alarm_);
  alarm_at_ = due;
  if (due < kNever)
    alarm_ = loop_.after(std::max(Duration{}, due - clock_.boot()), [this] {
      alarm_at_ = kNever;
      pump();
    });
}

}  // namespace lockstep
