#include "frontends/kube/server/request_counts.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kConnects[] = {"attach", "exec", "log", "portforward", "proxy"};
constexpr const char* kOtherLabels =
    R"(verb="other",dry_run="",group="",version="",resource="other",subresource="",scope="")";

std::string verb_word(const Request& request) {
  const Target& target = request.target;
  if (target.subresource != "log" && std::ranges::find(kConnects, target.subresource) != std::end(kConnects))
    return "CONNECT";
  const std::string& verb = target.verb;
  if (verb == "create")
    return "POST";
  if (verb == "update")
    return "PUT";
  if (verb == "patch")
    return header_of(request.http(), "content-type").starts_with("application/apply-patch") ? "APPLY" : "PATCH";
  std::string out = verb;
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

bool is_lasting(std::string_view verb) { return verb == "WATCH" || verb == "CONNECT"; }

// Of what is served alone: resources are known, and so is each of their parts.
std::string labels_of(const Request& request, const std::string& verb) {
  const Target& target = request.target;
  const char* scope = !target.name.empty() || target.verb == "create" ? "resource"
                      : !target.ns.empty()                            ? "namespace"
                                                                      : "cluster";
  return format(R"(verb="{}",dry_run="{}",group="{}",version="{}",resource="{}",subresource="{}",scope="{}")", verb,
                request.dry_run ? "All" : "", target.group, target.version, target.resource, target.subresource, scope);
}

}  // namespace

struct RequestCounts::Under {
  Under(std::shared_ptr<RequestCounts> of, std::uint64_t RequestCounts::*which) : counts(std::move(of)), count(which) {
    ++(*counts.*count);
  }
  ~Under() { --(*counts.*count); }
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;
  const std::shared_ptr<RequestCounts> counts;
  std::uint64_t RequestCounts::*const count;
};

// Passes everything on, and notes how it was answered.
class RequestCounts::Counted final : public FrontVisit {
 public:
  Counted(std::shared_ptr<RequestCounts> counts, std::shared_ptr<FrontVisit> visit, std::string verb,
          std::string labels)
      : counts_(std::move(counts)),
        visit_(std::move(visit)),
        labels_(std::move(labels)),
        lasts_(is_lasting(verb)),
        began_(visit_->read()->now) {
    if (!lasts_)
      under_ = std::make_unique<Under>(
          counts_, verb == "GET" || verb == "LIST" ? &RequestCounts::reading_ : &RequestCounts::changing_);
  }
  ~Counted() override {
    if (!ended_)  // nobody answered: how long that took says nothing
      counts_->ended(labels_, 500, {}, true);
  }

  const HttpRequest& request() const override { return visit_->request(); }
  const std::vector<std::string>& names() const override { return visit_->names(); }
  const Caller& caller() const override { return visit_->caller(); }
  std::shared_ptr<const ReadContext> read() const override { return visit_->read(); }
  BlobId store(std::string bytes) override { return visit_->store(std::move(bytes)); }
  using FrontVisit::commit;
  void commit(std::vector<CommandBody> bodies, lockstep::Reading read,
              std::function<void(Result<Answer>)> then) override {
    visit_->commit(std::move(bodies), std::move(read), std::move(then));
  }
  void commit_judged(std::vector<CommandBody> bodies, lockstep::Reading read,
                     std::function<void(Result<Answer>)> then) override {
    visit_->commit_judged(std::move(bodies), std::move(read), std::move(then));
  }
  Result<void> aside(std::function<void()> work, std::function<void()> then) override {
    return visit_->aside(std::move(work), std::move(then));
  }
  void answer(HttpResponse response) override {
    end(response.status);
    visit_->answer(std::move(response));
  }
  void refuse(const Error& why, int status) override {
    end(status == 0 ? 500 : status);
    visit_->refuse(why, status);
  }
  void write(PageReply reply) override {
    end(reply.status);
    visit_->write(std::move(reply));
  }
  void stream(HttpResponse head, Pull pull, Duration longest) override {
    end(head.status);
    visit_->stream(std::move(head), counts_while(std::move(pull)), longest);
  }
  std::unique_ptr<Stream> open(HttpResponse head) override {
    end(head.status);
    return visit_->open(std::move(head));
  }
  void reach(const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) override {
    visit_->reach(ask, std::move(then));
  }
  std::unique_ptr<Stream> upgrade(const std::string& protocol,
                                  const std::map<std::string, std::string>& headers) override {
    end(101);
    return visit_->upgrade(protocol, headers);
  }

