#include "frontends/kube/admission/external_ranges.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kRangesMax = 1024;

std::optional<IpRange> read_range(const std::string& word) {
  const std::size_t slash = word.find('/');
  const auto address = parse_ip(std::string_view(word).substr(0, slash));
  const auto bits = slash == word.npos ? std::optional<std::uint64_t>(32) : parse_uint(word.substr(slash + 1));
  if (!address || !bits || *bits < 8 || *bits > 32)
    return std::nullopt;
  const std::uint32_t rest = *bits == 32 ? 0 : UINT32_MAX >> *bits;
  return IpRange{*address & ~rest, static_cast<std::uint32_t>(*bits)};
}

}  // namespace

ExternalRanges ExternalRanges::parse(std::string_view text) {
  std::string words(text);
  std::ranges::replace(words, ',', ' ');
  ExternalRanges out;
  for (const std::string& word : split_words(words))
    if (const auto range = read_range(word); range && out.ranges_.size() < kRangesMax)
      out.ranges_.push_back(*range);
  return out;
}

ExternalRanges ExternalRanges::of(const Object* map) {
  return map ? parse(text_in(part(parse_own(map->body.get()), "data"), "ranges")) : ExternalRanges();
}

ExternalRanges ExternalRanges::of(const Tables& tables) {
  const auto at = tables.objects.find({"configmaps", kExternalSpace, kExternalName});
  return of(at == tables.objects.end() ? nullptr : at->second.get());
}

bool ExternalRanges::contains(std::uint32_t address) const {
  return std::ranges::any_of(ranges_, [&](const IpRange& range) {
    return address >= range.first && (range.prefix == 32 ? address == range.first : range.contains(address));
  });
}

std::vector<std::string> external_addresses(const json::value& service) {
  const json::value& spec = part(service, "spec");
  std::vector<std::string> out = texts_in(spec, "externalIPs");
  for (const json::value& one : list_in(part(part(service, "status"), "loadBalancer"), "ingress"))
    out.push_back(text_in(one, "ip"));
  std::erase_if(out, [](const std::string& one) { return !parse_ip(one); });
  return out;
}

}  // namespace lockstep::kube
