// `lockstep explain` and `lockstep whatif`: what is to come, and what would change it.
#include "wire/foresight.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/invocation.h"
#include "views/shown_text.h"
#include "wire/yaml.h"

namespace lockstep {

namespace {

constexpr const char* kExplainHelp = R"help(Usage: lockstep explain JOB [-o table|json]
       lockstep explain TYPE/NAME [-n NAMESPACE] [-o table|json]

Why a job waits: how many nodes pass each question, who is before it, what holds the nodes it needs, when and where it
is foreseen to start, and the smallest changes that would start it sooner. Every change has been tried in a copy of the
cluster, with the real scheduler. Objects of Kubernetes are explained to administrators; others name the job.

Examples
  lockstep explain 12
  lockstep explain 12_3 -o json
  lockstep explain pod/web-0 -n lab
)help";

constexpr const char* kWhatIfHelp =
    R"help(Usage: lockstep whatif --file CHANGES [--history DAYS] [--jobs N] [-o table|json]

When the waiting jobs would start if the cluster, its rules or its jobs were different. Nothing is changed: the changes
happen in a copy. CHANGES is YAML (or JSON), - is standard input; docs/explain.md has all kinds of changes. With
--history it is the jobs of the last days that are run once more, with the run times they had.

Examples
  lockstep whatif --file changes.yaml
  lockstep whatif --file - <<< 'add_nodes: {like: n1, count: 4}'
  lockstep whatif --file changes.yaml --history 30

  # changes.yaml
  - remove_nodes: n[3-4]
  - partition: {name: main, time_max: "12:00:00"}
  - job: {id: 12, nodes: 6, time_limit: "3:40:00"}
  - policy: {weight_qos: 0}
  - remove_jobs: [7, 8]
)help";

std::string span_text(std::int64_t s) {
  if (s < 60)
    return format("{} s", std::max<std::int64_t>(s, 0));
  if (s < 3600)
    return format("{} min", (s + 30) / 60);
  if (s < 2 * 86'400)
    return format("{} h {:02} min", s / 3600, s % 3600 / 60);
  return format("{} d {} h", s / 86'400, s % 86'400 / 3600);
}

std::string clock_text(WallTime at) {
  const time_t seconds = at.seconds();
  struct ::tm parts {};
  ::localtime_r(&seconds, &parts);
  char text[32];
  return {text, ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts)};
}

std::int64_t seconds_until(WallTime at) { return at.seconds() - static_cast<std::int64_t>(::time(nullptr)); }

std::string start_text(const Foreseen& f) {
  if (f.started)
    return "now";
  if (!f.start)
    return "not known";
  return "in " + span_text(seconds_until(f.start));
}

