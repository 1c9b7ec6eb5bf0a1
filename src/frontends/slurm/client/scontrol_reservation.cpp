#include "frontends/slurm/client/scontrol_reservation.h"

#include <pwd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/hostlist.h"
#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/key_rows.h"
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

constexpr const char* kNotTold = "not told";  // Error::field, where something is missing

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

// What the words of one command make of a reservation.
struct ReservationEdit {
  Reservation& reservation;
  WallTime now;
  std::optional<WallTime> end;
  std::vector<std::uint32_t> cores;  // CoreCnt: of all, or of each node that is named
};

Error bad_value(const KeyWord& word) { return bad_value(Pair{word.key, word.value}); }

Result<void> set_name(ReservationEdit& edit, const KeyWord& word) {
  edit.reservation.meta.name = word.value;
  return {};
}

Result<void> set_start(ReservationEdit& edit, const KeyWord& word) {
  const auto when = parse_wall_time(word.value, edit.now);
  if (!when)
    return bad_value(word);
  edit.reservation.start = *when;
  return {};
}

Result<void> set_end(ReservationEdit& edit, const KeyWord& word) {
  edit.end = parse_wall_time(word.value, edit.now);
  return edit.end ? Result<void>() : bad_value(word);
}

Result<void> set_duration(ReservationEdit& edit, const KeyWord& word) {
  const auto span = parse_time_limit(word.value);
  if (!span)
    return bad_value(word);
  edit.reservation.duration = *span >= kForever ? hours(365 * 24) : *span;
  return {};
}

Result<void> set_node_count(ReservationEdit& edit, const KeyWord& word) {
  const auto count = parse_count(word.value);
  if (!count || *count == 0)
    return bad_value(word);
  edit.reservation.node_count = *count;
  edit.reservation.nodes.clear();
  return {};
}

// By amount, not by names.
Result<void> set_amounts(Reservation& r, const std::string& text) {
  TresLimit asked;
  TRY(read_tres(text, asked));
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
  return {};
}

Result<void> set_tres(ReservationEdit& edit, const KeyWord& word) { return set_amounts(edit.reservation, word.value); }

Result<void> set_cores(ReservationEdit& edit, const KeyWord& word) {
  edit.cores.clear();
  for (const std::string& item : split(word.value, ',')) {
    const auto count = parse_count(item);
    if (!count || *count == 0)
      return invalid(format("Invalid core count {}", word.value), "corecnt");
    edit.cores.push_back(*count);
  }
  return {};
}

// Nodes are kept whole: those that are named, or enough to have so many cores.
Result<void> settle_cores(ReservationEdit& edit, bool names_nodes) {
  if (edit.cores.empty())
    return {};
  Reservation& r = edit.reservation;
  if (names_nodes && (r.nodes.front() == "ALL" || r.nodes.size() != edit.cores.size()))
    return invalid(format("Core count for reservation node list is not consistent! {} count(s) for {} node(s)",
                          edit.cores.size(), r.nodes.front() == "ALL" ? "all" : std::to_string(r.nodes.size())),
                   "corecnt");
  if (!names_nodes)
    r.nodes.clear();
  std::uint64_t sum = 0;
  for (const std::uint32_t count : edit.cores) sum += count;
  r.tres.cpu = static_cast<std::int64_t>(sum);
  return {};
}

Result<void> set_partition(ReservationEdit& edit, const KeyWord& word) {
  edit.reservation.partition = word.value;
  return {};
}

Result<void> set_features(ReservationEdit& edit, const KeyWord& word) {
  edit.reservation.features = word.value;
  return {};
}

Result<void> set_start_delay(ReservationEdit& edit, const KeyWord& word) {
  const auto span = parse_time_limit(word.value);
  if (!span || *span >= kForever)
    return bad_value(word);
  edit.reservation.start_delay_max = *span;
  return {};
}

Result<void> set_purge(ReservationEdit& edit, const KeyWord& word) {
  return set_flag(edit.reservation, "PURGE_COMP=" + word.value, true);
}

Result<void> set_nodes(ReservationEdit& edit, const KeyWord& word) {
  if (lower(word.value) == "all")
    edit.reservation.nodes = {"ALL"};
  else
    change_list(edit.reservation.nodes, {word.key, word.sign, join(TRY(expand_hostlist(word.value)), ",")});
  return {};
}

Result<void> set_licenses(ReservationEdit& edit, const KeyWord& word) {
  edit.reservation.licenses = TRY(parse_licenses(word.value));
  return {};
}

// "-ann,-bo" shuts out.
template <std::vector<std::string> Reservation::*kNames>
Result<void> set_names(ReservationEdit& edit, const KeyWord& word) {
  change_list(edit.reservation.*kNames, word);
  return {};
}

Result<void> set_flags(ReservationEdit& edit, const KeyWord& word) {
  Reservation& r = edit.reservation;
  if (!word.sign) {
    for (const Flag& flag : kFlags) r.*flag.member = false;
    r.recurrence = Recurrence::kNone;
    r.purge_comp = false;
  }
  for (const std::string& name : items_of(word.value)) TRY(set_flag(r, name, word.sign != '-'));
  return {};
}

