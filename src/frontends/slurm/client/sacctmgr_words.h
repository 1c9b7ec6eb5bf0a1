// sacctmgr's words: "account name=physics set GrpTRES=cpu=10", taken apart, and keys written into records.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/records.h"

namespace lockstep::slurm {

// "Key=Value", "Key+=Value", "Key-=Value"; a bare word has an empty key.
struct KeyWord {
  std::string key;  // lower case
  char sign = 0;    // '+' or '-' before the '='
  std::string value;
};
KeyWord key_word(const std::string& word);

// A value list: "a,b". With a sign the names are added to, or taken from, what is there.
void change_list(std::vector<std::string>& list, const KeyWord& word);

// Each false: the key is none of this record's. An error: the value is wrong.
Result<bool> set_limit(Limits& limits, const KeyWord& word);
Result<bool> set_account(Account& account, const KeyWord& word);
Result<bool> set_association(Association& association, const KeyWord& word);
Result<bool> set_qos(Qos& qos, const KeyWord& word);
Result<bool> set_policy(Policy& policy, const KeyWord& word);

std::string flags_text(const Qos& qos);  // "DenyOnLimit,NoDecay"

}  // namespace lockstep::slurm
