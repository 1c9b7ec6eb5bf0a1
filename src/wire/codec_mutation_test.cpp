// Damaged encodings: thousands of mutations of valid messages either decode to a value that encodes again, or give an
// Error. They never crash, throw or hang.
#include <gtest/gtest.h>

#include "wire/api.h"
#include "wire/api_call.h"
#include "wire/codec.h"
#include "wire/random_value.h"

namespace lockstep {
namespace {

using wire::kEncode;
using wire::random_value;

std::string mutate(Rng& rng, std::string text) {
  constexpr std::string_view kTokens[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"",
                                          ",",
                                          ":",
                                          "null",
                                          "true",
                                          "-1",
                                          "0",
                                          "1e999",
                                          "-",
                                          "1.5",
                                          "\\u0000",
                                          "\\",
                                          "\xff",
                                          "\xee\xbe\x80",
                                          "9223372036854775808",
                                          "18446744073709551616",
                                          "\"0-4294967295\"",
                                          "\"0-9:2\""};
  for (std::uint64_t n = 1 + rng.below(3); n > 0 && !text.empty(); --n) {
    const std::size_t at = rng.below(text.size());
    switch (rng.below(6)) {
      case 0: text[at] = static_cast<char>(rng.below(256)); break;
      case 1: text[at] = static_cast<char>(text[at] ^ (1 << rng.below(8))); break;
      case 2: text.erase(at, 1 + rng.below(8)); break;
      case 3: text.insert(at, kTokens[rng.below(std::size(kTokens))]); break;
      case 4: text.insert(at, text.substr(rng.below(text.size()), rng.below(40))); break;
      default: text.resize(at); break;
    }
  }
  return text;
}

struct Tally {
  int decoded = 0, refused = 0;
};

template <class T, class Encode, class Decode>
void attack(Tally& tally, Encode encode, Decode decode, int rounds = 1500) {
  for (int seed = 0; seed < rounds; ++seed) {
    Rng rng(static_cast<std::uint64_t>(seed) * 977 + 5);
    const std::string text = mutate(rng, encode(random_value<T>(rng)));
    const auto got = decode(text);
    if (!got.ok()) {
      ++tally.refused;
      ASSERT_FALSE(got.error().message.empty());
      continue;
    }
    ++tally.decoded;
    const std::string again = encode(*got);
    const auto twice = decode(again);
    ASSERT_TRUE(twice.ok()) << twice.error().message << "\n" << text << "\n" << again;
    ASSERT_EQ(encode(*twice), again) << text;
  }
}

TEST(CodecMutation, MessagesOfStrangers) {
  Tally tally;
  attack<FromAgent>(tally, kEncode, decode_from_agent);
  attack<ToAgent>(tally, kEncode, decode_to_agent);
  attack<SubmitRequest>(tally, kEncode, decode_submit);
  attack<StepRequest>(tally, kEncode, decode_step_request);
  attack<UpdateJob>(tally, kEncode, decode_update_job);
  attack<UpdateNode>(tally, kEncode, decode_update_node);
  attack<Partition>(tally, encode_partition, decode_partition);
  const auto encode_any = [](const auto& value) { return wire::encode_value(value); };
  attack<Account>(tally, encode_any, decode_account);
  attack<Association>(tally, encode_any, decode_association);
  attack<Qos>(tally, encode_any, decode_qos);
  attack<Licence>(tally, encode_any, decode_licence);
  attack<Reservation>(tally, encode_any, decode_reservation);
  attack<Policy>(tally, encode_any, decode_policy);
  attack<Topology>(tally, encode_any, decode_topology);
  attack<JoinRequest>(tally, kEncode, decode_join_request);
  attack<RenewRequest>(tally, kEncode, decode_renew_request);
  attack<TokenRequest>(tally, kEncode, decode_token_request);
  // Both ways out are taken, or the mutations are of no use.
  EXPECT_GT(tally.decoded, 500);
  EXPECT_GT(tally.refused, 5000);
}

TEST(CodecMutation, RecordsAndEntries) {
  Tally tally;
  const auto attack_record = [&]<class T>(std::type_identity<T>, Kind kind) {
    attack<Ref<T>>(
        tally, [](const Record& record) { return encode_whole(record); },
        [kind](std::string_view text) { return decode_record(kind, text); }, 500);
  };
  attack_record(std::type_identity<Job>{}, Kind::kJob);
  attack_record(std::type_identity<Step>{}, Kind::kStep);
  attack_record(std::type_identity<Node>{}, Kind::kNode);
  attack_record(std::type_identity<Task>{}, Kind::kTask);
  attack_record(std::type_identity<Object>{}, Kind::kObject);
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed);
    EntryBody body;
    for (std::uint64_t n = rng.below(5); n > 0; --n) body.changes.push_back(random_value<Change>(rng));
    const auto got = decode_entry(mutate(rng, encode_entry(body)));
    if (got.ok()) {
      ++tally.decoded;
      ASSERT_TRUE(decode_entry(encode_entry(*got)).ok());
    } else {
      ++tally.refused;
      ASSERT_EQ(got.error().code, Errc::kCorrupt);
    }
  }
  EXPECT_GT(tally.decoded, 100);
  EXPECT_GT(tally.refused, 1000);
}

TEST(CodecMutation, PureNoise) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    std::string noise(rng.below(64), '\0');
    for (char& c : noise) c = static_cast<char>(rng.below(256));
    EXPECT_FALSE(decode_submit(noise).ok());
    EXPECT_FALSE(decode_entry(noise).ok());
    EXPECT_FALSE(decode_from_agent(noise).ok());
    EXPECT_FALSE(decode_api_call(noise).ok());
    EXPECT_FALSE(decode_error(noise, 500).message.empty());
  }
}

}  // namespace
}  // namespace lockstep
