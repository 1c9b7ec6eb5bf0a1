#include "container/credentials.h"

#include "base/text.h"
#include "wire/json_text.h"

namespace lockstep {
namespace {

std::string expanded(const std::string& word, const char* (*variable)(const char*)) {
  if (word.size() < 2 || word[0] != '$')
    return word;
  const bool braces = word[1] == '{' && word.back() == '}';
  const std::string name = braces ? word.substr(2, word.size() - 3) : word.substr(1);
  const char* value = variable(name.c_str());
  // "$oauthtoken" is the login that NVIDIA's registry wants, and no variable.
  return value ? value : word;
}

bool matches_label(std::string_view pattern, std::string_view label) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos)
    return pattern == label;
  const std::string_view begin = pattern.substr(0, star), end = pattern.substr(star + 1);
  return label.size() >= begin.size() + end.size() && label.starts_with(begin) && label.ends_with(end);
}

// Label by label, so that a star never stands for a dot.
bool matches_host(std::string_view pattern, std::string_view host) {
  const std::string_view port = pattern.substr(std::min(pattern.size(), pattern.find(':')));
  if (port != host.substr(std::min(host.size(), host.find(':'))))
    return false;
  const auto wanted = split(pattern.substr(0, pattern.find(':')), '.'),
             given = split(host.substr(0, host.find(':')), '.');
  if (wanted.size() != given.size())
    return false;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!matches_label(wanted[i], given[i]))
      return false;
  return true;
}

}  // namespace

bool login_is_for(std::string_view images, std::string_view image) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (images.starts_with(scheme))
      images.remove_prefix(scheme.size());
  std::string_view host = images.substr(0, images.find('/'));
  std::string_view path = images.substr(host.size());
  if (path == "/v1" || path == "/v2" || path.starts_with("/v1/") || path.starts_with("/v2/"))
    path.remove_prefix(3);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (host == "index.docker.io" || host == "registry-1.docker.io")
    host = "docker.io";
  const std::string_view registry = image.substr(0, image.find('/')), inside = image.substr(registry.size());
  if (host.empty() || !matches_host(host, registry) || !inside.starts_with(path))
    return false;
  return path.empty() || inside.size() == path.size() || inside[path.size()] == '/';
}

std::optional<Credentials> find_credentials(std::string_view netrc, std::string_view machine, std::string_view login,
                                            const char* (*variable)(const char*)) {
  const std::vector<std::string> words = split_words(netrc);
  std::optional<Credentials> entry;
  const auto is_meant = [&] { return entry && (login.empty() || entry->login == login); };
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string& word = words[i];
    const std::string& value = words[i + 1];
    if (word == "machine") {
      if (is_meant())
        break;
      entry = value == machine ? std::optional<Credentials>(Credentials{}) : std::nullopt;
    } else if (entry && word == "login") {
      entry->login = expanded(value, variable);
    } else if (entry && word == "password") {
      entry->password = expanded(value, variable);
    }
  }
  return is_meant() ? entry : std::nullopt;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out.push_back(i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=');
  }
  return out;
}

std::string docker_auth_file(std::string_view registry, const Credentials& credentials) {
  JsonText json;
  json.object().key("auths").object().key(registry).object();
  json.field("auth", base64(credentials.login + ":" + credentials.password)).end().end().end();
  return json.take();
}

}  // namespace lockstep
