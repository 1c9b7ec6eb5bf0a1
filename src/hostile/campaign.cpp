#include "hostile/campaign.h"

#include <cstdio>
#include <map>

#include "base/text.h"
#include "hostile/arena.h"
#include "hostile/grammar.h"
#include "hostile/node.h"
#include "wire/api.h"

namespace lockstep::hostile {

namespace {

constexpr Duration kPatience = seconds(20);  // an honest answer never takes so long
constexpr std::uint32_t kUsers[] = {0, 61'001, 61'002, 61'003};
constexpr std::uint32_t kNobodysUid = 61'008;  // whose secrets strangers write who are told what they wrote

class Campaign {
 public:
  explicit Campaign(const CampaignSettings& settings) : settings_(settings), grammar_(settings.seed, known_) {
    for (int i = 1; i <= 4; ++i) {
      known_.nodes.push_back(format("n{}", i));
      nodes_.push_back(std::make_unique<HostileNode>(known_.nodes.back(), settings.seed * 16 + i));
    }
  }

  CampaignReport run() {
    if (const auto opened = arena_.open(); !opened.ok())
      return fail("it does not open: " + opened.error().message);
    known_.routes = &arena_.routes();
    discover();
    for (std::uint64_t step = 0; step < settings_.steps && report_.failure.empty(); ++step) {
      if (step > 0 && step % settings_.restart_every == 0 && !restart())
        break;
      if (step % 50 == 0)
        link_nodes();
      const std::uint64_t kind = grammar_.rng().below(10);
      if (kind < 7)
        strange_request();
      else if (kind < 9)
        arena_.on_loop([this] { nodes_[grammar_.rng().below(nodes_.size())]->act(grammar_); });
      else
        play_with_wires();
      if (step % 100 == 99)
        honest_requests();
    }
    if (settings_.tell && report_.failure.empty())
      tell_status();
    drop_wires();
    arena_.close();
    if (report_.failure.empty())
      if (const auto opened = arena_.open(); !opened.ok())
        return fail("it does not open again: " + opened.error().message);
    arena_.close();
    return report_;
  }

 private:
  CampaignReport fail(std::string why) {
    if (report_.failure.empty())
      report_.failure = std::move(why);
    return report_;
  }

  std::string as_root(const std::string& path) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.peer = local(0);
    const auto call = send(std::move(request), 0, true, kPatience);
    return call->over && call->response ? call->response->body : std::string();
  }
  // What stands behind each of the marks in a text, up to the next quote.
  static std::vector<std::string> behind(std::string_view text, std::string_view mark) {
    std::vector<std::string> out;
    for (auto at = text.find(mark); at != text.npos; at = text.find(mark, at)) {
      at += mark.size();
      out.emplace_back(text.substr(at, text.find('"', at) - at));
    }
    return out;
  }
  // Which kinds Kubernetes' API has: the grammar knows none by itself.
  void discover() {
    std::vector<std::string> roots{"/api/v1"};
    for (const std::string& group : behind(as_root("/apis"), R"("groupVersion":")")) roots.push_back("/apis/" + group);
    for (const std::string& root : roots) {
      const std::string text = as_root(root);
      constexpr std::string_view kMark = R"({"name":")";
      for (auto at = text.find(kMark); at != text.npos;) {
        const auto next = text.find(kMark, at + 1);
        const std::string one = text.substr(at, next - at);
        known_.kube.push_back({root, behind(one, kMark).front(), one.find(R"("namespaced":true)") != one.npos});
        at = next;
      }
    }
    if (known_.kube.empty())
      fail("discovery tells of no kinds");
  }

  void tell_status() {
    HttpRequest request;
    request.method = "GET";
    request.path = "/v1/status";
    request.peer = local(0);
    const auto call = send(std::move(request), 0, true, kPatience);
    if (call->over)
      std::fprintf(stderr, "%s\n", call->response->body.c_str());
  }

  static Peer local(std::uint32_t uid) {
    Peer peer;
    peer.how = Peer::How::kUnixSocket;
    peer.uid = peer.gid = uid;
    peer.realm = "local";
    return peer;
  }
  Peer somebody(std::uint32_t& uid, bool& admin) {
    Rng& rng = grammar_.rng();
    uid = kUsers[rng.below(std::size(kUsers))];
    Peer peer = local(uid);
    admin = uid == 0;
    const std::uint64_t kind = rng.below(10);
    if (kind < 7)
      return peer;
    admin = false;
    peer.certificate_name = "node:" + known_.nodes[rng.below(known_.nodes.size())];
    peer.certificate_role = "compute";
    if (kind == 7) {
      peer.how = Peer::How::kForwarded;
      peer.realm = rng.chance(0.5) ? "" : "site";
    } else if (kind == 8) {
      peer = {};
      uid = UINT32_MAX;
    } else {
      peer.how = Peer::How::kCertificate;
      peer.certificate_serial = "serial of " + peer.certificate_name;
      uid = UINT32_MAX;
    }
    return peer;
  }

  std::shared_ptr<Call> send(HttpRequest request, std::uint32_t uid, bool admin, Duration patience) {
    auto call = std::make_shared<Call>();
    call->uid = uid;
    call->admin = admin;
    call->is_node_root = uid == 0 && request.peer.how == Peer::How::kForwarded && request.peer.realm.empty();
    call->what =
        format("{} {} as {}, body of {} bytes: {}", request.method, request.path.substr(0, 200),
               uid == UINT32_MAX ? "nobody" : format("{}", uid), request.body.size(), request.body.substr(0, 400));
    for (const auto& [key, value] : request.query) call->what += format(" ?{}={}", key, value.substr(0, 80));
    if (settings_.tell)
      std::fprintf(stderr, "%llu: %s\n", static_cast<unsigned long long>(report_.requests), call->what.c_str());
    ++report_.requests;
    if (!arena_.call(std::move(request), call, patience)) {
      open_.push_back(call);
      return call;
    }
    if (call->response)
      look_at(*call);
    return call;
  }

  // What nobody but its owner may read must not be in an answer; and refusals are not the controller's own trouble.
  void look_at(const Call& call) {
    const HttpResponse& response = *call.response;
    if (settings_.tell)
      std::fprintf(stderr, "  %d %s\n", response.status, response.body.substr(0, 200).c_str());
    if (response.status >= 400)
      ++report_.refused;
    if (response.status == 500)
      fail(format("status 500 ({}) to {}", response.body.substr(0, 300), call.what));
    if (call.admin || call.is_node_root)
      return;
    for (const std::uint32_t owner : kUsers)
      if (const auto at = response.body.find(secret_of(owner)); owner != call.uid && at != std::string::npos)
        fail(format("the secret of {} in the answer to {}: …{}…", owner, call.what,
                    response.body.substr(at > 60 ? at - 60 : 0, 120)));
  }

  HttpRequest next_request(std::uint32_t& uid, bool& admin) {
    HttpRequest request;
    if (grammar_.rng().chance(0.4)) {
      uid = kUsers[grammar_.rng().below(std::size(kUsers))];
      admin = uid == 0;
      request = grammar_.everyday(uid);
      request.peer = local(uid);
    } else {
      const Peer peer = somebody(uid, admin);
      request = grammar_.request(uid == UINT32_MAX ? kNobodysUid : uid);
      request.peer = peer;
    }
    return request;
  }

  void strange_request() {
    std::uint32_t uid = 0;
    bool admin = false;
    HttpRequest request = next_request(uid, admin);
    const bool submits = request.method == "POST" && request.path == "/v1/jobs";
    const bool waits = request.path == "/v1/watch" || request.path.ends_with("/wait") || request.query.contains("wait");
    const auto call = send(std::move(request), uid, admin, waits ? millis(20) : kPatience);
    if (!call->over && !waits)
      fail("no answer to " + call->what);
    if (call->over && call->wire) {
      ++report_.upgrades;
      wires_.push_back(call->wire);
      if (grammar_.rng().chance(0.3))
        arena_.on_loop([wire = call->wire] { wire->reads = false; });
    }
    if (submits && call->response && call->response->status == 200)
      note_jobs(uid, call->response->body);
    if (open_.size() > 200)
      drop_open();
  }

  void note_jobs(std::uint32_t uid, std::string_view answer) {
    constexpr std::string_view kKey = "\"job_id\":";
    for (auto at = answer.find(kKey); at != std::string_view::npos; at = answer.find(kKey, at + 1)) {
      const std::string_view rest = answer.substr(at + kKey.size());
      const std::uint64_t id = parse_uint(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0);
      known_.owned[uid].push_back(id);
      known_.jobs = std::max(known_.jobs, id);
    }
  }

  // Clients that go away while they wait.
  void drop_open() {
    arena_.on_loop([this] {
      for (const auto& call : open_)
        if (!call->over && call->gone) {
          const auto gone = std::move(call->gone);
          call->gone = nullptr;
          gone();
        }
    });
    open_.clear();
  }

  void join(const std::string& node) {
    HttpRequest ask;
    ask.method = "POST";
    ask.path = "/v1/tokens";
    ask.peer = local(0);
    ask.body = format(R"({{"node":"{}","replace":true}})", node);
    const auto made = send(std::move(ask), 0, true, kPatience);
    constexpr std::string_view kBefore = R"({"token":")";
    const std::string answer = made->over ? made->response->body : "";
    if (!answer.starts_with(kBefore))
      return;
    const std::string token = answer.substr(kBefore.size(), answer.rfind('"') - kBefore.size());
    HttpRequest redeem;
    redeem.method = "POST";
    redeem.path = "/v1/join";
    redeem.body = encode(JoinRequest{token, node, "csr"});
    (void)send(std::move(redeem), UINT32_MAX, false, kPatience);
  }

