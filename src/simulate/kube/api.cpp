#include "simulate/kube/api.h"

#include <algorithm>
#include <utility>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/reconcilers.h"
#include "io/sha256.h"
#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

constexpr const char* kRaced = "sim.io/raced";  // annotation of the foreign writer

}  // namespace

struct SimApi::Call {
  CallId id = 0;
  HttpRequest request;
  KubeClient client;
  bool over = false;  // nobody hears any more
  bool streams = false, pulling = false;
  Pull pull;
  Instant out_free;  // what is sent arrives in order
};

// One request in the server. What it holds is let go when the server dies.
class SimApi::Visit final : public FrontVisit {
 public:
  Visit(SimApi& api, std::shared_ptr<Call> call)
      : api_(api), call_(std::move(call)), life_(*api.life_), lives_(api.life_) {
    const Tables& tables = api_.view_->tables();
    if (const User* root = tables.user("local", 0)) {
      user_ = tables.users.at(root->id);
      caller_ = {root->id, true};
    }
  }
  ~Visit() override {
    if (!answered_ && *lives_ == life_)
      api_.world_.verdict.fail(
          format("{} {} was dropped without an answer", call_->request.method, call_->request.path));
  }

  const HttpRequest& request() const override { return call_->request; }
  const std::vector<std::string>& names() const override { return names_; }
  const Caller& caller() const override { return caller_; }
  std::shared_ptr<const ReadContext> read() const override {
    const Tables& tables = api_.view_->tables();
    return std::make_shared<const ReadContext>(ReadContext{tables,
                                                           api_.view_->notes(),
                                                           api_.world_.timeline.now(),
                                                           tables.cluster ? tables.cluster->wall_offset : Duration{},
                                                           user_.get(),
                                                           caller_.admin,
                                                           "sim",
                                                           [](NodeId) { return NodeUse{}; },
                                                           {},
                                                           &api_.view_->index(),
                                                           {},
                                                           &api_.view_->live()});
  }
  BlobId store(std::string bytes) override {
    BlobId id = sha256_hex(bytes);
    blobs_.push_back({id, std::move(bytes)});
    return id;
  }

  using FrontVisit::commit;
  void commit(std::vector<CommandBody> bodies, Reading read, std::function<void(Result<Answer>)> then) override {
    commit_as(caller_, std::move(bodies), std::move(read), std::move(then));
  }
  void commit_judged(std::vector<CommandBody> bodies, Reading read, std::function<void(Result<Answer>)> then) override {
    commit_as({UserId{}, true}, std::move(bodies), std::move(read), std::move(then));
  }

  // There is one thread here, and time does not pass while it works: `then` comes in a turn of its own, as there.
  Result<void> aside(std::function<void()> work, std::function<void()> then) override {
    work();
    api_.on_io(std::move(then));
    return {};
  }

  void answer(HttpResponse response) override { end(response.status, std::move(response.body)); }
  void refuse(const Error& why, int status) override { end(status == 0 ? 500 : status, why.message); }
  void write(PageReply reply) override {
    reply = whole(std::move(reply));
    end(reply.status, std::move(reply.body));
  }
  void stream(HttpResponse head, Pull pull, Duration longest) override {
    if (!first())
      return;
    call_->streams = true;
    call_->pull = std::move(pull);
    api_.deliver(call_, [call = call_, status = head.status] { call->client.on_reply(status, ""); });
    api_.pull(call_);
    api_.world_.timeline.after(longest, [&api = api_, call = call_, life = life_, lives = lives_] {
      if (*lives == life)
        api.on_io([&api, call] { api.finish(call); });
    });
  }
  std::unique_ptr<Stream> open(HttpResponse) override { return nowhere(); }
  void reach(const ContainerAsk&, std::function<void(Result<std::unique_ptr<Stream>>)> then) override {
    then(Error{Errc::kUnavailable, "containers are not reached here", {}});
  }
  std::unique_ptr<Stream> upgrade(const std::string&, const std::map<std::string, std::string>&) override {
    return nowhere();
  }

