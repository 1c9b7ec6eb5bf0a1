#include "frontends/kube/server/pass_on.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/server/request.h"
#include "frontends/kube/server/shown_token.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kAnswerMax = 32 << 20;    // of one that is answered whole
constexpr std::size_t kWholeBytes = 256 << 10;  // of a longer one that says no length, the rest is sent as it comes
constexpr std::string_view kHopByHop[] = {"connection",
                                          "keep-alive",
                                          "proxy-authenticate",
                                          "proxy-authorization",
                                          "te",
                                          "trailer",
                                          "transfer-encoding",
                                          "upgrade",
                                          "host",
                                          "content-length",
                                          "authorization",
                                          "expect",
                                          "x-remote-user",
                                          "x-remote-uid"};

bool stays(std::string_view name) {
  return std::ranges::find(kHopByHop, name) != std::end(kHopByHop) || name.starts_with("impersonate-") ||
         name.starts_with("x-remote-group") || name.starts_with("x-remote-extra-");
}

// Bytes that may stand in a target as they are; a slash does so in paths.
std::string escaped(std::string_view text, std::string_view also) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
        c == '.' || c == '~' || also.find(c) != also.npos)
      out += c;
    else
      ((out += '%') += kHex[byte >> 4]) += kHex[byte & 15];
  }
  return out;
}

std::string target_text(const HttpRequest& http) {
  std::string out = escaped(http.path, "/:@!$&'()*+,;=");
  char before = '?';
  const auto add = [&](const std::string& name, const std::string& value) {
    (out += std::exchange(before, '&')) += escaped(name, "") + "=" + escaped(value, "");
  };
  for (const auto& [name, value] : http.earlier) add(name, value);
  for (const auto& [name, value] : http.query) add(name, value);
  return out;
}

// A line of its own cannot begin within a value.
std::string plain_value(std::string_view value) {
  std::string out(value);
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < 32; }, ' ');
  return out;
}

class Passage final : public Conversation, public std::enable_shared_from_this<Passage> {
 public:
  Passage(std::shared_ptr<FrontVisit> visit, std::shared_ptr<StreamRoom> room)
      : visit_(std::move(visit)), room_(std::move(room)) {}

  void begin(const PassesOn& passes_on, PassedRequest request) {
    passed_ = passes_on(std::move(request),
                        {.head = [this](int status, auto headers) { take_head(status, std::move(headers)); },
                         .body = [this](std::string_view bytes) { take_body(bytes); },
                         .end = [this](Result<void> how) { end(std::move(how)); }});
  }

 private:
  void take_head(int status, std::vector<std::pair<std::string, std::string>> headers) {
    answer_.status = status;
    answer_.content_type.clear();
    for (auto& [name, value] : headers) {
      if (name == "content-type")
        answer_.content_type = value;
      else if (name == "content-length")
        has_length_ = true;
      else if (!stays(name)) {
        std::string& all = answer_.headers[name];
        all += (all.empty() ? "" : ", ") + value;
      }
    }
    if (query_flag(visit_->request(), "watch") || query_flag(visit_->request(), "follow"))
      open_stream();
  }

  void take_body(std::string_view bytes) {
    if (over_)
      return;
    if (client_) {
      client_->write(std::string(bytes));
      if (client_->unsent() > kStreamHighWater && passed_)
        passed_->pause(true);
      return;
    }
    answer_.body.append(bytes);
    if (answer_.body.size() > kAnswerMax)
      return fail(format("the answer has more than {} bytes", kAnswerMax));
    if (!has_length_ && answer_.body.size() > kWholeBytes)
      open_stream();
  }

  void open_stream() {
    std::string early = std::exchange(answer_.body, {});
    client_ = visit_->open(answer_);
    if (!client_)
      return finish();
    client_->on_close([this] { finish(); });
    client_->on_drained([this] {
      if (!over_ && passed_)
        passed_->pause(false);
    });
    if (!early.empty())
      client_->write(std::move(early));
  }

  void end(Result<void> how) {
    if (over_)
      return;
    if (!how.ok() && (client_ || answer_.status != 200 || !answer_.body.empty())) {
      if (client_)
        client_->cut();
      else
        return fail(how.error().message);
      return finish();
    }
    if (!how.ok())
      return fail(how.error().message);
    if (client_)
      client_->close();
    else
      visit_->answer(std::move(answer_));
    finish();
  }

