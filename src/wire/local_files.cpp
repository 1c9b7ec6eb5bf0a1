#include "wire/local_files.h"

#include <boost/json.hpp>

#include "base/ip_range.h"
#include "base/text.h"
#include "wire/shortage_bounds.h"

namespace lockstep {

namespace {

namespace json = boost::json;

Result<json::object> parse_object(std::string_view text, std::string_view what) {
  boost::system::error_code error;
  auto value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error)
    return invalid(format("{} is not JSON: {}", what, error.message()));
  if (!value.is_object())
    return invalid(format("{} is not a JSON object", what));
  return std::move(value.as_object());
}

void read(const json::object& o, const char* name, std::string& out) {
  if (const auto* v = o.if_contains(name); v && v->is_string())
    out.assign(v->as_string().data(), v->as_string().size());
}
template <class T>
void read(const json::object& o, const char* name, T& out) requires std::is_integral_v<T> {
  if (const auto* v = o.if_contains(name)) {
    if constexpr (std::is_same_v<T, bool>) {
      if (v->is_bool())
        out = v->as_bool();
    } else {
      boost::system::error_code error;
      const auto n = v->to_number<T>(error);
      if (!error)
        out = n;
    }
  }
}
void read(const json::object& o, const char* name, std::vector<std::string>& out) {
  if (const auto* v = o.if_contains(name); v && v->is_array())
    for (const auto& item : v->as_array())
      if (item.is_string())
        out.emplace_back(item.as_string());
}

json::array array_of(const std::vector<std::string>& words) {
  json::array out;
  for (const auto& word : words) out.emplace_back(word);
  return out;
}

json::object object_of(const NodeHooks& h) {
  return {{"prolog", array_of(h.prolog)}, {"epilog", array_of(h.epilog)},
          {"timeout_s", h.timeout_s},     {"staging_timeout_s", h.staging_timeout_s},
          {"task_prolog", h.task_prolog}, {"task_epilog", h.task_epilog}};
}

json::object object_of(const NodeHealthSettings& h) {
  return {{"program", h.program},       {"interval_s", h.interval_s},
          {"timeout_s", h.timeout_s},   {"node_state", h.node_state},
          {"look_s", h.look_s},         {"mounts", array_of(h.mounts)},
          {"disks", array_of(h.disks)}, {"disk_full_percent", h.disk_full_percent},
          {"off", array_of(h.off)}};
}

json::object object_of(const NodePlaces& p) {
  json::object out{{"scratch", p.scratch}};
  if (p.private_tmp)
    out["private_tmp"] = *p.private_tmp;
  return out;
}
json::object object_of(const NodeSampling& s) { return {{"work_s", s.work_s}, {"gpus_s", s.gpus_s}}; }

json::object object_of(const NodeImages& i) { return {{"user_mb", i.user_mb}, {"free_percent", i.free_percent}}; }

std::vector<std::pair<const char*, std::string*>> bounds_in(NodePressure& p) {
  return {{"memory", &p.memory},           {"disk", &p.disk},
          {"disk_files", &p.disk_files},   {"images", &p.images},
          {"image_files", &p.image_files}, {"processes", &p.processes}};
}

json::object object_of(const NodePressure& p) {
  return {
      {"memory", p.memory},           {"disk", p.disk},           {"disk_files", p.disk_files}, {"images", p.images},
      {"image_files", p.image_files}, {"processes", p.processes}, {"look_s", p.look_s},         {"lasts_s", p.lasts_s},
      {"disk_mb", p.disk_mb}};
}

// A misspelt name of a hook would be a hook that never runs.
Result<void> check_names(const json::object& o, const json::object& known, std::string_view where) {
  for (const auto& [name, value] : o) {
    const auto* pattern = known.if_contains(name);
    if (!pattern)
      return Error{Errc::kInvalid, format("there is no such setting: {}", std::string_view(name.data(), name.size())),
                   std::string(where)};
    const bool fits = pattern->is_number() ? value.is_number() : pattern->kind() == value.kind();
    if (!fits)
      return Error{Errc::kInvalid,
                   format("{} is no {}", std::string_view(name.data(), name.size()),
                          pattern->is_array()    ? "list of texts in [ ]"
                          : pattern->is_object() ? "object in { }"
                          : pattern->is_number() ? "number"
                          : pattern->is_bool()   ? "true or false"
                                                 : "text"),
                   std::string(where)};
    boost::system::error_code error;
    const bool is_beyond = value.is_uint64() || (value.is_int64() && value.get_int64() > 0) ||
                           (value.is_double() && value.get_double() > UINT32_MAX);
    if (value.is_number() && (value.to_number<std::uint32_t>(error), error))
      return Error{Errc::kInvalid,
                   format("{} is {}", std::string_view(name.data(), name.size()),
                          is_beyond ? "too large" : "no whole number from 0 on"),
                   std::string(where)};
  }
  return {};
}

constexpr std::uint32_t kDaySeconds = 86'400;
constexpr std::size_t kListMax = 256;

Result<void> in_range(std::uint32_t value, std::uint32_t low, std::uint32_t high, const char* name) {
  if (value < low || value > high)
    return Error{Errc::kInvalid, format("write a number from {} to {}", low, high), name};
  return {};
}

Result<void> check_paths(const std::vector<std::string>& paths, const char* name) {
  if (paths.size() > kListMax)
    return Error{Errc::kInvalid, format("at most {}", kListMax), name};
  for (const std::string& path : paths)
    if (!path.starts_with('/'))
      return Error{Errc::kInvalid, format("\"{}\" is no path from / on", path), name};
  return {};
}

Result<void> check_word(const std::string& word, std::initializer_list<std::string_view> known, const char* name) {
  if (std::find(known.begin(), known.end(), word) != known.end())
    return {};
  return Error{
      Errc::kInvalid,
      format("there is no \"{}\": write {}", word, join(std::vector<std::string>(known.begin(), known.end()), ", ")),
      name};
}

Result<void> read_hooks(const json::object& o, NodeHooks& h) {
  TRY(check_names(o, object_of(NodeHooks{}), "hooks"));
  read(o, "prolog", h.prolog);
  read(o, "epilog", h.epilog);
  read(o, "timeout_s", h.timeout_s);
  read(o, "staging_timeout_s", h.staging_timeout_s);
  read(o, "task_prolog", h.task_prolog);
  read(o, "task_epilog", h.task_epilog);
  TRY(check_paths(h.prolog, "hooks.prolog"));
  TRY(check_paths(h.epilog, "hooks.epilog"));
  for (const auto& [path, name] :
       {std::pair(&h.task_prolog, "hooks.task_prolog"), std::pair(&h.task_epilog, "hooks.task_epilog")})
    if (!path->empty())
      TRY(check_paths({*path}, name));
  TRY(in_range(h.staging_timeout_s, 1, kDaySeconds, "hooks.staging_timeout_s"));
  return in_range(h.timeout_s, 1, kDaySeconds, "hooks.timeout_s");
}

Result<void> read_health(const json::object& o, NodeHealthSettings& h) {
  TRY(check_names(o, object_of(NodeHealthSettings{}), "health"));
  read(o, "program", h.program);
  read(o, "interval_s", h.interval_s);
  read(o, "timeout_s", h.timeout_s);
  read(o, "node_state", h.node_state);
  read(o, "look_s", h.look_s);
  read(o, "mounts", h.mounts);
  read(o, "disks", h.disks);
  read(o, "disk_full_percent", h.disk_full_percent);
  read(o, "off", h.off);
  if (!h.program.empty())
    TRY(check_paths({h.program}, "health.program"));
  TRY(check_paths(h.mounts, "health.mounts"));
  TRY(check_paths(h.disks, "health.disks"));
  TRY(in_range(h.interval_s, 0, kDaySeconds, "health.interval_s"));
  if (!h.program.empty() && h.interval_s == 0)
    return Error{Errc::kInvalid, "write every how many seconds the program runs, or name none", "health.interval_s"};
  for (const std::string& word : split(h.node_state, ','))
    TRY(check_word(word, {"ANY", "IDLE", "ALLOC", "START_ONLY", "CYCLE"}, "health.node_state"));
  for (const std::string& word : h.off)
    TRY(check_word(word, {"clock", "disk", "gpu", "leftover", "memory", "mount"}, "health.off"));
  TRY(in_range(h.timeout_s, 1, kDaySeconds, "health.timeout_s"));
  TRY(in_range(h.look_s, 0, kDaySeconds, "health.look_s"));
  return in_range(h.disk_full_percent, 1, 100, "health.disk_full_percent");
}

Result<void> read_places(const json::object& o, NodePlaces& p) {
  TRY(check_names(o, object_of(NodePlaces{.private_tmp = false}), "places"));
  read(o, "scratch", p.scratch);
  if (o.contains("private_tmp"))
    read(o, "private_tmp", p.private_tmp.emplace());
  return p.scratch.empty() ? Result<void>() : check_paths({p.scratch}, "places.scratch");
}

Result<void> read_sampling(const json::object& o, NodeSampling& s) {
  TRY(check_names(o, object_of(NodeSampling{}), "sampling"));
  read(o, "work_s", s.work_s);
  read(o, "gpus_s", s.gpus_s);
  TRY(in_range(s.work_s, 1, kDaySeconds, "sampling.work_s"));
  return in_range(s.gpus_s, 0, kDaySeconds, "sampling.gpus_s");
}

Result<void> read_images(const json::object& o, NodeImages& i) {
  TRY(check_names(o, object_of(NodeImages{}), "images"));
  read(o, "user_mb", i.user_mb);
  read(o, "free_percent", i.free_percent);
  if (i.user_mb < 0)
    return Error{Errc::kInvalid, "must not be negative", "images.user_mb"};
  return in_range(i.free_percent, 0, 99, "images.free_percent");
}

Result<void> read_pressure(const json::object& o, NodePressure& p) {
  TRY(check_names(o, object_of(NodePressure{}), "pressure"));
  for (const auto& [name, bound] : bounds_in(p)) {
    read(o, name, *bound);
    if (const auto known = parse_shortage_bound(*bound); !known.ok())
      return Error{Errc::kInvalid, known.error().message, format("pressure.{}", name)};
  }
  read(o, "look_s", p.look_s);
  read(o, "lasts_s", p.lasts_s);
  read(o, "disk_mb", p.disk_mb);
  TRY(in_range(p.look_s, 0, kDaySeconds, "pressure.look_s"));
  return in_range(p.lasts_s, 0, kDaySeconds, "pressure.lasts_s");
}

Result<void> read_parts(const json::object& o, AgentFile& f) {
  const auto part = [&o](const char* name) -> Result<const json::object*> {
    const auto* value = o.if_contains(name);
    if (value && !value->is_object())
      return Error{Errc::kInvalid, "is no object in { }", name};
    return value ? &value->as_object() : nullptr;
  };
  if (const json::object* hooks = TRY(part("hooks")))
    TRY(read_hooks(*hooks, f.hooks));
  if (const json::object* health = TRY(part("health")))
    TRY(read_health(*health, f.health));
  if (const json::object* places = TRY(part("places")))
    TRY(read_places(*places, f.places));
  if (const json::object* sampling = TRY(part("sampling")))
    TRY(read_sampling(*sampling, f.sampling));
  if (const json::object* images = TRY(part("images")))
    TRY(read_images(*images, f.images));
  if (const json::object* pressure = TRY(part("pressure")))
    TRY(read_pressure(*pressure, f.pressure));
  return {};
}

}  // namespace

