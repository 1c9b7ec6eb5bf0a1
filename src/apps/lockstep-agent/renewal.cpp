#include "renewal.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/https_client.h"
#include "wire/api.h"

namespace lockstep {

namespace {

constexpr Duration kLookAtMost = hours(1), kLookAtLeast = millis(200), kPatience = seconds(10);

std::string text_or_nothing(const std::string& path) {
  auto text = read_plain(path, Links::kRefused);
  return text ? std::move(*text) : std::string();
}

Result<void> rename_durably(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return Error{Errc::kIo, format("cannot rename {}", from), {}};
  const std::string folder = to.substr(0, to.rfind('/'));
  if (const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
  return {};
}

// The key first: a certificate whose key is in its place already is known by it.
Result<void> adopt(const TlsFiles& next, const TlsFiles& own) {
  TRY(rename_durably(next.key, own.key));
  return rename_durably(next.certificate, own.certificate);
}

void drop(const TlsFiles& next) {
  ::unlink(next.certificate.c_str());
  ::unlink(next.key.c_str());
}

TlsFiles files_of(const AgentFile& settings) { return {settings.ca, settings.certificate, settings.key}; }

}  // namespace

TlsFiles Renewal::next_of(const TlsFiles& files) {
  return {files.ca, files.certificate + ".next", files.key + ".next"};
}

Result<bool> settle_renewal(const TlsFiles& files) {
  const TlsFiles next = Renewal::next_of(files);
  const std::string certificate = text_or_nothing(next.certificate), key = text_or_nothing(next.key);
  if (!key.empty() && belong_together(key, certificate))
    return true;
  if (key.empty() && !certificate.empty() && belong_together(text_or_nothing(files.key), certificate))
    TRY(rename_durably(next.certificate, files.certificate));
  else
    drop(next);
  return false;
}

Result<void> fetch_next_certificate(const AgentFile& settings) {
  const TlsFiles own = files_of(settings), next = Renewal::next_of(own);
  HttpsServer server{
      .host = settings.controller_host, .port = settings.controller_port, .ca_file = own.ca, .ca_sha256 = {}};
  server.certificate = own.certificate;
  server.key = own.key;
  const KeyAndRequest fresh = TRY(make_key_and_request("node"));  // the controller knows its name
  const auto reply = TRY(https_call(server, "/v1/renew", encode(RenewRequest{fresh.request_pem}), kPatience));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  const JoinAnswer answer = TRY(decode_join_answer(reply.body));
  if (!belong_together(fresh.key_pem, answer.certificate))
    return Error{Errc::kCorrupt, "the controller's answer holds no certificate for the new key", {}};
  TRY(write_file_durably(next.key, fresh.key_pem, 0600));
  return write_file_durably(next.certificate, answer.certificate, 0644);
}

Renewal::Renewal(EventLoop& loop, const Clock& clock, const AgentFile& settings, Events events)
    : loop_(loop),
      clock_(clock),
      settings_(settings),
      events_(std::move(events)),
      own_(files_of(settings)),
      fetching_(loop) {
  const auto settled = settle_renewal(own_);
  has_next_ = uses_next_ = settled && *settled;
}

void Renewal::start() { look(); }

// Between a third and a quarter of its life before its end, at a point that the certificate's number chooses: nodes
// that joined together do not come together.
bool Renewal::is_due() const {
  const auto facts = read_certificate(text_or_nothing(own_.certificate));
  if (!facts)
    return false;
  constexpr std::int64_t kPoints = 1000;
  const auto point = static_cast<std::int64_t>(std::hash<std::string>{}(facts->serial) % kPoints);
  const Duration before{facts->life.us / 3 - facts->life.us / 12 / kPoints * point};
  return clock_.wall().us >= facts->expires.us - before.us;
}

void Renewal::look() {
  const auto facts = read_certificate(text_or_nothing(own_.certificate));
  const Duration life = facts ? facts->life : kLookAtMost;
  loop_.after(Duration{std::clamp(life.us / 50, kLookAtLeast.us, kLookAtMost.us)}, [this] { look(); });
  if (is_linked_ && !fetching_.is_out() && !has_next_ && is_due())
    begin();
}

void Renewal::begin() {
  const auto begun = fetching_.start([settings = settings_] { return fetch_next_certificate(settings); },
                                     [this](const Result<void>& result) { fetched(result); });
  if (!begun)
    fetched(begun);
}

void Renewal::fetched(const Result<void>& result) {
  if (!result)
    return events_.tell(format("the certificate of this node is not renewed yet: {}", result.error().message));
  has_next_ = uses_next_ = true;
  events_.next();
}

void Renewal::welcomed() {
  is_linked_ = true;
  if (!has_next_)
    return;
  const auto kept = uses_next_ ? adopt(next_of(own_), own_) : Result<void>();
  if (!kept)
    return events_.tell(format("the renewed certificate of this node cannot be kept: {}", kept.error().message));
  if (!uses_next_)
    drop(next_of(own_));
  const bool is_new = std::exchange(uses_next_, false);
  has_next_ = false;
  if (is_new)
    events_.adopted(own_);
}

void Renewal::turned_away() {
  is_linked_ = false;
  if (has_next_)
    uses_next_ = !uses_next_;
}

}  // namespace lockstep
