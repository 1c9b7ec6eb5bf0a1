// Join tokens, and the certificates that are handed out for them until the node's record knows its own. A name has one
// certificate that counts: the next one that is issued, or the node's removal, ends the one before.
#pragma once

#include <optional>
#include <string>

#include "core/txn.h"

namespace lockstep {

Result<Answer> put_token(Txn& txn, const PutToken& ask);
// The certificate counts from this command on. Refused for a name that is taken, unless the token was made for that
// name and the node is down and has nothing; with JoinToken::replace the node is cut off first.
Result<Answer> redeem_token(Txn& txn, const RedeemToken& ask);

// A node says hello for the first time: what it was issued, which its record keeps from now on; nothing if it was not.
struct JoinedAs {
  bool trust_administrators = false;
  std::string address, task_range;  // NodeTerms
};
std::optional<JoinedAs> admit(Txn& txn, const std::string& node, const std::string& certificate);
// What was issued under the name and never said hello counts no more.
void forget_issued(Txn& txn, const std::string& node);

}  // namespace lockstep
