#include "frontends/slurm/import/accounts_dump.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/characters.h"
#include "base/text.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/sacctmgr_words.h"

namespace lockstep::slurm {

namespace {

constexpr std::size_t kRecordsMax = 500'000;

struct DumpLine {
  std::size_t number = 0;
  std::string title, kind, name;  // the kind as written, and in lower case
  std::vector<ConfWord> words;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Spellings that sacctmgr has beside those of sacctmgr_words.
std::string key_of(const std::string& key) {
  const std::string word = lower(key);
  return word == "maxwallduration" ? "maxwalldurationperjob" : word;
}

// What a dump may have and no record here has.
struct Extra {
  std::string_view keys;  // between blanks, in lower case
  Verdict verdict;
  std::string_view words;
};
constexpr Extra kExtras[] = {
    {"defaultwckey wckeys wckey", Verdict::kNoEqual, "use is not added up by WCKeys"},
    {"grpjobsaccrue maxjobsaccrue maxjobsaccrueperuser maxjobsaccruepu maxjobsaccrueperaccount maxjobsaccruepa",
     Verdict::kNoEqual, "every job that may start ages: their number is not bounded"},
    {"maxtresrunmins maxtresrunminsperuser maxtresrunminspu maxtresrunminsperaccount maxtresrunminspa maxcpurunmins",
     Verdict::kNoEqual, "minutes to come are bounded by GrpTRESRunMins of an account or a QOS only"},
    {"limitfactor", Verdict::kNoEqual, "limits are not multiplied: raise them"},
    {"classification", Verdict::kSame, "Slurm only keeps it"},
    {"comment", Verdict::kSame, "Slurm only keeps it"},
    {"nodeinventory clusternodes", Verdict::kSame, "the nodes are those that have joined"},
    {"features federation fedstate", Verdict::kNoEqual, "there are no federations"},
};

class DumpReader {
 public:
  DumpReader(ClusterFile& file, Report& report, const std::string& name) : file_(file), report_(report), name_(name) {}

  Result<void> run_table(std::string_view text) {
    if (text.size() > kConfBytesMax)
      return wrong(1, 1, format("more than {} bytes", kConfBytesMax));
    const std::vector<std::string> lines = split(text, '\n');
    const std::vector<std::string> names = lines.empty() ? std::vector<std::string>() : split(trim(lines[0]), '|');
    if (names.empty() || lower(names[0]) != "name")
      return wrong(1, 1, "a line of names is meant, Name|Priority|...: is this what `sacctmgr -P show qos` printed?");
    for (std::size_t i = 1; i < lines.size(); ++i)
      if (!trim(lines[i]).empty())
        TRY(qos(TRY(table_line(i + 1, names, lines[i]))));
    return {};
  }

  Result<void> run(std::string_view text) {
    if (text.size() > 4 * kConfBytesMax)
      return wrong(1, 1, format("more than {} bytes", 4 * kConfBytesMax));
    std::size_t number = 0, records = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = trim(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number;
      if (line.empty() || line.front() == '#')
        continue;
      if (++records > kRecordsMax)
        return wrong(number, 1, format("more than {} lines", kRecordsMax));
      TRY(take(TRY(parse(number, line))));
    }
    if (records == 0)
      return wrong(1, 1, "nothing in it: is this what `sacctmgr dump CLUSTER file=...` wrote?");
    inherit_cluster_qos();
    return {};
  }

 private:
  Error wrong(std::size_t line, std::size_t column, std::string_view what) const {
    return invalid(format("{}:{}:{}: {}", name_, line, column, what), name_);
  }

  // "Kind - 'name':Key='value':Key=value"
  Result<DumpLine> parse(std::size_t number, std::string_view line) const {
    if (const auto code = control_character_in(line, "\t"))
      return wrong(number, 1, format("a control character (byte {}): this is no dump of sacctmgr", *code));
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos)
      return wrong(number, 1, "KIND - 'NAME' is meant: is this what `sacctmgr dump CLUSTER file=...` wrote?");
    const std::string title(trim(line.substr(0, dash)));
    DumpLine out{number, title, lower(title), {}, {}};
    std::size_t at = dash + 3;
    while (at < line.size() && line[at] == ' ') ++at;
    out.name = TRY(text_at(number, line, at));
    while (at < line.size()) {
      if (line[at] != ':')
        return wrong(number, at + 1, "a ':' is missing here");
      const std::size_t start = ++at;
      const std::size_t equals = line.find_first_of("=:", start);
      if (equals == std::string_view::npos || line[equals] != '=' || equals == start)
        return wrong(number, start + 1, "KEY=VALUE is meant here");
      at = equals + 1;
      out.words.push_back(
          {std::string(trim(line.substr(start, equals - start))), TRY(text_at(number, line, at)), number, start + 1});
    }
    return out;
  }

