// sstat: what running steps have used up to now.
#include <time.h>

#include <algorithm>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/sacct_fields.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/step_pids.h"
#include "frontends/slurm/client/values.h"

namespace lockstep::slurm {

namespace {

constexpr std::string_view kDefault =
    "jobid,maxrss,maxrssnode,maxrsstask,averss,mincpu,mincpunode,mincputask,avecpu,ntasks,avediskread,avediskwrite,"
    "tresusageinave,tresusageinmax,tresusageintot";

// Those that are "empty" are names of Slurm's of which nothing is measured here.
constexpr SacctField kFields[] = {
    {"AveCPU", 10, "avecpu"},
    {"AveCPUFreq", 10, "empty"},
    {"AveDiskRead", 14, "avediskread"},
    {"AveDiskWrite", 14, "avediskwrite"},
    {"AvePages", 10, "empty"},
    {"AveRSS", 10, "averss", SacctKind::kMemory},
    {"AveVMSize", 10, "empty"},
    {"ConsumedEnergy", 14, "empty"},
    {"ConsumedEnergyRaw", 17, "empty"},
    {"JobID", -12, "jobid"},
    {"MaxDiskRead", 12, "empty"},
    {"MaxDiskReadNode", 15, "empty"},
    {"MaxDiskReadTask", 15, "empty"},
    {"MaxDiskWrite", 12, "empty"},
    {"MaxDiskWriteNode", 16, "empty"},
    {"MaxDiskWriteTask", 16, "empty"},
    {"MaxPages", 8, "empty"},
    {"MaxPagesNode", 12, "empty"},
    {"MaxPagesTask", 12, "empty"},
    {"MaxRSS", 10, "maxrss", SacctKind::kMemory},
    {"MaxRSSNode", 10, "maxrssnode"},
    {"MaxRSSTask", 10, "maxrsstask"},
    {"MaxVMSize", 10, "empty"},
    {"MaxVMSizeNode", 14, "empty"},
    {"MaxVMSizeTask", 14, "empty"},
    {"MinCPU", 10, "mincpu"},
    {"MinCPUNode", 10, "mincpunode"},
    {"MinCPUTask", 10, "mincputask"},
    {"Nodelist", 20, "nodelist"},
    {"NTasks", 8, "ntasks"},
    {"Pids", 20, "empty"},
    {"ReqCPUFreq", 10, "empty"},
    {"ReqCPUFreqGov", 13, "empty"},
    {"ReqCPUFreqMax", 13, "empty"},
    {"ReqCPUFreqMin", 13, "empty"},
    {"SystemCPU", 10, "systemcpu"},
    {"TRESUsageInAve", 14, "tresusageinave"},
    {"TRESUsageInMax", 14, "tresusageinmax"},
    {"TRESUsageInMaxNode", 18, "empty"},
    {"TRESUsageInMaxTask", 18, "empty"},
    {"TRESUsageInMin", 14, "empty"},
    {"TRESUsageInMinNode", 18, "empty"},
    {"TRESUsageInMinTask", 18, "empty"},
    {"TRESUsageInTot", 14, "tresusageintot"},
    {"TRESUsageOutAve", 15, "tresusageoutave"},
    {"TRESUsageOutMax", 15, "empty"},
    {"TRESUsageOutMaxNode", 19, "empty"},
    {"TRESUsageOutMaxTask", 19, "empty"},
    {"TRESUsageOutMin", 15, "empty"},
    {"TRESUsageOutMinNode", 19, "empty"},
    {"TRESUsageOutMinTask", 19, "empty"},
    {"TRESUsageOutTot", 15, "tresusageouttot"},
    {"UserCPU", 10, "usercpu"},
};

struct Wish {
  std::map<std::string, std::string> filters;
  std::string format;
  SacctLook look;
  bool names_of_fields = false, processes = false;
};

Result<void> add_stat_jobs(Wish& wish, const std::string& list) {
  std::string& jobs = wish.filters["jobs"];
  jobs += (jobs.empty() ? "" : ",") + list;
  return {};
}

// clang-format off
constexpr CommandOption<Wish> kOptions[] = {
  // letter, names, takes, value, help, what it sets
  {'a', "allsteps", Takes::kNothing, "", "a job's script and all of its steps that run", Filter{"allsteps"}},
  {'e', "helpformat", Takes::kNothing, "", "the names of all fields", &Wish::names_of_fields},
  {'j', "jobs", Takes::kValue, "LIST", "these: 12, 12_3, 12.0, 12.batch", add_stat_jobs},
  {'n', "noheader", Takes::kNothing, "", "no header line", look_without_header<Wish>},
  {0, "noconvert", Takes::kNothing, "", "amounts in the units they come in, as always here", Nothing{}},
  {'o', "format fields", Takes::kValue, "LIST", "JobID,MaxRSS%20,...", &Wish::format},
  {'p', "parsable", Takes::kNothing, "", "columns between '|', one more at the end", look_parsable<Wish>},
  {'P', "parsable2", Takes::kNothing, "", "columns between '|'", look_parsable2<Wish>},
  {'V', "version", Takes::kNothing, "", "version", Shows::kVersion},
  {'h', "help", Takes::kNothing, "", "", Shows::kHelp},
  {0, "usage", Takes::kNothing, "", "", Shows::kUsage},
  {'i', "pidformat", Takes::kNothing, "", "the first process of each task, by nodes, which are asked for it", &Wish::processes},
  {'v', "verbose", Takes::kNothing, "", "", Nothing{}},
};
// clang-format on

constexpr CommandSyntax<Wish> kSyntax = {
    .head =
        "Usage: sstat [OPTIONS] -j JOB[.STEP]...\n\nWhat running steps have used up to now; a job means its lowest "
        "step that runs.\nNodes measure every 30 seconds, and soon after a start.\n\n",
    .usage = "Usage: sstat [options] -j <job(.stepid)>\n\tUse --help for help\n",
    .options = kOptions};

int print_names_of_stat_fields() {
  std::string out;
  int in_line = 0;
  for (const SacctField& field : kFields) out += format("{:<19}{}", field.name, ++in_line % 4 == 0 ? "\n" : " ");
  say(out + "\n");
  return 0;
}

constexpr SacctField kPidFields[] = {{"JobID", -12, "jobid"}, {"Nodelist", 20, "nodelist"}, {"Pids", 20, "pids"}};
constexpr Duration kPidPatience = seconds(5);
constexpr std::size_t kToldMost = 100;  // names that are looked at one by one

// A row for each node of a step, of three cells. What is not known of it is said.
Result<std::string> rows_of_pids(const ClientContext& context, std::string_view name, std::string_view nodes,
                                 const Voice& voice) {
  const auto dot = name.find('.');
  const auto job = parse_uint(name.substr(0, dot));
  const auto number = parse_count(name.substr(dot + 1));
  if (!job || !number) {
    voice.error(format("{}: the processes of a job's script are not told", name));
    return format("{}\t{}\t\n", name, nodes);
  }
  Api api(context);
  const Ref<Step> step = TRY(api.step(JobId(*job), static_cast<StepNo>(*number)));
  const StepPids told = TRY(pids_of(context, *step, kPidPatience));
  std::string out;
  const auto known = TRY(api.nodes());
  for (const StepPlace& place : step->places) {
    std::string list;
    bool is_silent = false;
    for (const std::uint32_t rank : place.ranks) {
      is_silent |= told.unanswered.contains(rank);
      if (const auto pid = told.pids.find(rank); pid != told.pids.end())
        list += format("{}{}", list.empty() ? "" : ",", pid->second);
    }
    const auto node = std::find_if(known.begin(), known.end(), [&](const auto& one) { return one->id == place.node; });
    const std::string where = node == known.end() ? "?" : (*node)->meta.name;
    if (is_silent)
      voice.error(format("{}: node {} did not answer within {} s: not all of its processes are known", name, where,
                         kPidPatience.seconds()));
    out += format("{}\t{}\t{}\n", name, where, list);
  }
  return out;
}

Result<std::string> pid_table(const ClientContext& context, const Rows& steps, const SacctLook& look,
                              const Voice& voice) {
  std::string body;
  for (std::size_t row = 0; row < steps.size(); ++row) {
    auto rows = rows_of_pids(context, steps.cell(row, 0), steps.cell(row, 1), voice);
    if (rows)
      body += *rows;
    else if (rows.error().code != Errc::kNotFound)  // it has ended meanwhile
      return rows.error();
  }
  const std::vector<SacctColumn> columns = TRY(parse_sacct_format("jobid,nodelist,pids", kPidFields));
  return write_sacct(columns, Rows(std::move(body), std::size(kPidFields)), look);
}

void say_nothing_runs(const Voice& voice, const Wish& wish, const std::string& jobs) {
  const bool names_steps = jobs.find('.') != std::string::npos;
  voice.error(format("no steps running for job {}{}", jobs,
                     names_steps || wish.filters.contains("allsteps") ? "" : ": -a shows its script, too"));
}

// Of several that were named, those of which nothing was shown.
Result<void> tell_missing(Query& query, const Wish& wish, const Voice& voice) {
  const std::string& jobs = wish.filters.at("jobs");
  const std::vector<std::string> named = items_of(jobs);
  if (named.size() < 2 || named.size() > kToldMost || jobs.find('[') != jobs.npos)  // commas within "12_[1,3]"
    return {};
  std::map<std::string, std::string> parameters = wish.filters;
  parameters["columns"] = "jobid";
  for (const std::string& name : named) {
    parameters["jobs"] = name;
    if (!name.empty() && TRY(query.get("/slurm/v1/sstat", parameters)).empty())
      say_nothing_runs(voice, wish, name);
  }
  return {};
}

// Whatever was named and has nothing that runs is said; the rest is shown.
Result<void> list_parts(const ClientContext& context, Query& query, const Wish& wish, const Voice& voice) {
  const std::string_view wanted = wish.processes        ? "jobid,nodelist"
                                  : wish.format.empty() ? kDefault
                                                        : std::string_view(wish.format);
  const std::vector<SacctColumn> columns = TRY(parse_sacct_format(wanted, kFields));
  std::map<std::string, std::string> parameters = wish.filters;
  const SacctAsk ask = sacct_ask(columns);
  parameters["columns"] = join(ask.names, ",");
  const Rows rows(TRY(query.get("/slurm/v1/sstat", parameters)), ask.names.size());
  say(wish.processes ? TRY(pid_table(context, rows, wish.look, voice))
                     : write_sacct(columns, rows, wish.look, ask.cell_of));
  if (rows.size() > 0)
    return tell_missing(query, wish, voice);
  say_nothing_runs(voice, wish, wish.filters.at("jobs"));
  return Error{Errc::kNotFound, {}, {}};
}

}  // namespace

int sstat_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sstat");
  Wish wish;
  wish.format = variable_or("SSTAT_FORMAT");
  wish.look.now = time(nullptr);
  const CommandWords line = read_options(kSyntax, argc, argv, voice, wish);
  if (line.exit_code)
    return *line.exit_code;
  if (wish.names_of_fields)
    return print_names_of_stat_fields();
  for (const std::string& word : line.words) (void)add_stat_jobs(wish, word);
  if (!wish.filters.contains("jobs")) {
    voice.error("no job is named: -j JOB, or -j JOB.STEP");
    return 1;
  }
  Query query(context);
  const auto listed = list_parts(context, query, wish, voice);
  if (!listed && !say_unreached(voice, "slurm_get_job_steps error", listed.error()) && !listed.error().message.empty())
    voice.error(listed.error().message);
  return listed ? 0 : 1;
}

}  // namespace lockstep::slurm
