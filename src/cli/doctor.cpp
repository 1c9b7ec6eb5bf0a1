#include "cli/doctor.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/installed.h"
#include "base/nearest.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "io/local/backup_note.h"
#include "io/local/folder.h"
#include "io/local/state_dir.h"
#include "views/shown_text.h"
#include "wire/api.h"
#include "wire/json_text.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep doctor [CHECK …] [--dir DIR] [--settings FILE] [-o table|json]
       lockstep doctor --list

Looks at what of a cluster lies on this machine, the controller, its nodes or both, says what is wrong and how to mend
it, and changes nothing. It works while the controller is down, and says what it was not allowed to look at.

  CHECK             only these; --list names them
  --dir DIR         the cluster's state directory (default: the cluster of this machine)
  --settings FILE   a node without a controller whose agent has other settings than /etc/lockstep/agent.json
  -o json           findings as JSON

Severities: error (something does not work), warning (it will not, or not well), note (worth knowing), unknown (it could
not be looked at). Exit codes: 0 no error and no warning, 1 some, 2 usage or nothing to look at.

Examples
  lockstep doctor
  lockstep doctor disks certificates -o json
  ssh gpu7 lockstep doctor
)help";

const Check* const kChecks[] = {&kControllerCheck, &kNodesCheck, &kVersionsCheck,     &kNamesCheck,     &kPortsCheck,
                                &kModesCheck,      &kDisksCheck, &kCertificatesCheck, &kGpusCheck,      &kUnitsCheck,
                                &kKernelCheck,     &kClockCheck, &kAgentCheck,        &kAccountingCheck};

std::string_view text_of(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: return "note";
    case Severity::kUnknown: return "unknown";
  }
  return "unknown";
}

// --- the patient ---

void add_node_here(Patient& patient, const std::string& settings) {
  const auto text = read_plain(settings, Links::kFollowed);
  const auto file = text ? decode_agent_file(*text) : Result<AgentFile>(text.error());
  if (file)
    patient.here.push_back({settings, *file});
  else if (!text && text.error().code == Errc::kNotFound)
    return;
  else if (access(settings.c_str(), R_OK) != 0)
    patient.unreadable_agent = settings;
  else {
    const std::string& field = file.error().field;
    patient.wrong_agent = settings;
    patient.wrong_agent_why = format("{}{}{}", field, field.empty() ? "" : ": ", file.error().message);
  }
}

// Gauges and counters without labels: "lockstep_read_only 0".
std::map<std::string, double> parse_gauges(const std::string& text) {
  std::map<std::string, double> out;
  for (const auto& line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[0].find('{') == std::string::npos)
      if (const auto value = parse_int(words[1]))
        out[words[0]] = static_cast<double>(*value);
  }
  return out;
}

void add_what_it_knows(Patient& patient) {
  if (const auto answer = ask_controller(patient.dir, "GET", "/v1/nodes"))
    if (const auto records = decode_records(Kind::kNode, *answer))
      for (const auto& record : *records) patient.nodes.push_back(std::get<Ref<Node>>(record));
  if (const auto text = ask_controller(patient.dir, "GET", "/metrics"))
    patient.gauges = parse_gauges(*text);
}

void add_controller(Patient& patient, const ClusterDir& dir) {
  patient.dir = dir;
  const std::string& root = dir.root;
  struct stat found {};
  patient.has_controller = dir.kind != ClusterDir::Kind::kNode &&
                           (stat((root + "/" + kMarkFile).c_str(), &found) == 0 || patient.dir.is_ours());
  if (!patient.has_controller)
    return;
  patient.is_installed = dir.is_installed();
  if (stat(root.c_str(), &found) == 0)
    patient.owner = found.st_uid;
  patient.may_look = geteuid() == 0 || geteuid() == patient.owner;
  if (patient.may_look && patient.dir.exists())
    if (const auto conf = patient.dir.load())
      patient.conf = *conf;
  const auto note = read_restore_note(root);
  patient.is_quiet = note && *note;
  if (auto status = cluster_status(patient.dir))
    patient.status = std::move(*status);
  if (patient.status && patient.status->jobs_known)
    add_what_it_knows(patient);
  if (patient.may_look)
    for (const auto& name : all_node_names(patient.dir, patient.conf ? &*patient.conf : nullptr))
      add_node_here(patient, patient.dir.node_dir(name) + "/agent.json");
}

