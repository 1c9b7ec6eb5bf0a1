#include "controller/question_loop.h"

#include "base/text.h"
#include "base/thread.h"

namespace lockstep {

QuestionLoop::~QuestionLoop() { stop(); }

void QuestionLoop::start() {
  thread_ = start_thread_or_exit("questions", [this] { run(); });
}

void QuestionLoop::stop() {
  if (!thread_.joinable())
    return;
  stopping_ = true;
  inbox_.post(Stop{});
  thread_.join();
}

Result<void> QuestionLoop::ask(const Payer& payer, Question question, std::optional<HistoryQuery> query) {
  TRY(counts_.enter(payer.name, payer.reserved, "questions"));
  inbox_.post(Asked{payer.name, std::move(question), std::move(query)});
  return {};
}

void QuestionLoop::run() {
  while (!stopping_) {
    for (auto& message : inbox_.take(waiting_.empty() ? kForever : Duration{}))
      if (auto* asked = std::get_if<Asked>(&message)) {
        const std::string caller = asked->caller;
        waiting_.push(caller, std::move(*asked));
      }
    if (!stopping_ && !waiting_.empty())
      answer(waiting_.pop().second);
  }
}

void QuestionLoop::answer(const Asked& asked) {
  struct Copy {
    Tables tables;
    Rows rows;
  };
  auto copies = std::make_shared<Mailbox<std::shared_ptr<const Copy>>>();
  history_.ask([copies, query = asked.query](HistoryStore& store, const Tables& tables) {
    copies->post(std::make_shared<const Copy>(Copy{tables, query ? store.query(*query) : Rows(std::vector<JobRow>())}));
  });
  const auto copy = copies->take(kForever).front();
  asked.question(copy->tables, copy->rows);
  counts_.leave(asked.caller);
}

}  // namespace lockstep
