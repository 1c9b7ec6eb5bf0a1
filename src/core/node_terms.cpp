#include "core/node_terms.h"

#include <algorithm>

#include "base/ip_range.h"
#include "base/text.h"
#include "core/topology.h"

namespace lockstep {

namespace {

bool is_ip6(std::string_view text) {
  return std::ranges::count(text, ':') >= 2 && text.find_first_not_of("0123456789abcdefABCDEF:.") == text.npos;
}

// A range that is somebody's, or will be with their first hello.
struct Taken {
  IpRange range;
  std::string_view node, text;
};

std::vector<Taken> taken_ranges(const Tables& tables, std::string_view except) {
  std::vector<Taken> out;
  const auto add = [&](std::string_view node, const std::string& text) {
    if (const auto range = parse_ip_range(text); range && node != except)
      out.push_back({*range, node, text});
  };
  for (const auto& [id, node] : tables.nodes) {
    add(node->meta.name, node->task_range);
    if (node->terms.task_range != node->task_range)
      add(node->meta.name, node->terms.task_range);
  }
  for (const auto& [name, token] : tables.tokens)
    for (const IssuedCertificate& issued : token->issued) add(issued.node, issued.task_range);
  return out;
}

Result<IpRange> plain_range(std::string_view text) {
  const auto range = parse_ip_range(text);
  if (!range)
    return invalid(format("task_range {} is no range of addresses, like 10.88.3.0/24", text), "task_range");
  if (!is_private(*range))
    return invalid(format("task_range {} holds addresses that are not private: take one within {}", text,
                          join(std::vector<std::string>(std::begin(kPrivateRanges), std::end(kPrivateRanges)), ", ")),
                   "task_range");
  if (const auto services = parse_ip_range(kServiceRange); services && services->overlaps(*range))
    return conflict(format("task_range {} overlaps {}, which services have their addresses of", text, kServiceRange));
  return *range;
}

}  // namespace

Result<void> check_task_range(const Tables& tables, std::string_view text, std::string_view node) {
  const IpRange range = TRY(plain_range(text));
  for (const Taken& taken : taken_ranges(tables, node))
    if (taken.range.overlaps(range))
      return conflict(format("task_range {} overlaps that of node {}, {}", text, taken.node, taken.text));
  for (const auto& [id, other] : tables.nodes)
    for (const std::string* address : {&other->address, &other->terms.address})
      if (const auto there = parse_ip(*address); there && range.contains(*there))
        return conflict(format("task_range {} holds the address of node {}, {}", text, other->meta.name, *address));
  return {};
}

Result<void> check_node_address(const Tables& tables, std::string_view text, std::string_view node, Loopback loopback) {
  const auto address = parse_ip(text);
  if (!address && is_ip6(text))
    return {};
  if (!address || !is_unicast(*address))
    return invalid(format("\"{}\" is no address of a machine, like 10.0.0.7", text), "address");
  if (is_loopback(*address) && loopback == Loopback::kNo)
    return invalid(format("{} is every machine's own: no other one finds a node there", text), "address");
  if (const auto services = parse_ip_range(kServiceRange); services && services->contains(*address))
    return conflict(format("address {} lies within {}, which services have their addresses of", text, kServiceRange));
  for (const Taken& taken : taken_ranges(tables, ""))
    if (taken.range.contains(*address))
      return conflict(format("address {} lies within the range of tasks' addresses of node {}, {}", text,
                             taken.node == node ? std::string_view("itself") : taken.node, taken.text));
  return {};
}

// --- by tokens ---

Result<void> check_token_terms(const Tables& tables, const JoinToken& token) {
  if (!token.address.empty()) {
    if (token.uses_left != 1)
      return invalid("an address is one node's: the token may be used once", "address");
    TRY(check_node_address(tables, token.address, token.node, Loopback::kNo));
  }
  if (token.task_range.empty())
    return {};
  const IpRange range = TRY(plain_range(token.task_range));
  if (range.prefix < kPartPrefix)
    return {};
  if (token.uses_left != 1)
    return invalid(format("task_range {} is one node's: the token may be used once. Of a range wider than /{} each "
                          "node gets a part",
                          token.task_range, kPartPrefix),
                   "task_range");
  return check_task_range(tables, token.task_range, token.node);
}

namespace {

// The first part of the range that holds nothing of anybody's.
std::optional<IpRange> free_part(const Tables& tables, const IpRange& whole, std::string_view node) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> taken;
  for (const Taken& one : taken_ranges(tables, node)) taken.emplace_back(one.range.first, one.range.last());
  for (const auto& [id, other] : tables.nodes)
    for (const std::string* address : {&other->address, &other->terms.address})
      if (const auto there = parse_ip(*address))
        taken.emplace_back(*there, *there);
  std::ranges::sort(taken);
  IpRange part{whole.first, kPartPrefix};
  for (const auto& [first, last] : taken) {
    if (last < part.first)
      continue;
    if (first > part.last() || last >= whole.last())
      break;
    part.first = (last | ~(UINT32_MAX << (32 - kPartPrefix))) + 1;
  }
  const bool is_free =
      part.first >= whole.first && part.last() <= whole.last() && std::ranges::none_of(taken, [&](const auto& one) {
        return one.first <= part.last() && part.first <= one.second;
      });
  return is_free ? std::optional(part) : std::nullopt;
}

}  // namespace

