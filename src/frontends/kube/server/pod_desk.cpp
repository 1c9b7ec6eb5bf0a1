#include "frontends/kube/server/pod_desk.h"

#include <algorithm>

#include "frontends/kube/admission/made_pods.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kOutMost = 64, kOutOfOne = 16;  // questions at once, of all namespaces and of one
constexpr std::size_t kReadyMost = 64;                // answers that lie here for one kind of pod
constexpr Duration kKept = seconds(60);               // answers that nobody fetches
constexpr Duration kRefusalKept = seconds(5);         // several are told one by one; older ones may be untrue by now
constexpr Duration kLookFirst = millis(10), kLookMost = seconds(1);
constexpr std::string_view kMaker = "system:kube-controller-manager";

class MadePodAsker final : public WebhookAsker {
 public:
  explicit MadePodAsker(std::shared_ptr<FrontHands> hands) : hands_(std::move(hands)) {}
  const Tables& tables() const override { return hands_->tables(); }
  AdmissionAttempt attempt(const json::object* tree, const json::object*) const override {
    return attempt_of_made_pod(*tree, kMaker);
  }
  void reach(const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) const override {
    hands_->reach(ask, std::move(then));
  }
  bool dry_run() const override { return false; }
  void warn(std::string) override {}  // nobody is there to be warned

 private:
  std::shared_ptr<FrontHands> hands_;
};

Duration patience(Instant since, Instant now) { return std::clamp((now - since) / 4, kLookFirst, kLookMost); }

}  // namespace

PodDesk::PodDesk(CallsOut call, std::function<std::string(std::size_t)> random_hex,
                 std::function<void(std::function<void()>)> post)
    : call_(std::move(call)), random_hex_(std::move(random_hex)), post_(std::move(post)) {}

PodAdmission::Told PodDesk::take(const Question& question, Instant now) {
  const std::lock_guard lock(mutex_);
  drop_forgotten(now);
  Entry& entry = entries_[question.key];
  entry.ns = question.ns;
  entry.touched = now;
  while (!entry.ready.empty() && entry.ready.front().verdict.refused && now - entry.ready.front().at > kRefusalKept)
    entry.ready.pop_front();
  if (!entry.ready.empty()) {
    PodVerdict verdict = std::move(entry.ready.front().verdict);
    entry.ready.pop_front();
    return {std::move(verdict), {}};
  }
  if (entry.out == 0)
    entry.since = now;
  if (entry.out > question.waiting)  // it is on its way
    return {std::nullopt, patience(entry.since, now)};
  const auto of_ns = out_of_.find(question.ns);
  if (out_ >= kOutMost || (of_ns != out_of_.end() && of_ns->second >= kOutOfOne))
    return {std::nullopt, kLookFirst * 10};
  ++entry.out;
  ++out_;
  ++out_of_[question.ns];
  post_([self = shared_from_this(), key = question.key, pod = question.pod]() mutable {
    self->ask(key, std::move(pod));
  });
  return {std::nullopt, kLookFirst};
}

void PodDesk::drop_forgotten(Instant now) {
  std::erase_if(entries_, [&](const auto& one) { return one.second.out == 0 && now - one.second.touched > kKept; });
}

void PodDesk::ask(const std::string& key, json::object pod) {
  if (!hands_)
    return answered(key, {Status::unavailable("the controller is starting"), std::nullopt});
  const auto asker = std::make_shared<MadePodAsker>(hands_);
  const std::string uid = random_hex_(16);
  ask_mutating(asker, call_, uid, std::move(pod), std::nullopt,
               [self = shared_from_this(), asker, uid, key](Answered<Admitted> admitted) {
                 if (!admitted.ok())
                   return self->answered(key, {admitted.error(), std::nullopt});
                 PodVerdict verdict;
                 if (admitted->changed)
                   verdict.changed = admitted->tree;
                 ask_validating(asker, self->call_, uid, std::move(admitted->tree), std::nullopt,
                                [self, key, verdict](std::optional<Status> refused) mutable {
                                  verdict.refused = std::move(refused);
                                  self->answered(key, std::move(verdict));
                                });
               });
}

void PodDesk::answered(const std::string& key, PodVerdict verdict) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(key);  // it stays as long as a question is out
  --entry.out;
  --out_;
  if (const auto at = out_of_.find(entry.ns); --at->second == 0)
    out_of_.erase(at);
  if (entry.ready.size() < kReadyMost)
    entry.ready.push_back({std::move(verdict), hands_ ? hands_->now() : Instant{}});
}

}  // namespace lockstep::kube