// --- what is said ---

struct Asked {
  std::string dir, settings, output = "table";
  bool list = false;
  std::vector<std::string> checks;
};

void list_checks() {
  printf("%-13s %s\n", "CHECK", "LOOKS AT");
  for (const Check* check : kChecks)
    printf("%-13s %s\n", std::string(check->name).c_str(), std::string(check->looks_at).c_str());
}

std::size_t count_of(const Diagnosis& report, Severity severity) {
  return static_cast<std::size_t>(std::count_if(report.findings().begin(), report.findings().end(),
                                                [&](const Finding& one) { return one.severity == severity; }));
}

bool needs_work(const Diagnosis& report) {
  return count_of(report, Severity::kError) + count_of(report, Severity::kWarning) > 0;
}

// Long sentences go on below where they began.
std::string wrapped(const std::string& text, std::size_t indent) {
  constexpr std::size_t kWidth = 98;
  std::string out;
  std::size_t column = indent;
  for (const auto& word : split_words(text)) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string what_is_here(const Patient& patient) {
  std::string nodes = patient.here.size() == 1 ? "node " + patient.here[0].file.node : "";
  if (patient.here.size() > 1)
    nodes = format("{} nodes", patient.here.size());
  if (!patient.has_controller)
    return nodes.empty() ? "a node" : nodes;
  const std::string name = patient.status && !patient.status->cluster.empty() ? patient.status->cluster : "";
  return format("controller{} in {}{}", name.empty() ? "" : " of \"" + shown(name) + "\"", patient.dir.root,
                nodes.empty() ? "" : ", " + nodes);
}

void print_table(const Patient& patient, const Diagnosis& report, std::size_t made) {
  constexpr std::size_t kIndent = 23;
  printf("looked at: %s\n", what_is_here(patient).c_str());
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote, Severity::kUnknown})
    for (const Finding& one : report.findings()) {
      if (one.severity != severity)
        continue;
      const std::string text = one.which.empty() ? one.what : one.which + ": " + one.what;
      printf("%-8s %-13s %s\n", std::string(text_of(severity)).c_str(), one.check.c_str(),
             wrapped(shown(text), kIndent).c_str());
      if (!one.mend.empty())
        printf("%*s-> %s\n", static_cast<int>(kIndent), "", wrapped(shown(one.mend), kIndent + 3).c_str());
    }
  printf("%zu checks: %zu error(s), %zu warning(s)%s\n", made, count_of(report, Severity::kError),
         count_of(report, Severity::kWarning), needs_work(report) ? "" : "; nothing needs work");
}

void print_json(const Patient& patient, const Diagnosis& report, const std::vector<const Check*>& checks) {
  JsonText j;
  j.object().field("controller", patient.has_controller).field("dir", patient.has_controller ? patient.dir.root : "");
  j.key("nodes").array();
  for (const auto& node : patient.here) j.value(node.file.node);
  j.end().key("checks").array();
  for (const Check* check : checks) j.value(check->name);
  j.end().key("findings").array();
  for (const Finding& one : report.findings())
    j.object()
        .field("severity", text_of(one.severity))
        .field("check", one.check)
        .field("which", one.which)
        .field("what", one.what)
        .field("mend", one.mend)
        .end();
  j.end().end();
  printf("%s\n", j.take().c_str());
}

int fail(const std::string& what) {
  fprintf(stderr, "lockstep doctor: %s\n", what.c_str());
  return 2;
}

// Those that are asked for; an error names one that is none.
Result<std::vector<const Check*>> chosen(const std::vector<std::string>& names) {
  std::vector<const Check*> out;
  if (names.empty())
    return std::vector<const Check*>(std::begin(kChecks), std::end(kChecks));
  std::vector<std::string_view> known;
  for (const Check* check : kChecks) known.push_back(check->name);
  for (const auto& name : names) {
    const auto found =
        std::find_if(std::begin(kChecks), std::end(kChecks), [&](const Check* check) { return check->name == name; });
    if (found == std::end(kChecks))
      return invalid(format("{} is no check{}", name, hint(name, known)));
    out.push_back(*found);
  }
  return out;
}