 private:
  bool first() {
    if (std::exchange(answered_, true))
      api_.world_.verdict.fail(format("{} {} was answered twice", call_->request.method, call_->request.path));
    return *lives_ == life_;
  }
  void end(int status, std::string body) {
    if (first())
      api_.deliver(call_, [&api = api_, call = call_, status, body = std::move(body)] {
        call->over = true;
        api.calls_.erase(call->id);
        call->client.on_reply(status, body);
      });
  }
  std::unique_ptr<Stream> nowhere() {
    end(501, "nothing is reached here");
    return nullptr;
  }
  void commit_as(const Caller& caller, std::vector<CommandBody> bodies, Reading read,
                 std::function<void(Result<Answer>)> then) {
    if (bodies.empty())
      return then(invalid("nothing is to be changed"));
    Command command{caller, std::move(bodies.front()), {}, std::move(read), {}};
    command.also.assign(std::make_move_iterator(bodies.begin() + 1), std::make_move_iterator(bodies.end()));
    // The core's answer comes back over the I/O thread's queue, behind what it has published before.
    api_.world_.controller.call(
        std::move(command),
        [&api = api_, life = life_, lives = lives_, then = std::move(then)](const Result<Answer>& answer) {
          if (*lives == life)
            api.on_io([then, answer] { then(answer); });
        },
        std::exchange(blobs_, {}));
  }

  SimApi& api_;
  std::shared_ptr<Call> call_;
  const std::uint64_t life_;
  const std::shared_ptr<const std::uint64_t> lives_;
  Ref<User> user_;
  Caller caller_;
  std::vector<std::string> names_;
  std::vector<Blob> blobs_;
  bool answered_ = false;
};

SimApi::SimApi(World& world, Ledger& ledger)
    : world_(world), ledger_(ledger), dice_(world.settings.seed ^ 0x6b75'6265) {
  slow_ = dice_.chance(0.5) ? 0.02 : 0;
  races_ = dice_.chance(0.5) ? 0.15 : 0.01;
}

SimApi::~SimApi() { *life_ = 0; }

void SimApi::stop_trouble() { slow_ = races_ = 0; }

Duration SimApi::delay() {
  return micros(dice_.chance(slow_) ? dice_.between(50'000, 3'000'000) : dice_.between(50, 8'000));
}

// --- the controller's process ---

std::vector<Resident::Part> SimApi::actors() {
  std::vector<Part> out;
  out.push_back({[] { return std::make_unique<kube::Reconcilers>(kube::all_controllers("CA")); },
                 [this](const Actor::Turn& turn, bool) { race(turn); }});
  return out;
}

void SimApi::begun(const std::vector<Change>& snapshot) {
  ++*life_;
  kube::KubePowers powers;
  powers.random_hex = [this](std::size_t bytes) {
    std::string out;
    while (out.size() < 2 * bytes) out += format("{:016x}", dice_.next());
    out.resize(2 * bytes);
    return out;
  };
  powers.sha256_hex = [](std::string_view bytes) { return sha256_hex(bytes); };
  powers.sha1 = [](std::string_view) { return std::string(20, 'x'); };
  powers.issue = [](const std::string&) -> Result<kube::KeyAndCertificate> { return invalid("none are issued here"); };
  powers.address = [] { return std::string("https://127.0.0.1:6820"); };
  powers.ca_pem = "CA";
  powers.tokens = {[](std::string_view) { return std::string("token"); },
                   [](std::string_view) { return std::optional<std::string>(); }, [] { return std::string("{}"); }};
  powers.call = [](kube::CallOut, std::function<void(Result<std::string>)> then) { then(invalid("nobody is called")); };
  server_ = std::make_unique<kube::KubeServer>(std::move(powers), "sim");
  routes_ = server_->routes();
  view_ = std::make_unique<LiveView>(snapshot, world_.timeline.now());
  for (auto& reader : server_->readers()) view_->add_reader(std::move(reader));
  io_free_ = world_.timeline.now();
}

void SimApi::ended() {
  ++*life_;
  for (const auto& [id, call] : std::exchange(calls_, {})) lose(call);
  routes_.clear();
  server_.reset();
  view_.reset();
}

void SimApi::durable(std::span<const Change> changes) { ledger_.saw(changes); }

void SimApi::committed(const Engine::Batch& batch) {
  if (batch.changes.empty())
    return;
  on_io([this, changes = batch.changes, at = batch.at] {
    view_->apply(changes, at);
    const auto calls = calls_;
    for (const auto& [id, call] : calls)
      if (call->streams)
        pull(call);
  });
}

// One thread: what it is given it does in order, soon, or when it is let run again.
void SimApi::on_io(std::function<void()> task) {
  const Instant now = world_.timeline.now();
  io_free_ = std::max({io_free_, now, world_.controller.io_stalled_until()}) +
             micros(dice_.chance(0.01) ? dice_.between(1'000, 200'000) : dice_.between(5, 500));
  world_.timeline.at(io_free_, [this, life = *life_, task = std::move(task)] {
    if (life == *life_)
      task();
  });
}

