// scontrol: options, verbs, and the prompt it has when it is given none.
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/key_rows.h"
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
  {'M', "clusters cluster", Takes::kValue, "", "", &ScontrolSession::clusters},
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
  return is_among(
      "notify top reboot cancel_reboot power shutdown takeover token setdebug setdebugflags schedloglevel listpids "
      "pidinfo completing abort cluster getaddrs reboot_nodes fsdampeningfactor",
      verb);
}

int show_entity(const ScontrolSession& session, const Words& words) {
  if (words.empty()) {
    session.voice.error("too few arguments for keyword:show");
    return 1;
  }
  const auto hosts = scontrol_hosts(session, words);
  return hosts ? *hosts : scontrol_show(session, words);
}

// "job 527" is the same as "job=527".
Words with_keys_joined(const Words& words) {
  Words out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_key =
        words[i].find('=') == std::string::npos && i + 1 < words.size() && words[i + 1].find('=') == std::string::npos;
    out.push_back(is_key ? format("{}={}", words[i], words[i + 1]) : words[i]);
    i += is_key;
  }
  return out;
}

int update(const ScontrolSession& session, const Words& as_typed) {
  const Words words = with_keys_joined(as_typed);
  const auto done = scontrol_reservation(session, "update", words);
  return done ? *done : scontrol_update(session, words);
}

int create(const ScontrolSession& session, const Words& words) {
  const auto done = scontrol_reservation(session, "create", words);
  return done ? *done : scontrol_create(session, words);
}

int remove(const ScontrolSession& session, const Words& words) {
  const auto done = scontrol_reservation(session, "delete", words);
  return done ? *done : scontrol_delete(session, words);
}

int ping(const ScontrolSession& session, const Words&) { return scontrol_ping(session); }

int reconfigure(const ScontrolSession& session, const Words&) {
  session.voice.info("nothing to reconfigure: every change takes effect at once");
  return 0;
}

int version(const ScontrolSession&, const Words&) { return print_version(); }

int help(const ScontrolSession&, const Words&) {
  say(help_of(kSyntax));
  return 0;
}

struct Verb {
  std::string_view name;
  std::size_t shortest;
  int (*run)(const ScontrolSession&, const Words&);
  std::size_t most = SIZE_MAX;  // words behind it
};
constexpr Verb kVerbs[] = {{"show", 1, show_entity, 2}, {"update", 1, update}, {"create", 2, create},
                           {"delete", 1, remove},       {"ping", 3, ping, 0},  {"write", 5, scontrol_write, 3},
                           {"version", 7, version, 0},  {"help", 4, help},     {"reconfigure", 3, reconfigure, 0}};

bool needs_cluster(const Words& words) {
  return words.size() < 2 || !abbreviates(words[0], "show", 1) || !lower(words[1]).starts_with("host");
}

int run_verb(const ScontrolSession& session, Words words) {
  const std::string verb = lower(words[0]);
  words.erase(words.begin());
  for (const Verb& known : kVerbs)
    if (abbreviates(verb, known.name, known.shortest)) {
      if (words.size() <= known.most)
        return known.run(session, words);
      write_all(STDERR_FILENO, format("too many arguments for keyword:{}\n", verb));
      return 1;
    }
  if (is_among("hold uhold release requeue requeuehold suspend resume wait_job", verb)) {
    outlive_own_job();
    return scontrol_job_verb(session, verb, words);
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
  if (needs_cluster(words))
    if (const auto known = check_clusters(context, session.clusters); !known) {
      if (!say_unreached(session.voice, "slurm_load_ctl_conf error", known.error()))
        session.voice.error(known.error().message);
      return 1;
    }
  return words.empty() ? run_prompt(session) : run_verb(session, std::move(words));
}

}  // namespace lockstep::slurm
