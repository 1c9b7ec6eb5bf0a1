// scontrol show reservation and show licenses.
#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/server/job_facts.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/show.h"
#include "frontends/slurm/server/show_text.h"
#include "rules/reservation.h"

namespace lockstep::slurm {

namespace {

PageReply plain(std::string text) { return {200, "text/plain; charset=utf-8", std::move(text), {}}; }

std::string flags_of(const Reservation& r) {
  std::vector<std::string> out;
  const auto flag = [&](bool set, const char* name) {
    if (set)
      out.emplace_back(name);
  };
  flag(r.maint, "MAINT");
  flag(r.overlap, "OVERLAP");
  flag(r.ignore_jobs, "IGNORE_JOBS");
  flag(r.recurrence == Recurrence::kHourly, "HOURLY");
  flag(r.recurrence == Recurrence::kDaily, "DAILY");
  flag(r.recurrence == Recurrence::kWeekday, "WEEKDAY");
  flag(r.recurrence == Recurrence::kWeekend, "WEEKEND");
  flag(r.recurrence == Recurrence::kWeekly, "WEEKLY");
  flag(r.spec_nodes, "SPEC_NODES");
  flag(r.any_nodes, "ANY_NODES");
  flag(r.nodes.size() == 1 && r.nodes[0] == "ALL", "ALL_NODES");
  flag(r.part_nodes, "PART_NODES");
  flag(r.static_alloc, "STATIC");
  flag(r.replace, "REPLACE");
  flag(r.replace_down, "REPLACE_DOWN");
  flag(r.flex, "FLEX");
  flag(r.magnetic, "MAGNETIC");
  flag(r.no_hold_jobs_after, "NO_HOLD_JOBS_AFTER_END");
  if (r.purge_comp)
    out.push_back("PURGE_COMP=" + show_span(r.purge_after.seconds()));
  return join(out, ",");
}

std::string licences_text(const std::vector<NamedCount>& licences) {
  std::string out;
  for (const NamedCount& licence : licences)
    out += format("{}{}:{}", out.empty() ? "" : ",", licence.name, licence.count);
  return out;
}

// The window that matters now: the present or the next one.
Window shown_window(const Reservation& r, WallTime now) {
  return window_after(r, now).value_or(Window{r.start, {r.start.us + r.duration.us}});
}

std::string node_names(const ReadContext& context, const Reservation& r) {
  std::vector<std::string> names;
  for (const auto& [id, node] : context.tables.nodes)
    if (keeps_node(r, node->meta.name))
      names.push_back(node->meta.name);
  sort_hosts(names);
  return compress_hostlist(names);
}

void reservation_record(ShowText& out, const ReadContext& context, const Reservation& r) {
  const WallTime now{(context.now + context.wall_offset).us};
  const Window window = shown_window(r, now);
  std::int64_t cores = 0, count = 0;
  for (const auto& [id, node] : context.tables.nodes)
    if (keeps_node(r, node->meta.name)) {
      cores += node->cores;
      ++count;
    }
  const bool active = window.start <= now && now < window.end;
  out.pair("ReservationName", r.meta.name).time("StartTime", window.start.seconds());
  out.time("EndTime", window.end.seconds()).pair("Duration", show_span(r.duration.seconds()));
  out.next_line();
  out.text_or_null("Nodes", node_names(context, r)).pair("NodeCnt", count).pair("CoreCnt", cores);
  out.text_or_null("Features", r.features).text_or_null("PartitionName", r.partition).pair("Flags", flags_of(r));
  out.next_line();
  out.pair("TRES", format("cpu={}", cores));
  out.next_line();
  out.text_or_null("Users", join(r.users, ",")).text_or_null("Groups", join(r.groups, ","));
  out.text_or_null("Accounts", join(r.accounts, ",")).text_or_null("Licenses", licences_text(r.licenses));
  out.pair("State", active ? "ACTIVE" : "INACTIVE").pair("BurstBuffer", "(null)").pair("Watts", "n/a");
  out.next_line();
  out.pair("MaxStartDelay", r.start_delay_max.us ? show_span(r.start_delay_max.seconds()) : "(null)");
  out.end_record();
}

void licence_record(ShowText& out, const ReadContext& context, const Licence& licence) {
  std::int64_t held = 0, reserved = 0;
  const std::string name = "license/" + licence.meta.name;
  for (const auto& [id, job] : context.tables.jobs)
    if (holds_allocation(job->state))
      for (const NamedCount& other : job->allocation->tres.others)
        if (other.name == name)
          held += other.count;
  const WallTime now{(context.now + context.wall_offset).us};
  for (const auto& [key, r] : context.tables.reservations)
    if (in_force(*r, now))
      for (const NamedCount& kept : r->licenses)
        if (kept.name == licence.meta.name)
          reserved += kept.count;
  out.pair("LicenseName", licence.meta.name);
  out.next_line();
  out.pair("Total", licence.total).pair("Used", held).pair("Free", std::max<std::int64_t>(0, licence.total - held));
  out.pair("Reserved", reserved).pair("Remote", "no");
  out.end_record();
}

}  // namespace

PageReply show_reservation_page(const ReadContext& context, const PageRequest& request) {
  const std::string& name = query_of(request, "name");
  std::vector<Ref<Reservation>> reservations;
  if (name.empty()) {
    reservations = refs_of<Reservation>(context.tables.reservations);
  } else if (const auto found = context.tables.reservations.find(name); found != context.tables.reservations.end()) {
    reservations.push_back(found->second);
  } else {
    return refusal(404, format("Reservation {} not found", name));
  }
  if (reservations.empty())
    return plain("No reservations in the system\n");
  return show_in_pieces<Reservation>(
      std::move(reservations), show_look(request), 1,
      [&context](ShowText& out, const Reservation& r) { reservation_record(out, context, r); });
}

PageReply list_reservations_page(const ReadContext& context, const PageRequest& request) {
  if (context.tables.reservations.empty())
    return plain("No reservations in the system\n");
  const WallTime now{(context.now + context.wall_offset).us};
  std::size_t widest = std::string_view("RESV_NAME").size();
  for (const auto& [name, r] : context.tables.reservations) widest = std::max(widest, shown(name).size());
  const auto line = [widest](std::string name, const auto&... cell) {
    name.resize(std::max(name.size(), widest), ' ');
    return format("{}  {:>8}  {:>19}  {:>19}  {:>11}  {}\n", name, cell...);
  };
  const auto time = [look = show_look(request)](WallTime at) { return ShowText(look).add_time(at.seconds()).take(); };
  PageReply reply;
  if (!flag_of(request, "noheader"))
    reply.body = line("RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST");
  reply.more = [&context, line, time, now, all = refs_of<Reservation>(context.tables.reservations),
                at = std::size_t{0}](std::string& body) mutable {
    const Reservation& r = *all[at];
    const Window window = shown_window(r, now);
    body += line(shown(r.meta.name), window.start <= now ? "ACTIVE" : "INACTIVE", time(window.start), time(window.end),
                 show_span(r.duration.seconds()), node_names(context, r));
    return ++at < all.size();
  };
  return reply;
}

PageReply show_licence_page(const ReadContext& context, const PageRequest& request) {
  const std::string& name = query_of(request, "name");
  ShowText out(show_look(request));
  if (!name.empty()) {
    const Licence* licence = context.tables.licence(name);
    if (!licence)
      return refusal(404, format("License {} not found", name));
    licence_record(out, context, *licence);
    return plain(out.take());
  }
  for (const auto& [key, licence] : context.tables.licences) licence_record(out, context, *licence);
  return plain(context.tables.licences.empty() ? "No licenses configured in Slurm.\n" : out.take());
}

}  // namespace lockstep::slurm