std::size_t terminal_width() {
  struct ::winsize size {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return size.ws_col;
  return 120;
}

// Characters as a terminal counts them, near enough: bytes that begin one.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Rows of cells under each other; the last column is cut at the terminal's edge.
class Rows {
 public:
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text(std::string_view indent) const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i == widths.size())
          widths.push_back(0);
        widths[i] = std::max(widths[i], width_of(row[i]));
      }
    const std::size_t most = ::isatty(STDOUT_FILENO) ? terminal_width() : 1000;
    std::string out;
    for (const auto& row : rows_) {
      std::string line(indent);
      for (std::size_t i = 0; i < row.size(); ++i) {
        line += row[i];
        if (i + 1 < row.size())
          line.append(widths[i] - width_of(row[i]) + 2, ' ');
      }
      while (line.ends_with(' ')) line.pop_back();
      if (line.size() > most)
        line.resize(most);
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

void say(const std::string& text) { fputs(shown_lines(text).c_str(), stdout); }

void print_funnel(const NodeFunnel& funnel, bool several) {
  say(format("\nNodes{} ({} needed)\n",
             several ? format(" in partition {}, group {}", funnel.partition, funnel.group) : "", funnel.wanted));
  if (!funnel.closed.empty())
    say(format("  partition {} is closed to it: {}\n", funnel.partition, funnel.closed));
  Rows rows;
  for (const NodeFilter& filter : funnel.filters)
    rows.add({filter.name, format("{:>6}", filter.left),
              filter.lost.empty() ? "" : format("{} ({})", filter.lost, filter.example)});
  say(rows.text("  "));
}

std::string job_head(const Explanation& e) {
  std::string out = format("Job {}{}{}", e.job.value, e.name.empty() ? "" : " " + e.name,
                           e.user.empty() ? "" : format(" ({})", e.user));
  if (e.state == "pending" && !e.expected.started)
    return out + format(" waits: {}", e.expected.reason);
  return out + format(" is {}", e.state == "pending" ? "about to start" : e.state);
}

// When it starts, as far as that is known. "" = it does not wait.
std::string start_sentence(const Explanation& e) {
  const Foreseen& f = e.expected;
  std::string place = f.nodes.empty() ? "" : format(" on {}", f.nodes);
  if (!f.partition.empty())
    place += format(" in partition {}", f.partition);
  if (f.started)
    return format("  started {}{}\n", clock_text(f.start), place);
  if (f.start)
    return format("  {} to start {} ({}){}\n", f.binds ? "Promised" : "Foreseen", clock_text(f.start), start_text(f),
                  place);
  if (e.not_before)
    return format("  Not before {} (in {}); what is free then is not foreseen\n", clock_text(e.not_before),
                  span_text(seconds_until(e.not_before)));
  if (f.reason == "Dependency")
    return "  Its start is foreseen once that has happened.\n";
  return e.state == "pending" ? "  No start is foreseen: nothing that is known will let it start.\n" : "";
}

std::string_view order_text(std::string_view why) {
  return why == "tier" ? "higher partition tier" : why == "priority" ? "higher priority" : "earlier";
}

void print_ahead(const Explanation& e) {
  if (e.ahead == 0)
    return;
  say(format("\nBefore it in the queue: {} job{}\n", e.ahead, e.ahead == 1 ? "" : "s"));
  Rows rows;
  for (const JobAhead& a : e.first_ahead)
    rows.add({format("{}", a.job.value), a.user, a.name, std::string(order_text(a.why)),
              a.expected.start || a.expected.started ? "starts " + start_text(a.expected) : a.expected.reason});
  say(rows.text("  "));
}

void print_in_the_way(const Explanation& e) {
  if (e.in_the_way.empty())
    return;
  say("\nHold nodes it could use\n");
  Rows rows;
  for (const JobInTheWay& job : e.in_the_way)
    rows.add({format("{}", job.job.value), job.user, job.name, job.nodes,
              job.until ? format("ends in {} at the latest", span_text(seconds_until(job.until))) : "no time limit"});
  say(rows.text("  "));
}

void print_suggestions(const Explanation& e) {
  if (e.suggestions.empty()) {
    if (e.plans > 0)
      say(format("\nNone of {} changes that were tried would start it sooner.\n", e.plans));
    return;
  }
  say("\nIt would start sooner with\n");
  Rows rows;
  for (const Suggestion& s : e.suggestions)
    rows.add({s.change, start_text(s.then) + (s.then.nodes.empty() ? "" : " on " + s.then.nodes), s.command});
  say(rows.text("  "));
}

void print(const Explanation& e) {
  say(job_head(e) + "\n  " + e.because + "\n" + start_sentence(e));
  for (const NodeFunnel& funnel : e.funnels) print_funnel(funnel, e.funnels.size() > 1);
  print_ahead(e);
  print_in_the_way(e);
  print_suggestions(e);
}

std::string change_text(const BeforeAfter& job) {
  if (job.added)
    return "new";
  if (job.removed)
    return "removed";
  if (job.before.started && job.after.started)
    return "";
  if (!job.before.start || !job.after.start)
    return job.before.start ? "later" : job.after.start ? "sooner" : "";
  const std::int64_t gain = (job.before.start.us - job.after.start.us) / 1'000'000;
  if (gain >= 60)
    return span_text(gain) + " sooner";
  return gain <= -60 ? span_text(-gain) + " later" : "";
}

void print(const WhatIfAnswer& answer, std::size_t most) {
  if (answer.jobs.empty()) {
    say("No job waits.\n");
    return;
  }
  Rows rows;
  rows.add({"JOB", "USER", "NAME", "NOW", "WITH THE CHANGES", "", "NODES"});
  std::size_t shown = 0;
  for (const BeforeAfter& job : answer.jobs) {
    if (shown++ == most)
      break;
    rows.add({format("{}", job.job.value), job.user, job.name, job.added ? "-" : start_text(job.before),
              job.removed ? "-" : start_text(job.after), change_text(job), job.after.nodes});
  }
  say(rows.text(""));
  if (answer.jobs.size() > most)
    say(format("… and {} more (--jobs 0 shows all)\n", answer.jobs.size() - most));
  Rows totals;
  totals.add({"", "NOW", "WITH THE CHANGES"});
  totals.add({"start at once", format("{}", answer.before.start_now), format("{}", answer.after.start_now)});
  totals.add({"no start foreseen", format("{}", answer.before.no_time), format("{}", answer.after.no_time)});
  totals.add({"mean wait from now", span_text(answer.before.mean_wait_s), span_text(answer.after.mean_wait_s)});
  totals.add({"last start", span_text(answer.before.last_start_s), span_text(answer.after.last_start_s)});
  say(format("\nOf {} job{} that wait now\n", answer.before.jobs, answer.before.jobs == 1 ? "" : "s") +
      totals.text("  "));
}

void print(const WhatIfPast& answer) {
  const auto thousandths = [](std::int64_t n) { return format("{}.{:02}", n / 1000, n % 1000 / 10); };
  const auto percent = [](std::int64_t permille) { return format("{}.{} %", permille / 10, permille % 10); };
  Rows rows;
  const PastFigures* const all[] = {&answer.recorded, &answer.as_is, &answer.changed};
  const auto row = [&](std::string name, auto&& text) {
    std::vector<std::string> cells{std::move(name)};
    for (const PastFigures* figures : all) cells.push_back(text(*figures));
    rows.add(std::move(cells));
  };
  rows.add({"", "RECORDED", "REPLAYED", "WITH THE CHANGES"});
  row("mean wait", [](const PastFigures& f) { return span_text(f.mean_wait_s); });
  row("longest wait", [](const PastFigures& f) { return span_text(f.max_wait_s); });
  row("slowdown", [&](const PastFigures& f) { return thousandths(f.slowdown_milli); });
  row(answer.by_gpus ? "GPUs in use" : "cores in use", [&](const PastFigures& f) { return percent(f.used_permille); });
  say(format("{} jobs{}\n", answer.jobs, answer.left_out ? format(", {} left out", answer.left_out) : "") +
      rows.text("  "));
}

Result<std::string> read_changes(const std::string& path) {
  constexpr std::size_t kMost = 4 << 20;
  return path == "-" ? slurm::read_descriptor(STDIN_FILENO, "standard input", kMost)
                     : slurm::read_whole_file(path, kMost);
}

bool output_is_known(const char* verb, const std::string& output) {
  if (output == "table" || output == "json")
    return true;
  fprintf(stderr, "lockstep %s: -o %s: write table or json\n", verb, output.c_str());
  return false;
}

int fail(const char* verb, const std::string& message) {
  fprintf(stderr, "lockstep %s: %s\n", verb, message.c_str());
  return 1;
}

}  // namespace