  // A cell that is empty, or a time of nothing, sets nothing.
  Result<DumpLine> table_line(std::size_t number, const std::vector<std::string>& names, std::string_view line) const {
    if (const auto code = control_character_in(line, "\t\r"))
      return wrong(number, 1, format("a control character (byte {})", *code));
    const std::vector<std::string> cells = split(trim(line), '|');
    if (cells.empty() || !is_record_name(cells[0]) || cells.size() > names.size() + 1)
      return wrong(number, 1, format("{} cells below {} names", cells.size(), names.size()));
    DumpLine out{number, "QOS", "qos", cells[0], {}};
    std::size_t column = cells[0].size() + 2;
    for (std::size_t i = 1; i < std::min(cells.size(), names.size()); ++i) {
      if (!cells[i].empty() && cells[i] != "00:00:00")
        out.words.push_back({names[i], cells[i], number, column});
      column += cells[i].size() + 1;
    }
    return out;
  }

  // Between quotes of either kind, or up to the next ':' that no digit follows and that is not of a device's type:
  // "2-00:00:00" and "cpu=8,gres/gpu:h100=4" are one value each.
  Result<std::string> text_at(std::size_t number, std::string_view line, std::size_t& at) const {
    if (at < line.size() && (line[at] == '\'' || line[at] == '"')) {
      // "it's" has one within: sacctmgr does not escape it.
      std::size_t closing = line.find(line[at], at + 1);
      for (; closing != line.npos && closing + 1 < line.size() && line[closing + 1] != ':';)
        closing = line.find(line[at], closing + 1);
      if (closing == std::string_view::npos)
        return wrong(number, at + 1, "the quote is not closed");
      const std::string out(line.substr(at + 1, closing - at - 1));
      at = closing + 1;
      return out;
    }
    std::size_t end = at;
    const auto goes_on = [&] {
      constexpr std::size_t kTypeMax = 256;  // a longer name is none, and a long line has many colons
      const std::size_t from = std::max(at, end - std::min(end, kTypeMax));
      std::string_view item = line.substr(from, end - from);
      item.remove_prefix(item.rfind(',') + 1);  // npos + 1 is 0
      const bool names_device = lower(item).starts_with("gres/") && item.find('=') == item.npos;
      return names_device || (end + 1 < line.size() && is_digit(line[end + 1]));
    };
    while (end < line.size() && (line[end] != ':' || goes_on())) ++end;
    const std::string out(trim(line.substr(at, end - at)));
    at = end;
    return out;
  }

  Result<void> take(const DumpLine& line) {
    struct Kind {
      std::string_view word;
      Result<void> (DumpReader::*take)(const DumpLine& line);
    };
    static constexpr Kind kKinds[] = {{"cluster machine", &DumpReader::cluster},
                                      {"parent", &DumpReader::parent},
                                      {"account project", &DumpReader::account},
                                      {"user", &DumpReader::user},
                                      {"qos", &DumpReader::qos}};
    for (const Kind& kind : kKinds)
      if (is_among(kind.word, line.kind))
        return is_record_name(line.name) ? (this->*kind.take)(line)
                                         : wrong(line.number, 1, format("\"{}\" is no name", line.name));
    return wrong(line.number, 1, format("\"{}\" is none of Cluster, Parent, Account, User, QOS", line.title));
  }

  void add(const DumpLine& line, const ConfWord* word, Fate fate) {
    const std::string whole = format("{} - '{}'", line.title, line.name);
    report_.entries.push_back({name_, line.number, word ? word->column : 1, word ? word->key : line.title,
                               word ? word->value : line.name, word ? whole : "", fate.verdict, std::move(fate.words)});
  }

  static Fate extra(const ConfWord& word) {
    for (const Extra& row : kExtras)
      if (is_among(row.keys, lower(word.key)))
        return {row.verdict, std::string(row.words)};
    return {Verdict::kUnknown, "sacctmgr has no such word, or one that came later"};
  }

  // One word of a record, by the setter of sacctmgr.
  template <class Record>
  void set(const DumpLine& line, const ConfWord& word, Record& record,
           Result<bool> (*setter)(Record& record, const KeyWord& word)) {
    const std::string key = key_of(word.key);
    const bool names_qos = is_among("qos qoslevel preempt", key);
    const auto done = setter(record, {key, 0, names_qos ? lower(word.value) : word.value});
    if (!done && key.find("tres") != key.npos && word.value.find(',') != word.value.npos)
      return set_each(line, word, record, setter);
    if (!done)
      return add(line, &word, {Verdict::kUnknown, format("no value of it: {}", done.error().message)});
    add(line, &word, *done ? Fate{Verdict::kTaken, "the same here"} : extra(word));
  }

