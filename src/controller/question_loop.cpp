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
  Rows rows = std::vector<JobRow>();
  if (asked.query) {
    const auto found = std::make_shared<Mailbox<std::shared_ptr<const Rows>>>();
    history_.ask([found, query = *asked.query](HistoryStore& store, const Tables&) {
      found->post(std::make_shared<const Rows>(store.query(query)));
    });
    rows = *found->take(kForever).front();
  }
  const auto copies = std::make_shared<Mailbox<std::shared_ptr<const Tables>>>();
  reads_.ask([copies](const Tables& tables) { copies->post(std::make_shared<const Tables>(tables)); });
  asked.question(*copies->take(kForever).front(), rows);
  counts_.leave(asked.caller);
}

}  // namespace lockstep
