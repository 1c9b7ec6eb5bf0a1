#include "model/directory.h"

#include "base/check.h"
#include "model/accounting.h"
#include "model/records.h"
#include "model/ref_map.h"
#include "model/table_of.h"

namespace lockstep {

struct DirectoryTaker {
  Directory& d;
  bool gone;
  template <class T>
  bool operator()(const Ref<T>& r) const {
    if constexpr (kInDirectory<T>)
      set_record(d, r, gone);
    return kInDirectory<T>;
  }
  bool operator()(const Ref<Association>& r) const {
    set_record(d, r, gone);
    if (r->is_default && !gone)
      d.default_accounts_[r->user] = r->account;
    else if (const auto it = d.default_accounts_.find(r->user);
             it != d.default_accounts_.end() && it->second == r->account && !still_default(r->user, r->account))
      d.default_accounts_.erase(it);
    return true;
  }
  // By another of the user's associations with the account: of one partition.
  bool still_default(const std::string& user, const std::string& account) const {
    for (auto it = d.associations.lower_bound(account + "/" + user);
         it != d.associations.end() && it->second->account == account && it->second->user == user; ++it)
      if (it->second->is_default)
        return true;
    return false;
  }
};

bool Directory::apply_directory(const Change& change) {
  return std::visit(DirectoryTaker{*this, change.removed}, change.record);
}

const Policy& Directory::policy() const {
  static const Policy defaults;
  return policy_record ? *policy_record : defaults;
}

const User* Directory::user(UserId id) const { return find_ref(users, id); }
const Account* Directory::account(std::string_view name) const { return find_ref(accounts, name); }
const Qos* Directory::qos_named(std::string_view name) const { return find_ref(qos, name); }
const Licence* Directory::licence(std::string_view name) const { return find_ref(licences, name); }
const Reservation* Directory::reservation(std::string_view name) const { return find_ref(reservations, name); }

const Association* Directory::association(const std::string& account, UserId user, const std::string& partition) const {
  if (associations.empty())
    return nullptr;
  const User* who = this->user(user);
  if (!who)
    return nullptr;
  if (!partition.empty())
    if (const Association* own = find_ref(associations, association_name(account, who->meta.name, partition)))
      return own;
  return find_ref(associations, association_name(account, who->meta.name, ""));
}

std::string Directory::default_account(std::string_view user) const {
  const auto it = default_accounts_.find(user);
  return it == default_accounts_.end() ? "" : it->second;
}

std::vector<const Account*> Directory::chain_of(std::string_view name) const {
  std::vector<const Account*> out;
  for (const Account* at = account(name); at; at = at->parent.empty() ? nullptr : account(at->parent)) {
    out.push_back(at);
    CHECK(out.size() <= accounts.size(), "the accounts run in a circle");
  }
  return out;
}

}  // namespace lockstep
