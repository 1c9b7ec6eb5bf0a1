// For tests of the engine: one over a log in memory, by turns of the test's own clock.
#pragma once

#include <gtest/gtest.h>

#include "base/text.h"
#include "controller/engine.h"
#include "controller/test_log.h"

namespace lockstep {

class EngineTest : public ::testing::Test {
 protected:
  static User person(const std::string& name, std::uint32_t uid) {
    User user;
    user.meta.name = name;
    user.uid = uid;
    return user;
  }
  static Object note(const std::string& name, std::string body = "x") {
    Object object;
    object.type = "test/Note";
    object.meta.name = name;
    object.body = std::move(body);
    return object;
  }
  static BlobId id_of(int blob) { return format("{:064x}", blob); }

  std::unique_ptr<Engine> open(EngineSettings settings = {}) {
    auto engine = Engine::open(log, log, settings, now);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return engine.ok() ? std::move(*engine) : nullptr;
  }
  // Commits one command and gives its answer.
  Result<Answer> run(Engine& engine, CommandBody body) {
    Result<Answer> answer = Error{Errc::kInternal, "never answered", {}};
    engine.submit(own(std::move(body)), [&](Result<Answer> a) { answer = std::move(a); });
    now = now + millis(1);
    engine.run_batch(now);
    return answer;
  }

  TestLog log;
  Instant now = kStart;
};

}  // namespace lockstep
