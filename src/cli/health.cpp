// `lockstep health`: nodes by checks, with verdict, evidence and time.
#include <stdio.h>
#include <time.h>

#include <algorithm>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/api.h"
#include "views/shown_text.h"
#include "wire/codec.h"
#include "wire/health_rows.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep health [NODE] [-o table|json]

What is known of the health of nodes: what each says itself (CHECK "node"), and what the last run of each health check
found there. The verdict is healthy, suspect (told only), bad, or unknown as long as no run has told anything; CLOSED
says whether the node takes no work for it. JOB is the run: sacct -j JOB.

Examples
  lockstep health
  lockstep health n3
  lockstep health -o json
)help";

using Cells = std::vector<std::string>;

std::string time_text(std::int64_t at_us) {
  if (at_us == 0)
    return "";
  char text[32] = "";
  const time_t when = at_us / 1'000'000;
  tm local{};
  if (localtime_r(&when, &local))
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

Cells cells_of(const HealthRow& row) {
  return {row.node,
          row.check.empty() ? "node" : row.check,
          std::string(text_of(row.verdict)),
          row.closes ? "yes" : "no",
          time_text(row.at_us),
          row.job ? format("{}", row.job.value) : "",
          shown(row.evidence)};
}

void print_table(const std::vector<HealthRow>& rows) {
  std::vector<Cells> lines = {{"NODE", "CHECK", "VERDICT", "CLOSED", "AT", "JOB", "EVIDENCE"}};
  for (const HealthRow& row : rows) lines.push_back(cells_of(row));
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const Cells& cells : lines)
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  for (const Cells& cells : lines) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) line += cells[i] + std::string(widths[i] - cells[i].size() + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    puts(line.c_str());
  }
}

Result<void> show_health(const slurm::ClientContext& context, const std::string& node, bool json) {
  slurm::Api cluster(context);
  const std::string query = node.empty() ? "" : "?node=" + slurm::url_escaped(node);
  const auto reply = TRY(cluster.call("GET", "/v1/health" + query));
  const std::vector<HealthRow> rows = TRY(decode_health_rows(reply.body));
  if (rows.empty() && !node.empty())
    return not_found(format("there is no node {}", node));
  if (json)
    puts(reply.body.c_str());
  else
    print_table(rows);
  return {};
}

}  // namespace

int health_main(const slurm::ClientContext& context, int argc, char** argv) {
  static const option kOptions[] = {
      {"help", 0, nullptr, 'h'}, {"output", 1, nullptr, 'o'}, {"json", 0, nullptr, 'j'}, {nullptr, 0, nullptr, 0}};
  VerbWords words({.verb = "health", .options = kOptions, .letters = "o:h", .words = 1, .instead = "one node, or all"},
                  argc, argv);
  bool json = false;
  for (int c; (c = words.next()) != -1;) {
    if (c == 'h') {
      fputs(kHelp, stdout);
      return 0;
    }
    if (c == '?')
      return 2;
    const std::string format_word = c == 'o' ? optarg : "json";
    if (format_word != "table" && format_word != "json") {
      fprintf(stderr, "lockstep health: -o %s: write table or json\n", optarg);
      return 2;
    }
    json = format_word == "json";
  }
  const auto nodes = words.rest();
  if (const auto done = show_health(context, nodes.empty() ? "" : nodes[0], json); !done.ok()) {
    fprintf(stderr, "lockstep health: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace lockstep