Result<std::string> range_by_token(const Tables& tables, const JoinToken& token, std::string_view node) {
  if (token.task_range.empty())
    return std::string();
  const IpRange whole = TRY(plain_range(token.task_range));
  if (whole.prefix >= kPartPrefix) {
    TRY(check_task_range(tables, token.task_range, node));
    return token.task_range;
  }
  const auto part = free_part(tables, whole, node);
  if (!part)
    return Error{Errc::kExhausted,
                 format("no /{} of {} is free for the tasks of node {}: ask for a token with another range",
                        kPartPrefix, token.task_range, node),
                 {}};
  return text_of(*part);
}

// --- by hellos ---

namespace {

// What a record from before there were terms has is settled.
void settle_older(const Tables& tables, NodeTerms& terms, const Node& known, const Node& facts) {
  if (std::exchange(terms.settled, true))
    return;
  terms.task_range = known.task_range;
  terms.counted = known.counted;
  std::erase_if(terms.counted, [&](const Counted& one) {
    return std::ranges::find(known.added_counted, one) != known.added_counted.end();
  });
  const bool is_drawn = domains_of(tables, facts) != facts.domains;  // by an administrator: its own count for nothing
  terms.domains = is_drawn ? facts.domains : known.domains;
}

std::string settle_address(const Tables& tables, Node& node, const Node* known, const NodeHello& ask) {
  const std::string said = node.address, name = node.meta.name;
  const bool has_tls = !ask.certificate.empty();
  const auto from = parse_ip(ask.from);
  const Loopback loopback = !has_tls || (from && is_loopback(*from)) ? Loopback::kMay : Loopback::kNo;
  const bool is_shown = !has_tls || said == ask.from || (known && said == known->address);
  node.address = !node.terms.address.empty() ? node.terms.address : is_shown ? said : known ? known->address : ask.from;
  Result<void> good = node.address.empty() ? Result<void>() : check_node_address(tables, node.address, name, loopback);
  if (!good && node.address != ask.from && has_tls && check_node_address(tables, ask.from, name, loopback))
    node.address = ask.from;
  else if (!good)
    node.address.clear();
  if (!good)
    return format("{}: {}", good.error().message,
                  node.address.empty() ? "nobody finds it by an address" : "its connection's counts, " + node.address);
  if (said.empty() || said == node.address)
    return {};
  return format(
      "says that its address is {}, and {} counts: where {} is right, an administrator says so (lockstep node "
      "update {} --address {})",
      said, node.address, said, name, said);
}

std::string settle_range(const Tables& tables, Node& node, const NodeHello& ask) {
  const std::string said = std::exchange(node.task_range, {});
  if (ask.certificate.empty())
    node.terms.task_range = said;
  if (said.empty())
    return {};
  if (said != node.terms.task_range)
    return format(
        "says that task_range is {}, and {}: its tasks get no addresses. Where {} is right, an administrator "
        "says so (lockstep node update {} --task-range {})",
        said, node.terms.task_range.empty() ? "was given none" : "was given " + node.terms.task_range, said,
        node.meta.name, said);
  Result<void> good = check_task_range(tables, said, node.meta.name);
  if (const auto range = parse_ip_range(said);
      good && range && parse_ip(node.address) && range->contains(*parse_ip(node.address)))
    good = conflict(format("task_range {} holds the node's own address", said));
  if (!good)
    return good.error().message + ": its tasks get no addresses";
  node.task_range = said;
  return {};
}

std::string counted_words(const std::vector<Counted>& counted) {
  std::vector<std::string> words;
  for (const Counted& one : counted) words.push_back(format("{}={}", one.name, one.count));
  return join(words, ",");
}

// No more than was settled; less is the node's to know.
void settle_counted(std::vector<Counted>& counted, const std::vector<Counted>& most) {
  for (Counted& one : counted) {
    std::int64_t settled = 0;
    for (const Counted& other : most)
      if (other.name == one.name)
        settled = other.count;
    one.count = std::min(one.count, settled);
  }
  std::erase_if(counted, [](const Counted& one) { return one.count <= 0; });
}

// What it says of itself to draw work, and may not say any more. "" = nothing.
std::string settle_offers(const Tables& tables, Node& node, const Node& known) {
  std::vector<std::string> otherwise;
  const std::vector<std::string>& features = known.node_class.empty() ? known.features : known.own_features;
  if (!node.features.empty() && node.features != features)
    otherwise.push_back("features " + join(node.features, ","));
  node.features = features;
  const std::vector<Counted> said = node.counted;
  settle_counted(node.counted, node.terms.counted);
  if (node.counted != said)
    otherwise.push_back("resources " + counted_words(said));
  if (node.domains != node.terms.domains && domains_of(tables, node) == node.domains)
    otherwise.push_back("domains " + join(node.domains, "/"));
  node.domains = node.terms.domains;
  return join(otherwise, ", ");
}

}  // namespace

