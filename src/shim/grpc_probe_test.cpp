#include "shim/grpc_probe.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const std::string kSettings("\0\0\0\4\0\0\0\0\0", 9);

TEST(GrpcProbe, asks_for_a_service_by_its_name) {
  const std::string question = grpc_health_question("10.0.0.1:80", "ready");
  EXPECT_TRUE(question.starts_with("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + kSettings));
  EXPECT_NE(question.find("/grpc.health.v1.Health/Check"), question.npos);
  EXPECT_TRUE(question.ends_with(std::string("\0\0\x0c\0\1\0\0\0\1\0\0\0\0\7\x0a\5ready", 21))) << question.size();
}

TEST(GrpcProbe, serving_alone_is_well) {
  const auto data = [](char status) { return std::string("\0\0\7\0\0\0\0\0\1\0\0\0\0\2\x08", 15) + status; };
  const std::string head("\0\0\1\1\4\0\0\0\1\x88", 10);
  EXPECT_EQ(grpc_health_in(kSettings + head + data(1)), GrpcHealth::kServing);
  EXPECT_EQ(grpc_health_in(kSettings + head + data(2)), GrpcHealth::kOtherwise);
  EXPECT_EQ(grpc_health_in(std::string("\0\0\1\1\5\0\0\0\1\x88", 10)), GrpcHealth::kOtherwise);
  EXPECT_EQ(grpc_health_in(std::string("\0\0\4\3\0\0\0\0\1\0\0\0\0", 13)), GrpcHealth::kOtherwise);
  const std::string whole = kSettings + head + data(1);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(grpc_health_in(std::string_view(whole).substr(0, size)), GrpcHealth::kUnknown) << size;
  EXPECT_EQ(grpc_health_in(std::string(40, '\xff')), GrpcHealth::kUnknown);
}

}  // namespace
}  // namespace lockstep
