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

Result<void> QuestionLoop::ask(Question question) {
  if (waiting_.load() >= kWaitingMax)
    return Error{
        Errc::kExhausted, format("{} questions are being answered already: ask again in a moment", kWaitingMax), {}};
  ++waiting_;
  inbox_.post(std::move(question));
  return {};
}

void QuestionLoop::run() {
  for (;;)
    for (auto& message : inbox_.take(kForever)) {
      const auto* question = std::get_if<Question>(&message);
      if (!question || stopping_)
        return;
      auto copies = std::make_shared<Mailbox<std::shared_ptr<const Tables>>>();
      history_.ask(
          [copies](HistoryStore&, const Tables& tables) { copies->post(std::make_shared<const Tables>(tables)); });
      const auto taken = copies->take(kForever);
      (*question)(*taken.front());
      --waiting_;
    }
}

}  // namespace lockstep
