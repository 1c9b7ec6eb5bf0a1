#include "controller/visit.h"

#include "base/text.h"
#include "wire/codec.h"

namespace lockstep {

std::string Visit::node() const {
  const Peer& peer = http().peer;
  return peer.how == Peer::How::kForwarded ? peer.certificate_name.substr(peer.certificate_name.find(':') + 1) : "";
}

std::string_view Visit::query(std::string_view name) const {
  const auto it = http().query.find(name);
  return it == http().query.end() ? std::string_view{} : std::string_view(it->second);
}

void Visit::answer(std::string json) const { exchange->respond({200, "application/json", std::move(json), {}}); }

void Visit::text(std::string body) const { exchange->respond({200, "text/plain; charset=utf-8", std::move(body), {}}); }

void Visit::refuse(const Error& error, int status) const {
  if (status == 0)
    status = http_status_of(error.code);
  // Rates and queues are refused by name, the rest by what kind of refusal it is.
  const bool crowded = status == 429 && (error.field == "rate" || error.field == "pending" || error.field == "waits");
  if (refusals)
    refusals->count(crowded && error.field == "rate"      ? "rate"
                    : crowded && error.field == "pending" ? "pending"
                    : crowded                             ? "waits"
                    : status == 413                       ? "size"
                    : status == 429                       ? "quota"
                    : status == 401 || status == 403      ? "rights"
                    : status == 404                       ? "not_found"
                    : status < 500                        ? "invalid"
                                                          : "unavailable");
  HttpResponse response{status, "application/json", encode_error(error), {}};
  if (crowded)
    response.headers["Retry-After"] = "1";
  exchange->respond(std::move(response));
}

std::string payer_name(const Peer& peer) {
  switch (peer.how) {
    case Peer::How::kUnixSocket: return format("user {}", peer.uid);
    case Peer::How::kForwarded:
      // A compute node speaks for users of the cluster, a broker for those of its realm.
      return peer.realm.empty() || peer.realm == "local" ? format("user {}", peer.uid)
                                                         : format("user {} of {}", peer.uid, peer.realm);
    case Peer::How::kCertificate: return format("certificate {}", peer.certificate_name);
    case Peer::How::kNobody: break;
  }
  return peer.address.empty() ? "a stranger" : format("address {}", peer.address);
}

}  // namespace lockstep