// A person may have to change it: a line for each setting.
std::string encode(const AgentFile& f) {
  const json::object settings{{"node", f.node},
                              {"address", f.address},
                              {"controller_host", f.controller_host},
                              {"controller_port", f.controller_port},
                              {"ca", f.ca},
                              {"certificate", f.certificate},
                              {"key", f.key},
                              {"state_dir", f.state_dir},
                              {"run_dir", f.run_dir},
                              {"socket", f.socket},
                              {"peer_port", f.peer_port},
                              {"shim", f.shim},
                              {"realm", f.realm},
                              {"task_range", f.task_range},
                              {"cpus", f.cpus},
                              {"memory_mb", f.memory_mb},
                              {"weight", f.weight},
                              {"features", array_of(f.features)},
                              {"resources", array_of(f.resources)},
                              {"domains", array_of(f.domains)},
                              {"boot_id_file", f.boot_id_file},
                              {"fence_hook", f.fence_hook},
                              {"cluster_dir", f.cluster_dir},
                              {"leaving", f.leaving},
                              {"no_new_privs", f.no_new_privs},
                              {"hooks", object_of(f.hooks)},
                              {"health", object_of(f.health)},
                              {"places", object_of(f.places)},
                              {"sampling", object_of(f.sampling)},
                              {"images", object_of(f.images)},
                              {"pressure", object_of(f.pressure)}};
  std::string text;
  for (const auto& [name, value] : settings)
    text += (text.empty() ? "{\n  " : ",\n  ") + json::serialize(json::value(name)) + ": " + json::serialize(value);
  return text + "\n}\n";
}

