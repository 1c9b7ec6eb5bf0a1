#include "frontends/slurm/server/patterns.h"

#include <gtest/gtest.h>

#include "model/ids.h"

namespace lockstep::slurm {
namespace {

PatternFacts batch_facts() {
  PatternFacts facts;
  facts.job = JobId(42);
  facts.node = "n1";
  facts.user = "alice";
  facts.job_name = "train";
  return facts;
}
PatternFacts element_facts() {
  PatternFacts facts = batch_facts();
  facts.array_job = JobId(40);
  facts.array_index = 17;
  return facts;
}
PatternFacts step_facts() {
  PatternFacts facts = batch_facts();
  facts.step = 3;
  facts.node_index = 2;
  return facts;
}

TEST(Patterns, BatchLetters) {
  EXPECT_EQ(expand_pattern("%x-%j.out", batch_facts()), "train-42.out");
  EXPECT_EQ(expand_pattern("%A_%a", batch_facts()), "42_4294967294");
  EXPECT_EQ(expand_pattern("n-%J.err", batch_facts()), "n-42.err");
  EXPECT_EQ(expand_pattern("%N.%n.%t.%s.%u", batch_facts()), "n1.0.0.batch.alice");
  EXPECT_EQ(expand_pattern("100%%", batch_facts()), "100%");
}

TEST(Patterns, ArrayLetters) {
  EXPECT_EQ(expand_pattern("logs/%A/%A_%a.out", element_facts()), "logs/40/40_17.out");
  EXPECT_EQ(expand_pattern("%j-%b", element_facts()), "42-7");
}

TEST(Patterns, StepLetters) {
  EXPECT_EQ(expand_pattern("%J-%n-%N", step_facts()), "42.3-2-n1");
  EXPECT_EQ(expand_pattern("%s.%t", step_facts()), "3.\x01t");
  EXPECT_EQ(expand_pattern("%3t", step_facts()),
            "\x01"
            "3t");
}

TEST(Patterns, ZeroPadding) {
  EXPECT_EQ(expand_pattern("%4j", batch_facts()), "0042");
  EXPECT_EQ(expand_pattern("%99999999999j", batch_facts()), "0000000042");
  EXPECT_EQ(expand_pattern("%8x", batch_facts()), "train");
}

TEST(Patterns, HostileText) {
  EXPECT_EQ(expand_pattern("%", batch_facts()), "%");
  EXPECT_EQ(expand_pattern("%q%", batch_facts()), "%q%");
  EXPECT_EQ(expand_pattern("%12", batch_facts()), "%12");
  EXPECT_EQ(expand_pattern("a\\%j", batch_facts()), "a%j");
  EXPECT_EQ(expand_pattern("a\x01p", batch_facts()), "ap");
}

TEST(Patterns, Paths) {
  EXPECT_EQ(expand_path("%j.out", batch_facts(), "/w"), "/w/42.out");
  EXPECT_EQ(expand_path("/abs/%j", batch_facts(), "/w"), "/abs/42");
  EXPECT_EQ(expand_path("none", batch_facts(), "/w"), "/dev/null");
  EXPECT_EQ(expand_path("all", batch_facts(), "/w"), "");
  EXPECT_EQ(expand_path("", batch_facts(), "/w"), "");
}

}  // namespace
}  // namespace lockstep::slurm
