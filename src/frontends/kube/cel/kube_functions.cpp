// What Kubernetes adds: quantities, addresses, URLs, named formats, versions.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "frontends/kube/cel/functions.h"
#include "frontends/kube/machinery/custom_validation.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/selectors.h"

namespace lockstep::kube::cel {
namespace {

#define TAKE(type, name, argument)        \
  const auto* name = argument.as<type>(); \
  if (name == nullptr)                    \
    return no_overload();
#define TAKE_TEXT(name, argument)               \
  if (!argument.string())                       \
    return no_overload();                       \
  const std::string& name = *argument.string(); \
  if (!budget.spend(text_cost(name.size())))    \
    return Value();

Value to_quantity(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  const auto quantity = parse_quantity(text);
  return quantity.ok() ? Value(*quantity) : Value::fault(quantity.error().message);
}
Value is_quantity(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  return Value(parse_quantity(text).ok());
}
Value is_integer(Budget&, const Arguments& a) {
  TAKE(Quantity, quantity, a[0])
  return Value(quantity->is_whole());
}
Value as_integer(Budget&, const Arguments& a) {
  TAKE(Quantity, quantity, a[0])
  return quantity->is_whole() ? Value(quantity->whole()) : Value::fault("cannot convert value to integer");
}
Value as_approximate_float(Budget&, const Arguments& a) {
  TAKE(Quantity, quantity, a[0])
  return Value(quantity->approximate());
}
Value sign(Budget&, const Arguments& a) {
  TAKE(Quantity, quantity, a[0])
  return Value(static_cast<std::int64_t>(quantity->sign()));
}
Value changed_quantity(const Arguments& a, bool adds) {
  TAKE(Quantity, quantity, a[0])
  Quantity other;
  if (const auto* number = a[1].as<std::int64_t>())
    other = Quantity(*number);
  else if (const auto* said = a[1].as<Quantity>())
    other = *said;
  else
    return no_overload();
  Quantity out = *quantity;
  return Value(adds ? out += other : out -= other);
}
Value add_quantity(Budget&, const Arguments& a) { return changed_quantity(a, true); }
Value sub_quantity(Budget&, const Arguments& a) { return changed_quantity(a, false); }

// Quantities and versions are compared by methods alone.
std::optional<int> compared_by_method(const Arguments& a) {
  const bool quantities = a[0].as<Quantity>() && a[1].as<Quantity>();
  const bool versions = a[0].part<Semver>() && a[1].part<Semver>();
  return quantities || versions ? order(a[0], a[1]) : std::nullopt;
}
Value is_less(Budget&, const Arguments& a) {
  const auto compared = compared_by_method(a);
  return compared ? Value(*compared < 0) : no_overload();
}
Value is_greater(Budget&, const Arguments& a) {
  const auto compared = compared_by_method(a);
  return compared ? Value(*compared > 0) : no_overload();
}
Value compare_to(Budget&, const Arguments& a) {
  const auto compared = compared_by_method(a);
  return compared ? Value(static_cast<std::int64_t>(*compared)) : no_overload();
}

std::optional<Address> parse_address(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes) == 1)
    return address;
  // An IPv4 address within an IPv6 one is refused, as in the original.
  if (inet_pton(AF_INET6, text.c_str(), address.bytes) != 1 || text.find('.') != text.npos)
    return std::nullopt;
  address.v6 = true;
  return address;
}

std::optional<Network> parse_network(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos)
    return std::nullopt;
  const auto address = parse_address(text.substr(0, slash));
  const std::string digits = text.substr(slash + 1);
  const auto bits = parse_uint(digits);
  if (!address || !bits || *bits > (address->v6 ? 128u : 32u) || (digits.size() > 1 && digits[0] == '0'))
    return std::nullopt;
  return Network{*address, static_cast<int>(*bits)};
}

std::string address_text(const Address& address) {
  char out[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes, out, sizeof out);
  return out;
}

bool covers(const Network& network, const Address& address) {
  if (network.address.v6 != address.v6)
    return false;
  for (int bit = 0; bit < network.bits; ++bit)
    if (((network.address.bytes[bit / 8] ^ address.bytes[bit / 8]) & (0x80 >> bit % 8)) != 0)
      return false;
  return true;
}

