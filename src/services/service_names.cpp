#include "services/service_names.h"

#include <algorithm>

#include "base/ip_range.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::uint32_t kTtl = 5;  // seconds: services come and go
constexpr std::size_t kRecordsOfAnswerMax = 4096;
constexpr int kAliasesMax = 8;
constexpr const char *kServices = "svc", *kTasks = "pod", *kVersionName = "dns-version", *kVersion = "1.1.0";

DnsName operator+(DnsName name, const DnsName& rest) {
  name.insert(name.end(), rest.begin(), rest.end());
  return name;
}

// "10-77-3-2" of 10.77.3.2, and back.
std::string dashed(const std::string& address) {
  std::string out = address;
  std::replace(out.begin(), out.end(), '.', '-');
  return out;
}
std::optional<std::uint32_t> undashed(std::string label) {
  if (label.find('.') != label.npos)
    return std::nullopt;
  std::replace(label.begin(), label.end(), '-', '.');
  return parse_ip(label);
}

struct Behind {
  const ServiceEnd* end;
  const ServiceEnds* of;
  std::string label() const { return end->host.empty() ? dashed(end->address) : lower(end->host); }
};

class Question {
 public:
  Question(const ServiceView& view, const DnsQuery& query, std::uint64_t turn)
      : view_(view), query_(query), turn_(turn), zone_(dns_name(view.zone()).value_or(DnsName{})) {}

  NamesAnswer answer() {
    if (query_.of_class != 1)
      return how(NamesAnswer::How::kElsewhere);
    const static DnsName kReverse{"in-addr", "arpa"};
    if (ends_with(query_.name, kReverse))
      return by_address();
    if (zone_.empty() || !ends_with(query_.name, zone_))
      return how(NamesAnswer::How::kElsewhere);
    const DnsName inside(query_.name.begin(), query_.name.end() - static_cast<std::ptrdiff_t>(zone_.size()));
    const auto level = [&](std::size_t i) { return inside.size() > i ? inside[inside.size() - 1 - i] : std::string(); };
    if (inside.empty())
      return of_zone();
    if (inside.size() == 1 && level(0) == kVersionName)
      return when(wants(DnsType::kTxt), dns_txt(query_.name, kTtl, kVersion));
    if (level(0) != kServices && level(0) != kTasks)
      return no_name();
    if (inside.size() == 1 || (inside.size() == 2 && view_.has_space(level(1))))
      return nothing();
    if (inside.size() == 2)
      return no_name();
    if (level(0) == kTasks)
      return of_task(level(1), level(2), inside.size() == 3);
    const ServiceFact* const service = view_.find({level(1), level(2)});
    if (!service)
      return no_name();
    DnsName rest(inside.begin(), inside.end() - 3);
    return of_service(*service, rest);
  }

 private:
  bool wants(DnsType type) const { return query_.type == type || query_.type == DnsType::kAny; }
  NamesAnswer how(NamesAnswer::How what) {
    out_.how = what;
    return std::move(out_);
  }
  NamesAnswer nothing() {
    out_.answer.authority.push_back(dns_soa(zone_, kTtl));
    return std::move(out_);
  }
  NamesAnswer no_name() {
    out_.answer.code = DnsCode::kNoName;
    return nothing();
  }
  NamesAnswer when(bool wanted, DnsRecord record) {
    if (!wanted)
      return nothing();
    out_.answer.answers.push_back(std::move(record));
    return std::move(out_);
  }
  NamesAnswer done() { return out_.answer.answers.empty() ? nothing() : std::move(out_); }

  NamesAnswer of_zone() {
    if (query_.type == DnsType::kSoa)
      return when(true, dns_soa(zone_, kTtl));
    const DnsName server = DnsName{"ns", "dns"} + zone_;
    return when(query_.type == DnsType::kNs, dns_named(zone_, DnsType::kNs, kTtl, server));
  }

  NamesAnswer of_task(const std::string& space, const std::string& label, bool is_whole) {
    const auto address = undashed(label);
    if (!is_whole || !address || !view_.has_space(space))
      return no_name();
    return when(wants(DnsType::kA), dns_a(query_.name, kTtl, *address));
  }

