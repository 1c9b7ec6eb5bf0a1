#include "io/tls.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <vector>

#include "io/pki.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

struct TlsPair {
  std::unique_ptr<TlsEngine> server, client;
};

// Both sides speak until neither has anything to say; "" = they agreed, else why not.
std::string shake_hands(const TlsPair& pair) {
  const auto nothing = [](std::string_view) {};
  for (int turn = 0; turn < 8; ++turn) {
    if (const auto fed = pair.server->feed(pair.client->take_output(), nothing); !fed.ok())
      return fed.error().message;
    if (const auto fed = pair.client->feed(pair.server->take_output(), nothing); !fed.ok())
      return fed.error().message;
  }
  return pair.server->ready() && pair.client->ready() ? "" : "they never agreed";
}

// Thousands of nodes stay connected and say little.
TEST(Tls, AQuietConnectionHoldsLittle) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo").value();
  const auto files =
      ca->issue("controller", {.name = "controller", .role = kControllerRole, .hosts = {"here"}}).value();
  const auto key = make_key_and_request("node:n1").value();
  const TlsFiles node{files.ca, dir.file("n1.pem"), dir.file("n1.key")};
  std::ofstream(node.certificate)
      << ca->sign(key.request_pem, {.name = "node:n1", .role = "compute", .hosts = {}}).value();
  std::ofstream(node.key) << key.key_pem;
  const auto server = TlsContext::server(files).value(), client = TlsContext::client(node).value();
  constexpr std::size_t kCount = 50;
  std::vector<TlsPair> pairs;
  for (std::size_t i = 0; i < kCount; ++i) {
    pairs.push_back({server->open(), client->open()});
    ASSERT_EQ(shake_hands(pairs.back()), "");
    EXPECT_EQ(pairs.back().server->peer().name, "node:n1");
  }
  const std::size_t before = mallinfo2().uordblks;
  for (TlsPair& pair : pairs) pair.server.reset();
  const std::size_t each = (before - mallinfo2().uordblks) / kCount;
  EXPECT_LE(each, 22'500u);  // OpenSSL 3.0: 20 KB, and 4 more where the client sends its CA along
}

}  // namespace
}  // namespace lockstep
