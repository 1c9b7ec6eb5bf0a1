// libFuzzer entry over DNS messages: questions that pods send, answers that resolvers send. Whatever is read is
// answered within the bounds, and the answer can be read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "services/service_names.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  static const ServiceView view = [] {
    ServiceView out;
    out.hear(ServiceHead{"cluster.local", "10.96.0.0/16", true});
    ServiceFact web{"lab", "web"};
    web.address = "10.96.3.1";
    web.ports = {{"http", "tcp", 80, 0}};
    out.hear(web);
    ServiceFact alias{"lab", "in"};
    alias.alias = "web.lab.svc.cluster.local";
    out.hear(alias);
    out.hear(ServiceMark{"e", 1});
    return out;
  }();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)read_dns_answer(bytes);
  const DnsHeard heard = read_dns_query(bytes);
  CHECK(!heard.query || heard.refusal.empty());
  if (!heard.query)
    return 0;
  const NamesAnswer found = answer_of_names(view, *heard.query, size);
  const std::string answer = write_dns_answer(*heard.query, found.answer, heard.query->udp_max);
  CHECK(answer.size() <= kDnsUdpMax);
  CHECK(read_dns_answer(answer), "an answer of ours that cannot be read");
  return 0;
}