Value ip(Budget& budget, const Arguments& a) {
  if (const auto* network = a[0].as<Network>())
    return Value(network->address);
  TAKE_TEXT(text, a[0])
  const auto address = parse_address(text);
  return address ? Value(*address)
                 : Value::fault(format("IP Address {} parse error during conversion from string", quoted(text)));
}
Value is_ip(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  return Value(parse_address(text).has_value());
}
Value is_canonical(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  const auto address = parse_address(text);
  return address ? Value(address_text(*address) == text)
                 : Value::fault(format("IP Address {} parse error during conversion from string", quoted(text)));
}
Value family(Budget&, const Arguments& a) {
  TAKE(Address, address, a[0])
  return Value(std::int64_t{address->v6 ? 6 : 4});
}
bool all_zero(const Address& address, int from, int to) {
  return std::all_of(address.bytes + from, address.bytes + to, [](unsigned char byte) { return byte == 0; });
}
bool unspecified(const Address& address) { return all_zero(address, 0, 16); }
bool loopback(const Address& address) {
  return address.v6 ? all_zero(address, 0, 15) && address.bytes[15] == 1 : address.bytes[0] == 127;
}
bool multicast(const Address& address) { return address.v6 ? address.bytes[0] == 0xFF : address.bytes[0] >> 4 == 14; }
bool link_local_multicast(const Address& address) {
  return address.v6 ? address.bytes[0] == 0xFF && (address.bytes[1] & 15) == 2
                    : address.bytes[0] == 224 && address.bytes[1] == 0 && address.bytes[2] == 0;
}
bool link_local_unicast(const Address& address) {
  return address.v6 ? address.bytes[0] == 0xFE && (address.bytes[1] & 0xC0) == 0x80
                    : address.bytes[0] == 169 && address.bytes[1] == 254;
}
bool global_unicast(const Address& address) {
  const bool broadcast =
      !address.v6 && std::all_of(address.bytes, address.bytes + 4, [](unsigned char byte) { return byte == 255; });
  return !broadcast && !unspecified(address) && !loopback(address) && !multicast(address) &&
         !link_local_unicast(address);
}
template <bool (*holds)(const Address&)>
Value of_address(Budget&, const Arguments& a) {
  TAKE(Address, address, a[0])
  return Value(holds(*address));
}

Value cidr(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  const auto network = parse_network(text);
  return network ? Value(*network)
                 : Value::fault(format("network address parse error during conversion from string: {}", quoted(text)));
}
Value is_cidr(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  return Value(parse_network(text).has_value());
}
Value contains_ip(Budget& budget, const Arguments& a) {
  TAKE(Network, network, a[0])
  if (const auto* address = a[1].as<Address>())
    return Value(covers(*network, *address));
  const Value address = ip(budget, {a[1]});
  return address.as<Address>() ? Value(covers(*network, *address.as<Address>())) : address;
}
Value contains_cidr(Budget& budget, const Arguments& a) {
  TAKE(Network, network, a[0])
  const Value other = a[1].as<Network>() ? a[1] : cidr(budget, {a[1]});
  const auto* inner = other.as<Network>();
  return inner == nullptr ? other : Value(inner->bits >= network->bits && covers(*network, inner->address));
}
Value prefix_length(Budget&, const Arguments& a) {
  TAKE(Network, network, a[0])
  return Value(static_cast<std::int64_t>(network->bits));
}
Value masked(Budget&, const Arguments& a) {
  TAKE(Network, network, a[0])
  Network out = *network;
  for (int bit = out.bits; bit < 128; ++bit)
    out.address.bytes[bit / 8] &= static_cast<unsigned char>(~(0x80 >> bit % 8));
  return Value(out);
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned byte = 0;
    if (text[at] == '%' && at + 2 < text.size() && std::isxdigit(static_cast<unsigned char>(text[at + 1])) &&
        std::isxdigit(static_cast<unsigned char>(text[at + 2]))) {
      byte = static_cast<unsigned>(std::stoul(std::string(text.substr(at + 1, 2)), nullptr, 16));
      out += static_cast<char>(byte);
      at += 2;
    } else {
      out += text[at] == '+' ? ' ' : text[at];
    }
  }
  return out;
}

