#include "services/dns_message.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kHeaderBytes = 12, kNameBytesMax = 255, kLabelMax = 63, kRecordsMax = 200;
constexpr std::uint16_t kAnswerBit = 0x8000, kAuthoritative = 0x0400, kCut = 0x0200, kRecursionWanted = 0x0100,
                        kRecursionThere = 0x0080;

void put16(std::string& out, std::uint32_t value) {
  out += static_cast<char>(value >> 8 & 0xff);
  out += static_cast<char>(value & 0xff);
}
void put32(std::string& out, std::uint32_t value) {
  put16(out, value >> 16);
  put16(out, value & 0xffff);
}
std::uint16_t get16(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[at]) << 8 |
                                    static_cast<unsigned char>(bytes[at + 1]));
}
std::uint32_t get32(std::string_view bytes, std::size_t at) {
  return std::uint32_t{get16(bytes, at)} << 16 | get16(bytes, at + 2);
}

void put_name(std::string& out, const DnsName& name) {
  for (const std::string& label : name) {
    out += static_cast<char>(label.size());
    out += label;
  }
  out += '\0';
}

// Reads the name at `at`, which moves behind it. Pointers lead back only, so this ends.
std::optional<DnsName> read_name(std::string_view bytes, std::size_t& at) {
  DnsName out;
  std::size_t here = at, length = 1, bound = at;
  bool jumped = false;
  for (;;) {
    if (here >= bytes.size())
      return std::nullopt;
    const auto size = static_cast<unsigned char>(bytes[here]);
    if ((size & 0xc0) == 0xc0) {
      if (here + 1 >= bytes.size())
        return std::nullopt;
      const std::size_t target = get16(bytes, here) & 0x3fff;
      if (!std::exchange(jumped, true))
        at = here + 2;
      if (target >= bound)
        return std::nullopt;
      here = bound = target;
      continue;
    }
    if (size > kLabelMax)
      return std::nullopt;
    if (size == 0)
      break;
    length += size + 1u;
    if (here + 1 + size > bytes.size() || length > kNameBytesMax)
      return std::nullopt;
    out.push_back(lower(bytes.substr(here + 1, size)));
    here += size + 1u;
  }
  if (!jumped)
    at = here + 1;
  return out;
}

std::string header(std::uint16_t id, std::uint16_t flags, std::size_t questions, std::size_t answers,
                   std::size_t authority, std::size_t additional) {
  std::string out;
  put16(out, id);
  put16(out, flags);
  for (const std::size_t count : {questions, answers, authority, additional})
    put16(out, static_cast<std::uint32_t>(count));
  return out;
}

// Names that stand in the message already are pointed at.
class NameBook {
 public:
  void put(std::string& out, const DnsName& name) {
    for (std::size_t i = 0; i < name.size(); ++i) {
      const std::string rest = text_of({name.begin() + static_cast<std::ptrdiff_t>(i), name.end()});
      if (const auto known = places_.find(rest); known != places_.end())
        return put16(out, 0xc000u | static_cast<std::uint32_t>(known->second));
      if (out.size() < 0x3fff)
        places_[rest] = out.size();
      out += static_cast<char>(name[i].size());
      out += name[i];
    }
    out += '\0';
  }
  void know(const DnsName& name, std::size_t at) {
    for (std::size_t i = 0; i < name.size(); at += name[i].size() + 1, ++i)
      places_[text_of({name.begin() + static_cast<std::ptrdiff_t>(i), name.end()})] = at;
  }

 private:
  std::map<std::string, std::size_t> places_;
};

}  // namespace

std::optional<DnsName> dns_name(std::string_view text) {
  if (text.ends_with('.'))
    text.remove_suffix(1);
  DnsName out;
  std::size_t length = 1;
  if (text.empty())
    return out;
  for (const std::string& label : split(text, '.')) {
    length += label.size() + 1;
    if (label.empty() || label.size() > kLabelMax || length > kNameBytesMax)
      return std::nullopt;
    out.push_back(lower(label));
  }
  return out;
}

std::string text_of(const DnsName& name) { return join(name, "."); }

bool ends_with(const DnsName& name, const DnsName& suffix) {
  return name.size() >= suffix.size() && std::equal(suffix.rbegin(), suffix.rend(), name.rbegin());
}

