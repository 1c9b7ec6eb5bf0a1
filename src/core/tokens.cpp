#include "core/tokens.h"

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "core/directory.h"
#include "core/node_terms.h"
#include "core/nodes.h"

namespace lockstep {

namespace {

constexpr std::size_t kNamesMax = 10'000;          // of one token
constexpr Duration kHelloWithin = hours(24 * 30);  // of being issued
constexpr std::size_t kRealmMax = 32;              // "broker:REALM" is a certificate's OU

bool is_over(const JoinToken& token, Instant now) {
  const bool spent = token.used || token.expires <= now;
  return spent && std::all_of(token.issued.begin(), token.issued.end(),
                              [now](const IssuedCertificate& issued) { return issued.until <= now; });
}

Result<void> check_names(const JoinToken& token) {
  if (token.node.empty())
    return {};
  const auto names = expand_hostlist(token.node);
  if (!names.ok())
    return invalid(names.error().message, "node");
  if (names->size() > kNamesMax)
    return invalid(format("a join token names {} nodes at most, not {}", kNamesMax, names->size()), "node");
  for (const std::string& name : *names)
    if (!is_node_name(name))
      return invalid(format("\"{}\" is no host name", name), "node");
  return {};
}

Result<void> check_token(const JoinToken& token, Instant now) {
  if (token.meta.name.empty() || token.secret_sha256.empty())
    return invalid("a join token needs a name and a secret", "name");
  if (token.role == JoinToken::Role::kBroker && (!is_node_name(token.realm) || token.realm.size() > kRealmMax))
    return invalid("a broker speaks for the users of a realm: name it, in letters, digits and dashes", "realm");
  if (token.expires <= now || token.expires > now + kTokenLifeMax)
    return invalid(format("a join token lives 1 s to {} days", kTokenLifeMax.seconds() / 86400), "ttl_s");
  if (token.uses_left == 0 || token.uses_left > kTokenUsesMax)
    return invalid(format("a join token may be used 1 to {} times", kTokenUsesMax), "uses");
  if (!token.issued.empty() || token.used)
    return invalid("a new join token has not been used", "used");
  return check_names(token);
}

bool is_named(const JoinToken& token, const std::string& node) {
  if (token.node.empty())
    return true;
  const auto names = expand_hostlist(token.node);
  return names.ok() && std::find(names->begin(), names->end(), node) != names->end();
}

bool has_work(const Txn& txn, NodeId node) {
  const auto it = txn.inner().jobs_on.find(node);
  return it != txn.inner().jobs_on.end() && !it->second.empty();
}

Result<void> check_take_over(const Txn& txn, const JoinToken& token, const Node& node) {
  const std::string& name = node.meta.name;
  if (token.node.empty())
    return conflict(format(
        "there is a node {}, and this join token is for new names: ask for one made for it (`lockstep node token "
        "--node {}`)",
        name, name));
  if (token.replace)
    return {};
  if (node.link != NodeLink::kLost)
    return conflict(
        format("{}, or ask for a join token that may replace it (`lockstep node token --node {} --replace`)",
               not_lost_yet(txn, node), name));
  if (has_work(txn, node.id))
    return conflict(format(
        "node {} holds jobs that are not proven stopped. Wait; or, if its machine will not come back, say so on the "
        "controller's (`lockstep node revoke {} --now`), then join again",
        name, name));
  return {};
}

// The name goes to whoever holds the new certificate. What its old bearer was told to run is fenced as a lost node's
// work is, and the new one is let in when that is done.
// What it says at its first hello is settled as of a new node; its range stays, unless the token names another.
Result<void> hand_over(Txn& txn, NodeId id, const JoinToken& token, const std::string& certificate,
                       const std::string& task_range) {
  Node node = *txn.node(id);
  UpdateNode terms{.address = token.address, .accept = true};
  if (!task_range.empty())
    terms.task_range = task_range;
  TRY(change_terms(txn.tables(), node, terms));
  const bool was_up = node.link != NodeLink::kLost;
  node.certificate = certificate;
  node.next_certificate.clear();
  node.trust_administrators = token.trust_administrators;
  node.replaced = has_work(txn, id);
  ++node.meta.generation;
  const Ref<Node> made = txn.put(std::move(node));
  txn.event(Kind::kNode, made->meta, "CertificateIssued", format("by token {}", token.meta.name));
  return was_up ? node_lost(txn, {id}) : Result<void>{};
}

}  // namespace

Result<Answer> put_token(Txn& txn, const PutToken& ask) {
  TRY(need_admin(txn, "make join tokens"));
  TRY(check_token(ask.token, txn.now()));
  TRY(check_token_terms(txn.tables(), ask.token));
  std::vector<Ref<JoinToken>> over;  // of no use to anybody any more
  for (const auto& [name, token] : txn.tables().tokens)
    if (name != ask.token.meta.name && is_over(*token, txn.now()))
      over.push_back(token);
  if (txn.tables().tokens.size() - over.size() >= kTokensMax)
    return Error{Errc::kExhausted, format("there are {} join tokens: wait until some have expired", kTokensMax), {}};
  for (const Ref<JoinToken>& token : over) txn.remove(token);
  return Answer{.seq = txn.put(JoinToken(ask.token))->meta.seq};
}

Result<Answer> redeem_token(Txn& txn, const RedeemToken& ask) {
  TRY(need_admin(txn, "take a join token"));
  const auto it = txn.tables().tokens.find(ask.token);
  const Error no = denied("this join token is unknown, used or expired: ask for a new one");
  if (it == txn.tables().tokens.end())
    return no;
  const Instant now = std::max(txn.now(), ask.at);
  if (it->second->used || it->second->expires <= now ||
      !equal_in_constant_time(it->second->secret_sha256, ask.secret_sha256))
    return no;
  if (!is_node_name(ask.node) || is_word_for_nodes(ask.node))
    return invalid(format("\"{}\" is no host name", ask.node), "node");
  if (!is_named(*it->second, ask.node))
    return denied(format("this join token is for node {}, not for {}", it->second->node, ask.node));
  const Node* known = txn.tables().node(ask.node);
  if (known)
    TRY(check_take_over(txn, *it->second, *known));
  std::string task_range = TRY(range_by_token(txn.tables(), *it->second, ask.node));
  forget_issued(txn, ask.node);
  JoinToken token = *txn.tables().tokens.find(ask.token)->second;
  token.used = --token.uses_left == 0;
  if (known) {
    const NodeId id = known->id;
    TRY(hand_over(txn, id, token, ask.certificate, task_range));
    task_range = txn.node(id)->terms.task_range;
  } else {
    token.issued.push_back({ask.node, ask.certificate, now + kHelloWithin, task_range});
  }
  const Ref<JoinToken> made = txn.put(std::move(token));
  return Answer{.seq = made->meta.seq,
                .role = made->role,
                .realm = made->realm,
                .address = made->address,
                .task_range = std::move(task_range)};
}

std::optional<JoinedAs> admit(Txn& txn, const std::string& node, const std::string& certificate) {
  for (const auto& [name, token] : txn.tables().tokens)
    for (const IssuedCertificate& issued : token->issued)
      if (issued.node == node && issued.certificate == certificate && issued.until > txn.now()) {
        const JoinedAs admission{token->trust_administrators, token->address, issued.task_range};
        forget_issued(txn, node);
        return admission;
      }
  return std::nullopt;
}

void forget_issued(Txn& txn, const std::string& node) {
  std::vector<Ref<JoinToken>> holders;
  for (const auto& [name, token] : txn.tables().tokens)
    if (std::any_of(token->issued.begin(), token->issued.end(),
                    [&](const IssuedCertificate& issued) { return issued.node == node; }))
      holders.push_back(token);
  for (const Ref<JoinToken>& holder : holders) {
    JoinToken token = *holder;
    std::erase_if(token.issued, [&](const IssuedCertificate& issued) { return issued.node == node; });
    txn.put(std::move(token));
  }
}

}  // namespace lockstep
