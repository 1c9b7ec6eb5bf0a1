// What a node's own words count for (NodeTerms): where others find it and its tasks, and what draws their work to it.
// Addresses and ranges are its token's or an administrator's to say. So no node leads to itself what is meant for the
// controller, for services, for another node or for the world.
#pragma once

#include <string>
#include <string_view>

#include "core/txn.h"

namespace lockstep {

// Whether a node of this name may have it for its tasks ("" = one that has not joined yet). Of private addresses alone,
// which hold nobody else's.
Result<void> check_task_range(const Tables& tables, std::string_view range, std::string_view node);
// Whether others may find a node there. Where it may be one of the loopback, it is on the controller's own machine.
enum class Loopback : unsigned char { kNo, kMay };
Result<void> check_node_address(const Tables& tables, std::string_view address, std::string_view node,
                                Loopback loopback);

// Of a range wider than this each node that joins gets a part as wide as this.
inline constexpr std::uint32_t kPartPrefix = 24;
Result<void> check_token_terms(const Tables& tables, const JoinToken& token);
// What a node of this name gets of the token's range; "" = the token names none.
Result<std::string> range_by_token(const Tables& tables, const JoinToken& token, std::string_view node);

// Makes of what the node says of itself what counts. known: its record before, null if there was none. The answer: what
// it says otherwise about its addresses, for its word; "" = nothing.
std::string settle_terms(Txn& txn, Node& node, const Node* known, const NodeHello& ask);
Result<void> change_terms(const Tables& tables, Node& node, const UpdateNode& ask);

}  // namespace lockstep
