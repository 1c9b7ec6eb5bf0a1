#include "shim/http_look.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kHeadMax = 16 << 10;  // read of an answer, at most
constexpr std::string_view kHttp = "http://", kHttps = "https://";
constexpr std::uint16_t kHttpPort = 80, kHttpsPort = 443;
constexpr std::uint64_t kRedirects[] = {301, 302, 303, 307, 308};

bool is_redirect(std::uint64_t code) { return std::ranges::find(kRedirects, code) != std::end(kRedirects); }

std::string location_in(std::string_view head) {
  for (std::size_t at = head.find('\n'); at != head.npos; at = head.find('\n', at + 1)) {
    const std::string_view line = head.substr(at + 1, head.find('\n', at + 1) - at - 1);
    const std::size_t colon = line.find(':');
    if (colon != line.npos && lower(std::string(line.substr(0, colon))) == "location")
      return std::string(trim(line.substr(colon + 1)));
  }
  return "";
}

bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n <= 0)
      return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// Without line ends, what a server wrote cannot become a header of ours.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) > ' ' && c != '\x7f'; });
}

}  // namespace

std::string http_text(const HttpAsk& ask) {
  std::string host = format("{}:{}", ask.host, ask.port), agent = "lockstep-probe", accept = "*/*", more;
  if (ask.headers)
    for (const auto& [name, value] : *ask.headers) {
      const std::string known = lower(name);
      if (known == "host")
        host = value;
      else if (known == "user-agent")
        agent = value;
      else if (known == "accept")
        accept = value;
      else
        more += format("{}: {}\r\n", name, value);
    }
  std::string text = format("{} {} HTTP/1.1\r\nHost: {}\r\n", ask.post_data.empty() ? "GET" : "POST",
                            ask.path.empty() ? "/" : ask.path, host);
  if (!agent.empty())
    text += format("User-Agent: {}\r\n", agent);
  if (!accept.empty())
    text += format("Accept: {}\r\n", accept);
  text += more;
  if (!ask.post_data.empty())
    text += format("Content-Length: {}\r\n", ask.post_data.size());
  return text + "Connection: close\r\n\r\n" + ask.post_data;
}

std::optional<HttpAnswer> read_http_answer(std::string_view head) {
  const auto words = split_words(std::string(head.substr(0, head.find('\n'))));
  const auto code = words.size() > 1 && words[0].starts_with("HTTP/") ? parse_uint(words[1]) : std::nullopt;
  if (!code)
    return std::nullopt;
  const std::size_t end = std::min(head.find("\r\n\r\n"), head.find("\n\n"));
  return HttpAnswer{*code, is_redirect(*code) ? location_in(head.substr(0, end)) : ""};
}

std::optional<HttpAnswer> http_answer(int fd, const HttpAsk& ask) {
  if (!send_all(fd, http_text(ask)))
    return std::nullopt;
  std::string head;
  char chunk[1024];
  // The first line is enough, unless it leads on.
  const auto is_enough = [&] {
    if (head.find('\n') == head.npos)
      return head.size() >= kHeadMax;
    const auto answer = read_http_answer(head);
    return !answer || !is_redirect(answer->code) || head.size() >= kHeadMax || head.find("\r\n\r\n") != head.npos ||
           head.find("\n\n") != head.npos;
  };
  while (!is_enough()) {
    const ssize_t n = ::recv(fd, chunk, sizeof chunk, 0);
    if (n <= 0)
      break;
    head.append(chunk, static_cast<std::size_t>(n));
  }
  return read_http_answer(head);
}

std::optional<HttpNext> led_on(const HttpAsk& asked, const HttpAnswer& answer) {
  std::string_view to = answer.location;
  to = to.substr(0, to.find('#'));
  if (to.empty() || !is_plain(to))
    return std::nullopt;
  HttpNext next{asked, false};
  next.ask.post_data.clear();
  const bool tls = to.starts_with(kHttps);
  if (tls || to.starts_with(kHttp)) {
    to.remove_prefix(tls ? kHttps.size() : kHttp.size());
    const std::size_t path = std::min(to.find_first_of("/?"), to.size());
    const std::string_view place = to.substr(0, path);
    const std::size_t colon = std::min(place.find(':'), place.size());
    const std::uint64_t usual = tls ? kHttpsPort : kHttpPort;
    const std::uint64_t port = colon < place.size() ? parse_uint(place.substr(colon + 1)).value_or(0) : usual;
    if (place.substr(0, colon) != asked.host || port == 0 || port > UINT16_MAX)
      return std::nullopt;
    next.tls = tls;
    next.ask.port = static_cast<std::uint16_t>(port);
    to.remove_prefix(path);
    next.ask.path = to.starts_with('/') ? std::string(to) : "/" + std::string(to);
    return next;
  }
  if (to.starts_with("//") || to.find("://") < to.find_first_of("/?"))
    return std::nullopt;  // of another host, or in another protocol
  const std::string here = asked.path.substr(0, asked.path.find('?'));
  next.ask.path = to.starts_with('/')   ? std::string(to)
                  : to.starts_with('?') ? here + std::string(to)
                                        : here.substr(0, here.rfind('/') + 1) + std::string(to);
  if (!next.ask.path.starts_with('/'))
    next.ask.path.insert(0, "/");
  return next;
}

}  // namespace lockstep
