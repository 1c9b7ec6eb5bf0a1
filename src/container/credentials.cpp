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

}  // namespace

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
