#include "io/http_parser.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

#include "base/http_head.h"
#include "base/text.h"

namespace lockstep {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

namespace {

constexpr std::size_t kChunkSizeBytes = 32;  // of a chunk's line, besides its extensions

// Beast's parser, writing straight into an HttpRequest.
class RequestParser final : public http::basic_parser<true> {
 public:
  explicit RequestParser(std::size_t header_bytes) : line_bytes_(header_bytes) {
    header_limit(static_cast<std::uint32_t>(header_bytes));
    body_limit(boost::none);  // ours to judge, when the head is known
  }

  HttpRequest request;
  bool expects_continue = false;
  bool has_upgrade = false;
  bool takes_chunks = false;
  bool is_allowed = false;       // the body may come
  std::optional<Error> unclear;  // its head could be understood in two ways

 private:
  static std::string text(string_view view) { return {view.data(), view.size()}; }

  void judge(Result<void> framing, error_code& error) {
    if (framing.ok())
      return;
    unclear = std::move(framing).error();
    error = http::error::bad_field;
  }

  void on_request_impl(http::verb, string_view method, string_view target, int version, error_code& error) override {
    takes_chunks = version >= 11;
    request.method = text(method);
    if (!split_target({target.data(), target.size()}, request))
      error = http::error::bad_target;
  }
  void on_response_impl(int, string_view, int, error_code&) override {}

  void on_field_impl(http::field name, string_view name_text, string_view value, error_code& error) override {
    if (is_header_done()) {  // behind the last chunk: what was judged with the head does not change any more
      trailer_bytes_ += name_text.size() + value.size();
      if (trailer_bytes_ > line_bytes_)
        error = http::error::header_limit;
      return;
    }
    if (name == http::field::expect && boost::beast::iequals(value, "100-continue"))
      expects_continue = true;
    if (name == http::field::upgrade)
      has_upgrade = true;
    std::string key = text(name_text);
    for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (judge(framing_.take(key, {value.data(), value.size()}), error); error)
      return;
    auto [it, is_new] = request.headers.try_emplace(std::move(key), value.data(), value.size());
    if (!is_new)
      it->second.append(", ").append(value.data(), value.size());
  }
  void on_header_impl(error_code& error) override { judge(framing_.settle(takes_chunks ? 1 : 0), error); }

  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    if (length)
      request.body.reserve(std::min<std::uint64_t>(*length, 1 << 20));  // the rest when it really comes
  }
  std::size_t on_body_impl(string_view body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view extensions, error_code& error) override {
    const std::string_view said(extensions.data(), extensions.size());
    if (said.size() > line_bytes_ || said.find_first_of("\r\n") != said.npos)
      error = http::error::bad_chunk_extension;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(error_code&) override {}

  std::size_t line_bytes_, trailer_bytes_ = 0;
  BodyFraming framing_;
};

// Beast joins a line that begins with a blank to the one before; others read it as a field of its own, or not at all.
bool has_folded_line(std::string_view lines) {
  for (std::size_t end = lines.find('\n'); end != lines.npos; end = lines.find('\n', end + 1))
    if (end + 1 < lines.size() && (lines[end + 1] == ' ' || lines[end + 1] == '\t'))
      return true;
  return false;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool unescape(std::string_view text, bool plus_is_space, std::string& out) {
  out.clear();
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size())
        return false;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0 || (high == 0 && low == 0))
        return false;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return true;
}

}  // namespace

bool split_target(std::string_view target, HttpRequest& request) {
  const std::size_t mark = target.find('?');
  if (!unescape(target.substr(0, mark), false, request.path))
    return false;
  if (mark == std::string_view::npos)
    return true;
  std::string_view rest = target.substr(mark + 1);
  std::string key, value;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.empty())
      continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    if (!unescape(pair.substr(0, equals), true, key) ||
        !unescape(pair.substr(std::min(equals + 1, pair.size())), true, value))
      return false;
    if (const auto known = request.query.find(key); known != request.query.end())
      request.earlier.emplace_back(key, known->second);
    request.query[key] = value;
  }
  return true;
}