DnsHeard read_dns_query(std::string_view bytes) {
  DnsHeard out;
  if (bytes.size() < kHeaderBytes || (get16(bytes, 2) & kAnswerBit) != 0)
    return out;
  DnsQuery query;
  query.id = get16(bytes, 0);
  const std::uint16_t flags = get16(bytes, 2);
  query.wants_recursion = (flags & kRecursionWanted) != 0;
  const auto refuse = [&](DnsCode code) {
    out.refusal = header(query.id,
                         static_cast<std::uint16_t>(kAnswerBit | (flags & (0x7800 | kRecursionWanted)) |
                                                    static_cast<std::uint16_t>(code)),
                         0, 0, 0, 0);
    return out;
  };
  if ((flags >> 11 & 15) != 0)
    return refuse(DnsCode::kNotDone);
  if (get16(bytes, 4) != 1)
    return refuse(DnsCode::kFormat);
  std::size_t at = kHeaderBytes;
  auto name = read_name(bytes, at);
  if (!name || at + 4 > bytes.size())
    return refuse(DnsCode::kFormat);
  query.name = std::move(*name);
  query.type = static_cast<DnsType>(get16(bytes, at));
  query.of_class = get16(bytes, at + 2);
  at += 4;
  query.raw_question = std::string(bytes.substr(kHeaderBytes, at - kHeaderBytes));
  // Nothing stands before it that it could point at: a pointer leads into the header, which is another one in the
  // answer.
  if (std::string plain; put_name(plain, query.name), plain.size() + 4 != query.raw_question.size())
    return refuse(DnsCode::kFormat);
  const std::size_t others = std::size_t{get16(bytes, 6)} + get16(bytes, 8), more = get16(bytes, 10);
  if (others + more > kRecordsMax)
    return refuse(DnsCode::kFormat);
  for (std::size_t i = 0; i < others + more; ++i) {
    const auto owner = read_name(bytes, at);
    if (!owner || at + 10 > bytes.size() || at + 10 + get16(bytes, at + 8) > bytes.size())
      return refuse(DnsCode::kFormat);
    if (i >= others && static_cast<DnsType>(get16(bytes, at)) == DnsType::kOpt) {
      query.has_edns = true;
      query.udp_max = std::clamp<std::size_t>(get16(bytes, at + 2), kDnsPlainMax, kDnsUdpMax);
    }
    at += 10u + get16(bytes, at + 8);
  }
  out.query = std::move(query);
  return out;
}

DnsRecord dns_a(DnsName name, std::uint32_t ttl_s, std::uint32_t address) {
  DnsRecord out{std::move(name), DnsType::kA, ttl_s, {}};
  put32(out.data, address);
  return out;
}

DnsRecord dns_named(DnsName name, DnsType type, std::uint32_t ttl_s, const DnsName& target) {
  DnsRecord out{std::move(name), type, ttl_s, {}};
  put_name(out.data, target);
  return out;
}

DnsRecord dns_srv(DnsName name, std::uint32_t ttl_s, std::uint16_t weight, std::uint16_t port, const DnsName& target) {
  DnsRecord out{std::move(name), DnsType::kSrv, ttl_s, {}};
  put16(out.data, 0);
  put16(out.data, weight);
  put16(out.data, port);
  put_name(out.data, target);
  return out;
}

DnsRecord dns_txt(DnsName name, std::uint32_t ttl_s, std::string_view text) {
  DnsRecord out{std::move(name), DnsType::kTxt, ttl_s, {}};
  const std::string_view kept = text.substr(0, 255);
  out.data += static_cast<char>(kept.size());
  out.data += kept;
  return out;
}

