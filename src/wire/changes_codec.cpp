// What-if changes as people write them: friendlier than the records' own JSON (times as Slurm writes them, host lists
// as text), and stricter: a name that is not known is an error, since nobody would notice that it did nothing.
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <set>
#include <span>

#include "base/hostlist.h"
#include "model/accounting_fields.h"
#include "model/record_fields.h"
#include "wire/api_fields.h"
#include "wire/foresight.h"

namespace lockstep {

namespace wire {

namespace {

constexpr std::size_t kChangesMax = 10'000;
constexpr std::uint32_t kCountMax = 100'000;  // of nodes or jobs added by one change

class KnownNames : public FieldNames {
 public:
  bool has(std::string_view name) const { return std::find(names().begin(), names().end(), name) != names().end(); }
  std::string list() const {
    std::set<std::string> shown;
    for (const std::string_view name : names())
      if (name != "meta" && name != "target" && name != "if_seq")
        shown.emplace(name.ends_with("_us") ? name.substr(0, name.size() - 3) : name);
    return join({shown.begin(), shown.end()}, ", ");
  }
};
template <class T>
KnownNames names_of() {
  KnownNames names;
  describe(names, static_cast<const T*>(nullptr));
  return names;
}

// Not of a json::string: a key() would become one, and be gone while it is still looked at.
std::string_view view(json::string_view text) { return {text.data(), text.size()}; }

// "4h", "30m", "45s", "2d": a number and a unit; nullopt: no such number, or far too large a one.
std::optional<Duration> with_unit(std::string_view word) {
  const auto count = parse_uint(word.substr(0, word.size() - 1));
  if (!count || *count > 1'000'000'000)
    return std::nullopt;
  const char unit = word.back();
  const std::int64_t unit_s = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 86'400;
  return seconds(static_cast<std::int64_t>(*count) * unit_s);
}

// Slurm's forms: "M", "M:S" and "H:M:S", and after days "D-H", "D-H:M" and "D-H:M:S".
std::optional<Duration> with_colons(std::string_view rest) {
  std::int64_t total_s = 0;
  const auto dash = rest.find('-');
  if (dash != std::string_view::npos) {
    const auto days = parse_uint(rest.substr(0, dash));
    if (!days || *days > 100'000)
      return std::nullopt;
    total_s = static_cast<std::int64_t>(*days) * 86'400;
    rest.remove_prefix(dash + 1);
  }
  const auto parts = split(rest, ':');
  if (parts.empty() || parts.size() > 3)
    return std::nullopt;
  const bool from_hours = dash != std::string_view::npos || parts.size() == 3;
  std::int64_t unit_s = from_hours ? 3600 : 60;
  for (const auto& part : parts) {
    const auto number = parse_uint(part);
    if (!number || *number > 100'000'000)
      return std::nullopt;
    total_s += static_cast<std::int64_t>(*number) * unit_s;
    unit_s /= 60;
  }
  return seconds(total_s);
}

// "3:40:00", "1-12", "90" (minutes), "4h", "30m", "45s", "unlimited"
std::optional<Duration> duration_of(std::string_view text) {
  const std::string word = lower(trim(text));
  if (word == "unlimited" || word == "infinite" || word == "forever")
    return kForever;
  if (word.size() > 1 && std::string_view("smhd").find(word.back()) != std::string_view::npos)
    return with_unit(word);
  return with_colons(word);
}

bool hosts_of(Reader& r, std::string_view text, std::vector<std::string>& out) {
  constexpr std::size_t kCost = 16 << 10;  // of the reader's budget, so that a body of many lists stays short work
  auto hosts = expand_hostlist(text, kHostsAskedMax);
  if (!hosts.ok())
    return r.fail(hosts.error().message);
  if (!r.spend(hosts->size(), kCost))
    return false;
  out = std::move(*hosts);
  return true;
}

json::array list_of(const std::vector<std::string>& words) {
  json::array out;
  for (const std::string& word : words) out.emplace_back(json::string_view(word.data(), word.size()));
  return out;
}

// Lists of names that may be written as "a,b".
constexpr std::string_view kNameLists[] = {"partitions", "allow_accounts", "deny_accounts", "allow_qos",
                                           "deny_qos",   "users",          "accounts",      "groups",
                                           "preempts",   "coordinators"};
constexpr std::string_view kHostLists[] = {"only_nodes", "exclude_nodes"};

// A span of time as people write it, as the record has it: in us. The reader has failed where this is false.
bool read_time(Reader& r, const json::value& value, json::value& out) {
  Duration time;
  if (const json::string* text = value.if_string()) {
    const auto span = duration_of(view(*text));
    if (!span)
      return r.fail("must be a time such as 3:40:00, 1-12:00:00, 4h or unlimited");
    time = *span;
  } else if (const std::int64_t* number = value.if_int64(); number && *number >= 0 && *number < 1'000'000'000) {
    time = minutes(*number);
  } else {
    return r.fail("must be a time such as 3:40:00, or minutes");
  }
  if (time >= kForever)
    out = "forever";
  else
    out = time.us;
  return true;
}

bool is_in(std::span<const std::string_view> list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

// Lists that are written as one text become lists.
bool read_member(Reader& r, std::string_view key, bool nodes_are_hosts, const json::value& value, json::value& out) {
  const json::string* text = value.if_string();
  if (text && ((key == "nodes" && nodes_are_hosts) || is_in(kHostLists, key))) {
    std::vector<std::string> hosts;
    if (!hosts_of(r, view(*text), hosts))
      return false;
    out = list_of(hosts);
  } else if (text && is_in(kNameLists, key)) {
    out = list_of(split(view(*text), ','));
  } else {
    out = value;
  }
  return true;
}

// The object as the record's codec reads it. `besides`: members that are not of the record are left out of it.
bool plain(Reader& r, const json::object& from, const KnownNames& names,
           std::initializer_list<std::string_view> besides, bool nodes_are_hosts, json::object& out) {
  for (const auto& member : from) {
    std::string key(member.key().data(), member.key().size());
    if (std::find(besides.begin(), besides.end(), key) != besides.end())
      continue;
    if (key == "partition" && !names.has(key) && names.has("partitions"))
      key = "partitions";
    const bool is_ours = key == "meta" || key == "target" || key == "if_seq";
    const bool is_time = !names.has(key) && names.has(key + "_us");
    if (is_ours || (!names.has(key) && !is_time)) {
      r.fail(format("is not known; known are: {}", names.list()));
      return r.under(view(member.key()));
    }
    json::value value;
    if (!(is_time ? read_time(r, member.value(), value) : read_member(r, key, nodes_are_hosts, member.value(), value)))
      return r.under(view(member.key()));
    const std::string name = is_time ? key + "_us" : key;
    out[json::string_view(name.data(), name.size())] = std::move(value);
  }
  return true;
}

bool read_target(Reader& r, const json::value& v, JobTarget& out) {
  std::string text;
  if (v.is_number()) {
    return Codec<JobId>::read(r, v, out.job) && (out.job || r.fail("must be a job's id"));
  }
  if (!read_text(r, v, text))
    return false;
  const auto line = text.find('_');
  const auto id = parse_uint(std::string_view(text).substr(0, line));
  if (!id || *id == 0)
    return r.fail("must be a job's id, like 12 or 12_3");
  out.job = JobId{*id};
  if (line == std::string::npos)
    return true;
  std::string_view indices = std::string_view(text).substr(line + 1);
  if (indices.size() > 2 && indices.front() == '[' && indices.back() == ']')
    indices = indices.substr(1, indices.size() - 2);
  auto elements = IntervalSet::parse(indices);
  if (!elements.ok() || elements->empty())
    return r.fail("must be a job's id, like 12 or 12_3");
  out.elements = std::move(*elements);
  return true;
}

bool read_count(Reader& r, const json::object& object, std::uint32_t& out) {
  const json::value* count = object.if_contains("count");
  if (!count)
    return true;
  if (!Codec<std::uint32_t>::read(r, *count, out) || out == 0 || out > kCountMax) {
    r.fail(format("must be a number from 1 to {}", kCountMax));
    return r.under("count");
  }
  return true;
}

bool only(Reader& r, const json::object& object, std::initializer_list<std::string_view> known) {
  for (const auto& member : object)
    if (std::find(known.begin(), known.end(), view(member.key())) == known.end()) {
      r.fail(format("is not known; known are: {}", join({known.begin(), known.end()}, ", ")));
      return r.under(view(member.key()));
    }
  return true;
}

bool read_nodes(Reader& r, const json::value& v, bool drain, ChangeAsk& out) {
  SetNodes set{.nodes = {}, .drain = drain};
  std::vector<std::string> names;
  if (const json::string* text = v.if_string()) {
    if (!hosts_of(r, view(*text), names))
      return false;
  } else if (!Codec<std::vector<std::string>>::read(r, v, names)) {
    return false;
  }
  if (names.empty())
    return r.fail("names no node");
  set.nodes = join(names, ",");
  out.what = std::move(set);
  return true;
}

bool read_add_nodes(Reader& r, const json::value& v, ChangeAsk& out) {
  const json::object* object = read_object(r, v);
  AddNodes add;
  if (!object || !only(r, *object, {"like", "count"}) || !read_count(r, *object, add.count))
    return false;
  const json::value* like = object->if_contains("like");
  if (!like)
    return r.fail("must say which node the new ones are like: {like: n1, count: 4}");
  if (!read_text(r, *like, add.like))
    return r.under("like");
  out.what = std::move(add);
  return true;
}

bool read_add_jobs(Reader& r, const json::value& v, ChangeAsk& out) {
  const json::object* object = read_object(r, v);
  AddJobs add;
  if (!object || !only(r, *object, {"like", "count"}) || !read_count(r, *object, add.count))
    return false;
  const json::value* like = object->if_contains("like");
  if (!like)
    return r.fail("must say which job the new ones are like: {like: 12, count: 4}");
  JobTarget target;
  if (!read_target(r, *like, target))
    return r.under("like");
  if (target.elements) {
    r.fail("must be a whole job");
    return r.under("like");
  }
  add.like = target.job;
  out.what = add;
  return true;
}

bool read_remove_jobs(Reader& r, const json::value& v, ChangeAsk& out) {
  RemoveJobs remove;
  if (const json::array* list = v.if_array()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      if (!read_target(r, (*list)[i], remove.jobs.emplace_back()))
        return r.under(i);
  } else if (const json::string* text = v.if_string()) {
    for (const std::string& word : split(view(*text), ',')) {
      const std::string bare(trim(word));
      if (!read_target(r, json::value(json::string_view(bare.data(), bare.size())), remove.jobs.emplace_back()))
        return false;
    }
  } else if (!read_target(r, v, remove.jobs.emplace_back())) {
    return false;
  }
  out.what = std::move(remove);
  return true;
}

bool read_job(Reader& r, const json::value& v, ChangeAsk& out) {
  const json::object* object = read_object(r, v);
  if (!object)
    return false;
  UpdateJob update;
  const json::value* id = object->if_contains("id");
  if (!id)
    return r.fail("must say which job: {id: 12, nodes: 6}");
  if (!read_target(r, *id, update.target))
    return r.under("id");
  const JobTarget target = update.target;
  json::object fields;
  if (!plain(r, *object, names_of<UpdateJob>(), {"id"}, false, fields))
    return false;
  if (fields.empty())
    return r.fail("changes nothing of the job");
  if (!Codec<UpdateJob>::read(r, json::value(std::move(fields)), update))
    return false;
  update.target = target;
  out.what = std::move(update);
  return true;
}

template <class T>
bool read_edit(Reader& r, const json::value& v, Kind kind, ChangeAsk& out) {
  const json::object* object = read_object(r, v);
  if (!object)
    return false;
  EditRecord edit;
  edit.kind = kind;
  if (kind != Kind::kPolicy) {
    const json::value* name = object->if_contains("name");
    if (!name)
      return r.fail("must have a name");
    if (!read_text(r, *name, edit.name) || edit.name.empty()) {
      if (r.message.empty())
        r.fail("must not be empty");
      return r.under("name");
    }
  }
  json::object fields;
  if (!plain(r, *object, names_of<T>(), {"name"}, true, fields))
    return false;
  T trial;
  const json::value plain_value(std::move(fields));
  if (!Codec<T>::read(r, plain_value, trial))
    return false;
  edit.fields = json::serialize(plain_value);
  out.what = std::move(edit);
  return true;
}

struct Verb {
  std::string_view word;
  bool (*read)(Reader&, const json::value&, ChangeAsk&);
  bool many = true;  // a list stands for several
};
constexpr Verb kVerbs[] = {
    {"add_nodes", read_add_nodes},
    {"remove_nodes", [](Reader& r, const json::value& v, ChangeAsk& out) { return read_nodes(r, v, true, out); },
     false},
    {"drain", [](Reader& r, const json::value& v, ChangeAsk& out) { return read_nodes(r, v, true, out); }, false},
    {"resume", [](Reader& r, const json::value& v, ChangeAsk& out) { return read_nodes(r, v, false, out); }, false},
    {"partition",
     [](Reader& r, const json::value& v, ChangeAsk& out) { return read_edit<Partition>(r, v, Kind::kPartition, out); }},
    {"qos", [](Reader& r, const json::value& v, ChangeAsk& out) { return read_edit<Qos>(r, v, Kind::kQos, out); }},
    {"account",
     [](Reader& r, const json::value& v, ChangeAsk& out) { return read_edit<Account>(r, v, Kind::kAccount, out); }},
    {"licence",
     [](Reader& r, const json::value& v, ChangeAsk& out) { return read_edit<Licence>(r, v, Kind::kLicence, out); }},
    {"reservation", [](Reader& r, const json::value& v,
                       ChangeAsk& out) { return read_edit<Reservation>(r, v, Kind::kReservation, out); }},
    {"policy",
     [](Reader& r, const json::value& v, ChangeAsk& out) { return read_edit<Policy>(r, v, Kind::kPolicy, out); }},
    {"job", read_job},
    {"add_jobs", read_add_jobs},
    {"remove_jobs", read_remove_jobs, false},
};

bool read_verb(Reader& r, std::string_view word, const json::value& v, const std::string& path,
               std::vector<ChangeAsk>& out) {
  const auto verb =
      std::find_if(std::begin(kVerbs), std::end(kVerbs), [&](const Verb& known) { return known.word == word; });
  const std::string here = path.empty() ? std::string(word) : format("{}.{}", path, word);
  if (verb == std::end(kVerbs)) {
    std::vector<std::string> words;
    for (const Verb& known : kVerbs) words.emplace_back(known.word);
    r.fail(format("is no change; changes are: {}", join(words, ", ")));
    return r.under(word);
  }
  const json::array* list = verb->many ? v.if_array() : nullptr;
  for (std::size_t i = 0; i < (list ? list->size() : 1); ++i) {
    if (out.size() == kChangesMax)
      return r.fail(format("are more than {} changes", kChangesMax));
    ChangeAsk change;
    if (!verb->read(r, list ? (*list)[i] : v, change)) {
      if (list)
        r.under(i);
      return r.under(word);
    }
    change.field = list ? format("{}[{}]", here, i) : here;
    out.push_back(std::move(change));
  }
  return true;
}

bool read_changes(Reader& r, const json::value& v, const std::string& path, std::vector<ChangeAsk>& out) {
  if (const json::array* list = v.if_array()) {
    if (!read_list(r, v, sizeof(ChangeAsk)))
      return false;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const json::object* one = (*list)[i].if_object();
      if (!one || one->empty()) {
        r.fail("must be a change, like drain: n1");
        return r.under(i);
      }
      for (const auto& member : *one)
        if (!read_verb(r, view(member.key()), member.value(), format("{}[{}]", path, i), out))
          return r.under(i);
    }
    return true;
  }
  const json::object* object = v.if_object();
  if (!object)
    return r.fail("must be a list of changes");
  for (const auto& member : *object) {
    const std::string_view key = view(member.key());
    if (key == "changes") {
      if (!read_changes(r, member.value(), path.empty() ? "changes" : path + ".changes", out))
        return r.under(key);
    } else if (!read_verb(r, key, member.value(), path, out)) {
      return false;
    }
  }
  return true;
}

template <class T>
Result<Record> overlay(const EditRecord& edit, const Record& base) {
  const auto* before = std::get_if<Ref<T>>(&base);
  CHECK(before && *before, "an edit of another kind of record");
  T record = **before;
  Reader r{Origin::kStranger};
  TRY(with_document(
      edit.fields, r,
      [](Reader& r, const json::value& v, void* out) { return Codec<T>::read(r, v, *static_cast<T*>(out)); }, &record));
  return Record(std::make_shared<const T>(std::move(record)));
}

}  // namespace

}  // namespace wire

Result<std::vector<ChangeAsk>> decode_changes(std::string_view text) {
  wire::Reader reader;
  std::vector<ChangeAsk> out;
  TRY(wire::with_document(
      text, reader,
      [](wire::Reader& r, const wire::json::value& v, void* into) {
        return wire::read_changes(r, v, "", *static_cast<std::vector<ChangeAsk>*>(into));
      },
      &out));
  return out;
}

Result<Record> laid_over(const EditRecord& edit, const Record& base) {
  switch (edit.kind) {
    case Kind::kPartition: return wire::overlay<Partition>(edit, base);
    case Kind::kQos: return wire::overlay<Qos>(edit, base);
    case Kind::kAccount: return wire::overlay<Account>(edit, base);
    case Kind::kLicence: return wire::overlay<Licence>(edit, base);
    case Kind::kReservation: return wire::overlay<Reservation>(edit, base);
    case Kind::kPolicy: return wire::overlay<Policy>(edit, base);
    default: return invalid("records of this kind are not edited");
  }
}

}  // namespace lockstep
