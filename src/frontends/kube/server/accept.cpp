#include "frontends/kube/server/accept.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "frontends/kube/server/indented.h"
#include "frontends/kube/server/target.h"

namespace lockstep::kube {

namespace {

constexpr unsigned kWeightMax = 1000;  // thousandths

// One range of the header: "application/json;as=Table;v=v1;g=meta.k8s.io".
struct MediaRange {
  std::vector<std::string> parts;
  std::string_view type;  // of the first part
  unsigned weight = kWeightMax;

  std::string_view parameter(std::string_view name) const {
    for (const std::string& part : parts) {
      const std::string_view word = trim(part);
      if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
        return word.substr(name.size() + 1);
    }
    return {};
  }
  bool is_any() const { return type.ends_with('*'); }
  bool is_json() const { return type == kJsonType || type == "*/*" || type == "application/*"; }
};

// "0.25"; what is none weighs nothing.
unsigned weight_of(std::string_view text) {
  unsigned weight = 0, digit = kWeightMax;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == 1 && c == '.')
      continue;
    if (c < '0' || c > '9')
      return 0;
    weight += static_cast<unsigned>(c - '0') * digit;
    digit /= 10;
  }
  return std::min(weight, kWeightMax);
}

std::vector<MediaRange> ranges_of(const std::string& header) {
  std::vector<MediaRange> out;
  for (const std::string& one : split(header, ',')) {
    MediaRange& range = out.emplace_back();
    range.parts = split(one, ';');
    range.type = range.parts.empty() ? std::string_view() : trim(range.parts.front());
    if (const std::string_view weight = range.parameter("q"); !weight.empty())
      range.weight = weight_of(weight);
  }
  std::ranges::stable_sort(out, [](const MediaRange& a, const MediaRange& b) {
    return a.weight != b.weight ? a.weight > b.weight : !a.is_any() && b.is_any();
  });
  return out;
}

bool may_stream(const MediaRange& range) {
  const std::string_view stream = range.parameter("stream");
  return stream.empty() || (stream == "watch" && range.type != kYamlType);
}

// Whether the form is served; it is put into `into`.
bool takes_form(const MediaRange& range, Accepted& into) {
  const std::string_view as = range.parameter("as"), version = range.parameter("v");
  if (as.empty())
    return true;
  if (range.parameter("g") != "meta.k8s.io" || (version != "v1" && version != "v1beta1"))
    return false;
  if (as == "Table")
    into.form = Accepted::Form::kTable;
  else if (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList")
    into.form = Accepted::Form::kMetadata;
  else
    return false;
  into.version = version;
  return true;
}

Status refusal(bool protobuf, const std::string& stream) {
  std::vector<std::string> types{std::string(kJsonType) + stream};
  if (stream.empty())
    types.emplace_back(kYamlType);
  if (protobuf)
    types.push_back(std::string(kProtobufType) + stream);
  return Status::not_acceptable(types);
}

}  // namespace

// Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation, and the parser of Accept headers that it uses.
Answered<Accepted> accepted_by(const HttpRequest& http, const Served& served) {
  const std::string header = header_of(http, "accept");
  if (header.empty())
    return Accepted{};
  for (const MediaRange& range : ranges_of(header)) {
    Accepted out;
    out.protobuf = range.type == kProtobufType;
    out.yaml = range.type == kYamlType;
    if (out.protobuf ? !served.protobuf || !range.parameter("as").empty() : !out.yaml && !range.is_json())
      continue;
    if (!takes_form(range, out) || !may_stream(range))
      continue;
    if (out.yaml && served.watch)
      return refusal(served.protobuf, ";stream=watch");
    out.pretty = range.parameter("pretty") == "1";
    return out;
  }
  return refusal(served.protobuf, "");
}

Accepted accepted_of_status(const HttpRequest& http) {
  const std::string header = header_of(http, "accept");
  Accepted out;
  out.pretty = wants_indented(http);
  if (header.empty())
    return out;
  for (const MediaRange& range : ranges_of(header)) {
    out.protobuf = range.type == kProtobufType;
    out.yaml = range.type == kYamlType;
    if ((!out.protobuf && !out.yaml && !range.is_json()) || !range.parameter("as").empty() || !may_stream(range))
      continue;
    out.pretty |= range.parameter("pretty") == "1";
    return out;
  }
  out.protobuf = out.yaml = false;
  out.pretty = true;
  return out;
}

}  // namespace lockstep::kube