namespace {

// An id as it is; an object, "pod/web-0", as the API names it.
std::string job_named(const std::string& word, const std::string& ns) {
  const std::size_t slash = word.find('/');
  if (slash == word.npos)
    return word;
  std::string type = word.substr(0, slash);
  if (!type.ends_with('s'))
    type += 's';
  return format("{}:{}:{}", type, ns, word.substr(slash + 1));
}

}  // namespace

int explain_main(const slurm::ClientContext& context, int argc, char** argv) {
  static const option kOptions[] = {{"output", 1, nullptr, 'o'},
                                    {"json", 0, nullptr, 'j'},
                                    {"namespace", 1, nullptr, 'n'},
                                    {"help", 0, nullptr, 'h'},
                                    {nullptr, 0, nullptr, 0}};
  std::string output = "table", ns = "default";
  VerbWords words(
      {.verb = "explain", .options = kOptions, .letters = "o:n:h", .words = 1, .instead = "one job at a time"}, argc,
      argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'o': output = optarg; break;
      case 'j': output = "json"; break;
      case 'n': ns = optarg; break;
      case 'h': fputs(kExplainHelp, stdout); return 0;
      default: return 2;
    }
  if (!output_is_known("explain", output))
    return 2;
  const auto jobs = words.rest();
  if (jobs.empty()) {
    fputs("lockstep explain: which job?\nTry `lockstep explain --help`.\n", stderr);
    return 2;
  }
  slurm::Api cluster(context);
  const std::string name = job_named(jobs[0], ns);
  const auto reply = cluster.call("GET", format("/v1/jobs/{}/explain", slurm::url_escaped(name)), {}, kForever);
  if (!reply)
    return fail("explain", reply.error().message);
  if (output == "json") {
    say(reply->body + "\n");
    return 0;
  }
  const auto explanation = decode_explanation(reply->body);
  if (!explanation)
    return fail("explain", explanation.error().message);
  print(*explanation);
  return 0;
}