DnsRecord dns_soa(const DnsName& zone, std::uint32_t ttl_s) {
  DnsRecord out{zone, DnsType::kSoa, ttl_s, {}};
  for (const char* label : {"ns", "hostmaster"}) {
    DnsName name{label};
    if (*label == 'n')
      name.emplace_back("dns");
    name.insert(name.end(), zone.begin(), zone.end());
    put_name(out.data, name);
  }
  for (const std::uint32_t number : {1u, 7200u, 1800u, 86'400u, ttl_s}) put32(out.data, number);
  return out;
}

std::string write_dns_answer(const DnsQuery& query, const DnsAnswer& answer, std::size_t bytes_max) {
  std::string out = header(query.id, 0, 1, 0, 0, 0) + query.raw_question;
  NameBook names;
  names.know(query.name, kHeaderBytes);
  std::string edns;
  if (query.has_edns) {
    edns += '\0';
    put16(edns, static_cast<std::uint32_t>(DnsType::kOpt));
    put16(edns, kDnsUdpMax);
    put32(edns, 0);
    put16(edns, 0);
  }
  bytes_max = std::min(std::max(bytes_max, kDnsPlainMax), kDnsTcpMax) - edns.size();
  std::size_t counts[3] = {0, 0, 0};
  bool cut = false;
  const std::vector<DnsRecord>* const lists[] = {&answer.answers, &answer.authority, &answer.additional};
  for (std::size_t i = 0; i < 3 && !cut; ++i)
    for (const DnsRecord& record : *lists[i]) {
      std::string one;
      const std::size_t before = out.size();
      names.put(out, record.name);
      put16(out, static_cast<std::uint32_t>(record.type));
      put16(out, 1);
      put32(out, record.ttl_s);
      put16(out, static_cast<std::uint32_t>(record.data.size()));
      out += record.data;
      if (out.size() > bytes_max) {
        out.resize(before);
        cut = i < 2;
        break;
      }
      ++counts[i];
    }
  out += edns;
  std::uint16_t flags = kAnswerBit | kRecursionThere | static_cast<std::uint16_t>(answer.code);
  if (answer.authoritative)
    flags |= kAuthoritative;
  if (query.wants_recursion)
    flags |= kRecursionWanted;
  if (cut)
    flags |= kCut;
  const std::string head = header(query.id, flags, 1, counts[0], counts[1], counts[2] + (edns.empty() ? 0u : 1u));
  return out.replace(0, kHeaderBytes, head);
}

std::string write_dns_query(std::uint16_t id, const DnsName& name, DnsType type) {
  std::string out = header(id, kRecursionWanted, 1, 0, 0, 0);
  put_name(out, name);
  put16(out, static_cast<std::uint32_t>(type));
  put16(out, 1);
  return out;
}

bool answers_dns_query(std::string_view answer, std::string_view query) {
  if (answer.size() < kHeaderBytes || query.size() < kHeaderBytes || get16(answer, 0) != get16(query, 0) ||
      (get16(answer, 2) & kAnswerBit) == 0 || get16(answer, 4) != 1 || get16(query, 4) != 1)
    return false;
  std::size_t a = kHeaderBytes, q = kHeaderBytes;
  const auto said = read_name(answer, a), asked = read_name(query, q);
  return said && asked && *said == *asked && a + 4 <= answer.size() && q + 4 <= query.size() &&
         answer.substr(a, 4) == query.substr(q, 4);
}

std::optional<DnsFound> read_dns_answer(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || get16(bytes, 4) != 1)
    return std::nullopt;
  DnsFound out;
  out.code = static_cast<DnsCode>(get16(bytes, 2) & 15);
  out.is_cut = (get16(bytes, 2) & kCut) != 0;
  std::size_t at = kHeaderBytes;
  if (!read_name(bytes, at) || at + 4 > bytes.size())
    return std::nullopt;
  at += 4;
  const std::size_t count = std::min<std::size_t>(get16(bytes, 6), kRecordsMax);
  for (std::size_t i = 0; i < count; ++i) {
    auto owner = read_name(bytes, at);
    if (!owner || at + 10 > bytes.size())
      return out;
    const auto type = static_cast<DnsType>(get16(bytes, at));
    const std::uint32_t ttl_s = get32(bytes, at + 4);
    const std::size_t size = get16(bytes, at + 8);
    at += 10;
    if (at + size > bytes.size())
      return out;
    if ((type == DnsType::kA && size == 4) || (type == DnsType::kAaaa && size == 16)) {
      out.records.push_back({std::move(*owner), type, ttl_s, std::string(bytes.substr(at, size))});
    } else if (type == DnsType::kCname) {
      std::size_t inside = at;
      const auto target = read_name(bytes, inside);
      if (!target || inside > at + size)
        return out;
      out.records.push_back(dns_named(std::move(*owner), type, ttl_s, *target));
    }
    at += size;
  }
  return out;
}

}  // namespace lockstep