 private:
  void end(int code) {
    if (std::exchange(ended_, true))
      return;
    under_.reset();
    counts_->ended(labels_, code, visit_->read()->now - began_, lasts_);
  }
  // The watch goes when what it is pulled from does.
  Pull counts_while(Pull pull) const {
    ++counts_->series(labels_).lasting;
    const auto open = std::shared_ptr<void>(
        nullptr, [counts = counts_, labels = labels_](void*) { --counts->series(labels).lasting; });
    return [open, pull = std::move(pull)](std::string& out) { return pull(out); };
  }

  const std::shared_ptr<RequestCounts> counts_;
  const std::shared_ptr<FrontVisit> visit_;
  const std::string labels_;
  const bool lasts_;
  const Instant began_;
  std::unique_ptr<Under> under_;
  bool ended_ = false;
};

std::shared_ptr<FrontVisit> RequestCounts::counted(const Request& request) {
  std::string verb = verb_word(request), labels = labels_of(request, verb);
  return std::make_shared<Counted>(shared_from_this(), request.visit, std::move(verb), std::move(labels));
}

RequestCounts::Series& RequestCounts::series(const std::string& labels) {
  const auto known = by_labels_.find(labels);
  if (known != by_labels_.end())
    return known->second;
  return by_labels_[by_labels_.size() < kSeriesMost ? labels : kOtherLabels];
}

void RequestCounts::ended(const std::string& labels, int code, Duration took, bool lasts) {
  Series& one = series(labels);
  ++one.by_code[code];
  if (lasts)
    return;
  const double seconds = static_cast<double>(std::max<std::int64_t>(took.us, 0)) / 1e6;
  ++one.by_duration[static_cast<std::size_t>(std::ranges::lower_bound(kBounds, seconds) - kBounds.begin())];
  one.seconds += seconds;
}

std::string RequestCounts::metrics() const {
  std::string out = "# TYPE apiserver_request_total counter\n";
  for (const auto& [labels, one] : by_labels_)
    for (const auto& [code, count] : one.by_code)
      out += format("apiserver_request_total{{{},component=\"apiserver\",code=\"{}\"}} {}\n", labels, code, count);
  out += "# TYPE apiserver_request_duration_seconds histogram\n";
  for (const auto& [labels, one] : by_labels_) {
    std::uint64_t sum = 0;
    const std::string head = "apiserver_request_duration_seconds_", tail = "{" + labels + ",component=\"apiserver\"";
    for (std::size_t i = 0; i < kBounds.size(); ++i)
      if (sum += one.by_duration[i]; one.seconds > 0 || sum > 0)
        out += format("{}bucket{},le=\"{:g}\"}} {}\n", head, tail, kBounds[i], sum);
    sum += one.by_duration.back();
    if (sum > 0)
      out += format("{0}bucket{1},le=\"+Inf\"}} {2}\n{0}sum{1}}} {3:g}\n{0}count{1}}} {2}\n", head, tail, sum,
                    one.seconds);
  }
  out += "# TYPE apiserver_current_inflight_requests gauge\n";
  out += format("apiserver_current_inflight_requests{{request_kind=\"mutating\"}} {}\n", changing_);
  out += format("apiserver_current_inflight_requests{{request_kind=\"readOnly\"}} {}\n", reading_);
  out += "# TYPE apiserver_longrunning_requests gauge\n";
  for (const auto& [labels, one] : by_labels_)
    if (one.lasting > 0)
      out += format("apiserver_longrunning_requests{{{},component=\"apiserver\"}} {}\n", labels, one.lasting);
  return out;
}

}  // namespace lockstep::kube
