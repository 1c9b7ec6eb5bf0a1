// sacctmgr add, modify and delete: what would be written is shown, confirmed unless -i was given, and sent as one
// change, which is made as a whole or not at all.
#include <stdio.h>
#include <unistd.h>

#include <algorithm>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/sacctmgr.h"
#include "frontends/slurm/client/sacctmgr_words.h"
#include "frontends/slurm/client/values.h"
#include "model/bounds.h"
#include "wire/api.h"
#include "wire/codec.h"
#include "wire/record_change.h"

namespace lockstep::slurm {

namespace {

using Words = std::vector<std::string>;

// What waits for the user's yes: a record to put or remove, or past use to forget.
struct Change {
  std::string said;  // "  physics"
  RecordChange record;
  std::string forget = {};  // whose: the query of /v1/usage/reset
};

// Words before "set" say which, those behind it what; before it "where" is optional.
struct Split {
  std::vector<KeyWord> where, set;
};
Split split_words_of(const Words& words) {
  Split out;
  bool setting = false;
  for (const std::string& word : words) {
    const std::string plain = lower(word);
    if (plain == "where")
      setting = false;
    else if (plain == "set")
      setting = true;
    else
      (setting ? out.set : out.where).push_back(key_word(word));
  }
  return out;
}

// A word that says which, and names nothing, must not stand for all.
Result<void> check_named(const std::vector<KeyWord>& words) {
  for (const KeyWord& word : words)
    if (word.value.find_first_not_of(", ") == std::string::npos)
      return invalid(format(" {} names nothing: give a name", word.key.empty() ? "an empty word" : word.key + "="));
  return {};
}

// The names among the words, which are taken out: bare ones, and those of any of the keys.
std::vector<std::string> take_names(std::vector<KeyWord>& words, std::initializer_list<std::string_view> keys) {
  std::vector<std::string> out;
  std::erase_if(words, [&](const KeyWord& word) {
    if (!word.key.empty() && std::find(keys.begin(), keys.end(), word.key) == keys.end())
      return false;
    for (const std::string& name : items_of(word.value)) out.push_back(lower(name));
    return true;
  });
  return out;
}

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Error unknown_key(const KeyWord& word) { return invalid(format(" Unknown option: {}={}", word.key, word.value)); }

// The cluster is always this one.
void drop_cluster(std::vector<KeyWord>& words) {
  std::erase_if(words, [](const KeyWord& w) { return w.key == "cluster" || w.key == "clusters"; });
}

template <class T, class Set>
Result<void> set_all(T& record, const std::vector<KeyWord>& words, Set&& set) {
  for (const KeyWord& word : words)
    if (!TRY(set(record, word)))
      return unknown_key(word);
  return {};
}

template <class T>
Ref<T> named(const std::vector<Ref<T>>& all, const std::string& name) {
  for (const Ref<T>& one : all)
    if (one->meta.name == name)
      return one;
  return nullptr;
}

// The version that was read; a new record has none.
template <class T>
RecordChange to_put(const T& record, std::optional<T> RecordChange::*member) {
  RecordChange out;
  out.*member = record;
  out.if_seq = record.meta.seq;
  out.is_new = record.meta.seq == 0;
  return out;
}

Change put(const Account& a) { return {"  " + a.meta.name, to_put(a, &RecordChange::account)}; }
Change put(const Association& a) {
  return {format("  A = {:<10} U = {:<9}{}", a.account, a.user, a.partition.empty() ? "" : " P = " + a.partition),
          to_put(a, &RecordChange::association)};
}
Change put(const Qos& q) { return {"  " + q.meta.name, to_put(q, &RecordChange::qos)}; }

std::string association_path(const Association& a) {
  return a.account + "/" + a.user + (a.partition.empty() ? "" : "/" + a.partition);
}

Change removal(std::string said, std::string_view kind, std::string name) {
  RecordChange out;
  out.remove = kind;
  out.name = std::move(name);
  return {std::move(said), std::move(out)};
}

// As many at once as one change may hold.
Result<void> send_records(Query& query, std::vector<RecordChange> records) {
  for (std::size_t at = 0; at < records.size(); at += kTogetherMax) {
    RecordChanges some;
    for (std::size_t i = at; i < std::min(records.size(), at + kTogetherMax); ++i)
      some.changes.push_back(std::move(records[i]));
    TRY(query.send("POST", "/v1/changes", encode(some)));
  }
  return {};
}

Result<void> send(Query& query, const std::vector<Change>& changes) {
  std::vector<RecordChange> records;
  for (const Change& change : changes)
    if (change.forget.empty())
      records.push_back(change.record);
  TRY(send_records(query, std::move(records)));
  for (const Change& change : changes)
    if (!change.forget.empty())
      TRY(query.send("POST", "/v1/usage/reset?" + change.forget, "{}"));
  return {};
}

// Asks, sends, says what was done.
int carry_out(const SacctmgrSession& session, Query& query, std::string_view heading, std::string_view nothing,
              const std::vector<Change>& changes) {
  if (changes.empty()) {
    say(format("{}\n", nothing));
    return 1;
  }
  if (!session.quiet) {
    std::string out = format("{}\n", heading);
    for (const Change& change : changes)
      if (!change.said.empty())
        out += change.said + "\n";
    say(out);
  }
  if (!session.immediate) {
    say("Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): ");
    char line[16] = "";
    if (!fgets(line, sizeof line, stdin) || (line[0] != 'y' && line[0] != 'Y')) {
      say(" Changes Discarded\n");
      return 0;
    }
  }
  if (const auto done = send(query, changes); !done) {
    if (say_unreached(session.voice, kNoDatabase, done.error()))
      return 1;
    session.voice.error(done.error().code == Errc::kDenied ? "Access/permission denied" : done.error().message);
    return 1;
  }
  return 0;
}

int finish(const SacctmgrSession& session, const Result<int>& done) {
  if (done)
    return *done;
  if (!say_unreached(session.voice, kNoDatabase, done.error()))
    session.voice.error(done.error().message);
  return 1;
}

Result<int> add_accounts(const SacctmgrSession& session, Query& query, std::vector<KeyWord> words) {
  const auto names = take_names(words, {"name", "names", "account", "accounts"});
  if (names.empty())
    return invalid("Need name of account to add.");
  const auto known = TRY(records<Account>(query, "/v1/accounts", Kind::kAccount));
  std::vector<Change> changes;
  for (const std::string& name : names) {
    if (named(known, name)) {
      say(format(" This account {} already exists.\n  Not adding it.\n", name));
      continue;
    }
    Account account;
    account.meta.name = name;
    TRY(set_all(account, words, set_account));
    changes.push_back(put(account));
  }
  return carry_out(session, query, " Adding Account(s)", " Nothing new added.", changes);
}

// Of users only: administrators, and which account is the default.
struct UserWords {
  std::optional<std::string> default_account;
  std::optional<bool> admin;
};
Result<UserWords> take_user_words(std::vector<KeyWord>& words) {
  UserWords out;
  std::optional<Error> wrong;
  std::erase_if(words, [&](const KeyWord& word) {
    if (word.key == "defaultaccount" || word.key == "defaultacct") {
      out.default_account = lower(word.value);
      return true;
    }
    if (word.key != "adminlevel" && word.key != "admin")
      return false;
    const std::string level = lower(word.value);
    if (level != "none" && level.find("admin") != 0)
      wrong =
          Error{Errc::kUnsupported, format("Admin level {} is not supported: None or Administrator", word.value), {}};
    out.admin = level != "none";
    return true;
  });
  if (wrong)
    return *wrong;
  return out;
}

Result<void> change_admin(Query& query, const std::vector<std::string>& users, bool admin,
                          std::vector<Change>& changes) {
  const auto known = TRY(records<User>(query, "/v1/users", Kind::kUser));
  for (const std::string& name : users) {
    const Ref<User> user = named(known, name);
    if (!user)
      return not_found(format("user {} has not used the cluster yet: nothing to make an administrator", name));
    if (user->admin == admin)
      continue;
    User next = *user;
    next.admin = admin;
    changes.push_back({"  " + name, to_put(next, &RecordChange::user)});
  }
  return {};
}

void add_names(const KeyWord& word, std::vector<std::string>& into) {
  for (const std::string& name : items_of(word.value)) into.push_back(lower(name));
}

// Which associations words are about.
struct Associates {
  std::vector<std::string> users, accounts, partitions;

