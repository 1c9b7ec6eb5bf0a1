#include "frontends/slurm/server/pages.h"

#include "base/text.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/json_pages.h"
#include "frontends/slurm/server/sacct.h"
#include "frontends/slurm/server/shares.h"
#include "frontends/slurm/server/show.h"
#include "frontends/slurm/server/sinfo.h"
#include "frontends/slurm/server/squeue.h"
#include "frontends/slurm/server/sstat.h"
#include "frontends/slurm/server/words.h"
#include "model/job.h"

namespace lockstep::slurm {

namespace {

// ?job=N: what salloc's command finds in its environment, NUL-separated.
PageReply environment_page(const ReadContext& context, const PageRequest& request) {
  const auto id = parse_uint(query_of(request, "job"));
  const Job* job = id ? context.tables.job(JobId(*id)) : nullptr;
  if (!job)
    return refusal(404, "Invalid job id specified");
  if (!context.viewer().owns(*job))
    return refusal(403, format("job {} belongs to somebody else", job->id.value));
  if (!job->allocation)
    return refusal(409, format("job {} has no allocation", job->id.value));
  return {200,
          "application/octet-stream",
          slurm_job_environment(
              context.tables, *job,
              {context.cluster_name, context.wall_offset, WallTime{(context.now + context.wall_offset).us}}),
          {}};
}

// The names that may stand behind the "?", and their values (routes/query_values.h): commands give all their
// filters to each of their pages.
constexpr std::string_view kSqueue =
    "columns,jobs,user,me=flag,account,partition,qos,name,reservation,licenses,array=flag,nodes,states";
constexpr std::string_view kSinfo =
    "columns,partition,nodes,states,each_node=flag,exact=flag,reasons=flag,responding=flag,dead=flag";
constexpr std::string_view kSacct =
    "columns,jobs,user,me=flag,account,partition,name,qos,nodes,states,from=integer,to=integer,allocations=flag,"
    "duplicates=flag";
constexpr std::string_view kSshare = "columns,accounts,users,all=flag,users_only=flag";
constexpr std::string_view kSprio = "columns,jobs,users,partitions,weights=flag";
constexpr std::string_view kShow = "name,oneline=flag,detail=flag,times=marked";

}  // namespace

std::vector<FrontRoute> routes() {
  return {
      page_row("/slurm/v1/environment", PageKind::kLive, environment_page, "job=number", Reach::kShown),
      page_row("/slurm/v1/squeue", PageKind::kLive, squeue_page, kSqueue, Reach::kShown),
      page_row("/slurm/v1/squeue.json", PageKind::kLive, squeue_json_page, kSqueue, Reach::kShown),
      page_row("/slurm/v1/sinfo", PageKind::kLive, sinfo_page, kSinfo),
      page_row("/slurm/v1/sinfo.json", PageKind::kLive, sinfo_json_page, kSinfo),
      page_row("/slurm/v1/sacct", PageKind::kHistory, sacct_page, kSacct, Reach::kShown),
      page_row("/slurm/v1/sacct.json", PageKind::kHistory, sacct_json_page, kSacct, Reach::kShown),
      page_row("/slurm/v1/sstat", PageKind::kLive, sstat_page, "columns,jobs,allsteps=flag", Reach::kShown),
      page_row("/slurm/v1/steps", PageKind::kLive, steps_page, kSqueue, Reach::kShown),
      page_row("/slurm/v1/show/job", PageKind::kLive, show_job_page, kShow, Reach::kShown),
      page_row("/slurm/v1/show/step", PageKind::kLive, show_step_page, kShow, Reach::kShown),
      page_row("/slurm/v1/show/node", PageKind::kLive, show_node_page, kShow),
      page_row("/slurm/v1/show/partition", PageKind::kLive, show_partition_page, kShow),
      page_row("/slurm/v1/show/reservation", PageKind::kLive, show_reservation_page, kShow),
      page_row("/slurm/v1/sinfo.reservations", PageKind::kLive, list_reservations_page, "noheader=flag,times=marked"),
      page_row("/slurm/v1/show/license", PageKind::kLive, show_licence_page, kShow),
      page_row("/slurm/v1/sshare", PageKind::kTables, sshare_page, kSshare),
      page_row("/slurm/v1/sshare.json", PageKind::kTables, sshare_json_page, kSshare),
      page_row("/slurm/v1/sprio", PageKind::kTables, sprio_page, kSprio, Reach::kShown),
      page_row("/slurm/v1/sprio.json", PageKind::kTables, sprio_json_page, kSprio, Reach::kShown),
      page_row("/slurm/v1/show/topology", PageKind::kTables, show_topology_page, kShow),
      page_row("/slurm/v1/show/config", PageKind::kLive, show_config_page, kShow),
  };
}

}  // namespace lockstep::slurm