  DnsName name_of(const ServiceFact& service) const {
    return DnsName{lower(service.name), lower(service.space), kServices} + zone_;
  }

  std::vector<Behind> behind(const ServiceFact& service) const {
    std::vector<Behind> out;
    for (const ServiceEnds* ends : view_.ends_of({service.space, service.name}))
      for (const ServiceEnd& end : ends->ends)
        if (end.ready && parse_ip(end.address))
          out.push_back({&end, ends});
    if (!out.empty())
      std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(turn_ % out.size()), out.end());
    if (out.size() > kRecordsOfAnswerMax)
      out.resize(kRecordsOfAnswerMax);
    return out;
  }

  NamesAnswer of_service(const ServiceFact& service, const DnsName& rest) {
    if (!service.alias.empty())
      return rest.empty() ? of_alias(service.alias) : no_name();
    if (rest.empty()) {
      if (wants(DnsType::kA))
        add_addresses(service);
      if (query_.type == DnsType::kSrv)
        add_ports(service, "", "");
      return done();
    }
    if (rest.size() == 1 && rest[0].starts_with('_'))
      return has_port(service, "", rest[0]) ? nothing() : no_name();
    if (rest.size() == 2 && rest[0].starts_with('_') && rest[1].starts_with('_')) {
      if (!has_port(service, rest[0], rest[1]))
        return no_name();
      if (query_.type == DnsType::kSrv)
        add_ports(service, rest[0].substr(1), rest[1].substr(1));
      return done();
    }
    if (rest.size() != 1)
      return no_name();
    bool is_there = false;
    for (const Behind& one : behind(service))
      if (service.headless && one.label() == rest[0]) {
        is_there = true;
        if (wants(DnsType::kA))
          out_.answer.answers.push_back(dns_a(query_.name, kTtl, *parse_ip(one.end->address)));
      }
    return is_there ? done() : no_name();
  }

  void add_addresses(const ServiceFact& service) {
    if (!service.headless) {
      if (const auto address = parse_ip(service.address))
        out_.answer.answers.push_back(dns_a(query_.name, kTtl, *address));
      return;
    }
    std::set<std::string> told;
    for (const Behind& one : behind(service))
      if (told.insert(one.end->address).second)
        out_.answer.answers.push_back(dns_a(query_.name, kTtl, *parse_ip(one.end->address)));
  }

  // port, protocol: "" = any.
  static bool is_asked(const ServicePort& port, std::string_view name, std::string_view protocol) {
    return (name.empty() || lower(port.name) == name) && (protocol.empty() || port.protocol == protocol);
  }
  bool has_port(const ServiceFact& service, std::string_view name, std::string_view protocol) const {
    if (!name.empty())
      name.remove_prefix(1);
    protocol.remove_prefix(1);
    const auto fits = [&](const ServicePort& port) { return is_asked(port, name, protocol); };
    if (std::any_of(service.ports.begin(), service.ports.end(), fits))
      return true;
    const auto all = view_.ends_of({service.space, service.name});
    return service.headless && std::any_of(all.begin(), all.end(), [&](const ServiceEnds* ends) {
             return std::any_of(ends->ports.begin(), ends->ports.end(), fits);
           });
  }

  void add_ports(const ServiceFact& service, const std::string& port, const std::string& protocol) {
    if (!service.headless) {
      const auto address = parse_ip(service.address);
      for (const ServicePort& one : service.ports)
        if (is_asked(one, port, protocol))
          out_.answer.answers.push_back(dns_srv(query_.name, kTtl, 100, one.port, name_of(service)));
      if (address && !out_.answer.answers.empty())
        out_.answer.additional.push_back(dns_a(name_of(service), kTtl, *address));
      return;
    }
    std::set<std::string> told;
    for (const Behind& one : behind(service)) {
      const DnsName target = DnsName{one.label()} + name_of(service);
      bool is_new = false;
      for (const ServicePort& there : one.of->ports)
        if (is_asked(there, port, protocol)) {
          out_.answer.answers.push_back(dns_srv(query_.name, kTtl, 100, there.port, target));
          is_new = told.insert(one.end->address).second || is_new;
        }
      if (is_new)
        out_.answer.additional.push_back(dns_a(target, kTtl, *parse_ip(one.end->address)));
    }
  }

  NamesAnswer of_alias(const std::string& alias) {
    auto target = dns_name(alias);
    if (!target || target->empty())
      return nothing();
    out_.answer.answers.push_back(dns_named(query_.name, DnsType::kCname, kTtl, *target));
    if (query_.type == DnsType::kCname)
      return std::move(out_);
    DnsQuery next = query_;
    // Names of the zone may lead to each other in a circle.
    for (int i = 0; i < kAliasesMax && ends_with(*target, zone_); ++i) {
      next.name = *target;
      NamesAnswer found = Question(view_, next, turn_).alone();
      const bool is_alias = found.how == NamesAnswer::How::kAlias;
      out_.answer.answers.insert(out_.answer.answers.end(), found.answer.answers.begin(), found.answer.answers.end());
      if (!is_alias) {
        out_.answer.code = found.answer.code;
        out_.answer.authority = std::move(found.answer.authority);
        return std::move(out_);
      }
      target = std::move(found.target);
    }
    if (ends_with(*target, zone_)) {
      out_.answer.code = DnsCode::kServer;
      return std::move(out_);
    }
    out_.target = std::move(*target);
    return how(NamesAnswer::How::kAlias);
  }

  // One step of a chain of aliases: where it leads is looked at by whoever follows it.
  NamesAnswer alone() {
    const std::size_t from_zone = query_.name.size() - zone_.size();
    if (from_zone == 3 && query_.name[2] == kServices)
      if (const ServiceFact* service = view_.find({query_.name[1], query_.name[0]});
          service && !service->alias.empty()) {
        auto target = dns_name(service->alias);
        if (!target || target->empty())
          return nothing();
        out_.answer.answers.push_back(dns_named(query_.name, DnsType::kCname, kTtl, *target));
        out_.target = std::move(*target);
        return how(NamesAnswer::How::kAlias);
      }
    return answer();
  }

  // 2.3.77.10.in-addr.arpa
  NamesAnswer by_address() {
    if (query_.name.size() != 6)
      return how(NamesAnswer::How::kElsewhere);
    const std::string address = format("{}.{}.{}.{}", query_.name[3], query_.name[2], query_.name[1], query_.name[0]);
    if (!parse_ip(address))
      return how(NamesAnswer::How::kElsewhere);
    const std::vector<ServiceKey> known = view_.at_address(address);
    for (const ServiceKey& key : known) {
      const ServiceFact* service = view_.find(key);
      if (!service)
        continue;
      if (service->address == address)
        add_pointer(name_of(*service));
      else if (service->headless)
        for (const Behind& one : behind(*service))
          if (one.end->address == address)
            add_pointer(DnsName{one.label()} + name_of(*service));
    }
    if (!out_.answer.answers.empty())
      return std::move(out_);
    if (known.empty() && !is_of_range(address))
      return how(NamesAnswer::How::kElsewhere);
    return known.empty() ? no_name() : nothing();
  }

  void add_pointer(const DnsName& target) {
    if (wants(DnsType::kPtr))
      out_.answer.answers.push_back(dns_named(query_.name, DnsType::kPtr, kTtl, target));
  }
  bool is_of_range(const std::string& address) const {
    const auto range = parse_ip_range(view_.range());
    return range && range->contains(*parse_ip(address));
  }

  const ServiceView& view_;
  const DnsQuery& query_;
  std::uint64_t turn_;
  DnsName zone_;
  NamesAnswer out_;
};

}  // namespace

NamesAnswer answer_of_names(const ServiceView& view, const DnsQuery& query, std::uint64_t turn) {
  return Question(view, query, turn).answer();
}

}  // namespace lockstep