struct HttpParser::Inner {
  std::size_t header_bytes;
  std::optional<RequestParser> parser{};
  bool started = false;
  bool keep_alive = true, upgrade = false, takes_chunks = false;
  int bad_status = 400;
  std::string bad_reason{};

  std::size_t allowed_bytes = 0;

  bool awaits_permission() const { return parser->is_header_done() && !parser->is_done() && !parser->is_allowed; }
  Fed refuse(std::size_t consumed, int status, std::string why) {
    bad_status = status;
    bad_reason = std::move(why);
    return {Progress::kBad, consumed};
  }
};

HttpParser::HttpParser(std::size_t header_bytes) : inner_(new Inner{.header_bytes = header_bytes}) {
  inner_->parser.emplace(header_bytes);
}
HttpParser::~HttpParser() = default;

HttpParser::Fed HttpParser::feed(std::string_view bytes) {
  auto& parser = *inner_->parser;
  Fed fed;
  if (bytes.empty())
    return fed;
  inner_->started = true;
  if (parser.is_allowed && announced_bytes().value_or(0) > inner_->allowed_bytes)
    return inner_->refuse(0, 413,
                          format("a body of {} bytes where {} are allowed", *announced_bytes(), inner_->allowed_bytes));
  error_code error;
  while (fed.consumed < bytes.size() && !parser.is_done() && !inner_->awaits_permission()) {
    const bool in_head = !parser.is_header_done();
    const std::size_t n =
        parser.put(boost::asio::const_buffer(bytes.data() + fed.consumed, bytes.size() - fed.consumed), error);
    if (in_head && has_folded_line(bytes.substr(fed.consumed, n)))
      return inner_->refuse(fed.consumed, 400, "a header that goes on in the next line");
    fed.consumed += n;
    if (parser.unclear)
      return inner_->refuse(fed.consumed, parser.unclear->code == Errc::kUnsupported ? 501 : 400,
                            parser.unclear->message);
    if (in_head && parser.is_header_done()) {  // what follows the body changes none of these
      inner_->keep_alive = parser.keep_alive();
      inner_->takes_chunks = parser.takes_chunks;
      inner_->upgrade = parser.upgrade() && parser.has_upgrade;
    }
    if (error != http::error::need_more && error)
      return inner_->refuse(fed.consumed,
                            error == http::error::body_limit     ? 413
                            : error == http::error::header_limit ? 431
                                                                 : 400,
                            error.message());
    if (error && n == 0)
      break;
    error = {};
  }
  if (!parser.is_done()) {
    if (inner_->awaits_permission())
      fed.progress = Progress::kHead;
    else if (bytes.size() - fed.consumed > inner_->header_bytes + kChunkSizeBytes)
      return inner_->refuse(fed.consumed, 400, "a line that does not end");  // of a chunk, or behind the last one
    return fed;
  }
  fed.progress = Progress::kMessage;
  return fed;
}

const HttpRequest& HttpParser::head() const { return inner_->parser->request; }
std::optional<std::uint64_t> HttpParser::announced_bytes() const {
  const auto length = inner_->parser->content_length();
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}
void HttpParser::allow_body(std::size_t bytes) {
  inner_->parser->is_allowed = true;
  inner_->allowed_bytes = bytes;
  inner_->parser->body_limit(bytes);  // counts chunks; a length is judged when the next bytes come
}
std::size_t HttpParser::body_bytes() const { return inner_->parser->request.body.size(); }

HttpRequest HttpParser::take() {
  HttpRequest request = std::move(inner_->parser->request);
  inner_->parser.emplace(inner_->header_bytes);
  inner_->started = false;
  return request;
}

bool HttpParser::keep_alive() const { return inner_->keep_alive; }
bool HttpParser::takes_chunks() const { return inner_->takes_chunks; }
bool HttpParser::wants_upgrade() const { return inner_->upgrade; }
bool HttpParser::mid_message() const { return inner_->started; }
bool HttpParser::mid_body() const { return inner_->started && inner_->parser->is_header_done(); }
bool HttpParser::expects_continue() const { return mid_body() && inner_->parser->expects_continue; }
int HttpParser::bad_status() const { return inner_->bad_status; }
const std::string& HttpParser::bad_reason() const { return inner_->bad_reason; }

}  // namespace lockstep