  void link_nodes() {
    for (auto& node : nodes_) {
      bool linked = false;
      arena_.on_loop([&] { linked = node->linked(); });
      if (linked)
        continue;
      if (grammar_.rng().chance(0.5))
        join(node->name());
      HttpRequest request;
      request.method = "GET";
      request.path = "/v1/link";
      request.headers = {{"upgrade", "lockstep-link/1"}, {"connection", "Upgrade"}};
      request.peer.how = Peer::How::kCertificate;
      request.peer.certificate_name = "node:" + node->name();
      request.peer.certificate_role = "compute";
      request.peer.certificate_serial = "serial of " + request.peer.certificate_name;
      const auto call = send(std::move(request), UINT32_MAX, false, kPatience);
      if (call->over && call->wire)
        arena_.on_loop([&] { node->connect(call->wire); });
    }
  }

  // Upgraded connections get frames, whole, torn and senseless, or end.
  void play_with_wires() {
    if (wires_.empty())
      return;
    Rng& rng = grammar_.rng();
    const std::size_t at = rng.below(wires_.size());
    const auto wire = wires_[at];
    std::string bytes;
    for (std::uint64_t n = 1 + rng.below(3); n > 0; --n)
      bytes += encode_frame(static_cast<std::uint8_t>(rng.below(18)), rng.chance(0.7) ? rng.below(4) : rng.next(),
                            rng.chance(0.5) ? grammar_.spoilt(R"({"have":{"0":[1,2]}})") : grammar_.size_ladder());
    if (rng.chance(0.2))
      bytes.resize(rng.below(bytes.size()));
    const bool ends = rng.chance(0.2);
    arena_.on_loop([&] {
      if (const auto data = wire->data; data && !wire->gone)
        data(bytes);
      if (const auto closed = wire->closed; closed && ends && !wire->gone)
        closed();
    });
    if (ends)
      wires_.erase(wires_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void drop_wires() {
    drop_open();
    wires_.clear();
  }

  // Whatever went before, decent people get what they ask for.
  void honest_requests() {
    for (const char* path : {"/v1/ping", "/v1/status", "/v1/jobs?name=honest"}) {
      HttpRequest request;
      request.method = "GET";
      request.path = std::string_view(path).substr(0, std::string_view(path).find('?'));
      if (request.path != path)
        request.query["name"] = "honest";
      request.peer = local(61'009);
      const auto call = send(std::move(request), 61'009, false, kPatience);
      if (!call->over)
        fail(format("an honest {} got no answer", path));
      else if (call->response->status != 200)
        fail(format("an honest {} got {}: {}", path, call->response->status, call->response->body.substr(0, 200)));
    }
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/jobs";
    request.peer = local(0);
    request.body =
        R"({"spec":{"name":"honest","work_dir":"/","hold":true,"groups":[{"launch":"script"}]},"script":"#!/bin/sh\n"})";
    const auto call = send(std::move(request), 0, true, kPatience);
    if (!call->over)
      fail("an honest submission got no answer");
  }

  bool restart() {
    drop_wires();
    arena_.close();
    if (const auto opened = arena_.open(); !opened.ok()) {
      fail("it does not open again: " + opened.error().message);
      return false;
    }
    known_.routes = &arena_.routes();
    for (int i = 1; i <= 4; ++i)
      nodes_[i - 1] = std::make_unique<HostileNode>(known_.nodes[i - 1], settings_.seed * 16 + i);
    return true;
  }

  CampaignSettings settings_;
  Known known_;
  Grammar grammar_;
  std::vector<std::unique_ptr<HostileNode>> nodes_;
  Arena arena_;
  std::vector<std::shared_ptr<Call>> open_;  // still waited for
  std::vector<std::shared_ptr<Wire>> wires_;
  CampaignReport report_;
};

}  // namespace

CampaignReport run_campaign(const CampaignSettings& settings) { return Campaign(settings).run(); }

}  // namespace lockstep::hostile
