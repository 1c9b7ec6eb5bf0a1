// DNS messages as bytes: questions are read, answers are written, and what of an upstream's answer is handed on is
// read. Sources: RFC 1035 (4), RFC 2308 (negative answers), RFC 2782 (SRV), RFC 6891 (EDNS).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class DnsType : std::uint16_t {
  kA = 1,
  kNs = 2,
  kCname = 5,
  kSoa = 6,
  kPtr = 12,
  kTxt = 16,
  kAaaa = 28,
  kSrv = 33,
  kOpt = 41,
  kAny = 255
};
enum class DnsCode : std::uint8_t { kNone = 0, kFormat = 1, kServer = 2, kNoName = 3, kNotDone = 4, kRefused = 5 };

using DnsName = std::vector<std::string>;  // labels, in lower case, the root left out: {"web", "lab", "svc", …}
std::optional<DnsName> dns_name(std::string_view text);  // "web.lab." or "web.lab"; nothing: no name
std::string text_of(const DnsName& name);                // for people and maps: labels with dots between
bool ends_with(const DnsName& name, const DnsName& suffix);

inline constexpr std::size_t kDnsPlainMax = 512, kDnsUdpMax = 1232, kDnsTcpMax = 65'535;

struct DnsQuery {
  std::uint16_t id = 0;
  bool wants_recursion = false;
  std::string raw_question;  // as it stood, for the answer
  DnsName name;
  DnsType type = DnsType::kA;
  std::uint16_t of_class = 1;  // 1 = Internet
  bool has_edns = false;
  std::size_t udp_max = kDnsPlainMax;  // that the asker takes
};
// What came: a query, or what it is answered with at once; neither: it is no question, and is left alone.
struct DnsHeard {
  std::optional<DnsQuery> query;
  std::string refusal;
};
DnsHeard read_dns_query(std::string_view bytes);

struct DnsRecord {
  DnsName name;
  DnsType type = DnsType::kA;
  std::uint32_t ttl_s = 0;
  std::string data;
};
DnsRecord dns_a(DnsName name, std::uint32_t ttl_s, std::uint32_t address);
DnsRecord dns_named(DnsName name, DnsType type, std::uint32_t ttl_s, const DnsName& target);  // CNAME, PTR, NS
DnsRecord dns_srv(DnsName name, std::uint32_t ttl_s, std::uint16_t weight, std::uint16_t port, const DnsName& target);
DnsRecord dns_txt(DnsName name, std::uint32_t ttl_s, std::string_view text);
// Of a zone whose answers to "there is no such" hold for ttl_s.
DnsRecord dns_soa(const DnsName& zone, std::uint32_t ttl_s);

struct DnsAnswer {
  DnsCode code = DnsCode::kNone;
  bool authoritative = true;
  std::vector<DnsRecord> answers, authority, additional;
};
// At most `bytes_max`: what does not fit is left out and said so. Further records are left out without a word.
std::string write_dns_answer(const DnsQuery& query, const DnsAnswer& answer, std::size_t bytes_max);

// A query for an upstream. id: hard to guess.
std::string write_dns_query(std::uint16_t id, const DnsName& name, DnsType type);
// Whether the bytes answer this query: same id, same question.
bool answers_dns_query(std::string_view answer, std::string_view query);
// Addresses and aliases in an upstream's answer; nothing: it is none that can be read.
struct DnsFound {
  DnsCode code = DnsCode::kNone;
  bool is_cut = false;
  std::vector<DnsRecord> records;
};
std::optional<DnsFound> read_dns_answer(std::string_view bytes);

}  // namespace lockstep