// An absolute URI or an absolute path, as Go's url.ParseRequestURI takes them.
std::optional<Url> parse_url(std::string_view text) {
  Url url;
  if (text.empty() ||
      std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F; }))
    return std::nullopt;
  for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1))
    if (at + 2 >= text.size() || !std::isxdigit(static_cast<unsigned char>(text[at + 1])) ||
        !std::isxdigit(static_cast<unsigned char>(text[at + 2])))
      return std::nullopt;
  const std::size_t colon = text.find(':');
  if (text.front() != '/') {
    if (colon == text.npos || colon == 0 || !std::isalpha(static_cast<unsigned char>(text.front())) ||
        !std::ranges::all_of(text.substr(0, colon), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
        }))
      return std::nullopt;
    url.scheme = lower(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  const std::size_t question = text.find('?');
  std::string_view query = question == text.npos ? std::string_view() : text.substr(question + 1);
  text = text.substr(0, question);
  if (!url.scheme.empty() && !text.starts_with("/"))
    return std::nullopt;
  if (text.starts_with("//") && !url.scheme.empty()) {
    text.remove_prefix(2);
    const std::size_t end = std::min(text.find('/'), text.size());
    std::string_view authority = text.substr(0, end);
    text.remove_prefix(end);
    if (const std::size_t user = authority.rfind('@'); user != authority.npos)
      authority.remove_prefix(user + 1);
    url.host = authority;
    const std::size_t bracket = authority.rfind(']');
    if (authority.starts_with("[") && bracket == authority.npos)
      return std::nullopt;
    const std::size_t port = authority.find(':', bracket == authority.npos ? 0 : bracket);
    url.hostname = authority.substr(0, port);
    if (url.hostname.starts_with("["))
      url.hostname = url.hostname.substr(1, url.hostname.size() - 2);
    if (port != authority.npos) {
      url.port = authority.substr(port + 1);
      if (!std::ranges::all_of(url.port, [](char c) { return c >= '0' && c <= '9'; }))
        return std::nullopt;
    }
  }
  url.escaped_path = text;
  for (const std::string& pair : split(query, '&')) {
    if (pair.empty())
      continue;
    const std::size_t equals = pair.find('=');
    const std::string key = percent_decoded(pair.substr(0, equals));
    const std::string value = equals == pair.npos ? std::string() : percent_decoded(pair.substr(equals + 1));
    const auto known = std::ranges::find(url.query, key, &std::pair<std::string, std::vector<std::string>>::first);
    if (known == url.query.end())
      url.query.push_back({key, {value}});
    else
      known->second.push_back(value);
  }
  return url;
}

Value to_url(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  auto url = parse_url(text);
  return url ? Value(std::make_shared<const Url>(std::move(*url)))
             : Value::fault(format("URL parse error during conversion from string: parse {}: invalid URI for request",
                                   quoted(text)));
}
Value is_url(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  return Value(parse_url(text).has_value());
}
template <std::string Url::*part>
Value of_url(Budget&, const Arguments& a) {
  const auto* url = a[0].part<Url>();
  return url == nullptr ? no_overload() : Value::text(url->*part);
}
Value url_query(Budget&, const Arguments& a) {
  const auto* url = a[0].part<Url>();
  if (url == nullptr)
    return no_overload();
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, values] : url->query) {
    std::vector<Value> list;
    for (const std::string& value : values) list.push_back(Value::text(value));
    entries.emplace_back(Value::text(key), Value::list(std::move(list)));
  }
  return Value::map(std::move(entries));
}

