// How nodes come in: tokens, certificates, links.
#include "base/hostlist.h"
#include "base/ip_range.h"
#include "base/text.h"
#include "controller/api.h"
#include "core/nodes.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

constexpr std::string_view kNodePrefix = "node:";
constexpr std::string_view kBrokerPrefix = "broker:";
constexpr std::string_view kLinkProtocol = "lockstep-link/1";

std::string role_text(JoinToken::Role role, const std::string& realm) {
  return role == JoinToken::Role::kBroker ? std::string(kBrokerPrefix) + realm : "compute";
}

Result<void> check_names(const TokenRequest& ask) {
  if (ask.node.empty() && !ask.any_name)
    return invalid("say which names the token may give: node (a host list), or any_name for any that nobody has",
                   "node");
  if (!ask.node.empty() && ask.any_name)
    return invalid("a token is for the nodes that are named, or for any name: not both", "any_name");
  if (ask.node.empty() && ask.replace)
    return invalid("name the node that may be replaced", "node");
  return {};
}

// Whoever has its secret may learn what became of it.
Result<void> check_token(const JoinToken& token, Instant now) {
  if (token.used)
    return denied("the token has been used as often as it may be: make a new one with `lockstep node token`");
  if (token.expires <= now)
    return denied(format("the token expired {} s ago: make a new one with `lockstep node token`",
                         (now - token.expires).seconds()));
  return {};
}

}  // namespace

// What is sent to this machine must find it, from every node.
Result<void> Api::check_not_own(const std::string& task_range) const {
  const auto range = parse_ip_range(task_range);
  if (!range || !powers_.own_addresses)
    return {};
  for (const std::string& one : powers_.own_addresses())
    if (const auto address = parse_ip(one); address && range->contains(*address))
      return conflict(format("task_range {} holds an address of the controller's machine, {}", task_range, one));
  return {};
}

