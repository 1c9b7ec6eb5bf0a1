// sacctmgr: accounts, users in them, QOS and licences.
#include "frontends/slurm/client/sacctmgr.h"

#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/key_rows.h"
#include "wire/api.h"
#include "wire/codec.h"

namespace lockstep::slurm {

namespace {

constexpr std::string_view kHead = R"(Usage: sacctmgr [OPTIONS] VERB ENTITY [WORDS]
  add     account NAME[,NAME] [parent=P] [KEY=VALUE ...]
          user NAME[,NAME] account=A[,A] [partition=P] [KEY=VALUE ...]
          qos NAME [KEY=VALUE ...]     coordinator account=A names=U     resource NAME count=N
  modify  account|user|qos [where] NAME [account=A] set KEY=VALUE ...
          cluster set PriorityWeightFairshare=N PriorityDecayHalfLife=D-H AccountingStorageEnforce=LIST ...
  delete  account|user|qos|coordinator|resource NAME [account=A]
  show    account|user|association|qos|cluster|tres|resource [NAME] [KEY=VALUE ...] [format=LIST]
Keys: fairshare, defaultqos, qos, description, organization; GrpTRES, GrpTRESMins, GrpTRESRunMins, GrpJobs, GrpSubmit,
  GrpWall, MaxTRES, MaxTRESPerNode, MaxTRESMins, MaxWall, MaxJobs, MaxSubmit; of accounts QuotaTRES, BorrowTRES,
  LendTRES; of QOS priority, flags, preempt, preemptmode, gracetime, usagefactor, MaxTRESPU, MaxTRESPA, MaxJobsPU,
  MaxJobsPA, MaxSubmitPU, MaxSubmitPA, MinTRES
Options:
)";

// clang-format off
constexpr CommandOption<SacctmgrSession> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'i', "immediate", Takes::kNothing, "", "commit without asking", &SacctmgrSession::immediate},
  {0, "json", Takes::kMaybe, "", "everything, as JSON", &SacctmgrSession::json},
  {'n', "noheader", Takes::kNothing, "", "no header line", look_without_header<SacctmgrSession>},
  {'p', "parsable", Takes::kNothing, "", "fields between bars, one more at the end", look_parsable<SacctmgrSession>},
  {'P', "parsable2", Takes::kNothing, "", "fields between bars", look_parsable2<SacctmgrSession>},
  {'Q', "quiet", Takes::kNothing, "", "say less", &SacctmgrSession::quiet},
  {'s', "associations", Takes::kNothing, "", "with associations", &SacctmgrSession::with_associations},
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {'h', "help usage", Takes::kNothing, "", "", Shows::kHelp},
  {0, "yaml", Takes::kMaybe, "", "", Refusal{"--yaml is not supported; use --json"}},
  {'o', "oneliner", Takes::kNothing, "", "", Nothing{}},
  {'r', "readonly", Takes::kNothing, "", "", Nothing{}},
  {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<SacctmgrSession> kSyntax = {.head = kHead, .options = kOptions, .column = 25};

using EntityVerb = int (*)(const SacctmgrSession&, const std::string&, const std::vector<std::string>&);
struct Verb {
  std::string_view name;
  std::size_t shortest;
  EntityVerb run;
};
constexpr Verb kVerbs[] = {{"add", 1, sacctmgr_add},       {"create", 2, sacctmgr_add},
                           {"modify", 1, sacctmgr_modify}, {"update", 1, sacctmgr_modify},
                           {"delete", 3, sacctmgr_delete}, {"remove", 3, sacctmgr_delete},
                           {"show", 1, sacctmgr_show},     {"list", 1, sacctmgr_show}};

EntityVerb find_verb(std::string_view word) {
  for (const Verb& verb : kVerbs)
    if (word.size() >= verb.shortest && verb.name.starts_with(word))
      return verb.run;
  return nullptr;
}

int run_verb(const SacctmgrSession& session, std::vector<std::string> words) {
  const std::string verb = lower(words[0]);
  if (verb == "version")
    return print_version();
  if (verb == "help") {
    say(help_of(kSyntax));
    return 0;
  }
  const EntityVerb run = find_verb(verb);
  if (!run && is_among("archive clear dump load ping reconfigure shutdown", verb)) {
    session.voice.error(format("{} is not supported", verb));
    return 1;
  }
  if (!run) {
    write_all(STDERR_FILENO, format("invalid keyword: {}\n", words[0]));
    return 1;
  }
  const std::string entity = words.size() > 1 ? sacctmgr_entity(words[1]) : "";
  if (entity.empty()) {
    session.voice.error(words.size() > 1 ? format("No valid entity: {}", words[1])
                                         : format("No valid entity in {} command", verb));
    return 1;
  }
  words.erase(words.begin(), words.begin() + 2);
  return run(session, entity, words);
}

int run_prompt(const SacctmgrSession& session) {
  int last = 0;
  char line[64 << 10];
  for (;;) {
    if (isatty(STDIN_FILENO))
      say("sacctmgr: ");
    if (!fgets(line, sizeof line, stdin))
      return last;
    std::vector<std::string> words = split_words(line);
    if (words.empty())
      continue;
    if (words[0] == "quit" || words[0] == "exit")
      return last;
    last = run_verb(session, std::move(words));
  }
}

}  // namespace

std::string sacctmgr_entity(std::string_view word) {
  const std::string given = lower(word);
  constexpr std::string_view kEntities[] = {"account", "association", "cluster", "coordinator",
                                            "qos",     "resource",    "tres",    "user"};
  constexpr std::size_t kShortest[] = {2, 2, 2, 2, 1, 3, 1, 1};
  for (std::size_t i = 0; i < std::size(kEntities); ++i) {
    const std::string plural = format("{}s", kEntities[i]);
    if (given.size() >= kShortest[i] && plural.substr(0, given.size()) == given)
      return std::string(kEntities[i]);
  }
  return given == "acct" || given == "accts" ? "account" : given == "license" || given == "licenses" ? "resource" : "";
}

template <class T>
Result<std::vector<Ref<T>>> records(Query& query, std::string_view path, Kind kind) {
  std::vector<Ref<T>> out;
  for (const Record& record : TRY(decode_records(kind, TRY(query.get(path, {})))))
    if (const auto* one = std::get_if<Ref<T>>(&record))
      out.push_back(*one);
  return out;
}
template Result<std::vector<Ref<Account>>> records(Query&, std::string_view, Kind);
template Result<std::vector<Ref<Association>>> records(Query&, std::string_view, Kind);
template Result<std::vector<Ref<Qos>>> records(Query&, std::string_view, Kind);
template Result<std::vector<Ref<User>>> records(Query&, std::string_view, Kind);
template Result<std::vector<Ref<Licence>>> records(Query&, std::string_view, Kind);

int sacctmgr_main(const ClientContext& context, int argc, char** argv) {
  SacctmgrSession session{context};
  const CommandWords line = read_options(kSyntax, argc, argv, session.voice, session);
  if (line.exit_code)
    return *line.exit_code;
  return line.words.empty() ? run_prompt(session) : run_verb(session, line.words);
}

}  // namespace lockstep::slurm
