// `lockstep import`: a Slurm site's files become cluster.yaml, and a report that accounts for every setting. It needs
// no cluster and changes none.
#include <stdio.h>
#include <unistd.h>

#include <optional>

#include "base/plain_file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "frontends/slurm/import/importer.h"
#include "io/local/process.h"
#include "views/shown_text.h"
#include "wire/cluster_file.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep import [slurm.conf] [options]

Turns a Slurm site's files into one cluster file for `lockstep apply`, and says of every setting in
them what becomes of it: taken, the same by nature, without equal (what that means, and what to do
instead), or unknown. Needs no cluster and changes none. Without a name /etc/slurm/slurm.conf is
read; gres.conf and topology.conf are looked for beside it, and included files are followed.

  --gres FILE         this gres.conf instead
  --topology FILE     this topology.conf instead, whatever TopologyPlugin says
  --accounts DUMP     accounts, users, QOS and limits: what `sacctmgr dump CLUSTER file=DUMP` wrote
  --qos TABLE         QOS, where an older dump has none: what `sacctmgr -P show qos` printed
  -o, --output FILE   write the cluster file here; without it, it goes to standard output, and the
                      report to standard error
  -o json             print the report as JSON, and no cluster file (a file so called is ./json)
  -r, --report FILE   write the whole report here as well
  -a, --all           show every setting, not only those without an equal and the unknown ones
      --force         write over files that are there
      --strict        exit with 1 and write no cluster file if anything has no equal or is unknown
      --keys          print the table of all parameters and their verdicts, as Markdown, and end

Examples
  lockstep import -o cluster.yaml --report import.txt
  lockstep import old/slurm.conf --accounts dump.cfg -o cluster.yaml
  lockstep apply -n -f cluster.yaml

Exit codes: 0 done, 1 a file cannot be read or written (or --strict), 2 wrong usage.
)help";

struct Options {
  std::string slurm_conf = "/etc/slurm/slurm.conf";
  std::string gres, topology, accounts, qos, output, report;
  bool all = false, force = false, strict = false, keys = false, json = false;
};

struct TextOption {
  int letter;
  std::string Options::*text;
};
constexpr TextOption kTexts[] = {{'g', &Options::gres}, {'t', &Options::topology}, {'c', &Options::accounts},
                                 {'q', &Options::qos},  {'o', &Options::output},   {'r', &Options::report}};
struct FlagOption {
  int letter;
  bool Options::*flag;
};
constexpr FlagOption kFlags[] = {
    {'a', &Options::all}, {'f', &Options::force}, {'s', &Options::strict}, {'k', &Options::keys}};

int fail(const Error& error) {
  fprintf(stderr, "lockstep import: %s\n", shown(error.message).c_str());
  return 1;
}

// What a person named: links are followed. Its name comes first in what went wrong.
Result<std::string> read_site_file(const std::string& path) {
  auto text = read_plain(path, Links::kFollowed, slurm::kConfBytesMax * 4);
  if (!text && text.error().code == Errc::kNotFound)
    return not_found(format("{}: there is no such file", path));
  if (!text && text.error().code == Errc::kDenied)
    return denied(format("{}: this is no regular file", path));
  if (!text && text.error().message.find(path) == std::string::npos)
    return Error{text.error().code, format("{}: {}", path, text.error().message), {}};
  return text;
}

void take_option(Options& options, int letter, const char* value) {
  for (const TextOption& row : kTexts)
    if (row.letter == letter)
      options.*row.text = value;
  for (const FlagOption& row : kFlags)
    if (row.letter == letter)
      options.*row.flag = true;
}

