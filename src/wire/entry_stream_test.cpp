// Batches over many entries: cut at any byte they come back as they were, and what is not whole is known.
#include "wire/entry_stream.h"

#include <gtest/gtest.h>

#include "wire/random_value.h"

namespace lockstep {
namespace {

Change big_object(Seq seq, std::size_t bytes) {
  auto object = std::make_shared<Object>();
  object->meta.seq = seq;
  object->meta.name = "big";
  object->body = std::string(bytes, 'b');
  return {seq, Ref<Object>(object), false};
}

const std::string& body_of(const Change& change) { return std::get<Ref<Object>>(change.record)->body; }

TEST(EntryStream, APieceIsNeverLongerThanAllowedAndNoneIsLost) {
  const std::string document = encode_entry({{big_object(1, 1000)}, {}, Instant{5}});
  for (std::size_t most = 2; most < document.size() + 3; most += most < 40 ? 1 : 97) {
    const auto pieces = cut_document(document, most);
    EntryReader reader;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      ASSERT_LE(pieces[i].size(), most);
      const auto closed = reader.add(pieces[i], i + 1 == pieces.size());
      ASSERT_TRUE(closed.ok()) << closed.error().message;
      ASSERT_EQ(*closed, i + 1 == pieces.size());
    }
    const EntryBody body = reader.take();
    ASSERT_EQ(body.changes.size(), 1u);
    ASSERT_EQ(body_of(body.changes[0]), std::string(1000, 'b'));
    ASSERT_EQ(body.at, Instant{5});
  }
}

TEST(EntryStream, WhatIsWrittenOneByOneIsTheSameDocument) {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    EntryBody body;
    body.at = Instant{static_cast<std::int64_t>(rng.below(1000))};
    for (std::uint64_t n = rng.below(6); n > 0; --n) body.changes.push_back(wire::random_value<Change>(rng));
    EntryWriter writer(body.at);
    for (const Change& change : body.changes) writer.add(change);
    const std::size_t before = writer.bytes();
    const std::string document = writer.finish();
    ASSERT_EQ(document, encode_entry(body));
    ASSERT_LE(document.size(), before + 64) << "bytes() counts what is written so far";
    ASSERT_EQ(writer.finish(), encode_entry({{}, {}, body.at})) << "and then a new one begins";
  }
}

TEST(EntryStream, EventsThatTakeTooMuchAreLeftOut) {
  EntryWriter writer(Instant{1});
  std::vector<Event> events(1);
  events[0].message.assign(500, 'm');
  writer.add(big_object(1, 10));
  const auto body = decode_entry(writer.finish(events, 100));
  ASSERT_TRUE(body.ok()) << body.error().message;
  EXPECT_TRUE(body->events.empty());
  EXPECT_EQ(body->changes.size(), 1u);
  writer.add(big_object(1, 10));
  EXPECT_EQ(decode_entry(writer.finish(events, 1000))->events.size(), 1u);
}

// The controller died between two entries of a batch, wherever that was; the numbers of its changes are used again.
TEST(EntryStream, ABatchThatWasNeverClosedDidNotHappen) {
  const auto lost = cut_document(encode_entry({{big_object(7, 900)}, {}, {}}), 100);
  const std::string first = encode_entry({{big_object(6, 1)}, {}, {}});
  const auto next = cut_document(encode_entry({{big_object(7, 300)}, {}, {}}), 100);
  for (std::size_t left = 0; left <= lost.size(); ++left) {
    EntryReader reader;
    ASSERT_TRUE(*reader.add(first, true));
    reader.take();
    for (std::size_t i = 0; i < left; ++i) ASSERT_FALSE(*reader.add(lost[i], false));
    for (std::size_t i = 0; i < next.size(); ++i) ASSERT_TRUE(reader.add(next[i], i + 1 == next.size()).ok());
    const EntryBody body = reader.take();
    ASSERT_EQ(body.changes.size(), 1u);
    ASSERT_EQ(body_of(body.changes[0]).size(), 300u);
  }
}

TEST(EntryStream, PiecesOutOfPlaceAreCorruption) {
  const auto pieces = cut_document(encode_entry({{big_object(1, 500)}, {}, {}}), 100);
  EntryReader reader;
  for (const std::size_t start : {std::size_t{1}, pieces.size() - 1}) {
    const auto got = reader.add(pieces[start], false);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kCorrupt);
  }
  EXPECT_FALSE(reader.add(pieces[0], true).ok()) << "a batch cannot end in the middle of a record";
}

TEST(EntryStream, AnEmptyEntrySaysNothing) {
  EntryReader reader;
  const auto closed = reader.add("", true);
  ASSERT_TRUE(closed.ok());
  EXPECT_TRUE(*closed);
  EXPECT_TRUE(reader.take().changes.empty());
}

// A job of 340,000 empty arguments is a short text and megabytes of memory: what we wrote ourselves is read all the
// same.
TEST(EntryStream, OurOwnRecordsHaveNoReadBudget) {
  auto spec = std::make_shared<JobSpec>();
  spec->groups.resize(1);
  spec->groups[0].argv.resize(340'000);
  auto job = std::make_shared<Job>();
  job->spec = spec;
  const std::string document = encode_entry({{{1, Ref<Job>(job), false}}, {}, {}});
  wire::Reader r{wire::Origin::kOurselves};
  EXPECT_TRUE(r.spend(std::size_t{1} << 40, sizeof(std::string)));
  wire::Reader stranger;
  EXPECT_FALSE(stranger.spend(std::size_t{1} << 40, sizeof(std::string)));
  const auto body = decode_entry(document);
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(std::get<Ref<Job>>(body->changes[0].record)->spec->groups[0].argv.size(), 340'000u);
}

}  // namespace
}  // namespace lockstep