void Api::make_token(Visit visit) {
  if (!visit.caller.admin)
    return visit.refuse(denied("join tokens are made by administrators"));
  const auto body = decode_token_request(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  if (const auto named = check_names(*body); !named.ok())
    return visit.refuse(named.error());
  JoinToken token;
  token.meta.name = powers_.random_hex(6);
  const std::string secret = powers_.random_hex(24);
  token.secret_sha256 = powers_.sha256_hex(secret);
  token.role = body->role;
  token.realm = body->realm;
  token.node = body->node;
  token.expires = world_.clock.now() + seconds(body->ttl_s);
  token.uses_left = body->uses;
  token.replace = body->replace;
  token.trust_administrators = body->trust_administrators;
  token.address = body->address;
  token.task_range = body->task_range;
  if (const auto free = check_not_own(body->task_range); !free.ok())
    return visit.refuse(free.error());
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

// The view may be a moment old: whether a token is good is decided by the core. This keeps strangers from its door, who
// do not know a secret.
const JoinToken* Api::token_of(const JoinRequest& ask) const {
  const auto parts = split(ask.token, '.');
  const auto& tokens = world_.view.tables().tokens;
  const auto known = parts.size() == 3 ? tokens.find(parts[0]) : tokens.end();
  if (known == tokens.end() || !equal_in_constant_time(known->second->secret_sha256, powers_.sha256_hex(parts[1])))
    return nullptr;
  return known->second.get();
}

void Api::join(Visit visit) {
  const auto body = decode_join_request(visit.http().body);
  const JoinToken* token = body.ok() ? token_of(*body) : nullptr;
  if (!token)
    return refuse_stranger(std::move(visit), body.ok() ? denied("the token is unknown, used or expired: make a new one "
                                                                "with `lockstep node token`")
                                                       : body.error());
  if (const auto good = check_token(*token, world_.clock.now()); !good.ok())
    return visit.refuse(good.error());
  if (!is_node_name(body->node) || is_word_for_nodes(body->node))
    return visit.refuse(invalid(format("\"{}\" is no host name", body->node), "node"));
  // Signed first, so that a request that cannot be signed does not use the token up; handed out only once it is
  // redeemed, by the entry that says which certificate counts from now on.
  auto made = powers_.sign(body->csr, std::string(kNodePrefix) + body->node, role_text(token->role, token->realm));
  if (!made.ok())
    return visit.refuse(made.error());
  JoinAnswer answer{std::move(made->pem), powers_.ca_pem, token->role, {}, {}};
  const auto parts = split(body->token, '.');
  RedeemToken redeem{parts[0], powers_.sha256_hex(parts[1]), body->node, world_.clock.now(), made->serial};
  world_.core.submit({{UserId{}, true}, std::move(redeem)}, {},
                     [visit = std::move(visit), answer = std::move(answer)](Result<Answer> done) mutable {
                       if (!done.ok())
                         return visit.refuse(done.error());
                       answer.address = done->address;
                       answer.task_range = done->task_range;
                       visit.answer(encode(answer));
                     });
}

// Whoever knows a secret is never kept waiting by those who share an address with them and know none.
void Api::refuse_stranger(Visit visit, const Error& error) {
  const std::string& address = visit.http().peer.address;
  const Instant now = world_.clock.now();
  if (!join_guard_.may_try(address, now))
    return visit.refuse({Errc::kExhausted, "too many tries to join failed from your address: wait a minute", {}});
  join_guard_.count(address, now);
  visit.refuse(error);
}

// The successor of the certificate that the caller shows, for the same name in the same role. It counts once it has
// said hello; until then both do.
void Api::renew(Visit visit) {
  const auto holder = link_holder(visit.http().peer);
  if (!holder.ok())
    return visit.refuse(holder.error(), 401);
  const auto body = decode_renew_request(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  const Peer& peer = visit.http().peer;
  // Each is an entry of the log and a word to every other agent.
  if (!renewals_.may_try(holder->node_name, world_.clock.now()))
    return visit.refuse({Errc::kExhausted, "the certificate was renewed too often just now: wait a minute", {}});
  renewals_.count(holder->node_name, world_.clock.now());
  auto made = powers_.sign(body->csr, peer.certificate_name, peer.certificate_role);
  if (!made.ok())
    return visit.refuse(made.error());
  const JoinAnswer answer{std::move(made->pem),
                          powers_.ca_pem,
                          holder->realm.empty() ? JoinToken::Role::kCompute : JoinToken::Role::kBroker,
                          {},
                          {}};
  world_.core.submit({{UserId{}, true}, RenewCertificate{holder->node_name, holder->certificate, made->serial}}, {},
                     [visit = std::move(visit), answer](Result<Answer> done) {
                       if (done.ok())
                         visit.answer(encode(answer));
                       else
                         visit.refuse(done.error());
                     });
}

// The core decides at the hello; who is known to be cut off gets no link to say it on.
Result<LinkHub::Holder> Api::link_holder(const Peer& peer) const {
  const std::string_view name = peer.certificate_name, role = peer.certificate_role;
  const bool broker = role.starts_with(kBrokerPrefix);
  if (peer.how != Peer::How::kCertificate || !name.starts_with(kNodePrefix) || (role != "compute" && !broker) ||
      peer.certificate_serial.empty())
    return denied("links are for nodes that have joined: their certificate is missing");
  LinkHub::Holder holder{std::string(name.substr(kNodePrefix.size())), peer.certificate_serial,
                         std::string(broker ? role.substr(kBrokerPrefix.size()) : std::string_view{}), peer.address};
  if (const Node* node = world_.view.tables().node(holder.node_name))
    TRY(check_certificate(*node, holder.certificate));
  return holder;
}

void Api::agent_link(Visit visit) {
  auto holder = link_holder(visit.http().peer);
  if (!holder.ok())
    return visit.refuse(holder.error(), 401);
  const auto asked = visit.http().headers.find("upgrade");
  if (asked == visit.http().headers.end() || asked->second != kLinkProtocol)
    return visit.refuse(invalid(format("this is a stream: ask for an upgrade to {}", kLinkProtocol)), 426);
  if (auto stream = visit.exchange->upgrade(std::string(kLinkProtocol)))
    world_.links.add(std::move(stream), std::move(*holder));
}

}  // namespace lockstep