Result<AgentFile> decode_agent_file(std::string_view text) {
  const auto o = TRY(parse_object(text, "agent settings"));
  AgentFile f;
  read(o, "node", f.node);
  read(o, "address", f.address);
  read(o, "controller_host", f.controller_host);
  read(o, "controller_port", f.controller_port);
  read(o, "ca", f.ca);
  read(o, "certificate", f.certificate);
  read(o, "key", f.key);
  read(o, "state_dir", f.state_dir);
  read(o, "run_dir", f.run_dir);
  read(o, "socket", f.socket);
  read(o, "peer_port", f.peer_port);
  read(o, "shim", f.shim);
  read(o, "realm", f.realm);
  read(o, "task_range", f.task_range);
  read(o, "cpus", f.cpus);
  read(o, "memory_mb", f.memory_mb);
  read(o, "weight", f.weight);
  read(o, "features", f.features);
  read(o, "resources", f.resources);
  read(o, "domains", f.domains);
  read(o, "boot_id_file", f.boot_id_file);
  read(o, "fence_hook", f.fence_hook);
  read(o, "cluster_dir", f.cluster_dir);
  read(o, "leaving", f.leaving);
  read(o, "no_new_privs", f.no_new_privs);
  TRY(read_parts(o, f));
  if (f.controller_host.empty())
    return Error{Errc::kInvalid, "agent settings name no controller", "controller_host"};
  if (f.controller_port == 0)
    return Error{Errc::kInvalid, "agent settings name no controller port", "controller_port"};
  if (f.state_dir.empty())
    return Error{Errc::kInvalid, "agent settings name no state directory", "state_dir"};
  if (!f.task_range.empty() && !parse_ip_range(f.task_range))
    return Error{Errc::kInvalid,
                 format("\"{}\" is no range of addresses, like \"10.88.3.0/24\" (from /8 to /30)", f.task_range),
                 "task_range"};
  if (f.memory_mb < 0)
    return Error{Errc::kInvalid, "memory must not be negative", "memory_mb"};
  return f;
}