  // Amounts by themselves: one that nothing counts here leaves the others.
  template <class Record>
  void set_each(const DumpLine& line, const ConfWord& word, Record& record,
                Result<bool> (*setter)(Record& record, const KeyWord& word)) {
    std::vector<std::string> left;
    for (const std::string& amount : split(word.value, ','))
      if (!setter(record, {key_of(word.key), 0, amount}))
        left.push_back(amount);
    add(line, &word, {Verdict::kNoEqual, format("{} has no equal; the rest is taken", join(left, ", "))});
  }

  Result<void> cluster(const DumpLine& line) {
    add(line, nullptr, {Verdict::kSame, "said once to the controller: CLUSTER_NAME in lockstepd.conf"});
    for (const ConfWord& word : line.words) {
      const std::string key = lower(word.key);
      if (key == "qos" || key == "qoslevel") {
        change_list(cluster_qos_, {"qos", 0, lower(word.value)});
        add(line, &word, {Verdict::kTaken, "what the accounts at the top may use, where they say nothing"});
      } else if (key == "defaultqos") {
        cluster_default_qos_ = lower(word.value);
        add(line, &word, {Verdict::kTaken, "of the accounts at the top, where they say nothing"});
      } else if (is_among("fairshare share shares", key)) {
        add(line, &word, {Verdict::kSame, "the root has no siblings"});
      } else {
        Account whole;
        const auto done = set_account(whole, {key_of(word.key), 0, word.value});
        add(line, &word,
            done && *done
                ? Fate{Verdict::kNoEqual, "the whole cluster has no limits: set them on the accounts at the top"}
                : extra(word));
      }
    }
    return {};
  }

  Result<void> parent(const DumpLine& line) {
    parent_ = lower(line.name);
    if (parent_ != "root" && !accounts_.contains(parent_))
      return wrong(line.number, 1, format("account {} is in no line before this one", parent_));
    add(line, nullptr, {Verdict::kTaken, "what follows is below it"});
    return {};
  }

  Result<void> account(const DumpLine& line) {
    Account record;
    record.meta.name = lower(line.name);
    record.parent = parent_ == "root" ? "" : parent_;
    if (const auto [at, is_new] = accounts_.emplace(record.meta.name, line.number); !is_new)
      return wrong(line.number, 1, format("account {} is there already, in line {}", record.meta.name, at->second));
    add(line, nullptr,
        {Verdict::kTaken, record.parent.empty() ? "an account" : format("an account below {}", record.parent)});
    for (const ConfWord& word : line.words)
      if (is_among("coordinator coordinators", lower(word.key))) {
        change_list(record.coordinators, {"coordinators", 0, word.value});
        add(line, &word, {Verdict::kTaken, "coordinators of the account"});
      } else if (is_among("qos qoslevel", lower(word.key))) {
        take_qos(line, word, record.qos, record.parent);
      } else {
        set(line, word, record, set_account);
      }
    account_at_.emplace(record.meta.name, file_.accounts.size());
    file_.accounts.push_back(std::move(record));
    return {};
  }

  Result<void> user(const DumpLine& line) {
    if (parent_ == "root")
      return user_of_root(line);
    Association record;
    record.account = parent_;
    record.user = line.name;
    add(line, nullptr, {Verdict::kTaken, format("a user in {}", parent_)});
    for (const ConfWord& word : line.words) {
      const std::string key = lower(word.key);
      if (key == "defaultaccount") {
        record.is_default = lower(word.value) == parent_;
        add(line, &word, {Verdict::kTaken, "the user's default account"});
      } else if (is_among("partition partitions", key)) {
        record.partition = word.value;
        add(line, &word, {Verdict::kTaken, "in that partition only"});
      } else if (is_among("coordinator coordinators", key)) {
        add(line, &word, make_coordinator(line.name, word.value));
      } else if (key == "adminlevel" || key == "admin") {
        add(line, &word, make_administrator(line.name, word.value));
      } else if (is_among("qos qoslevel", key)) {
        take_qos(line, word, record.qos, parent_);
      } else {
        set(line, word, record, set_association);
      }
    }
    record.meta.name = association_name(record.account, record.user, record.partition);
    if (!associations_.insert(record.meta.name).second)
      return wrong(line.number, 1, format("user {} is in account {} already", line.name, parent_));
    file_.associations.push_back(std::move(record));
    return {};
  }

  Result<void> user_of_root(const DumpLine& line) {
    const bool is_root = line.name == "root";
    const Fate fate = is_root ? Fate{Verdict::kSame, "root needs no account"}
                              : Fate{Verdict::kNoEqual, "nobody is in the root itself: put the user into an account"};
    add(line, nullptr, fate);
    for (const ConfWord& word : line.words) add(line, &word, fate);
    return {};
  }

