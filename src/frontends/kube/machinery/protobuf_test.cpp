#include "frontends/kube/machinery/protobuf.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <sstream>

#include "base/scenario.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/protobuf_wire.h"

namespace lockstep::kube {
namespace {

std::string bytes_of_hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
  return out;
}

// Go writes null for a list that nobody made; we write nothing.
json::value without_nulls(const json::value& value) {
  if (value.is_array()) {
    json::array out;
    for (const json::value& element : value.get_array()) out.push_back(without_nulls(element));
    return out;
  }
  if (!value.is_object())
    return value;
  json::object out;
  for (const auto& entry : value.get_object())
    if (!entry.value().is_null())
      out[entry.key()] = without_nulls(entry.value());
  return out;
}

struct Sample {
  std::string name, bytes, json;
};

// Made by a Go program that fills every kind of k8s.io/api v0.34.4 with random values and writes it as protobuf and
// JSON.
std::vector<Sample> samples() {
  std::istringstream file(scenario_text(scenario_folder(LOCKSTEP_TESTDATA) + "/protobuf.txt"));
  std::vector<Sample> out;
  Sample sample;
  std::string hex;
  while (std::getline(file, sample.name) && std::getline(file, hex) && std::getline(file, sample.json)) {
    sample.bytes = bytes_of_hex(hex);
    out.push_back(sample);
  }
  return out;
}

TEST(Protobuf, ReadsEveryKindAsGoWritesIt) {
  const auto all = samples();
  ASSERT_GE(all.size(), 80u);
  for (const Sample& sample : all) {
    const auto object = decode_protobuf(sample.bytes);
    ASSERT_TRUE(object.ok()) << sample.name << ": " << object.error().field << " " << object.error().message;
    EXPECT_TRUE(same_json(*object, without_nulls(json::parse(sample.json)))) << sample.name << "\n"
                                                                             << json::serialize(*object) << "\n"
                                                                             << sample.json;
  }
}

TEST(Protobuf, WritesEveryKindByteForByteAsGoDoes) {
  for (const Sample& sample : samples()) {
    const auto bytes = encode_protobuf(json::parse(sample.json).as_object());
    ASSERT_TRUE(bytes.ok()) << sample.name << ": " << bytes.error().field << " " << bytes.error().message;
    EXPECT_TRUE(*bytes == sample.bytes) << sample.name << "\n"
                                        << base64_text(*bytes) << "\n"
                                        << base64_text(sample.bytes);
    const auto again = encode_protobuf(*decode_protobuf(sample.bytes));
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE(*again == sample.bytes) << sample.name << ", from what was read";
  }
}

TEST(Protobuf, NoPrefixOfABodyAndNoFlippedBitStopsTheReader) {
  for (const Sample& sample : samples()) {
    for (std::size_t end = 0; end < sample.bytes.size(); end += 53) (void)decode_protobuf(sample.bytes.substr(0, end));
    for (std::size_t at = 4; at < sample.bytes.size(); at += 61) {
      std::string bytes = sample.bytes;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
      if (const auto object = decode_protobuf(bytes); object.ok())
        (void)encode_protobuf(*object);
    }
  }
}

TEST(Protobuf, SaysWhatIsNotABody) {
  EXPECT_EQ(decode_protobuf("{}").error().code, Errc::kInvalid);
  EXPECT_EQ(decode_protobuf(std::string("k8s\0", 4)).error().message, "empty body");
  std::string type, body("k8s\0", 4);
  put_bytes(type, 1, "example.com/v1");
  put_bytes(type, 2, "Widget");
  put_bytes(body, 1, type);
  EXPECT_EQ(decode_protobuf(body).error().code, Errc::kNotFound);
}

TEST(Protobuf, TakesTheKindFromThePathWhereTheBodyLacksIt) {
  std::string body("k8s\0", 4), meta, pod;
  put_bytes(meta, 1, "p");
  put_bytes(pod, 1, meta);
  put_bytes(body, 2, pod);
  const auto object = decode_protobuf(body, "v1", "Pod");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(json::serialize(*object), R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}})");
}

TEST(Protobuf, AnEmptyPointerIsKeptAndAnEmptyScalarIsNot) {
  std::string spec;
  put_number(spec, 1, 0);  // replicas
  put_number(spec, 5, 0);  // minReadySeconds
  const auto object = decode_message(spec, *builtin_schema("io.k8s.api.apps.v1.DeploymentSpec"));
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(json::serialize(*object), R"({"replicas":0})");
}

TEST(Protobuf, DepthAndCountAreBounded) {
  const Schema& schema = *builtin_schema(kSchemaPropsName);
  const Field& negation = *schema.field("not");
  std::string deep;
  for (int i = 0; i < 100; ++i) {
    std::string outer;
    put_bytes(outer, negation.number, deep);
    deep = outer;
  }
  EXPECT_EQ(decode_message(deep, schema).error().code, Errc::kExhausted);
  std::string wide;
  for (std::size_t i = 0; i <= kProtobufValuesMax; ++i) put_bytes(wide, schema.field("required")->number, {});
  EXPECT_EQ(decode_message(wide, schema).error().code, Errc::kExhausted);
}

TEST(Protobuf, TextIsUtf8) {
  std::string meta;
  put_bytes(meta, 1, "\xff");
  EXPECT_EQ(decode_message(meta, *builtin_schema(kObjectMetaName)).error().field, "name");
}

TEST(Protobuf, WatchFramesCarryTheirLength) {
  const std::string frame = watch_frame("ADDED", "body");
  EXPECT_EQ(frame, std::string("\0\0\0\x0f\x0a\x05"
                               "ADDED\x12\x06\x0a\x04"
                               "body",
                               19));
}

TEST(Encodings, Base64) {
  EXPECT_EQ(base64_text("ab"), "YWI=");
  EXPECT_EQ(*bytes_of_base64("YWI="), "ab");
  EXPECT_EQ(*bytes_of_base64("YW\nJj"), "abc");
  EXPECT_EQ(*bytes_of_base64("YQ=="), "a");
  for (const std::string_view wrong : {"Y", "YQ", "YQ=", "YQ==Y", "Y===", "Y!==", "====", "YQ==="})
    EXPECT_FALSE(bytes_of_base64(wrong)) << wrong;
  EXPECT_EQ(*bytes_of_base64(""), "");
}

TEST(Encodings, Durations) {
  EXPECT_EQ(duration_text(0), "0s");
  EXPECT_EQ(duration_text(90'000'000'000), "1m30s");
  EXPECT_EQ(duration_text(3'600'000'000'000), "1h0m0s");
  EXPECT_EQ(duration_text(1'500'000), "1.5ms");
  EXPECT_EQ(duration_text(-2'000'000'000), "-2s");
  EXPECT_EQ(*parse_duration("1h30m"), 5'400'000'000'000);
  EXPECT_EQ(*parse_duration("1.5s"), 1'500'000'000);
  EXPECT_EQ(*parse_duration("-3ms"), -3'000'000);
  for (const std::string_view wrong : {"", "1", "s", "1x", "-", "300000000h", "1.s.", "1h 2m"})
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
}

}  // namespace
}  // namespace lockstep::kube
