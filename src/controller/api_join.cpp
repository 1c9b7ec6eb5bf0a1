// How nodes come in: one-time tokens, certificates, links.
#include "base/text.h"
#include "controller/api.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

constexpr std::string_view kNodePrefix = "node:";
constexpr std::string_view kBrokerPrefix = "broker:";
constexpr std::string_view kLinkProtocol = "lockstep-link/1";

std::string role_text(JoinToken::Role role, const std::string& realm) {
  return role == JoinToken::Role::kBroker ? std::string(kBrokerPrefix) + realm : "compute";
}

bool good_node_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 && name.front() != '-' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") ==
             std::string_view::npos;
}

}  // namespace

void Api::make_token(Visit visit) {
  const auto body = decode_token_request(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  if (body->role == JoinToken::Role::kBroker && body->realm.empty())
    return visit.refuse(invalid("a broker speaks for the users of a realm: name it", "realm"));
  if (!body->node.empty() && !good_node_name(body->node))
    return visit.refuse(invalid(format("\"{}\" is no host name", body->node), "node"));
  JoinToken token;
  token.meta.name = powers_.random_hex(6);
  const std::string secret = powers_.random_hex(24);
  token.secret_sha256 = powers_.sha256_hex(secret);
  token.role = body->role;
  token.realm = body->realm;
  token.node = body->node;
  token.expires = world_.clock.now() + seconds(body->ttl_s);
  std::string text = format("{}.{}.{}", token.meta.name, secret, powers_.ca_fingerprint);
  const Caller caller = visit.caller;
  world_.core.submit({caller, PutToken{std::move(token)}}, {},
                     [visit = std::move(visit), text = std::move(text)](Result<Answer> answer) {
                       if (answer.ok())
                         visit.answer(encode_token_answer(text));
                       else
                         visit.refuse(answer.error());
                     });
}

void Api::join(Visit visit) {
  const auto body = decode_join_request(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  if (!good_node_name(body->node))
    return visit.refuse(invalid(format("\"{}\" is no host name", body->node), "node"));
  const auto parts = split(body->token, '.');
  const auto known = parts.size() < 2 ? world_.view.tables().tokens.end() : world_.view.tables().tokens.find(parts[0]);
  const Error no_token = denied("the token is unknown, used or expired: make a new one with `lockstep node token`");
  if (known == world_.view.tables().tokens.end())
    return visit.refuse(no_token);
  // Signed first, so that a request that cannot be signed does not use the token up; handed out only once it is
  // redeemed.
  JoinAnswer answer;
  answer.role = known->second->role;
  answer.ca = powers_.ca_pem;
  auto certificate = powers_.sign(body->csr, std::string(kNodePrefix) + body->node,
                                  role_text(known->second->role, known->second->realm));
  if (!certificate.ok())
    return visit.refuse(certificate.error());
  answer.certificate = std::move(*certificate);
  RedeemToken redeem{parts[0], powers_.sha256_hex(parts[1]), body->node, world_.clock.now()};
  world_.core.submit({{UserId{}, true}, std::move(redeem)}, {},
                     [visit = std::move(visit), answer = std::move(answer)](Result<Answer> done) {
                       if (done.ok())
                         visit.answer(encode(answer));
                       else
                         visit.refuse(done.error());
                     });
}

void Api::agent_link(Visit visit) {
  const Peer& peer = visit.http().peer;
  const std::string_view name = peer.certificate_name, role = peer.certificate_role;
  const bool broker = role.starts_with(kBrokerPrefix);
  if (peer.how != Peer::How::kCertificate || !name.starts_with(kNodePrefix) || (role != "compute" && !broker))
    return visit.refuse(denied("links are for nodes that have joined: their certificate is missing"), 401);
  const auto asked = visit.http().headers.find("upgrade");
  if (asked == visit.http().headers.end() || asked->second != kLinkProtocol)
    return visit.refuse(invalid(format("this is a stream: ask for an upgrade to {}", kLinkProtocol)), 426);
  std::string node(name.substr(kNodePrefix.size()));
  std::string realm(broker ? role.substr(kBrokerPrefix.size()) : std::string_view{});
  if (auto stream = visit.exchange->upgrade(std::string(kLinkProtocol)))
    world_.links.add(std::move(stream), std::move(node), std::move(realm));
}

}  // namespace lockstep