// Names of Kubernetes by the kind of name.
std::string name_format_fault(std::string_view format_name, const std::string& text) {
  const auto label = [](std::string_view part, std::size_t most, bool prefix) {
    if (prefix && part.ends_with('-'))
      part.remove_suffix(1);
    return !part.empty() && part.size() <= most && part.front() != '-' && part.back() != '-' &&
           std::ranges::all_of(part,
                               [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  };
  const bool prefix = format_name.ends_with("Prefix");
  if (format_name.starts_with("dns1123Label"))
    return label(text, 63, prefix) ? ""
                                   : "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
                                     "'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
                                     "'123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
  if (format_name.starts_with("dns1035Label"))
    return label(text, 63, prefix) && text.front() >= 'a'
               ? ""
               : "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
                 "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
                 "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
  if (format_name.starts_with("dns1123Subdomain")) {
    const auto parts = split(text, '.');
    const bool legal = !parts.empty() && text.size() <= 253 && !text.ends_with('.') &&
                       std::ranges::all_of(parts, [&](const std::string& part) {
                         return label(part, 253, prefix && &part == &parts.back());
                       });
    return legal ? ""
                 : "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
                   "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation "
                   "is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
  }
  if (format_name == "qualifiedName")
    return label_key_fault(text);
  if (format_name == "labelValue")
    return label_value_fault(text);
  if (format_name == "uri")
    return parse_url(text) ? "" : "must be an absolute URI or an absolute path";
  return keeps_format(format_name == "datetime" ? "date-time" : format_name, text) ? ""
                                                                                   : format("invalid {}", format_name);
}
constexpr std::string_view kNamedFormats[] = {"dns1123Label",
                                              "dns1123Subdomain",
                                              "dns1035Label",
                                              "qualifiedName",
                                              "dns1123LabelPrefix",
                                              "dns1123SubdomainPrefix",
                                              "dns1035LabelPrefix",
                                              "labelValue",
                                              "uri",
                                              "uuid",
                                              "byte",
                                              "date",
                                              "datetime"};

Value named_format(Budget& budget, const Arguments& a) {
  TAKE_TEXT(name, a[0])
  if (std::ranges::find(kNamedFormats, std::string_view(name)) == std::end(kNamedFormats))
    return Value::none();
  return Value::some(Value(std::make_shared<const Format>(Format{name})));
}
Value known_format(Budget& budget, const Arguments& a) {
  const Value named = named_format(budget, a);
  const auto* found = named.part<Optional>();
  return found == nullptr || found->value.empty() ? Value::fault("no such format") : found->value.front();
}
Value validate(Budget& budget, const Arguments& a) {
  const auto* named = a[0].part<Format>();
  if (named == nullptr)
    return no_overload();
  TAKE_TEXT(text, a[1])
  std::string fault = name_format_fault(named->name, text);
  return fault.empty() ? Value::none() : Value::some(Value::list({Value::text(std::move(fault))}));
}

std::optional<Semver> parse_semver(std::string_view text) {
  Semver version;
  const std::size_t plus = text.find('+');
  if (plus != text.npos && (plus + 1 == text.size() || !std::ranges::all_of(text.substr(plus + 1), [](char c) {
                              return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
                            })))
    return std::nullopt;
  text = text.substr(0, plus);
  const std::size_t dash = text.find('-');
  const auto numbers = split(text.substr(0, dash), '.');
  if (numbers.size() != 3)
    return std::nullopt;
  std::int64_t* const parts[] = {&version.major, &version.minor, &version.patch};
  for (std::size_t at = 0; at < 3; ++at) {
    const auto number = parse_uint(numbers[at]);
    if (!number || *number > INT64_MAX || (numbers[at].size() > 1 && numbers[at][0] == '0'))
      return std::nullopt;
    *parts[at] = static_cast<std::int64_t>(*number);
  }
  if (dash == text.npos)
    return version;
  version.pre = split(text.substr(dash + 1), '.');
  const bool legal = !version.pre.empty() && std::ranges::all_of(version.pre, [](const std::string& part) {
    return !part.empty() &&
           std::ranges::all_of(part, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-'; });
  });
  return legal ? std::optional(version) : std::nullopt;
}

Value semver(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  auto version = parse_semver(text);
  return version ? Value(std::make_shared<const Semver>(std::move(*version)))
                 : Value::fault(format("{} is no version", quoted(text)));
}
Value is_semver(Budget& budget, const Arguments& a) {
  TAKE_TEXT(text, a[0])
  return Value(parse_semver(text).has_value());
}
template <std::int64_t Semver::*part>
Value of_semver(Budget&, const Arguments& a) {
  const auto* version = a[0].part<Semver>();
  return version == nullptr ? no_overload() : Value(version->*part);
}

}  // namespace

Value convert_kube_text(const Value& value) {
  if (const auto* address = value.as<Address>())
    return Value::text(address_text(*address));
  if (const auto* network = value.as<Network>())
    return Value::text(format("{}/{}", address_text(network->address), network->bits));
  return no_overload();
}

std::vector<FunctionRow> kube_functions() {
  return {
      {"quantity", to_quantity, {"@(string) quantity"}},
      {"isQuantity", is_quantity, {"@(string) bool"}},
      {"isInteger", is_integer, {"quantity.isInteger() bool"}},
      {"asInteger", as_integer, {"quantity.asInteger() int"}},
      {"asApproximateFloat", as_approximate_float, {"quantity.asApproximateFloat() double"}},
      {"sign", sign, {"quantity.sign() int", "@(quantity) int"}},
      {"add", add_quantity, {"quantity.add(quantity) quantity", "quantity.add(int) quantity"}},
      {"sub", sub_quantity, {"quantity.sub(quantity) quantity", "quantity.sub(int) quantity"}},
      {"isLessThan", is_less, {"quantity.isLessThan(quantity) bool", "semver.isLessThan(semver) bool"}},
      {"isGreaterThan", is_greater, {"quantity.isGreaterThan(quantity) bool", "semver.isGreaterThan(semver) bool"}},
      {"compareTo", compare_to, {"quantity.compareTo(quantity) int", "semver.compareTo(semver) int"}},
      {"ip", ip, {"@(string) ip", "cidr.ip() ip"}},
      {"isIP", is_ip, {"@(string) bool"}},
      {"ip.isCanonical", is_canonical, {"@(string) bool"}},
      {"family", family, {"ip.family() int"}},
      {"isUnspecified", of_address<unspecified>, {"ip.isUnspecified() bool"}},
      {"isLoopback", of_address<loopback>, {"ip.isLoopback() bool"}},
      {"isLinkLocalMulticast", of_address<link_local_multicast>, {"ip.isLinkLocalMulticast() bool"}},
      {"isLinkLocalUnicast", of_address<link_local_unicast>, {"ip.isLinkLocalUnicast() bool"}},
      {"isGlobalUnicast", of_address<global_unicast>, {"ip.isGlobalUnicast() bool"}},
      {"cidr", cidr, {"@(string) cidr"}},
      {"isCIDR", is_cidr, {"@(string) bool"}},
      {"containsIP", contains_ip, {"cidr.containsIP(ip) bool", "cidr.containsIP(string) bool"}},
      {"containsCIDR", contains_cidr, {"cidr.containsCIDR(cidr) bool", "cidr.containsCIDR(string) bool"}},
      {"prefixLength", prefix_length, {"cidr.prefixLength() int"}},
      {"masked", masked, {"cidr.masked() cidr"}},
      {"url", to_url, {"@(string) url"}},
      {"isURL", is_url, {"@(string) bool"}},
      {"getScheme", of_url<&Url::scheme>, {"url.getScheme() string"}},
      {"getHost", of_url<&Url::host>, {"url.getHost() string"}},
      {"getHostname", of_url<&Url::hostname>, {"url.getHostname() string"}},
      {"getPort", of_url<&Url::port>, {"url.getPort() string"}},
      {"getEscapedPath", of_url<&Url::escaped_path>, {"url.getEscapedPath() string"}},
      {"getQuery", url_query, {"url.getQuery() map(string, list(string))"}},
      {"format.named", named_format, {"@(string) optional(format)"}},
      {"format.known", known_format, {"@(string) format"}},
      {"validate", validate, {"format.validate(string) optional(list(string))"}},
      {"semver", semver, {"@(string) semver"}},
      {"isSemver", is_semver, {"@(string) bool"}},
      {"major", of_semver<&Semver::major>, {"semver.major() int"}},
      {"minor", of_semver<&Semver::minor>, {"semver.minor() int"}},
      {"patch", of_semver<&Semver::patch>, {"semver.patch() int"}},
  };
}

}  // namespace lockstep::kube::cel