  // Empty lists stand for all.
  bool hold(const Association& a) const {
    return (users.empty() || among(users, a.user)) && (accounts.empty() || among(accounts, a.account)) &&
           (partitions.empty() || among(partitions, a.partition));
  }
};

// Those of the users that are named which are not there yet.
Result<std::vector<Change>> new_associations(Query& query, const Associates& named_ones,
                                             const std::optional<std::string>& default_account,
                                             const std::vector<KeyWord>& settings) {
  const auto known = TRY(records<Association>(query, "/v1/associations", Kind::kAssociation));
  std::vector<Change> changes;
  for (const std::string& user : named_ones.users)
    for (const std::string& account : named_ones.accounts)
      for (const std::string& partition : named_ones.partitions) {
        if (named(known, association_name(account, user, partition)))
          continue;
        Association a;
        a.user = user;
        a.account = account;
        a.partition = partition;
        a.is_default = default_account == account;
        TRY(set_all(a, settings, set_association));
        changes.push_back(put(a));
      }
  return changes;
}

Result<int> add_users(const SacctmgrSession& session, Query& query, std::vector<KeyWord> words) {
  drop_cluster(words);
  const UserWords own = TRY(take_user_words(words));
  Associates all;
  all.accounts = take_names(words, {"account", "accounts", "acct", "accts"});
  std::vector<KeyWord> settings;
  for (const KeyWord& word : words) {
    if (is_among("name names user users", word.key))
      add_names(word, all.users);
    else if (is_among("partition partitions", word.key))
      add_names(word, all.partitions);
    else
      settings.push_back(word);
  }
  if (own.default_account && !among(all.accounts, *own.default_account))
    all.accounts.push_back(*own.default_account);
  if (all.users.empty())
    return invalid("Need name of user to add.");
  if (all.accounts.empty())
    return invalid("Need name of acct to add user to.");
  if (all.partitions.empty())
    all.partitions.push_back("");
  std::vector<Change> changes = TRY(new_associations(query, all, own.default_account, settings));
  if (own.admin)
    TRY(change_admin(query, all.users, *own.admin, changes));
  return carry_out(session, query, " Adding User(s)", " Nothing new added.", changes);
}

Result<int> add_qos(const SacctmgrSession& session, Query& query, std::vector<KeyWord> words) {
  const auto names = take_names(words, {"name", "names", "qos"});
  if (names.empty())
    return invalid("Need name of qos to add.");
  const auto known = TRY(records<Qos>(query, "/v1/qos", Kind::kQos));
  std::vector<Change> changes;
  for (const std::string& name : names) {
    if (named(known, name)) {
      say(format(" This QOS {} already exists.\n  Not adding it.\n", name));
      continue;
    }
    Qos qos;
    qos.meta.name = name;
    qos.description = name;
    TRY(set_all(qos, words, set_qos));
    changes.push_back(put(qos));
  }
  return carry_out(session, query, " Adding QOS(s)", " Nothing new added.", changes);
}

Result<int> change_coordinators(const SacctmgrSession& session, Query& query, std::vector<KeyWord> words, bool add) {
  const auto accounts = take_names(words, {"account", "accounts", "acct", "accts"});
  std::vector<std::string> users;
  for (const KeyWord& word : words)
    for (const std::string& name : items_of(word.value)) users.push_back(lower(name));
  const auto known = TRY(records<Account>(query, "/v1/accounts", Kind::kAccount));
  std::vector<Change> changes;
  for (const std::string& name : accounts) {
    const Ref<Account> account = named(known, name);
    if (!account)
      return not_found(format("there is no account {}", name));
    Account next = *account;
    for (const std::string& user : users) change_list(next.coordinators, {"coordinators", add ? '+' : '-', user});
    if (next.coordinators != account->coordinators)
      changes.push_back(put(next));
  }
  return carry_out(session, query, add ? " Adding Coordinator User(s)" : " Removing Coordinators with user name",
                   add ? " Nothing new added." : " Nothing removed", changes);
}

// count=, and what of it this cluster may use; keys that change nothing here go as well.
Result<std::optional<std::int64_t>> take_count(std::vector<KeyWord>& words) {
  std::optional<std::int64_t> count, percent;
  for (const KeyWord& word : words) {
    if (word.key != "count" && word.key != "percentallowed")
      continue;
    const auto number = parse_int(word.value);
    if (!number || *number < 0 || (word.key != "count" && *number > 100) || *number > kSumMax)
      return invalid(format("Bad value for {}: {}", word.key == "count" ? "Count" : "PercentAllowed", word.value));
    (word.key == "count" ? count : percent) = number;
  }
  if (count && percent)
    count = *count / 100 * *percent + *count % 100 * *percent / 100;
  std::erase_if(words, [](const KeyWord& word) {
    return is_among("count type server servertype percentallowed cluster clusters description", word.key);
  });
  return count;
}

Result<int> put_licences(const SacctmgrSession& session, Query& query, std::vector<KeyWord> words, bool add) {
  const auto count = TRY(take_count(words));
  const auto names = take_names(words, {"name", "names"});
  if (!words.empty())
    return unknown_key(words[0]);
  if (names.empty())
    return invalid("Need name of resource.");
  if (!count)
    return invalid("Need count= of the resource.");
  std::vector<Change> changes;
  for (const std::string& name : names) {
    Licence licence;
    licence.meta.name = name;
    licence.total = *count;
    changes.push_back({"  " + name, to_put(licence, &RecordChange::licence)});
  }
  return carry_out(session, query, add ? " Adding Resource(s)" : " Modified server resource ...", " Nothing new added.",
                   changes);
}

Result<int> modify_accounts(const SacctmgrSession& session, Query& query, Split words) {
  drop_cluster(words.where);
  auto names = take_names(words.where, {"name", "names", "account", "accounts"});
  if (!words.where.empty())
    return unknown_key(words.where[0]);
  std::vector<Change> changes;
  std::erase_if(words.set, [&](const KeyWord& word) {
    if (word.key != "rawusage")
      return false;
    for (const std::string& name : names) changes.push_back({"  " + name, {}, "account=" + url_escaped(name)});
    return true;
  });
  if (!words.set.empty())
    for (const Ref<Account>& account : TRY(records<Account>(query, "/v1/accounts", Kind::kAccount))) {
      if (!names.empty() && !among(names, account->meta.name))
        continue;
      Account next = *account;
      TRY(set_all(next, words.set, set_account));
      changes.push_back(put(next));
    }
  return carry_out(session, query, " Modified account associations...", " Nothing modified", changes);
}

// take_names() also takes bare words: users are named by key.
Result<Associates> read_where(Split& words) {
  Associates out;
  drop_cluster(words.where);
  out.accounts = take_names(words.where, {"account", "accounts", "acct", "accts"});
  for (const KeyWord& word : words.where) {
    const bool is_partition = word.key.starts_with("partition");
    if (!is_partition && !is_among("name names user users", word.key))
      return unknown_key(word);
    add_names(word, is_partition ? out.partitions : out.users);
  }
  return out;
}

// rawusage=0 forgets what users have used, in the first account that is named or in all.
std::vector<Change> take_resets(std::vector<KeyWord>& settings, const Associates& where) {
  const std::string account = where.accounts.empty() ? "" : url_escaped(where.accounts[0]);
  std::vector<Change> out;
  std::erase_if(settings, [&](const KeyWord& word) {
    if (word.key != "rawusage")
      return false;
    for (const std::string& user : where.users)
      out.push_back({"  " + user, {}, format("user={}&account={}", url_escaped(user), account)});
    return true;
  });
  return out;
}

Result<int> modify_users(const SacctmgrSession& session, Query& query, Split words) {
  const Associates where = TRY(read_where(words));
  const UserWords own = TRY(take_user_words(words.set));
  std::vector<Change> changes = take_resets(words.set, where);
  if (own.admin)
    TRY(change_admin(query, where.users, *own.admin, changes));
  for (const Ref<Association>& a : TRY(records<Association>(query, "/v1/associations", Kind::kAssociation))) {
    if (!where.hold(*a))
      continue;
    Association next = *a;
    TRY(set_all(next, words.set, set_association));
    const bool made_default = own.default_account == a->account && !a->is_default;
    next.is_default = next.is_default || made_default;
    if (made_default || !words.set.empty())
      changes.push_back(put(next));
  }
  return carry_out(session, query, " Modified user associations...", " Nothing modified", changes);
}

Result<int> modify_qos(const SacctmgrSession& session, Query& query, Split words) {
  const auto names = take_names(words.where, {"name", "names", "qos"});
  if (!words.where.empty())
    return unknown_key(words.where[0]);
  std::vector<Change> changes;
  for (const Ref<Qos>& qos : TRY(records<Qos>(query, "/v1/qos", Kind::kQos))) {
    if (!names.empty() && !among(names, qos->meta.name))
      continue;
    Qos next = *qos;
    TRY(set_all(next, words.set, set_qos));
    changes.push_back(put(next));
  }
  return carry_out(session, query, " Modified qos...", " Nothing modified", changes);
}

Result<int> modify_cluster(const SacctmgrSession& session, Query& query, const Split& words) {
  auto policy = TRY(decode_policy(TRY(query.get("/v1/policy", {}))));
  TRY(set_all(policy, words.set, set_policy));
  std::vector<Change> changes;
  if (!words.set.empty())
    changes.push_back({"  policy", to_put(policy, &RecordChange::policy)});
  return carry_out(session, query, " Modified cluster...", " Nothing modified", changes);
}

Result<int> delete_users(const SacctmgrSession& session, Query& query, std::vector<KeyWord> words) {
  drop_cluster(words);
  std::vector<std::string> users, accounts, partitions;
  for (const KeyWord& word : words) {
    auto& list = word.key.starts_with("acc") ? accounts : word.key.starts_with("partition") ? partitions : users;
    for (const std::string& name : items_of(word.value)) list.push_back(lower(name));
  }
  std::vector<Change> changes;
  for (const Ref<Association>& a : TRY(records<Association>(query, "/v1/associations", Kind::kAssociation)))
    if (among(users, a->user) && (accounts.empty() || among(accounts, a->account)) &&
        (partitions.empty() || among(partitions, a->partition)))
      changes.push_back(
          removal(format("  A = {:<10} U = {:<9}", a->account, a->user), "association", association_path(*a)));
  return carry_out(session, query, " Deleting user associations...", " Nothing deleted", changes);
}

Result<int> delete_named(const SacctmgrSession& session, Query& query, const std::string& entity,
                         std::vector<KeyWord> words) {
  drop_cluster(words);
  const auto names = take_names(words, {"name", "names", "account", "accounts", "qos"});
  if (!words.empty())
    return unknown_key(words[0]);
  const Kind kind = entity == "account" ? Kind::kAccount : entity == "qos" ? Kind::kQos : Kind::kLicence;
  const std::string_view heading = entity == "account" ? " Deleting accounts..."
                                   : entity == "qos"   ? " Deleting QOS(s)..."
                                                       : " Deleting resource(s)...";
  std::vector<std::string> known;
  const auto add = [&](const auto& list) {
    for (const auto& one : list) known.push_back(one->meta.name);
  };
  if (entity == "account")
    add(TRY(records<Account>(query, "/v1/accounts", kind)));
  else if (entity == "qos")
    add(TRY(records<Qos>(query, "/v1/qos", kind)));
  else
    add(TRY(records<Licence>(query, "/v1/licences", kind)));
  std::vector<Change> changes;
  for (const std::string& name : names)
    if (among(known, name))
      changes.push_back(removal("  " + name, text_of(kind), name));
  return carry_out(session, query, heading, " Nothing deleted", changes);
}

Error not_for(const std::string& entity) {
  return {Errc::kUnsupported, format("{} cannot be changed here", entity), {}};
}

}  // namespace

int sacctmgr_add(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words) {
  const auto run = [&]() -> Result<int> {
    Query query(session.context);
    Split parts = split_words_of(words);
    std::vector<KeyWord> all = parts.where;
    all.insert(all.end(), parts.set.begin(), parts.set.end());
    if (entity == "account") {
      drop_cluster(all);
      return add_accounts(session, query, std::move(all));
    }
    if (entity == "user" || entity == "coordinator")
      for (KeyWord& word : all)
        if (word.key.empty())
          word.key = "user";
    if (entity == "user")
      return add_users(session, query, std::move(all));
    if (entity == "qos")
      return add_qos(session, query, std::move(all));
    if (entity == "coordinator")
      return change_coordinators(session, query, std::move(all), true);
    if (entity == "resource")
      return put_licences(session, query, std::move(all), true);
    return not_for(entity);
  };
  return finish(session, run());
}

int sacctmgr_modify(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words) {
  const auto run = [&]() -> Result<int> {
    Query query(session.context);
    Split parts = split_words_of(words);
    if (parts.set.empty())
      return invalid("No conditions given to change. Say \"set KEY=VALUE\".");
    TRY(check_named(parts.where));
    if (entity == "account")
      return modify_accounts(session, query, std::move(parts));
    if (entity == "user") {
      for (KeyWord& word : parts.where)
        if (word.key.empty())
          word.key = "user";
      return modify_users(session, query, std::move(parts));
    }
    if (entity == "qos")
      return modify_qos(session, query, std::move(parts));
    if (entity == "cluster")
      return modify_cluster(session, query, parts);
    if (entity == "resource") {
      parts.where.insert(parts.where.end(), parts.set.begin(), parts.set.end());
      return put_licences(session, query, std::move(parts.where), false);
    }
    return not_for(entity);
  };
  return finish(session, run());
}

int sacctmgr_delete(const SacctmgrSession& session, const std::string& entity, const std::vector<std::string>& words) {
  const auto run = [&]() -> Result<int> {
    Query query(session.context);
    std::vector<KeyWord> all = split_words_of(words).where;
    if (all.empty())
      return invalid("problem with delete request.  Nothing given to delete.");
    TRY(check_named(all));
    if (entity == "user")
      return delete_users(session, query, std::move(all));
    if (entity == "coordinator") {
      for (KeyWord& word : all)
        if (word.key.empty())
          word.key = "user";
      return change_coordinators(session, query, std::move(all), false);
    }
    if (entity == "account" || entity == "qos" || entity == "resource")
      return delete_named(session, query, entity, std::move(all));
    return not_for(entity);
  };
  return finish(session, run());
}

}  // namespace lockstep::slurm
