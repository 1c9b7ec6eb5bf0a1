#include "frontends/kube/server/pod_desk.h"

#include <algorithm>

#include "frontends/kube/admission/made_pods.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::uint64_t kOutMost = 64, kOutOfOne = 16;  // questions at once, of all namespaces and of one
constexpr Duration kKept = seconds(60);                 // answers that nobody fetches
constexpr Duration kRefusalKept = seconds(5);           // several are told one by one; older ones may be untrue by now
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

// Questions without an answer.
std::uint64_t PodDesk::out_of(const Board& board, const Alike& alike) const {
  const auto at = board.find(alike.number);
  return alike.asked - (at == board.end() ? 0 : at->second->end());
}

bool PodDesk::has_room(const Board& board, const std::string& ns) const {
  std::uint64_t all = 0, of_ns = 0;
  for (const auto& [key, alike] : alike_) {
    const std::uint64_t out = out_of(board, alike);
    all += out;
    of_ns += alike.ns == ns ? out : 0;
  }
  return all < kOutMost && of_ns < kOutOfOne;
}

PodAdmission::Told PodDesk::take(const Question& question, Instant now) {
  const auto board = board_.load();
  forget_old(*board, now);
  Alike& alike = alike_[question.key];
  if (alike.number == 0)
    alike.number = ++last_;
  alike.ns = question.ns;
  alike.touched = now;
  if (const auto at = board->find(alike.number); at != board->end())
    while (alike.fetched < at->second->end()) {
      const Answer& answer = *at->second->list[alike.fetched++ - at->second->first];
      alike.since = now;
      if (!answer.verdict.refused || now - answer.at < kRefusalKept)
        return {answer.verdict, {}};
    }
  const std::uint64_t out = out_of(*board, alike);
  if (out == 0)
    alike.since = now;
  if (out > question.waiting)  // it is on its way
    return {std::nullopt, patience(alike.since, now)};
  if (!has_room(*board, question.ns))
    return {std::nullopt, kLookFirst * 10};
  ++alike.asked;
  post_([self = shared_from_this(), number = alike.number, fetched = alike.fetched, pod = question.pod]() mutable {
    self->ask(number, fetched, std::move(pod));
  });
  return {std::nullopt, patience(alike.since, now)};
}

void PodDesk::forget_old(const Board& board, Instant now) {
  std::erase_if(alike_, [&](const auto& one) {
    const Alike& alike = one.second;
    if (now - alike.touched < kKept || out_of(board, alike) > 0)
      return false;
    post_([self = shared_from_this(), number = alike.number] {
      Board rest = *self->board_.load();
      rest.erase(number);
      self->board_.store(std::make_shared<const Board>(std::move(rest)));
    });
    return true;
  });
}

void PodDesk::drop_fetched(Number number, std::uint64_t fetched) {
  Board board = *board_.load();
  const auto at = board.find(number);
  if (at == board.end() || at->second->first >= fetched)
    return;
  Answers answers = *at->second;
  answers.list.erase(answers.list.begin(), answers.list.begin() + static_cast<std::ptrdiff_t>(fetched - answers.first));
  answers.first = fetched;
  at->second = std::make_shared<const Answers>(std::move(answers));
  board_.store(std::make_shared<const Board>(std::move(board)));
}

void PodDesk::ask(Number number, std::uint64_t fetched, json::object pod) {
  drop_fetched(number, fetched);
  if (!hands_)
    return answered(number, {Status::unavailable("the controller is starting"), std::nullopt});
  const auto asker = std::make_shared<MadePodAsker>(hands_);
  const std::string uid = random_hex_(16);
  ask_mutating(asker, call_, uid, std::move(pod), std::nullopt,
               [self = shared_from_this(), asker, uid, number](Answered<Admitted> admitted) {
                 if (!admitted.ok())
                   return self->answered(number, {admitted.error(), std::nullopt});
                 PodVerdict verdict;
                 if (admitted->changed)
                   verdict.changed = admitted->tree;
                 ask_validating(asker, self->call_, uid, std::move(admitted->tree), std::nullopt,
                                [self, number, verdict](std::optional<Status> refused) mutable {
                                  verdict.refused = std::move(refused);
                                  self->answered(number, std::move(verdict));
                                });
               });
}

void PodDesk::answered(Number number, PodVerdict verdict) {
  Board board = *board_.load();
  const auto at = board.find(number);
  Answers answers = at == board.end() ? Answers() : *at->second;
  answers.list.push_back(
      std::make_shared<const Answer>(Answer{std::move(verdict), hands_ ? hands_->now() : Instant{}}));
  board[number] = std::make_shared<const Answers>(std::move(answers));
  board_.store(std::make_shared<const Board>(std::move(board)));
}

}  // namespace lockstep::kube
