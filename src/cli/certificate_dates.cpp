#include "cli/certificate_dates.h"

#include <time.h>

#include <string>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr unsigned char kSequence = 0x30, kInteger = 0x02, kVersion = 0xa0, kUtcTime = 0x17, kGeneralizedTime = 0x18;

int base64_value(char c) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto at = kLetters.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

std::string from_base64(std::string_view text) {
  std::string out;
  unsigned bits = 0, held = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0)
      continue;  // line ends, and the = at the end
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xffffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>(bits >> held & 0xff);
    }
  }
  return out;
}

// One element of DER: its tag and what is in it.
struct Element {
  unsigned char tag = 0;
  std::string_view inside;
};

// Takes the first element off; nullopt where the bytes are none.
std::optional<Element> take(std::string_view& bytes) {
  if (bytes.size() < 2)
    return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  std::size_t length = byte(1), head = 2;
  if (length >= 0x80) {
    const std::size_t digits = length & 0x7f;
    if (digits == 0 || digits > 3 || bytes.size() < head + digits)
      return std::nullopt;
    length = 0;
    for (std::size_t i = 0; i < digits; ++i) length = length << 8 | byte(head + i);
    head += digits;
  }
  if (bytes.size() - head < length)
    return std::nullopt;
  const Element out{byte(0), bytes.substr(head, length)};
  bytes.remove_prefix(head + length);
  return out;
}

std::optional<Element> take(std::string_view& bytes, unsigned char tag) {
  const auto element = take(bytes);
  return element && element->tag == tag ? element : std::nullopt;
}

// "260301120000Z", or with four digits of the year.
std::optional<std::int64_t> seconds_of(const Element& when) {
  const std::size_t year_digits = when.tag == kGeneralizedTime ? 4 : 2;
  if ((when.tag != kUtcTime && when.tag != kGeneralizedTime) || when.inside.size() != year_digits + 11 ||
      when.inside.back() != 'Z')
    return std::nullopt;
  const auto part = [&](std::size_t at, std::size_t digits) {
    return static_cast<int>(parse_uint(when.inside.substr(at, digits)).value_or(0));
  };
  int year = part(0, year_digits);
  if (when.tag == kUtcTime)
    year += year < 50 ? 2000 : 1900;
  tm t{};
  t.tm_year = year - 1900;
  t.tm_mon = part(year_digits, 2) - 1;
  t.tm_mday = part(year_digits + 2, 2);
  t.tm_hour = part(year_digits + 4, 2);
  t.tm_min = part(year_digits + 6, 2);
  t.tm_sec = part(year_digits + 8, 2);
  return timegm(&t);
}

}  // namespace

std::optional<CertificateDates> certificate_dates(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----", kEnd = "-----END CERTIFICATE-----";
  const auto begin = pem.find(kBegin);
  const auto end = begin == pem.npos ? pem.npos : pem.find(kEnd, begin);
  if (end == pem.npos)
    return std::nullopt;
  const std::string der = from_base64(pem.substr(begin + kBegin.size(), end - begin - kBegin.size()));
  std::string_view rest = der;
  const auto certificate = take(rest, kSequence);
  rest = certificate ? certificate->inside : std::string_view();
  const auto signed_part = take(rest, kSequence);
  rest = signed_part ? signed_part->inside : std::string_view();
  if (!rest.empty() && static_cast<unsigned char>(rest[0]) == kVersion)
    (void)take(rest);
  const bool in_order = take(rest, kInteger) && take(rest, kSequence) && take(rest, kSequence);  // serial, how, by whom
  const auto validity = in_order ? take(rest, kSequence) : std::nullopt;
  rest = validity ? validity->inside : std::string_view();
  const auto from = take(rest), until = take(rest);
  const auto from_s = from ? seconds_of(*from) : std::nullopt, until_s = until ? seconds_of(*until) : std::nullopt;
  return from_s && until_s ? std::optional(CertificateDates{*from_s, *until_s}) : std::nullopt;
}

}  // namespace lockstep
