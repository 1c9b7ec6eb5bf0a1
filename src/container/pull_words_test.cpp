#include "container/pull_words.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(PullWords, SayWhatHappenedAndNotInWhichStepOfTheTool) {
  EXPECT_EQ(pull_words("skopeo: Error parsing image name \"docker://127.0.0.1:5001/web:9\": reading manifest 9 in "
                       "127.0.0.1:5001/web: manifest unknown"),
            "reading manifest 9 in 127.0.0.1:5001/web: manifest unknown");
  EXPECT_EQ(
      pull_words("skopeo: Error parsing image name \"docker://127.0.0.1:5/web\": pinging container registry "
                 "127.0.0.1:5: Get \"http://127.0.0.1:5/v2/\": dial tcp 127.0.0.1:5: connect: connection refused"),
      "pinging container registry 127.0.0.1:5: Get \"http://127.0.0.1:5/v2/\": dial tcp 127.0.0.1:5: connect: "
      "connection refused");
}

TEST(PullWords, LeaveWhatTheyDoNotKnow) {
  EXPECT_EQ(pull_words("the disk under /x is full"), "the disk under /x is full");
  EXPECT_EQ(pull_words("skopeo: "), "skopeo: ");
  EXPECT_EQ(pull_words("Error parsing image name \"docker://a"), "Error parsing image name \"docker://a");
}

}  // namespace
}  // namespace lockstep
