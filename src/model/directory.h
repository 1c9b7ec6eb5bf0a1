// Directory: the records that say who may use what and how much, by key. Part of Tables; small, so that readers who do
// not hold whole tables (the planner) keep one of their own.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/change.h"

namespace lockstep {

struct Directory {
  std::map<UserId, Ref<User>> users;
  std::map<std::string, Ref<Account>, std::less<>> accounts;
  std::map<std::string, Ref<Association>, std::less<>> associations;  // by association_name()
  std::map<std::string, Ref<Qos>, std::less<>> qos;
  std::map<std::string, Ref<Usage>, std::less<>> usages;  // by usage_name(): those of an account are neighbours
  std::map<std::string, Ref<Licence>, std::less<>> licences;
  std::map<std::string, Ref<Reservation>, std::less<>> reservations;
  std::map<std::string, Ref<HealthCheck>, std::less<>> health_checks;
  Ref<Policy> policy_record;  // null = the defaults

  // Takes over a change of one of these kinds. False: it is of another kind.
  bool apply_directory(const Change& change);

  const Policy& policy() const;
  // Null when absent.
  const User* user(UserId id) const;
  const Account* account(std::string_view name) const;
  const Qos* qos_named(std::string_view name) const;
  const Licence* licence(std::string_view name) const;
  const Reservation* reservation(std::string_view name) const;
  // The user's association in the account: that of the partition, else the one for all partitions.
  const Association* association(const std::string& account, UserId user, const std::string& partition) const;
  // The account of the user's default association; "" = none.
  std::string default_account(std::string_view user) const;
  // The account and those above it, bottom up; empty when there is no such account.
  std::vector<const Account*> chain_of(std::string_view account) const;

 private:
  friend struct DirectoryTaker;
  std::map<std::string, std::string, std::less<>> default_accounts_;
};

}  // namespace lockstep