  void fail(const std::string& why) {
    answer_status(*visit_, Status::unavailable("error trying to reach service: " + why));
    finish();
  }

  void finish() {
    if (std::exchange(over_, true))
      return;
    passed_.reset();  // the other server hears at once that nobody listens any more
    room_->end(this);
  }

  std::shared_ptr<FrontVisit> visit_;
  std::shared_ptr<StreamRoom> room_;
  std::shared_ptr<PassedOn> passed_;
  std::unique_ptr<Stream> client_;
  HttpResponse answer_;
  bool has_length_ = false, over_ = false;
};

}  // namespace

std::string passed_head(const HttpRequest& http, const KubeUser& user, std::string_view host) {
  std::string out = format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", http.method, target_text(http), host);
  const auto add = [&](std::string_view name, std::string_view value) {
    out += format("{}: {}\r\n", name, plain_value(value));
  };
  for (const auto& [name, value] : http.headers)
    if (!stays(name) && name != kProtocolsHeader)
      add(name, value);
  if (const std::string protocols = offered_protocols(http); !protocols.empty())
    add(kProtocolsHeader, protocols);
  add("X-Remote-User", user.name);
  if (!user.uid.empty())
    add("X-Remote-Uid", user.uid);
  for (const std::string& group : user.groups) add("X-Remote-Group", group);
  for (const auto& [key, values] : user.extra)
    for (const std::string& value : values) add("X-Remote-Extra-" + escaped(lower(key), ""), value);
  if (!http.body.empty() || http.method == "POST" || http.method == "PUT" || http.method == "PATCH")
    add("Content-Length", std::to_string(http.body.size()));
  return out + "\r\n";
}

void reach_target(
    const Tables& tables, const WebhookTarget& target,
    const std::function<void(const ContainerAsk&, std::function<void(Result<std::unique_ptr<Stream>>)>)>& reach,
    std::function<void(Result<std::shared_ptr<Stream>>)> then) {
  if (target.pod.empty())
    return then(std::shared_ptr<Stream>());
  const auto pod = tables.objects.find({std::string(kPods), target.pod_ns, target.pod});
  const PodRecords records = pod == tables.objects.end() ? PodRecords() : records_of_pod(tables, *pod->second);
  if (!records.job)
    return then(Error{Errc::kUnavailable, format("pod {} does not have a host assigned", target.pod), {}});
  ContainerAsk ask;
  ask.what = ContainerAsk::What::kPort;
  ask.job = records.job->id;
  ask.port = target.port;
  reach(ask, [then = std::move(then)](Result<std::unique_ptr<Stream>> stream) {
    if (!stream.ok())
      return then(stream.error());
    then(std::shared_ptr<Stream>(std::move(*stream)));
  });
}

void pass_on(const std::shared_ptr<FrontVisit>& visit, const KubeUser& user, WebhookTarget target, bool anybody,
             const PassesOn& passes_on, const std::shared_ptr<StreamRoom>& room) {
  if (!passes_on || room->size() >= kConversationsMax)
    return answer_status(*visit, Status::too_many_requests("too many requests are passed on", 1));
  const auto read = visit->read();
  const auto reach = [visit](const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) {
    visit->reach(ask, std::move(then));
  };
  reach_target(read->tables, target, reach,
               [visit, user, target, anybody, passes_on, room](Result<std::shared_ptr<Stream>> through) {
                 if (!through.ok())
                   return answer_status(
                       *visit, Status::unavailable("error trying to reach service: " + through.error().message));
                 const HttpRequest& http = visit->request();
                 const auto passage = std::make_shared<Passage>(visit, room);
                 room->keep(passage);
                 passage->begin(passes_on, {.address = target.address,
                                            .port = target.port,
                                            .server_name = target.server_name,
                                            .ca_pem = target.ca_pem,
                                            .anybody = anybody,
                                            .method = http.method,
                                            .head = passed_head(http, user, target.server_name),
                                            .body = http.body,
                                            .through = std::move(*through)});
               });
}

}  // namespace lockstep::kube
