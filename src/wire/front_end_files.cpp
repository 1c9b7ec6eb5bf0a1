#include "wire/front_end_files.h"

#include "base/text.h"
#include "model/job_fields.h"
#include "wire/fields.h"

namespace lockstep {

namespace wire {

template <class V>
constexpr void describe(V& v, const FrontEndFiles::File*) {
  v.always("path", &FrontEndFiles::File::path, bounded::kPath);
  v("mode", &FrontEndFiles::File::mode);
  v("uid", &FrontEndFiles::File::uid);
  v("data", &FrontEndFiles::File::data, Text{kFrontEndFilesMax});
}

template <class V>
constexpr void describe(V& v, const FrontEndFiles::Volume*) {
  v.always("name", &FrontEndFiles::Volume::name, bounded::kName);
  v("files", &FrontEndFiles::Volume::files, Items{16 << 10});
}

template <class V>
constexpr void describe(V& v, const FrontEndFiles::Variable*) {
  v.always("container", &FrontEndFiles::Variable::container, bounded::kName);
  v.always("name", &FrontEndFiles::Variable::name, Text{4 << 10});
  v("value", &FrontEndFiles::Variable::value, Text{4 << 20, Characters::kAny});
}

template <class V>
constexpr void describe(V& v, const FrontEndFiles::Wait*) {
  v("container", &FrontEndFiles::Wait::container, bounded::kName);
  v("reason", &FrontEndFiles::Wait::reason, bounded::kName);
  v("message", &FrontEndFiles::Wait::message, Text{4 << 10, Characters::kText});
}

template <class V>
constexpr void describe(V& v, const FrontEndFiles::Login*) {
  v("images", &FrontEndFiles::Login::images, bounded::kName);
  v("user", &FrontEndFiles::Login::user, Text{4 << 10, Characters::kAny});
  v("password", &FrontEndFiles::Login::password, Text{64 << 10, Characters::kAny});
}

template <class V>
constexpr void describe(V& v, const FrontEndFiles::Change*) {
  v.always("container", &FrontEndFiles::Change::container, bounded::kName);
  v("image", &FrontEndFiles::Change::image, bounded::kPhrase);
  v("milli_cores", &FrontEndFiles::Change::milli_cores);
  v("cpu_weight", &FrontEndFiles::Change::cpu_weight);
  v("memory_bytes", &FrontEndFiles::Change::memory_bytes);
}

template <class V>
constexpr void describe(V& v, const FrontEndFiles*) {
  v("version", &FrontEndFiles::version, Text{1 << 10});
  v("volumes", &FrontEndFiles::volumes, Items{1 << 10});
  v("variables", &FrontEndFiles::variables, Items{16 << 10});
  v("waits", &FrontEndFiles::waits, Items{1 << 10});
  v("logins", &FrontEndFiles::logins, Items{64});
  v("added", &FrontEndFiles::added, Items{kAddedContainersMax});
  v("changes", &FrontEndFiles::changes, Items{kContainersMax});
  v("log_folder", &FrontEndFiles::log_folder, bounded::kName);
  v("memory_mb", &FrontEndFiles::memory_mb, bounded::Between{0, kMegabytesMax});
}

}  // namespace wire

std::string encode_logins(const std::vector<FrontEndFiles::Login>& logins) {
  FrontEndFiles files;
  files.logins = logins;
  return encode_front_end_files(files);
}

Result<std::vector<FrontEndFiles::Login>> decode_logins(std::string_view text) {
  return std::move(TRY(decode_front_end_files(text)).logins);
}

std::string encode_front_end_files(const FrontEndFiles& files) { return wire::encode_value(files); }

Result<FrontEndFiles> decode_front_end_files(std::string_view text) {
  if (text.size() > kFrontEndFilesMax)
    return invalid(format("has {} bytes; {} are allowed", text.size(), kFrontEndFilesMax));
  return wire::decode_value<FrontEndFiles>(text, wire::Origin::kStranger);
}

std::optional<std::string> bytes_from_base64(std::string_view text) {
  const auto value_of = [](char c) -> int {
    if (c >= 'A' && c <= 'Z')
      return c - 'A';
    if (c >= 'a' && c <= 'z')
      return c - 'a' + 26;
    if (c >= '0' && c <= '9')
      return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  if (text.size() % 4 != 0)
    return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int value = value_of(c);
    if (value < 0)
      return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xffffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      out.push_back(static_cast<char>(bits >> held & 0xff));
    }
  }
  return out;
}

}  // namespace lockstep