constexpr KeyRow<ReservationEdit, KeyWord> kKeys[] = {{"reservationname reservation", set_name},
                                                      {"starttime", set_start},
                                                      {"endtime", set_end},
                                                      {"duration", set_duration},
                                                      {"corecnt", set_cores},
                                                      {"nodecnt nodecount", set_node_count},
                                                      {"tres", set_tres},
                                                      {"features", set_features},
                                                      {"partitionname partition", set_partition},
                                                      {"maxstartdelay", set_start_delay},
                                                      {"purgecomp", set_purge}};

// These may have a sign before the '=': what they name is added, or taken away.
constexpr KeyRow<ReservationEdit, KeyWord> kListKeys[] = {{"nodes", set_nodes},
                                                          {"licenses", set_licenses},
                                                          {"users user", set_names<&Reservation::users>},
                                                          {"accounts account", set_names<&Reservation::accounts>},
                                                          {"groups group", set_names<&Reservation::groups>},
                                                          {"qos", set_names<&Reservation::qos>},
                                                          {"flags", set_flags}};

KeyWord with_sign_apart(const Pair& pair) {
  const bool has_sign = pair.first.ends_with('+') || pair.first.ends_with('-');
  return has_sign ? KeyWord{pair.first.substr(0, pair.first.size() - 1), pair.first.back(), pair.second}
                  : KeyWord{pair.first, 0, pair.second};
}

}  // namespace

Result<void> check_new_reservation(const std::vector<Pair>& pairs) {
  struct Needed {
    std::string_view keys, words;
  };
  constexpr Needed kNeeded[] = {
      {"starttime", "A start time must be given."},
      {"endtime duration", "An end time or duration must be given."},
      {"corecnt nodes nodecnt nodecount licenses tres",
       "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified."},
      {"users user accounts account groups group qos", "Either Users/Groups and/or Accounts must be specified."}};
  for (const Needed& one : kNeeded)
    if (std::none_of(pairs.begin(), pairs.end(),
                     [&](const Pair& pair) { return is_among(one.keys, with_sign_apart(pair).key); }))
      return invalid(format("{}  No reservation created.", one.words), kNotTold);
  return {};
}

Result<void> set_reservation(Reservation& r, const std::vector<Pair>& pairs, WallTime now, std::int32_t zone_s) {
  ReservationEdit edit{r, now, {}, {}};
  bool names_nodes = false;
  for (const Pair& pair : pairs) {
    const KeyWord word = with_sign_apart(pair);
    if (!TRY(set_by_key(kKeys, edit, pair.first, word)) && !TRY(set_by_key(kListKeys, edit, word.key, word)))
      return Error{Errc::kUnsupported,
                   format("Update of this parameter is not supported: {}\nRequest aborted", pair.first), pair.first};
    names_nodes = names_nodes || word.key == "nodes";
  }
  TRY(settle_cores(edit, names_nodes && !r.nodes.empty()));
  if (!r.start)
    r.start = now;
  if (edit.end)
    r.duration = Duration{edit.end->us - r.start.us};
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

// Of the reservation; "": none is given.
std::string name_in(const std::vector<Pair>& pairs) {
  std::string name;
  for (const Pair& pair : pairs)
    if (pair.first == "reservationname" || pair.first == "reservation")
      name = pair.second;
  return name;
}

Result<void> run(const ScontrolSession& session, std::string_view verb, const std::vector<Pair>& pairs) {
  if (verb == "create")
    TRY(check_new_reservation(pairs));
  const std::string name = name_in(pairs);
  if (verb != "create" && name.empty())
    return not_found("Requested reservation is invalid");
  Query query(session.context);
  const auto all = TRY(stored(query));
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
                 encode_whole(std::make_shared<const Reservation>(r))));
  if (!session.quiet)
    say(verb == "create" ? format("Reservation created: {}\n", r.meta.name) : "Reservation updated.\n");
  return {};
}

// The pairs of a command about a reservation; nothing: it is about something else. A bare word has no key.
std::optional<std::vector<Pair>> reservation_pairs(std::string_view verb, const Words& words) {
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
  return about ? std::optional(std::move(pairs)) : std::nullopt;
}

}  // namespace

std::optional<int> scontrol_reservation(const ScontrolSession& session, std::string_view verb, const Words& words) {
  auto pairs = reservation_pairs(verb, words);
  if (!pairs)
    return std::nullopt;
  for (const Pair& pair : *pairs)
    if (pair.first.empty()) {
      session.voice.error(format("Invalid input: {}", pair.second));
      return 1;
    }
  auto done = complete_keys(ScontrolEntity::kReservation, *pairs);
  if (done)
    done = run(session, verb, *pairs);
  if (done)
    return 0;
  const Error& error = done.error();
  if (error.field == kNotTold) {
    session.voice.error(error.message);
    return 1;
  }
  const std::string_view doing = verb == "create" ? "creating" : verb == "update" ? "updating" : "deleting";
  if (say_unreached(session.voice, format("scontrol: error: Error {} the reservation", doing), error))
    return 1;
  session.voice.error(format("Error {} the reservation: {}", doing,
                             error.code == Errc::kDenied ? "Access/permission denied" : error.message));
  return 1;
}

}  // namespace lockstep::slurm
