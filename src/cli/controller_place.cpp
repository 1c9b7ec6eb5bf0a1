#include "cli/controller_place.h"

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {

namespace {

// A value of {"pid":1,"address":"127.0.0.1","port":6820}: no text in it has quotes.
std::string text_in(const std::string& json, const std::string& key) {
  const auto at = json.find("\"" + key + "\":");
  if (at == std::string::npos)
    return {};
  const auto from = json.find_first_not_of("\"", at + key.size() + 3);
  return from == std::string::npos ? "" : json.substr(from, json.find_first_of("\",}", from) - from);
}

}  // namespace

std::optional<ListenAt> told_listener(const ClusterDir& dir) {
  const auto told = read_plain(dir.file("controller.json"), Links::kRefused, 4096);
  const auto port = parse_uint(text_in(told ? *told : "", "port"));
  if (!port || *port == 0 || *port > 65535)
    return std::nullopt;
  return ListenAt{text_in(*told, "address"), static_cast<std::uint16_t>(*port)};
}

}  // namespace lockstep