std::string settle_terms(Txn& txn, Node& node, const Node* known, const NodeHello& ask) {
  const Tables& tables = txn.tables();
  if (known)
    settle_older(tables, node.terms, *known, node);
  else
    node.terms.settled = true;
  if (!known || node.terms.open || ask.certificate.empty()) {
    if (known && node.features.empty())
      node.features = known->node_class.empty() ? known->features : known->own_features;
    node.terms.open = false;
    node.terms.counted = node.counted;
    node.terms.domains = node.domains;
  } else if (const std::string otherwise = settle_offers(tables, node, *known); !otherwise.empty()) {
    txn.event(Kind::kNode, node.meta, "NodeSaysOtherwise",
              format("node {} says that it has {}, which was not settled when it joined and does not count: lockstep "
                     "node update {} --accept takes it",
                     node.meta.name, otherwise, node.meta.name));
  }
  const std::string of_address = settle_address(tables, node, known, ask), of_range = settle_range(tables, node, ask);
  const std::string word = of_address + (of_address.empty() || of_range.empty() ? "" : "; ") + of_range;
  if (!word.empty() && (!known || known->word != word))
    txn.event(Kind::kNode, node.meta, "NodeSaysOtherwise", format("node {} {}", node.meta.name, word));
  return word;
}

// --- by administrators ---

Result<void> change_terms(const Tables& tables, Node& node, const UpdateNode& ask) {
  if (ask.address && !ask.address->empty())
    TRY(check_node_address(tables, *ask.address, node.meta.name, Loopback::kNo));
  if (ask.task_range && !ask.task_range->empty())
    TRY(check_task_range(tables, *ask.task_range, node.meta.name));
  if (ask.address || ask.task_range || ask.accept)
    settle_older(tables, node.terms, node, node);
  if (ask.address) {
    node.terms.address = *ask.address;
    if (!ask.address->empty())
      node.address = *ask.address;
  }
  if (ask.task_range) {
    node.terms.task_range = *ask.task_range;
    if (node.task_range != *ask.task_range)
      node.task_range.clear();  // until its agent hands out addresses of this one
  }
  node.terms.open = node.terms.open || ask.accept;
  return {};
}

}  // namespace lockstep
