#include "wire/container_notes.h"

#include <gtest/gtest.h>

#include "model/bounds.h"

namespace lockstep {
namespace {

TEST(ContainerNotes, AreReadAsTheyWereWritten) {
  ContainerNotes notes;
  EXPECT_EQ(encode_container_notes(notes), "");
  EXPECT_EQ(decode_container_notes("").value(), notes);
  notes.fetch_time = millis(1234);
  notes.failed_probes = {{Probe::What::kLiveness, 7, 2, "cat: can't open \"/x\""}};
  EXPECT_EQ(decode_container_notes(encode_container_notes(notes)).value(), notes);
}

TEST(ContainerNotes, FitIntoAStatusWhateverProbesSay) {
  ContainerNotes notes;
  notes.fetch_time = kForever;
  for (const Probe::What what : {Probe::What::kStartup, Probe::What::kReadiness, Probe::What::kLiveness})
    notes.failed_probes.push_back({what, UINT32_MAX, UINT32_MAX, std::string(kProbeOutputMax, '"')});
  EXPECT_LE(encode_container_notes(notes).size(), kPhraseBytesMax);
  EXPECT_TRUE(decode_container_notes(encode_container_notes(notes)).ok());
}

TEST(ContainerNotes, OfStrangersAreBounded) {
  for (const char* text :
       {"back-off 10s", "{", "[]", R"({"failed_probes":[{"what":"other"}]})", R"({"fetch_time_us":-1})",
        R"({"failed_probes":[{"what":"liveness"},{"what":"liveness"},{"what":"liveness"},{"what":"liveness"}]})"})
    EXPECT_FALSE(decode_container_notes(text).ok()) << text;
}

}  // namespace
}  // namespace lockstep
