// `lockstep tasks`: the tasks that the cluster keeps running for a job, their addresses and containers.
#include <stdio.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/api.h"
#include "model/job.h"
#include "wire/api.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep tasks JOB [-o table|json]

Lists the tasks that the cluster starts and replaces for a job, with the address of each that has one of its own, and
below it the containers of its sandbox. RESTARTS of a task are new sandboxes, of a container new lives within one.

Examples
  lockstep tasks 12
  lockstep tasks 12 -o json
)help";

using Row = std::vector<std::string>;

std::string exit_words(bool ended, const ExitStatus& exit) {
  return ended ? format("{}:{}", exit.code, exit.signal) : "";
}

std::vector<Row> rows_of(const JobDetail& detail, const std::map<NodeId, std::string>& nodes) {
  std::vector<Row> rows = {{"TASK", "NODE", "STATE", "READY", "RESTARTS", "EXIT", "ADDRESS", "REASON"}};
  for (const Ref<Task>& task : detail.tasks) {
    std::string node;
    if (detail.job && detail.job->allocation && task->grant < detail.job->allocation->grants.size())
      if (const auto it = nodes.find(detail.job->allocation->grants[task->grant].node); it != nodes.end())
        node = it->second;
    rows.push_back({format("{}.{}", task->group, task->index), node, std::string(text_of(task->state)),
                    task->ready ? "yes" : "no", format("{}", task->restarts),
                    exit_words(task->state == TaskState::kEnded, task->exit), task->address.get(), task->reason.get()});
    for (const ContainerStatus& one : task->containers.get())
      rows.push_back({"  " + one.name, "", std::string(text_of(one.state)), one.ready ? "yes" : "no",
                      format("{}", one.restarts),
                      exit_words(one.state == ContainerState::kEnded || one.restarts > 0, one.exit), "", one.reason});
  }
  return rows;
}

void print(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    puts(line.c_str());
  }
}

Result<void> list_tasks(const slurm::ClientContext& context, const std::string& job, bool json) {
  slurm::Api cluster(context);
  const auto reply = TRY(cluster.call("GET", format("/v1/jobs/{}", slurm::url_escaped(job))));
  if (json) {
    puts(reply.body.c_str());
    return {};
  }
  const JobDetail detail = TRY(decode_job_detail(reply.body));
  if (detail.tasks.empty()) {
    fprintf(stderr, "lockstep tasks: job %s has no tasks that the cluster starts; its steps: sacct -j %s\n",
            job.c_str(), job.c_str());
    return {};
  }
  std::map<NodeId, std::string> names;
  for (const Ref<Node>& node : TRY(cluster.nodes())) names[node->id] = node->meta.name;
  print(rows_of(detail, names));
  return {};
}

}  // namespace

int tasks_main(const slurm::ClientContext& context, int argc, char** argv) {
  static const option kOptions[] = {
      {"help", 0, nullptr, 'h'}, {"output", 1, nullptr, 'o'}, {"json", 0, nullptr, 'j'}, {nullptr, 0, nullptr, 0}};
  VerbWords words({.verb = "tasks", .options = kOptions, .letters = "o:h", .words = 1, .instead = "one job at a time"},
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
      fprintf(stderr, "lockstep tasks: -o %s: write table or json\n", optarg);
      return 2;
    }
    json = format_word == "json";
  }
  const auto jobs = words.rest();
  if (jobs.empty()) {
    fputs("lockstep tasks: of which job?\nTry `lockstep tasks --help`.\n", stderr);
    return 2;
  }
  if (const auto done = list_tasks(context, jobs[0], json); !done.ok()) {
    fprintf(stderr, "lockstep tasks: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace lockstep