Result<void> add_hook_settings(AgentFile& file, std::string_view text) {
  const auto o = TRY(parse_object(text, "the file"));
  TRY(check_names(o,
                  {{"hooks", json::object()},
                   {"health", json::object()},
                   {"places", json::object()},
                   {"sampling", json::object()},
                   {"images", json::object()},
                   {"pressure", json::object()}},
                  ""));
  return read_parts(o, file);
}

// The status of the cluster as a document. What nobody could find out is left out, or null.
std::string encode(const ClusterStatus& s) {
  json::object jobs;
  for (const auto& [state, count] : s.jobs) jobs[state] = count;
  json::array nodes;
  for (const auto& n : s.nodes)
    nodes.push_back(json::object{{"name", n.name},
                                 {"state", n.state},
                                 {"address", n.address},
                                 {"version", n.version},
                                 {"reason", n.reason},
                                 {"cores", n.cores},
                                 {"cores_used", n.cores_used},
                                 {"devices", n.devices},
                                 {"devices_used", n.devices_used},
                                 {"device_type", n.device_type},
                                 {"memory_mb", n.memory_mb},
                                 {"memory_used_mb", n.memory_used_mb},
                                 {"pid", n.pid},
                                 {"agent_pid", n.agent_pid},
                                 {"agent_ends", n.agent_ends},
                                 {"agent_last_end", n.agent_last_end},
                                 {"agent_last_end_at_s", n.agent_last_end_at_s}});
  json::object controller{{"pid", s.controller_pid}, {"state", s.controller_state}};
  if (!s.supervisor_unknown) {
    controller["supervisor_pid"] = s.supervisor_pid;
    controller["ends"] = s.ends;
    controller["last_end"] = s.last_end;
    controller["last_end_at_s"] = s.last_end_at_s;
    controller["next_start_at_s"] = s.next_start_at_s;
    controller["quarantined"] = array_of(s.quarantined);
  }
  return json::serialize(json::object{{"cluster", s.cluster},
                                      {"version", s.version},
                                      {"dir", s.dir},
                                      {"socket", s.socket},
                                      {"controller", controller},
                                      {"seq", s.seq},
                                      {"jobs", s.jobs_known ? json::value(jobs) : json::value(nullptr)},
                                      {"notices", array_of(s.notices)},
                                      {"nodes", nodes}}) +
         "\n";
}