namespace {

struct WhatIfOptions {
  std::string output = "table", file, days;
  std::size_t most = 50;  // rows
};

// An exit code when there is nothing to ask.
std::optional<int> read_options(WhatIfOptions& options, int argc, char** argv) {
  static const option kOptions[] = {
      {"file", 1, nullptr, 'f'}, {"history", 1, nullptr, 'p'}, {"jobs", 1, nullptr, 'n'}, {"output", 1, nullptr, 'o'},
      {"json", 0, nullptr, 'j'}, {"help", 0, nullptr, 'h'},    {nullptr, 0, nullptr, 0}};
  const auto wrong = [](const char* name, const char* what) {
    fprintf(stderr, "lockstep whatif: --%s %s: write a %s\n", name, optarg, what);
    return 2;
  };
  VerbWords words({.verb = "whatif", .options = kOptions, .letters = "f:o:h", .instead = "changes: --file CHANGES"},
                  argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'f': options.file = optarg; break;
      case 'p':
        options.days = optarg;
        if (!parse_uint(options.days))
          return wrong("history", "number of days");
        break;
      case 'n': {
        const auto count = parse_uint(optarg);
        if (!count)
          return wrong("jobs", "number");
        options.most = *count == 0 ? SIZE_MAX : static_cast<std::size_t>(*count);
        break;
      }
      case 'o': options.output = optarg; break;
      case 'j': options.output = "json"; break;
      case 'h': fputs(kWhatIfHelp, stdout); return 0;
      default: return 2;
    }
  if (!output_is_known("whatif", options.output))
    return 2;
  if (options.file.empty()) {
    fputs("lockstep whatif: --file CHANGES says what is to be different\nTry `lockstep whatif --help`.\n", stderr);
    return 2;
  }
  return std::nullopt;
}

// The changes as JSON, and where their lines are.
Result<YamlText> changes_of(const std::string& file, const std::string& text) {
  const std::string name = file == "-" ? "standard input" : file;
  const auto yaml = json_of_yaml(text);
  if (!yaml)
    return invalid(format("{}: {}", name, yaml.error().message));
  return *yaml;
}

Result<void> print_answer(const WhatIfOptions& options, const std::string& body) {
  if (options.output == "json")
    say(body + "\n");
  else if (options.days.empty())
    print(TRY(decode_what_if_answer(body)), options.most);
  else
    print(TRY(decode_what_if_past(body)));
  return {};
}

// What the cluster, or its reading of the changes, refused, with the line of the file.
Error at_line(const Error& error, const YamlText& yaml, const std::string& file) {
  const std::size_t line = error.field.empty() ? 0 : yaml.line_of(error.field);
  return line ? invalid(format("{}: line {}: {}", file == "-" ? "standard input" : file, line, error.message)) : error;
}

Result<void> ask_what_if(const slurm::ClientContext& context, const WhatIfOptions& options) {
  const auto yaml = TRY(changes_of(options.file, TRY(read_changes(options.file))));
  if (const auto read = decode_changes(yaml.json); !read)
    return at_line(read.error(), yaml, options.file);
  slurm::Api cluster(context);
  const std::string target = options.days.empty() ? "/v1/whatif" : "/v1/whatif?history_days=" + options.days;
  const auto reply = cluster.call("POST", target, yaml.json);
  if (!reply)
    return at_line(reply.error(), yaml, options.file);
  return print_answer(options, reply->body);
}

}  // namespace

int whatif_main(const slurm::ClientContext& context, int argc, char** argv) {
  WhatIfOptions options;
  if (const auto exit_code = read_options(options, argc, argv))
    return *exit_code;
  const auto done = ask_what_if(context, options);
  return done ? 0 : fail("whatif", done.error().message);
}

}  // namespace lockstep