// An exit code when there is nothing more to do.
std::optional<int> read_options(Options& options, int argc, char** argv) {
  static const option kOptions[] = {
      {"gres", 1, nullptr, 'g'}, {"topology", 1, nullptr, 't'}, {"accounts", 1, nullptr, 'c'},
      {"qos", 1, nullptr, 'q'},  {"output", 1, nullptr, 'o'},   {"report", 1, nullptr, 'r'},
      {"all", 0, nullptr, 'a'},  {"force", 0, nullptr, 'f'},    {"strict", 0, nullptr, 's'},
      {"keys", 0, nullptr, 'k'}, {"help", 0, nullptr, 'h'},     {nullptr, 0, nullptr, 0}};
  VerbWords given({.verb = "import", .options = kOptions, .letters = "o:r:ah", .words = 1}, argc, argv);
  for (int c; (c = given.next()) != -1;) {
    if (c == '?')
      return 2;
    if (c == 'h') {
      fputs(kHelp, stdout);
      return 0;
    }
    take_option(options, c, optarg);
  }
  if (const auto words = given.rest(); !words.empty())
    options.slurm_conf = words[0];
  options.json = options.output == "json";  // as with every list
  if (options.json)
    options.output.clear();
  return std::nullopt;
}

slurm::ImportPaths paths_of(const Options& options) {
  const auto beside = [&](const char* name) {
    const auto slash = options.slurm_conf.rfind('/');
    return (slash == std::string::npos ? "" : options.slurm_conf.substr(0, slash + 1)) + name;
  };
  return {.slurm_conf = options.slurm_conf,
          .gres_conf = options.gres.empty() ? beside("gres.conf") : options.gres,
          .topology_conf = options.topology.empty() ? beside("topology.conf") : options.topology,
          .gres_must = !options.gres.empty(),
          .topology_must = !options.topology.empty(),
          .accounts = options.accounts,
          .qos = options.qos};
}

std::string file_text(const Options& options, const slurm::Imported& imported) {
  return format(
             "# Made by `lockstep import` of {}.\n# {}.\n# Look at the report, then: lockstep apply -f THIS "
             "--dry-run\n",
             options.slurm_conf, report_summary(imported.report)) +
         encode_cluster_file(imported.file);
}

// Where the report goes on a screen: beside the file, not into it.
void show_report(const Options& options, const slurm::Report& report) {
  FILE* const out = options.output.empty() ? stderr : stdout;
  fputs(report_text(report, {.all = options.all, .width = 100}).c_str(), out);
  if (!options.all && report.count(slurm::Verdict::kTaken) + report.count(slurm::Verdict::kSame) > 0)
    fputs(options.report.empty() ? "Every setting: --all, or --report FILE\n"
                                 : format("Every setting is in {}\n", options.report).c_str(),
          out);
}

// The report and the cluster file, where they were asked for: nothing, where one of them may not be written.
Result<void> write_files(const Options& options, const slurm::Imported& imported, bool is_refused) {
  struct Target {
    const std::string& path;
    std::string text;
  };
  std::vector<Target> targets;
  if (!options.report.empty())
    targets.push_back({options.report, report_text(imported.report, {})});
  if (!options.output.empty() && !is_refused)
    targets.push_back({options.output, file_text(options, imported)});
  for (const Target& target : targets)
    if (!options.force && access(target.path.c_str(), F_OK) == 0)
      return conflict(format("{} is there already: say another name, or --force", target.path));
  // What the site's files say may be for root alone.
  for (const Target& target : targets) TRY(write_file(target.path, target.text, 0600));
  return {};
}

int run(const Options& options) {
  const auto imported = slurm::import_slurm(paths_of(options), read_site_file);
  if (!imported)
    return fail(imported.error());
  // What is written is what `lockstep apply` reads: a name that it would not take is told here.
  if (const auto sound = decode_cluster_file(encode_cluster_file(imported->file)); !sound)
    return fail(invalid("what comes of these files is no cluster file: " + sound.error().message));
  const bool is_refused = options.strict && !imported->report.is_whole();
  if (const auto done = write_files(options, *imported, is_refused); !done)
    return fail(done.error());
  if (options.json)
    fputs(report_json(imported->report).c_str(), stdout);
  else
    show_report(options, imported->report);
  if (is_refused)
    return fail(invalid("--strict: not everything has an equal; no cluster file is written"));
  if (options.output.empty() && !options.json)
    fputs(file_text(options, *imported).c_str(), stdout);
  return 0;
}

}  // namespace

int import_main(int argc, char** argv) {
  Options options;
  if (const auto exit_code = read_options(options, argc, argv))
    return *exit_code;
  if (options.keys) {
    fputs(slurm::keys_as_markdown().c_str(), stdout);
    return 0;
  }
  return run(options);
}

}  // namespace lockstep
