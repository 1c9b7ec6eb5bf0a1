#include "frontends/slurm/client/scontrol_reservation.h"

#include <pwd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/sacctmgr_words.h"
#include "frontends/slurm/client/scontrol_keys.h"
#include "frontends/slurm/client/scontrol_verbs.h"
#include "frontends/slurm/client/values.h"
#include "model/tres_names.h"
#include "wire/api.h"
#include "wire/codec.h"

namespace lockstep::slurm {

namespace {

using Pair = std::pair<std::string, std::string>;

Error bad_value(const Pair& pair) {
  return invalid(format("Invalid value for {}: {}", pair.first, pair.second), pair.first);
}

struct Flag {
  std::string_view name;
  bool Reservation::*member;
};
constexpr Flag kFlags[] = {
    {"maint", &Reservation::maint},
    {"overlap", &Reservation::overlap},
    {"ignore_jobs", &Reservation::ignore_jobs},
    {"flex", &Reservation::flex},
    {"any_nodes", &Reservation::any_nodes},
    {"license_only", &Reservation::any_nodes},
    {"spec_nodes", &Reservation::spec_nodes},
    {"part_nodes", &Reservation::part_nodes},
    {"magnetic", &Reservation::magnetic},
    {"replace", &Reservation::replace},
    {"replace_down", &Reservation::replace_down},
    {"static", &Reservation::static_alloc},
    {"static_alloc", &Reservation::static_alloc},
    {"no_hold_jobs_after", &Reservation::no_hold_jobs_after},
    {"no_hold_jobs_after_end", &Reservation::no_hold_jobs_after},
};
constexpr std::pair<std::string_view, Recurrence> kRecurrences[] = {{"hourly", Recurrence::kHourly},
                                                                    {"daily", Recurrence::kDaily},
                                                                    {"weekday", Recurrence::kWeekday},
                                                                    {"weekend", Recurrence::kWeekend},
                                                                    {"weekly", Recurrence::kWeekly}};

Result<void> set_flag(Reservation& r, const std::string& word, bool on) {
  const auto equals = word.find('=');
  const std::string name = lower(word.substr(0, equals));
  if (name.empty())
    return {};
  for (const auto& [known, recurrence] : kRecurrences)
    if (name == known) {
      r.recurrence = on ? recurrence : Recurrence::kNone;
      return {};
    }
  if (name == "purge_comp") {
    r.purge_comp = on;
    if (equals != std::string::npos) {
      const auto span = parse_time_limit(word.substr(equals + 1));
      if (!span || *span >= kForever)
        return bad_value({"flags", word});
      r.purge_after = *span;
    }
    return {};
  }
  for (const Flag& flag : kFlags)
    if (name == flag.name) {
      r.*flag.member = on;
      return {};
    }
  return Error{Errc::kUnsupported, format("Error parsing flags {}: {} is not known", word, name), "flags"};
}

Result<void> set_flags(Reservation& r, const std::string& key, const std::string& value) {
  const bool on = !key.ends_with('-');
  if (key == "flags") {
    for (const Flag& flag : kFlags) r.*flag.member = false;
    r.recurrence = Recurrence::kNone;
    r.purge_comp = false;
  }
  for (const std::string& word : split(value, ',')) TRY(set_flag(r, word, on));
  return {};
}

// Those "all of which" and "but": "-ann,-bo" shuts out.
void set_names(std::vector<std::string>& list, const std::string& key, const std::string& value) {
  change_list(list, {key, key.ends_with('+') ? '+' : key.ends_with('-') ? '-' : '\0', value});
}

bool is(const std::string& key, std::string_view name) {
  return key == name ||
         (key.size() == name.size() + 1 && key.starts_with(name) && (key.back() == '+' || key.back() == '-'));
}

}  // namespace

Result<void> set_reservation(Reservation& r, const std::vector<Pair>& pairs, WallTime now, std::int32_t zone_s) {
  std::optional<WallTime> end;
  for (const Pair& pair : pairs) {
    const auto& [key, value] = pair;
    if (key == "reservationname" || key == "reservation") {
      r.meta.name = value;
    } else if (key == "starttime" || key == "endtime") {
      const auto when = parse_wall_time(value, now);
      if (!when)
        return bad_value(pair);
      if (key == "starttime")
        r.start = *when;
      else
        end = *when;
    } else if (key == "duration") {
      const auto span = parse_time_limit(value);
      if (!span)
        return bad_value(pair);
      r.duration = *span >= kForever ? hours(365 * 24) : *span;
    } else if (is(key, "nodes")) {
      if (lower(value) == "all") {
        r.nodes = {"ALL"};
      } else {
        set_names(r.nodes, key, join(TRY(expand_hostlist(value)), ","));
      }
    } else if (key == "nodecnt" || key == "nodecount") {
      const auto count = parse_count(value);
      if (!count || *count == 0)
        return bad_value(pair);
      r.node_count = *count;
      r.nodes.clear();
    } else if (key == "corecnt" || key == "tres") {
      TresLimit asked;
      TRY(read_tres(key == "tres" ? value : "cpu=" + value, asked));
      if (asked.cpu > 0)
        r.tres.cpu = asked.cpu;
      if (asked.gpus > 0)
        r.tres.gpus = asked.gpus;
      if (asked.nodes > 0)
        r.node_count = static_cast<std::uint32_t>(std::min<std::int64_t>(asked.nodes, UINT32_MAX));
      for (const NamedCount& other : asked.others) {
        if (!other.name.starts_with("license/"))
          return Error{Errc::kUnsupported, format("TRES {} cannot be reserved by amount", other.name), "tres"};
        add_named(r.licenses, std::string_view(other.name).substr(8), other.count);
      }
      r.nodes.clear();
    } else if (key == "partitionname" || key == "partition") {
      r.partition = value;
    } else if (key == "features") {
      r.features = value;
    } else if (is(key, "licenses")) {
      r.licenses = TRY(parse_licenses(value));
    } else if (is(key, "users") || is(key, "user")) {
      set_names(r.users, key, value);
    } else if (is(key, "accounts") || is(key, "account")) {
      set_names(r.accounts, key, value);
    } else if (is(key, "groups") || is(key, "group")) {
      set_names(r.groups, key, value);
    } else if (is(key, "qos")) {
      set_names(r.qos, key, value);
    } else if (is(key, "flags")) {
      TRY(set_flags(r, key, value));
    } else if (key == "maxstartdelay") {
      const auto span = parse_time_limit(value);
      if (!span || *span >= kForever)
        return bad_value(pair);
      r.start_delay_max = *span;
    } else if (key == "purgecomp") {
      TRY(set_flag(r, "PURGE_COMP=" + value, true));
    } else {
      return Error{Errc::kUnsupported, format("Update of this parameter is not supported: {}\nRequest aborted", key),
                   key};
    }
  }
  if (!r.start)
    r.start = now;
  if (end)
    r.duration = Duration{end->us - r.start.us};
  r.spec_nodes = !r.nodes.empty() && (r.spec_nodes || r.nodes.front() != "ALL");
  r.zone_s = zone_s;
  return {};
}

namespace {

Result<std::vector<Ref<Reservation>>> stored(Query& query) {
  std::vector<Ref<Reservation>> out;
  for (const Record& record : TRY(decode_records(Kind::kReservation, TRY(query.get("/v1/reservations", {})))))
    if (const auto* one = std::get_if<Ref<Reservation>>(&record))
      out.push_back(*one);
  return out;
}

Ref<Reservation> named(const std::vector<Ref<Reservation>>& all, const std::string& name) {
  for (const auto& one : all)
    if (one->meta.name == name)
      return one;
  return nullptr;
}

// "root_1": the first that is free.
std::string free_name(const std::vector<Ref<Reservation>>& all) {
  const passwd* self = getpwuid(getuid());
  const std::string user = self ? self->pw_name : std::to_string(getuid());
  for (int n = 1;; ++n)
    if (const std::string name = format("{}_{}", user, n); !named(all, name))
      return name;
}

Result<void> run(const ScontrolSession& session, std::string_view verb, const std::vector<Pair>& pairs) {
  Query query(session.context);
  const auto all = TRY(stored(query));
  std::string name;
  for (const Pair& pair : pairs)
    if (pair.first == "reservationname" || pair.first == "reservation")
      name = pair.second;
  const Ref<Reservation> known = named(all, name);
  if (verb == "delete") {
    TRY(query.send("DELETE", "/v1/reservations/" + url_escaped(name), {}));
    return {};
  }
  if (verb == "update" && !known)
    return not_found("Requested reservation is invalid");
  if (verb == "create" && known)
    return conflict(format("Reservation name already exists: {}", name));
  Reservation r = known ? *known : Reservation{};
  const time_t seconds = time(nullptr);
  tm local{};
  localtime_r(&seconds, &local);
  TRY(set_reservation(r, pairs, WallTime{static_cast<std::int64_t>(seconds) * 1'000'000},
                      known ? known->zone_s : static_cast<std::int32_t>(local.tm_gmtoff)));
  if (r.meta.name.empty())
    r.meta.name = free_name(all);
  TRY(query.send("PUT", format("/v1/reservations/{}?if_seq={}", url_escaped(r.meta.name), r.meta.seq),
                 encode_record(std::make_shared<const Reservation>(r))));
  if (!session.quiet)
    say(verb == "create" ? format("Reservation created: {}\n", r.meta.name) : "Reservation updated.\n");
  return {};
}

}  // namespace

std::optional<int> scontrol_reservation(const ScontrolSession& session, std::string_view verb, const Words& words) {
  std::vector<Pair> pairs;
  bool about = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    KeyWord word = key_word(words[i]);
    // "create reservation …", "delete reservation NAME"
    if (word.key.empty() && i == 0 && abbreviates(word.value, "reservation", 3)) {
      about = true;
      continue;
    }
    if (word.key.empty() && about && i == 1 && verb == "delete")
      word.key = "reservationname";
    about = about || word.key == "reservationname" || (word.key == "reservation" && i == 0);
    if (word.sign)
      word.key += word.sign;
    pairs.emplace_back(word.key, word.value);
  }
  if (!about)
    return std::nullopt;
  for (const Pair& pair : pairs)
    if (pair.first.empty()) {
      session.voice.error(format("Invalid input: {}", pair.second));
      return 1;
    }
  auto done = complete_keys(ScontrolEntity::kReservation, pairs);
  if (done)
    done = run(session, verb, pairs);
  if (done)
    return 0;
  const Error& error = done.error();
  const std::string why = error.code == Errc::kDenied ? "Access/permission denied" : error.message;
  session.voice.error(verb == "create"   ? "Error creating the reservation: " + why
                      : verb == "update" ? "Error updating the reservation: " + why
                                         : "Error deleting the reservation: " + why);
  return 1;
}

}  // namespace lockstep::slurm
