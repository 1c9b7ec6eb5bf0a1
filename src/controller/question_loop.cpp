#include "controller/question_loop.h"

#include "base/text.h"

namespace lockstep {

QuestionLoop::~QuestionLoop() { stop(); }

void QuestionLoop::start() {
  thread_ = std::thread([this] { run(); });
}

void QuestionLoop::stop() {
  if (!thread_.joinable())
    return;
  stopping_ = true;
  inbox_.post(Stop{});
  thread_.join();
}

Result<void> QuestionLoop::ask(Question question, std::optional<HistoryQuery> query) {
  if (waiting_.load() >= kWaitingMax)
    return Error{
        Errc::kExhausted, format("{} questions are being answered already: ask again in a moment", kWaitingMax), {}};
  ++waiting_;
  inbox_.post(Asked{std::move(question), std::move(query)});
  return {};
}

void QuestionLoop::run() {
  for (;;)
    for (auto& message : inbox_.take(kForever)) {
      const auto* asked = std::get_if<Asked>(&message);
      if (!asked || stopping_)
        return;
      struct Copy {
        Tables tables;
        Rows rows;
      };
      auto copies = std::make_shared<Mailbox<std::shared_ptr<const Copy>>>();
      history_.ask([copies, query = asked->query](HistoryStore& store, const Tables& tables) {
        copies->post(
            std::make_shared<const Copy>(Copy{tables, query ? store.query(*query) : Rows(std::vector<JobRow>())}));
      });
      const auto copy = copies->take(kForever).front();
      asked->question(copy->tables, copy->rows);
      --waiting_;
    }
}

}  // namespace lockstep