// --- connections ---

SimApi::CallId SimApi::call(KubeAsk ask, KubeClient client) {
  const auto call = std::make_shared<Call>();
  call->id = ++last_call_;
  call->request.method = std::move(ask.method);
  call->request.path = std::move(ask.path);
  call->request.query = std::move(ask.query);
  call->request.body = std::move(ask.body);
  call->request.headers = {{"content-type", std::move(ask.content_type)}, {"user-agent", "sim/1"}};
  call->client = std::move(client);
  world_.timeline.after(delay(), [this, call] { arrive(call); });
  return call->id;
}

void SimApi::arrive(const std::shared_ptr<Call>& call) {
  if (call->over)
    return;
  if (!server_)
    return lose(call);
  calls_[call->id] = call;
  on_io([this, call] { handle(call); });
}

void SimApi::handle(const std::shared_ptr<Call>& call) {
  std::vector<std::string> names;
  for (const FrontRoute& row : routes_)
    if (row.route.method == call->request.method && covers(row.route, call->request.path, names))
      return std::get<FrontHandler>(row.work)(std::make_shared<Visit>(*this, call));
  world_.verdict.fail(format("nobody answers {} {}", call->request.method, call->request.path));
}

// Piece by piece, and between two of them others have their turn.
void SimApi::pull(const std::shared_ptr<Call>& call) {
  if (call->over || call->pulling || !call->pull)
    return;
  std::string out;
  const Pulled more = call->pull(out);
  if (!out.empty())
    deliver(call, [call, out = std::move(out)] { call->client.on_lines(out); });
  if (more == Pulled::kEnd)
    return finish(call);
  if (more == Pulled::kNothing)
    return;
  call->pulling = true;
  on_io([this, call] {
    call->pulling = false;
    pull(call);
  });
}

void SimApi::finish(const std::shared_ptr<Call>& call) {
  if (calls_.erase(call->id) == 0)
    return;
  call->pull = nullptr;
  deliver(call, [call] {
    call->over = true;
    call->client.on_end();
  });
}

void SimApi::deliver(const std::shared_ptr<Call>& call, std::function<void()> task) {
  call->out_free = std::max(call->out_free, world_.timeline.now()) + delay();
  world_.timeline.at(call->out_free, [call, task = std::move(task)] {
    if (!call->over)
      task();
  });
}

// The client notices some time later; until then what was sent before may still arrive.
void SimApi::lose(const std::shared_ptr<Call>& call) {
  if (dice_.chance(0.5))
    call->out_free = kNever;
  const bool mute = call->out_free == kNever;
  const Instant notices =
      std::max(world_.timeline.now(), mute ? Instant{} : call->out_free) + micros(dice_.between(100, 500'000));
  call->pull = nullptr;
  if (mute)
    call->over = true;
  world_.timeline.at(notices, [call, mute] {
    if (call->over && !mute)
      return;
    call->over = true;
    if (call->streams)
      call->client.on_end();
    else
      call->client.on_reply(0, "");
  });
}

void SimApi::cut(CallId id) {
  const auto at = calls_.find(id);
  if (at == calls_.end())
    return;
  const auto call = at->second;
  calls_.erase(at);
  lose(call);
}

// A foreign writer is faster than a controller: it changes what the command rests on while that is on its way.
void SimApi::race(const Actor::Turn& turn) {
  if (races_ == 0 || !world_.controller.up() || world_.controller.engine().storing() ||
      !world_.controller.engine().trusted())
    return;
  const Tables& tables = world_.controller.state().tables();
  for (const Actor::Ask& ask : turn.asks)
    for (const Reading::Record& read : ask.read.records) {
      const auto* key = std::get_if<ObjectKey>(&read.key);
      const auto at = key ? tables.objects.find(*key) : tables.objects.end();
      if (at == tables.objects.end() || !dice_.chance(races_))
        continue;
      Object object = *at->second;
      auto extra = std::make_shared<MetaExtra>(object.meta.extra ? *object.meta.extra : MetaExtra{});
      std::erase_if(extra->annotations, [](const auto& one) { return one.first == kRaced; });
      extra->annotations.emplace_back(kRaced, format("{}", ++raced_));
      std::ranges::sort(extra->annotations);
      object.meta.extra = std::move(extra);
      world_.controller.call({{UserId{}, true}, PutObject{std::move(object), at->second->meta.seq}}, nullptr);
    }
}

}  // namespace lockstep::sim