void examine(const Patient& patient, const std::vector<const Check*>& checks, Diagnosis& report) {
  for (const Check* check : checks) {
    report.begin(check->name);
    if (check->controller && patient.has_controller)
      check->controller(patient, report);
    for (const NodeHere& node : patient.here)
      if (check->node)
        check->node(patient, node, report);
  }
}

// What of a cluster is on this machine; with the settings of an agent, that node alone.
Patient patient_of(const Asked& asked) {
  Patient patient;
  if (!asked.settings.empty()) {
    add_node_here(patient, asked.settings);
    return patient;
  }
  add_controller(patient, cluster_dir(asked.dir));
  if (asked.dir.empty())
    add_node_here(patient, installed_paths().agent_settings);
  return patient;
}

bool is_nobody(const Patient& patient) {
  return !patient.has_controller && patient.here.empty() && patient.unreadable_agent.empty() &&
         patient.wrong_agent.empty();
}

std::string nobody_text(const Patient& patient, const Asked& asked) {
  if (!asked.settings.empty())
    return "there is no " + asked.settings;
  const std::string no_cluster = no_cluster_text(patient.dir);
  return asked.dir.empty() ? format("{}, and no {}: nothing of a cluster is on this machine", no_cluster,
                                    installed_paths().agent_settings)
                           : no_cluster;
}

// What this user may not look at.
void tell_of_rights(const Patient& patient, Diagnosis& report) {
  if (!patient.unreadable_agent.empty()) {
    report.begin(kAgentCheck.name);
    report.unknown(patient.unreadable_agent,
                   "these settings cannot be read: run it as root to have this node looked at");
  }
  if (!patient.wrong_agent.empty()) {
    report.begin(kAgentCheck.name);
    report.error(patient.wrong_agent, patient.wrong_agent_why,
                 "mend that file: the node's agent does not start with it as it is");
  }
  if (patient.has_controller && !patient.may_look) {
    report.begin(kModesCheck.name);
    report.unknown(patient.dir.root, "only its owner and root can see more than the controller tells");
  }
}

int doctor(const Asked& asked) {
  const auto checks = chosen(asked.checks);
  if (!checks)
    return fail(checks.error().message);
  const Patient patient = patient_of(asked);
  if (is_nobody(patient))
    return fail(nobody_text(patient, asked));
  Diagnosis report;
  tell_of_rights(patient, report);
  examine(patient, *checks, report);
  if (asked.output == "json")
    print_json(patient, report, *checks);
  else
    print_table(patient, report, checks->size());
  return needs_work(report) ? 1 : 0;
}

}  // namespace

int doctor_main(int argc, char** argv) {
  static const option kOptions[] = {
      {"dir", 1, nullptr, 'd'},  {"settings", 1, nullptr, 's'}, {"output", 1, nullptr, 'o'}, {"json", 0, nullptr, 'j'},
      {"list", 0, nullptr, 'l'}, {"help", 0, nullptr, 'h'},     {nullptr, 0, nullptr, 0}};
  Asked asked;
  VerbWords words({.verb = "doctor", .options = kOptions, .letters = "o:h", .words = std::size(kChecks)}, argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'd': asked.dir = optarg; break;
      case 's': asked.settings = optarg; break;
      case 'o': asked.output = optarg; break;
      case 'j': asked.output = "json"; break;
      case 'l': asked.list = true; break;
      case 'h': fputs(kHelp, stdout); return 0;
      default: return 2;
    }
  if (asked.output != "table" && asked.output != "json")
    return fail(format("-o {}: write table or json", asked.output));
  if (asked.list)
    return list_checks(), 0;
  asked.checks = words.rest();
  return doctor(asked);
}

std::vector<std::string_view> doctor_checks() {
  std::vector<std::string_view> names;
  for (const Check* check : kChecks) names.push_back(check->name);
  return names;
}

}  // namespace lockstep