  // "+high,-debug" changes what the account above allows: sacctmgr stores it so. Here a list stands for itself.
  void take_qos(const DumpLine& line, const ConfWord& word, std::vector<std::string>& list, std::string above) {
    const std::vector<std::string> names = split(lower(word.value), ',');
    const auto has_sign = [](const std::string& name) { return name.starts_with('+') || name.starts_with('-'); };
    if (std::none_of(names.begin(), names.end(), has_sign)) {
      change_list(list, {"qos", 0, lower(word.value)});
      return add(line, &word, {Verdict::kTaken, "the same here"});
    }
    while (!above.empty() && file_.accounts[account_at_.at(above)].qos.empty())
      above = file_.accounts[account_at_.at(above)].parent;
    list = above.empty() ? cluster_qos_ : file_.accounts[account_at_.at(above)].qos;
    if (list.empty())
      list = {"normal"};  // what sacctmgr gives a cluster
    for (const std::string& name : names) {
      const char sign = has_sign(name) ? name[0] : '+';
      change_list(list, {"qos", sign, has_sign(name) ? name.substr(1) : name});
    }
    add(line, &word,
        list.empty() ? Fate{Verdict::kNoEqual, "no QOS is left, and an empty list stands for what is above"}
                     : Fate{Verdict::kTaken, format("with what is above: {}", join(list, ","))});
  }

  // "Coordinator='physics,chemistry'" behind a user names the accounts.
  Fate make_coordinator(const std::string& user, const std::string& accounts) {
    std::vector<std::string> missing;
    for (const std::string& name : split(lower(accounts), ','))
      if (const auto known = account_at_.find(name); known != account_at_.end())
        change_list(file_.accounts[known->second].coordinators, {"coordinators", '+', user});
      else
        missing.push_back(name);
    if (!missing.empty())
      return {Verdict::kNoEqual, format("the dump has no account {}", join(missing, ", "))};
    return {Verdict::kTaken, "coordinator of these accounts"};
  }

  Fate make_administrator(const std::string& user, const std::string& level) {
    if (is_among("none notset", lower(level)))
      return {Verdict::kTaken, "an ordinary user"};
    if (lower(level) != "administrator" && lower(level) != "admin")
      return {Verdict::kNoEqual, "there are administrators and coordinators of accounts, and no operators"};
    if (!file_.administrators)
      file_.administrators.emplace();
    std::vector<std::string>& all = *file_.administrators;
    if (std::find(all.begin(), all.end(), user) == all.end())
      all.push_back(user);
    return {Verdict::kTaken, "an administrator of the cluster"};
  }

  Result<void> qos(const DumpLine& line) {
    Qos record;
    record.meta.name = lower(line.name);
    if (const auto [at, is_new] = qos_.emplace(record.meta.name, line.number); !is_new)
      return wrong(line.number, 1, format("QOS {} is there already, in line {}", record.meta.name, at->second));
    if (std::any_of(file_.qos.begin(), file_.qos.end(),
                    [&](const Qos& q) { return q.meta.name == record.meta.name; })) {
      add(line, nullptr, {Verdict::kSame, "described in the table of --qos"});
      return {};
    }
    add(line, nullptr, {Verdict::kTaken, "a QOS"});
    for (const ConfWord& word : line.words)
      if (lower(word.key) == "flags")
        take_flags(line, word, record);
      else
        set(line, word, record, set_qos);
    file_.qos.push_back(std::move(record));
    return {};
  }

  // Each by itself: one that is not there leaves the others.
  void take_flags(const DumpLine& line, const ConfWord& word, Qos& record) {
    std::vector<std::string> left;
    for (const std::string& flag : split(word.value, ','))
      if (!set_qos(record, {"flags", '+', flag}))
        left.push_back(flag);
    add(line, &word,
        left.empty() ? Fate{Verdict::kTaken, "the same here"}
                     : Fate{Verdict::kNoEqual, format("{} has no equal; the rest is taken", join(left, ", "))});
  }

  void inherit_cluster_qos() {
    for (Account& account : file_.accounts) {
      if (!account.parent.empty())
        continue;
      if (account.qos.empty())
        account.qos = cluster_qos_;
      if (account.default_qos.empty())
        account.default_qos = cluster_default_qos_;
    }
  }

  ClusterFile& file_;
  Report& report_;
  const std::string& name_;
  std::string parent_ = "root";
  std::vector<std::string> cluster_qos_;
  std::string cluster_default_qos_;
  std::map<std::string, std::size_t> accounts_, qos_;  // by the line that has them
  std::map<std::string, std::size_t> account_at_;      // where in the file
  std::set<std::string> associations_;
};

}  // namespace

Result<void> read_accounts(ClusterFile& file, Report& report, const std::string& name, std::string_view text) {
  return DumpReader(file, report, name).run(text);
}

Result<void> read_qos_table(ClusterFile& file, Report& report, const std::string& name, std::string_view text) {
  return DumpReader(file, report, name).run_table(text);
}

}  // namespace lockstep::slurm
