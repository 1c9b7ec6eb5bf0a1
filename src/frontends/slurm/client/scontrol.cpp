// scontrol: options, verbs, and the prompt it has when it is given none.
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/own_job.h"
#include "frontends/slurm/client/scontrol_verbs.h"

namespace lockstep::slurm {

namespace {

constexpr std::string_view kHead = R"(Usage: scontrol [OPTIONS] VERB ...
  show job|step [ID]          show node|partition [NAME]      show config
  show reservation|license [NAME]
  show hostnames [LIST]       show hostlist LIST              show hostlistsorted LIST
  update JobId=ID KEY=VALUE ...
  update NodeName=LIST State=DRAIN Reason=TEXT | State=RESUME | Weight=N
  update PartitionName=NAME KEY=VALUE ...
  create PartitionName=NAME KEY=VALUE ...      delete PartitionName=NAME
  create reservation [ReservationName=NAME] StartTime=T Duration=D Users=LIST Nodes=LIST|NodeCnt=N [Flags=LIST] ...
  update ReservationName=NAME KEY=VALUE ...    delete ReservationName=NAME
  hold ID ...    uhold ID ...    release ID ...    requeue ID ...    requeuehold ID ...
  suspend ID ...                                resume ID ...
  write batch_script ID [FILE|-]                wait_job ID        ping
Options:
)";

// clang-format off
constexpr CommandOption<ScontrolSession> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'a', "all", Takes::kNothing, "", "every partition and node", Nothing{}},
  {'d', "details", Takes::kNothing, "", "more about each record", &ScontrolSession::detail},
  {'o', "oneliner", Takes::kNothing, "", "one line a record", &ScontrolSession::one_line},
  {'Q', "quiet", Takes::kNothing, "", "say less", &ScontrolSession::quiet},
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {'h', "help usage", Takes::kNothing, "", "", Shows::kHelp},
  {0, "json yaml", Takes::kMaybe, "", "", Refusal{"scontrol has no JSON here: squeue --json and sinfo --json do"}},
  {'u', "uid", Takes::kValue, "", "", Refusal{"--uid is not supported"}},
  {'M', "clusters cluster", Takes::kValue, "", "", Nothing{}},
  {'F', "federation future", Takes::kNothing, "", "", Nothing{}},
  {'H', "hide", Takes::kNothing, "", "", Nothing{}},
  {'L', "local sibling", Takes::kNothing, "", "", Nothing{}},
  {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

// Options may stand behind the verb too, but values such as "-1" must not be taken for them: take_late_option looks
// there.
constexpr CommandSyntax<ScontrolSession> kSyntax = {
    .head = kHead, .options = kOptions, .column = 21, .stand = OptionsStand::kInFront};

bool known_elsewhere(std::string_view verb) {
  for (const std::string_view name :
       {"notify", "top", "reboot", "cancel_reboot", "power", "shutdown", "takeover", "token", "setdebug",
        "setdebugflags", "schedloglevel", "listpids", "pidinfo", "completing", "abort", "cluster", "getaddrs",
        "reboot_nodes", "fsdampeningfactor"})
    if (verb == name)
      return true;
  return false;
}

int run_verb(const ScontrolSession& session, Words words) {
  const std::string verb = lower(words[0]);
  words.erase(words.begin());
  if (abbreviates(verb, "show", 1)) {
    if (words.empty()) {
      session.voice.error("too few arguments for keyword:show");
      return 1;
    }
    if (const auto done = scontrol_hosts(session, words))
      return *done;
    return scontrol_show(session, words);
  }
  for (const char* const name : {"update", "create", "delete"})
    if (abbreviates(verb, name, 2))
      if (const auto done = scontrol_reservation(session, name, words))
        return *done;
  if (abbreviates(verb, "update", 1))
    return scontrol_update(session, words);
  if (abbreviates(verb, "create", 2))
    return scontrol_create(session, words);
  if (abbreviates(verb, "delete", 1))
    return scontrol_delete(session, words);
  for (const char* const name : {"hold", "uhold", "release", "requeue", "requeuehold", "suspend", "resume", "wait_job"})
    if (verb == name) {
      outlive_own_job();
      return scontrol_job_verb(session, verb, words);
    }
  if (abbreviates(verb, "ping", 3))
    return scontrol_ping(session);
  if (abbreviates(verb, "write", 5))
    return scontrol_write(session, words);
  if (verb == "version")
    return print_version();
  if (verb == "help") {
    say(help_of(kSyntax));
    return 0;
  }
  if (abbreviates(verb, "reconfigure", 3)) {
    session.voice.info("nothing to reconfigure: every change takes effect at once");
    return 0;
  }
  if (known_elsewhere(verb)) {
    session.voice.error(format("{} is not supported", verb));
    return 1;
  }
  write_all(STDERR_FILENO, format("invalid keyword: {}\n", verb));
  return 1;
}

// "show nodes -oF": letters that say how it is shown stand behind the verb too. False: the word is something else, "-1"
// or a name.
bool take_late_option(ScontrolSession& session, std::string_view word) {
  constexpr std::string_view kLetters = "adFHoQv";
  if (word == "--oneliner" || word == "--details" || word == "--all" || word == "--quiet") {
    session.one_line |= word == "--oneliner";
    session.detail |= word == "--details";
    session.quiet |= word == "--quiet";
    return true;
  }
  if (word.size() < 2 || word[0] != '-' || word.find_first_not_of(kLetters, 1) != std::string_view::npos)
    return false;
  session.one_line |= word.find('o') != std::string_view::npos;
  session.detail |= word.find('d') != std::string_view::npos;
  session.quiet |= word.find('Q') != std::string_view::npos;
  return true;
}

// Without a verb: a prompt, a command a line.
int run_prompt(const ScontrolSession& session) {
  int last = 0;
  char line[64 << 10];
  for (;;) {
    if (isatty(STDIN_FILENO))
      say("scontrol: ");
    if (!fgets(line, sizeof line, stdin))
      return last;
    Words words = split_words(line);
    if (words.empty())
      continue;
    if (words[0] == "quit" || words[0] == "exit")
      return last;
    last = run_verb(session, std::move(words));
  }
}

}  // namespace

bool abbreviates(std::string_view word, std::string_view whole, std::size_t shortest) {
  return word.size() >= shortest && word.size() <= whole.size() && lower(word) == whole.substr(0, word.size());
}

std::optional<std::pair<std::string, std::string>> key_value(const std::string& word) {
  const auto at = word.find('=');
  if (at == std::string::npos || at == 0)
    return std::nullopt;
  std::string key = lower(std::string_view(word).substr(0, at));
  if (key.ends_with('+') || key.ends_with('-'))
    return std::nullopt;
  return std::pair{std::move(key), word.substr(at + 1)};
}

int scontrol_main(const ClientContext& context, int argc, char** argv) {
  ScontrolSession session{context};
  CommandWords line = read_options(kSyntax, argc, argv, session.voice, session);
  if (line.exit_code)
    return *line.exit_code;
  Words words;
  for (std::string& word : line.words)
    if (!take_late_option(session, word))
      words.push_back(std::move(word));
  return words.empty() ? run_prompt(session) : run_verb(session, std::move(words));
}

}  // namespace lockstep::slurm