Result<ClusterStatus> decode_cluster_status(std::string_view text) {
  const auto o = TRY(parse_object(text, "status"));
  ClusterStatus s;
  read(o, "cluster", s.cluster);
  read(o, "version", s.version);
  read(o, "dir", s.dir);
  read(o, "socket", s.socket);
  read(o, "seq", s.seq);
  if (const auto* c = o.if_contains("controller"); c && c->is_object()) {
    read(c->as_object(), "pid", s.controller_pid);
    read(c->as_object(), "state", s.controller_state);
  }
  read(o, "notices", s.notices);
  if (const auto* jobs = o.if_contains("jobs"); jobs && jobs->is_object())
    for (const auto& item : jobs->as_object()) read(jobs->as_object(), item.key_c_str(), s.jobs[item.key_c_str()]);
  if (const auto* nodes = o.if_contains("nodes"); nodes && nodes->is_array())
    for (const auto& item : nodes->as_array()) {
      if (!item.is_object())
        return invalid("status: a node is not an object", "nodes");
      const auto& n = item.as_object();
      NodeStatus node;
      read(n, "name", node.name);
      read(n, "state", node.state);
      read(n, "address", node.address);
      read(n, "version", node.version);
      read(n, "reason", node.reason);
      read(n, "cores", node.cores);
      read(n, "cores_used", node.cores_used);
      read(n, "devices", node.devices);
      read(n, "devices_used", node.devices_used);
      read(n, "device_type", node.device_type);
      read(n, "memory_mb", node.memory_mb);
      read(n, "memory_used_mb", node.memory_used_mb);
      read(n, "pid", node.pid);
      read(n, "agent_pid", node.agent_pid);
      s.nodes.push_back(std::move(node));
    }
  return s;
}

Result<std::string> decode_token_answer(std::string_view text) {
  const auto o = TRY(parse_object(text, "token answer"));
  std::string token;
  read(o, "token", token);
  if (token.empty())
    return invalid("the controller's answer holds no token");
  return token;
}

}  // namespace lockstep
