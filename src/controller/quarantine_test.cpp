// Commands that stop the controller, in each stage of their way: real processes die here.
#include "controller/quarantine.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/mutant.h"
#include "base/text.h"
#include "controller/engine.h"
#include "controller/poison.h"
#include "controller/test_log.h"

namespace lockstep {
namespace {

// Dies in append() when an entry holds the word, once it is armed.
struct DeadlyLog : TestLog {
  std::string word;
  int signal = SIGABRT;
  void append(Term term, std::span<const LogEntry> entries, Done done) override {
    for (const auto& entry : entries)
      if (!word.empty() && entry.bytes.find(word) != std::string::npos)
        ::raise(signal);
    TestLog::append(term, entries, std::move(done));
  }
};

class QuarantineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char dir[] = "/tmp/lockstep-poison-XXXXXX";
    ASSERT_NE(mkdtemp(dir), nullptr);
    dir_ = dir;
    settings.poison = dir_ + "/applying";
  }
  void TearDown() override {
    for (const char* file : {"/applying", "/applying.list", "/applying.suspects"}) ::unlink((dir_ + file).c_str());
    ::rmdir(dir_.c_str());
  }

  static Command put(const std::string& name) {
    Object object;
    object.type = "test/Note";
    object.meta.name = name;
    return own(PutObject{object, 0});
  }
  std::unique_ptr<Engine> open(TestLog& log) {
    auto engine = Engine::open(log, log, settings, now);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return engine.ok() ? std::move(*engine) : nullptr;
  }
  // Answers to commands of one batch; "" = done.
  std::vector<std::string> run(Engine& engine, const std::vector<std::string>& names) {
    std::vector<std::string> out(names.size(), "never answered");
    for (std::size_t i = 0; i < names.size(); ++i)
      engine.submit(put(names[i]), [&out, i](const Result<Answer>& answer) {
        out[i] = answer.ok() ? std::string() : answer.error().message;
      });
    while (engine.has_work()) {
      now = now + millis(1);
      engine.run_batch(now);
    }
    return out;
  }
  // A life of its own: what it writes to its log is lost, the note is not. Returns the signal it died of, or -(its exit
  // code).
  template <class Life>
  int live(Life life) {
    const pid_t child = ::fork();
    if (child == 0) {
      life();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
  }
  int die_in_append(const std::vector<std::string>& names, const std::string& word, int signal = SIGABRT) {
    return live([&] {
      DeadlyLog log;
      auto engine = open(log);
      log.word = word;
      log.signal = signal;
      run(*engine, names);
    });
  }
  std::vector<std::string> quarantined() {
    TestLog log;
    return open(log)->quarantined();
  }
  static bool is_refused(const std::string& answer) { return answer.find("quarantined") != std::string::npos; }

  std::string dir_;
  EngineSettings settings;
  Instant now = kStart;
};

// Row 1: the note was dropped before the append, so that a record the log could not take killed again and again.
TEST_F(QuarantineTest, WhoDiesInTheAppendAloneIsRefusedFromThenOn) {
  EXPECT_EQ(die_in_append({"bad"}, "bad"), SIGABRT);
  for (int restart = 0; restart < 2; ++restart) {
    DeadlyLog log;
    auto engine = open(log);
    log.word = "\"bad\"";
    const auto answers = run(*engine, {"bad", "good"});
    EXPECT_TRUE(is_refused(answers[0])) << answers[0];
    EXPECT_EQ(answers[1], "");
    EXPECT_EQ(engine->quarantined().size(), 1u);
  }
}

TEST_F(QuarantineTest, OfManyTheKillerIsFoundAtItsNextTryAndNobodyElseIsRefused) {
  EXPECT_EQ(die_in_append({"a", "bad", "c"}, "\"bad\""), SIGABRT);
  EXPECT_TRUE(quarantined().empty());
  EXPECT_EQ(die_in_append({"a", "c", "d", "bad", "e"}, "\"bad\""), SIGABRT);
  const auto known = quarantined();
  ASSERT_EQ(known.size(), 1u);
  EXPECT_NE(known[0].find("bad"), std::string::npos);
  DeadlyLog log;
  auto engine = open(log);
  log.word = "\"bad\"";
  const auto answers = run(*engine, {"bad", "a", "c", "d", "e"});
  EXPECT_TRUE(is_refused(answers[0]));
  for (std::size_t i = 1; i < answers.size(); ++i) EXPECT_EQ(answers[i], "");
}

// A suspect that came through alone is none any more: batches are whole again.
TEST_F(QuarantineTest, ASuspectThatComesThroughAloneIsCleared) {
  EXPECT_EQ(die_in_append({"a", "bad", "c"}, "\"bad\""), SIGABRT);
  TestLog log;
  auto engine = open(log);
  const int before = log.appends;
  run(*engine, {"x", "a", "c", "y"});
  EXPECT_EQ(log.appends, before + 4) << "x, then a and c alone, then y";
  const int later = log.appends;
  run(*engine, {"x", "a", "c", "y"});
  EXPECT_EQ(log.appends, later + 1);
}

TEST_F(QuarantineTest, WhoDiesWhileReadersAreShownItsBatchIsRefused) {
  EXPECT_EQ(live([&] {
              TestLog log;
              auto engine = open(log);
              engine->add_reader([](const auto&) { std::abort(); });
              run(*engine, {"bad"});
            }),
            SIGABRT);
  ASSERT_EQ(quarantined().size(), 1u);
}

// The planner and the I/O thread learn of a batch when the engine is long done with it.
TEST_F(QuarantineTest, WhoDiesOnAnotherThreadThatShowsItsBatchIsRefused) {
  EXPECT_EQ(live([&] {
              TestLog log;
              auto engine = open(log);
              std::shared_ptr<const Engine::Batch> kept;
              engine->add_reader([&](const auto& batch) { kept = kept ? kept : batch; });
              run(*engine, {"bad"});
              run(*engine, {"good"});
              std::thread([&] {
                const AtWorkFor at_work(kept->commands);
                std::abort();
              }).join();
            }),
            SIGABRT);
  const auto known = quarantined();
  ASSERT_EQ(known.size(), 1u);
  EXPECT_NE(known[0].find("bad"), std::string::npos);
}

TEST_F(QuarantineTest, ADeathOfAnotherThreadSaysNothingAgainstTheBatch) {
  EXPECT_EQ(live([&] {
              DeadlyLog log;
              auto engine = open(log);
              engine->add_reader([](const auto&) { std::thread([] { std::abort(); }).join(); });
              run(*engine, {"innocent"});
            }),
            SIGABRT);
  EXPECT_TRUE(quarantined().empty());
}

TEST_F(QuarantineTest, AFaultCountsLikeAFailedCheckAndAKillDoesNot) {
  EXPECT_EQ(die_in_append({"faulty"}, "faulty", SIGSEGV), SIGSEGV);
  EXPECT_EQ(quarantined().size(), 1u);
  // Found by killing a real controller while it applied an agent's last report: the report was refused for ever.
  EXPECT_EQ(die_in_append({"killed"}, "killed", SIGKILL), SIGKILL);
  EXPECT_EQ(quarantined().size(), 1u);
}

TEST_F(QuarantineTest, WhoDiesWhileItIsAppliedIsKnownAtOnceAmongMany) {
  const std::string bad = fingerprint(put("bad"));
  EXPECT_EQ(live([&] {
              auto note = PoisonNote::open(settings.poison);
              (*note)->begin();
              for (const char* name : {"a", "b"}) (*note)->applying(fingerprint(put(name)));
              (*note)->applying(bad);
              std::abort();
            }),
            SIGABRT);
  EXPECT_EQ(quarantined(), std::vector{bad});
  TestLog log;
  auto engine = open(log);
  EXPECT_EQ(run(*engine, {"a", "b"}), (std::vector<std::string>{"", ""}));
}

TEST_F(QuarantineTest, AStateThatStopsTheControllerTwiceIsRefusedInsteadOfTriedForEver) {
  const auto die_loading = [&] {
    return live([&] {
      TestLog log;
      auto engine = Engine::open(log, log, settings, now);
      if (!engine.ok())
        ::_exit(engine.error().code == Errc::kCorrupt && engine.error().message.find("2 times") != std::string::npos
                    ? 0
                    : 1);
      std::abort();  // what is built on the state does not stand yet
    });
  };
  EXPECT_EQ(die_loading(), SIGABRT);
  EXPECT_EQ(die_loading(), SIGABRT);
  EXPECT_EQ(die_loading(), 0);
  EXPECT_EQ(die_loading(), 0) << "nor ever again";
  ::unlink(settings.poison.c_str());
  EXPECT_EQ(die_loading(), SIGABRT) << "but once more when somebody asks for it";
  TestLog log;
  open(log)->ready();
  EXPECT_EQ(die_loading(), SIGABRT) << "a life that got further begins the count anew";
  EXPECT_TRUE(open(log));
}

TEST_F(QuarantineTest, AQuarantineThatComesTooLateIsSeen) {
  planted = Mutant::kLateQuarantine;
  die_in_append({"bad"}, "bad");
  planted = Mutant::kNone;
  EXPECT_TRUE(quarantined().empty()) << "which is what WhoDiesInTheAppendAloneIsRefusedFromThenOn looks for";
}

TEST_F(QuarantineTest, NamesAreBoundedAndTellLongOnesApart) {
  const std::string a = fingerprint(put(std::string(5000, 'x') + "a")),
                    b = fingerprint(put(std::string(5000, 'x') + "b"));
  EXPECT_NE(a, b);
  EXPECT_LE(a.size(), 256u);
  EXPECT_EQ(fingerprint(put("line\nbreak")).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace lockstep
