#include "model/weight.h"

#include <array>
#include <bit>
#include <string_view>

#include "model/allocation.h"
#include "model/bounds.h"
#include "model/dependency.h"
#include "model/job.h"
#include "model/program.h"
#include "model/records.h"
#include "model/resources.h"
#include "model/service.h"
#include "model/spec.h"
#include "model/step.h"
#include "model/tres.h"

namespace lockstep {

namespace {

constexpr std::size_t kField = 60;   // a name, a number or a word, and what stands around them
constexpr std::size_t kFrame = 200;  // of the entry around the record

// What a byte becomes within a JSON string, at most.
constexpr auto kWritten = [] {
  std::array<unsigned char, 256> out{};
  for (std::size_t c = 0; c < 256; ++c) out[c] = c < 0x20 ? 6 : c < 0x80 ? 1 : 3;
  out['"'] = out['\\'] = 2;
  return out;
}();
constexpr std::size_t kWrittenMost = 6;
constexpr std::size_t kHurriedMost = 64 << 10;   // a spec that seems larger is looked at closely
constexpr std::size_t kOrdinaryMost = 16 << 10;  // so is a record

constexpr std::size_t digits(std::uint64_t n) { return (static_cast<std::size_t>(std::bit_width(n)) * 1233 >> 12) + 1; }

// Adds up. In a hurry every character counts as the worst one.
class Weigher {
 public:
  explicit Weigher(bool hurried) : hurried_(hurried) {}
  Weight result() const { return {bytes_, heaviest_}; }

  void fields(std::size_t count) { bytes_ += count * kField; }
  void bytes(std::size_t count) { bytes_ += count; }
  void add(const Weight& part) {
    bytes_ += part.bytes;
    note(part.heaviest, part.bytes);
  }
  void number(const char* name, std::uint64_t n) {
    if (n != 0)
      bytes_ += std::string_view(name).size() + 4 + digits(n);
  }
  void text(const char* name, std::string_view value) {
    if (value.empty())
      return;
    const std::size_t size = written(value);
    bytes_ += std::string_view(name).size() + 4 + size;
    note(name, size);
  }
  void texts(const char* name, const std::vector<std::string>& values) {
    list(name, values, [this](const std::string& value) { bytes_ += written(value); });
  }
  void pairs(const char* name, const std::vector<std::pair<std::string, std::string>>& values) {
    list(name, values, [this](const auto& pair) { bytes_ += written(pair.first) + written(pair.second) + 4; });
  }
  // each(item) adds what one item takes; brackets and commas are counted here.
  template <class List, class Each>
  void list(const char* name, const List& items, Each each) {
    if (items.empty())
      return;
    const std::size_t before = bytes_, heaviest_before = heaviest_bytes_;
    bytes_ += std::string_view(name).size() + 8;
    for (const auto& item : items) {
      ++bytes_;
      each(item);
    }
    // One part of an item may be what is heavy, not their number.
    const bool within = heaviest_bytes_ > heaviest_before && heaviest_bytes_ > (bytes_ - before) / 2;
    if (!within)
      note(name, bytes_ - before);
  }
  template <std::uint32_t kBits>
  void bits(const char* name, const Bitmap<kBits>& set) {
    if (!set.any())
      return;
    std::size_t runs = 0;
    std::uint32_t next = kBits;
    set.for_each([&](std::uint32_t i) {
      runs += i != next;
      next = i + 1;
    });
    bytes_ += std::string_view(name).size() + 6 + runs * (2 * digits(kBits) + 2);
  }

 private:
  std::size_t written(std::string_view value) const {
    if (hurried_)
      return value.size() * kWrittenMost + 2;
    std::size_t sum = 2;
    for (const char c : value) sum += kWritten[static_cast<unsigned char>(c)];
    return sum;
  }
  void note(const char* name, std::size_t size) {
    if (size > heaviest_bytes_) {
      heaviest_bytes_ = size;
      heaviest_ = name;
    }
  }

  const bool hurried_;
  std::size_t bytes_ = 0, heaviest_bytes_ = 0;
  const char* heaviest_ = "";
};

void weigh(Weigher& w, const Meta& meta) {
  w.fields(6);
  w.text("ns", meta.ns);
  w.text("name", meta.name);
  if (!meta.extra)
    return;
  w.fields(2);
  w.pairs("labels", meta.extra->labels);
  w.pairs("annotations", meta.extra->annotations);
  w.list("owners", meta.extra->owners, [&](const OwnerRef& owner) {
    w.fields(4);
    w.text("name", owner.name);
  });
  w.texts("finalizers", meta.extra->finalizers);
}

void weigh_counts(Weigher& w, const char* name, const auto& counts) {
  w.list(name, counts, [&](const auto& item) {
    w.text("name", item.name);
    w.bytes(40);
  });
}

void weigh(Weigher& w, const std::vector<DeviceAsk>& asks, const char* name) {
  w.list(name, asks, [&](const DeviceAsk& ask) {
    w.fields(3);
    w.text("kind", ask.kind);
    w.text("type", ask.type);
    w.text("mig", ask.mig);
  });
}

void weigh(Weigher& w, const Container& container) {
  w.fields(6);
  w.text("image", container.image);
  w.text("work_dir", container.work_dir);
  w.list("mounts", container.mounts, [&](const Mount& mount) {
    w.fields(1);
    w.text("source", mount.source);
    w.text("target", mount.target);
    w.texts("options", mount.options);
  });
  w.text("name", container.name);
  w.text("save", container.save);
  w.texts("keep_env", container.keep_env);
  w.text("bundle", container.bundle);
}

constexpr std::size_t kUseFields = 13;

void weigh(Weigher& w, const Resources& resources, const char* name) {
  w.fields(4);
  weigh(w, resources.devices, name);
  weigh_counts(w, name, resources.counted);
}

void weigh(Weigher& w, const std::vector<Probe>& probes) {
  w.list("probes", probes, [&](const Probe& probe) {
    w.fields(11);
    w.text("path", probe.path);
    w.texts("argv", probe.argv);
    w.text("post_data", probe.post_data);
    w.text("host", probe.host);
    w.pairs("headers", probe.headers);
    w.text("service", probe.service);
  });
}

void weigh(Weigher& w, const ContainerHook& hook, const char* name) {
  w.fields(5);
  w.texts(name, hook.argv);
  w.text("host", hook.host);
  w.text("path", hook.path);
  w.pairs("headers", hook.headers);
}

void weigh(Weigher& w, const ContainerRights& rights) {
  w.fields(8);
  w.list("groups", rights.groups, [&](std::uint32_t) { w.bytes(11); });
  w.texts("add_capabilities", rights.add_capabilities);
  w.texts("drop_capabilities", rights.drop_capabilities);
  w.text("seccomp", rights.seccomp);
}

void weigh(Weigher& w, const Sandbox& sandbox) {
  w.fields(11);
  w.list("volumes", sandbox.volumes, [&](const SandboxVolume& volume) {
    w.fields(2);
    w.text("name", volume.name);
    w.text("path", volume.path);
    w.text("path_type", volume.path_type);
  });
  w.text("host_name", sandbox.host_name);
  w.text("domain", sandbox.domain);
  w.list("aliases", sandbox.aliases, [&](const HostAlias& alias) {
    w.text("address", alias.address);
    w.texts("names", alias.names);
  });
  w.texts("servers", sandbox.lookup.servers);
  w.texts("searches", sandbox.lookup.searches);
  w.texts("options", sandbox.lookup.options);
  w.list("published", sandbox.published, [&](const PublishedPort& port) {
    w.fields(2);
    w.text("protocol", port.protocol);
    w.text("node_address", port.node_address);
  });
  w.pairs("sysctls", sandbox.sysctls);
  w.list("containers", sandbox.containers, [&](const SandboxContainer& container) {
    w.fields(16);
    w.text("name", container.name);
    w.text("std_out", container.std_out);
    w.text("std_err", container.std_err);
    w.texts("argv", container.argv);
    w.pairs("env", container.env);
    weigh(w, container.container);
    weigh(w, container.probes);
    weigh(w, container.rights);
    weigh(w, container.begun, "begun");
    weigh(w, container.ending, "ending");
    w.text("message_file", container.message_file);
    w.text("sees_processes_of", container.sees_processes_of);
    w.list("placed_env", container.placed_env, [&](const PlacedVariable& variable) {
      w.fields(1);
      w.text("name", variable.name);
    });
  });
}

void weigh(Weigher& w, const std::vector<LabelRule>& rules, const char* name) {
  w.list(name, rules, [&](const LabelRule& rule) {
    w.fields(1);
    w.text("key", rule.key);
    w.texts("values", rule.values);
  });
}

void weigh(Weigher& w, const std::vector<NodeWish>& wishes, const char* name) {
  w.list(name, wishes, [&](const NodeWish& wish) {
    w.fields(1);
    weigh(w, wish.rules, "rules");
  });
}

void weigh_neighbours(Weigher& w, const GroupSpec& group) {
  w.list("bears", group.bears, [&](const BornMark& mark) {
    w.fields(3);
    w.text("key", mark.key);
    w.text("value", mark.value);
  });
  weigh(w, group.node_rules, "node_rules");
  weigh(w, group.node_wishes, "node_wishes");
  w.list("neighbours", group.neighbours, [&](const NeighbourTerm& term) {
    w.fields(7);
    w.text("level", term.level);
    w.texts("scopes", term.scopes);
    weigh(w, term.jobs, "jobs");
  });
}

void weigh(Weigher& w, const GroupSpec& group) {
  w.fields(32);
  weigh_neighbours(w, group);
  w.text("name", group.name);
  weigh(w, group.per_task, "per_task");
  weigh(w, group.per_node, "per_node");
  weigh(w, group.per_job, "per_job");
  w.text("constraint", group.constraint);
  w.texts("only_nodes", group.only_nodes);
  w.texts("exclude_nodes", group.exclude_nodes);
  w.text("topology_level", group.topology_level);
  w.texts("argv", group.argv);
  w.pairs("env", group.env);
  weigh(w, group.container);
  w.list("ports", group.ports, [&](const Port& port) {
    w.fields(1);
    w.text("name", port.name);
  });
  weigh(w, group.probes);
  weigh(w, group.sandbox);
}

void weigh(Weigher& w, const JobSpec& spec) {
  w.fields(26);
  w.text("name", spec.name);
  w.text("front_end", spec.front_end);
  w.text("account", spec.account);
  w.text("qos", spec.qos);
  w.text("reservation", spec.reservation);
  w.text("licenses", spec.licenses);
  w.text("comment", spec.comment);
  w.text("wckey", spec.wckey);
  w.texts("partitions", spec.partitions);
  w.list("groups", spec.groups, [&](const GroupSpec& group) { weigh(w, group); });
  w.list("dependencies", spec.dependencies, [&](const Dependency& d) {
    w.bytes(40);
    w.number("job", d.job.value);
    w.number("delay_us", static_cast<std::uint64_t>(std::max<std::int64_t>(0, d.delay.us)));
    if (d.delay.us < 0)
      w.fields(1);
  });
  w.text("checkpoint_file", spec.checkpoint_file);
  w.text("checkpoint_line", spec.checkpoint_line);
  const auto staged = [&w](const StagedPath& path) {
    w.text("from", path.from);
    w.text("to", path.to);
  };
  w.list("stage_in", spec.stage_in, staged);
  w.list("stage_out", spec.stage_out, staged);
  w.text("script", spec.script);
  w.text("environment", spec.environment);
  w.text("work_dir", spec.work_dir);
  w.text("std_in", spec.std_in);
  w.text("std_out", spec.std_out);
  w.text("std_err", spec.std_err);
  w.text("submit_host", spec.submit_host);
  w.text("command", spec.command);
  w.pairs("options", spec.options);
  w.pairs("labels", spec.labels);
  w.text("scope", spec.scope);
  w.text("health_check", spec.health_check);
}

void weigh_parts(Weigher& w, const char* name, const std::vector<DevicePart>& parts) {
  w.list(name, parts, [&](const DevicePart& part) {
    w.fields(4);
    w.text("mig", part.mig);
  });
}

void weigh(Weigher& w, const std::vector<Grant>& grants, const char* name) {
  w.list(name, grants, [&](const Grant& grant) {
    w.bytes(22);
    w.number("node", grant.node.value);
    w.number("group", grant.group);
    w.number("tasks", grant.tasks);
    w.bits("cores", grant.cores);
    w.number("shared_milli", grant.shared_milli);
    w.number("memory_mb", static_cast<std::uint64_t>(grant.memory_mb));
    w.bits("devices", grant.devices);
    weigh_parts(w, "parts", grant.parts);
    weigh_counts(w, "counted", grant.counted);
    if (grant.whole_node)
      w.bytes(18);
    w.number("more_seats", grant.more_seats);
  });
}

void weigh(Weigher& w, const Tres& tres) {
  w.fields(5);
  weigh_counts(w, "others", tres.others);
}

void weigh(Weigher& w, const Allocation& allocation) {
  w.fields(6);
  w.text("partition", allocation.partition);
  weigh(w, allocation.grants, "grants");
  weigh(w, allocation.tres);
}

void weigh(Weigher& w, const IntervalSet& set, const char* name) {
  w.list(name, set.intervals(), [&](const Interval& part) { w.bytes(digits(part.low) + digits(part.high) + 1); });
}

// The job without its specs.
void weigh(Weigher& w, const Job& job) {
  weigh(w, job.meta);
  w.fields(44);
  if (job.allocation)
    weigh(w, *job.allocation);
  w.bytes(job.members.size());
  w.text("ran_on", job.ran_on);
  w.text("end_reason", job.end_reason);
  if (job.promise) {
    w.fields(3);
    w.text("partition", job.promise->partition);
    weigh(w, job.promise->grants, "promise");
  }
  if (job.eviction) {
    w.fields(3);
    w.list("eviction", job.eviction->nodes, [&](NodeId) { w.bytes(digits(UINT32_MAX)); });
  }
  if (job.script_use)
    w.fields(kUseFields);
  if (job.array) {
    w.fields(6);
    weigh(w, job.array->asked, "array");
    weigh(w, job.array->waiting, "array");
  }
}

void weigh(Weigher& w, const StepSpec& spec) {
  w.fields(27);
  w.text("name", spec.name);
  w.texts("argv", spec.argv);
  w.text("environment", spec.environment);
  w.text("work_dir", spec.work_dir);
  w.text("std_in", spec.std_in);
  w.text("std_out", spec.std_out);
  w.text("std_err", spec.std_err);
  weigh(w, spec.devices_per_node, "devices_per_node");
  weigh(w, spec.devices_per_task, "devices_per_task");
  w.texts("only_nodes", spec.only_nodes);
  w.texts("exclude_nodes", spec.exclude_nodes);
  w.text("distribution", spec.distribution);
  w.list("multi_prog", spec.multi_prog, [&](const auto& argv) {
    w.bytes(2);
    w.texts("multi_prog", argv);
  });
  w.pairs("options", spec.options);
  weigh(w, spec.container);
}

// As wire/forms.cpp writes them: "4-7,9", "0-96:32", and one by one where they do not ascend.
void weigh_ranks(Weigher& w, const std::vector<std::uint32_t>& ranks) {
  std::size_t one_by_one = 0, runs = 0;
  bool ascending = true;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    one_by_one += digits(ranks[i]) + 1;
    ascending = ascending && (i == 0 || ranks[i] > ranks[i - 1]);
  }
  for (std::size_t i = 0; ascending && i < ranks.size();) {
    const std::uint32_t step = i + 1 < ranks.size() ? ranks[i + 1] - ranks[i] : 1;
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == step) ++end;
    if (step > 1 && end - i < 3)
      end = i + 1;
    runs += digits(ranks[i]) + digits(ranks[end - 1]) + digits(step) + 3;
    i = end;
  }
  w.bytes(12 + (ascending && ranks.size() <= kStepTasksMax ? runs : one_by_one));
}

// The step without its spec.
void weigh(Weigher& w, const Step& step) {
  weigh(w, step.meta);
  w.fields(16);
  if (step.use.tasks > 0)
    w.fields(kUseFields);
  w.list("places", step.places, [&](const StepPlace& place) {
    w.bytes(24);
    w.number("node", place.node.value);
    w.number("grant", place.grant);
    weigh_ranks(w, place.ranks);
    w.bits("cores", place.cores);
    w.bits("devices", place.devices);
    weigh_parts(w, "slices", place.slices);
    w.bytes(12 + digits(static_cast<std::uint64_t>(place.memory_mb < 0 ? -place.memory_mb : place.memory_mb)));
  });
  w.bytes(20 + step.members.size());
  w.list("failures", step.failures, [&](const auto&) { w.fields(2); });
}

void weigh(Weigher& w, const Cluster& cluster) {
  weigh(w, cluster.meta);
  w.fields(7);
  w.text("name", cluster.name);
}

void weigh(Weigher& w, const User& user) {
  weigh(w, user.meta);
  w.fields(5);
  w.text("realm", user.realm);
  w.list("groups", user.groups, [&](std::uint32_t group) { w.bytes(digits(group)); });
  w.text("home", user.home);
  w.text("shell", user.shell);
  w.text("account", user.account);
}

void weigh_weights(Weigher& w, const char* name, const std::vector<TresWeight>& weights) {
  w.list(name, weights, [&](const TresWeight& weight) {
    w.fields(1);
    w.text("name", weight.name);
  });
}

void weigh(Weigher& w, const Partition& partition) {
  weigh(w, partition.meta);
  w.fields(15);
  w.texts("nodes", partition.nodes);
  w.texts("allow_accounts", partition.allow_accounts);
  w.texts("deny_accounts", partition.deny_accounts);
  w.texts("allow_qos", partition.allow_qos);
  w.texts("deny_qos", partition.deny_qos);
  w.text("qos", partition.qos);
  weigh_weights(w, "billing", partition.billing);
}

void weigh(Weigher& w, const Node& node) {
  weigh(w, node.meta);
  w.fields(16);
  w.text("address", node.address);
  w.text("task_range", node.task_range);
  w.text("hostname", node.hostname);
  w.text("boot_id", node.boot_id);
  w.text("version", node.version);
  w.list("numa", node.numa, [&](const CoreSet& cores) { w.bits("numa", cores); });
  w.list("devices", node.devices, [&](const Device& device) {
    w.fields(6);
    w.text("kind", device.kind);
    w.text("type", device.type);
    w.text("uuid", device.uuid);
    w.text("bus_id", device.bus_id);
  });
  w.list("numa", node.numa, [&](const CoreSet& cores) {
    w.bits("", cores);
    w.bytes(4);
  });
  weigh_counts(w, "counted", node.counted);
  weigh_counts(w, "added_counted", node.added_counted);
  w.pairs("labels", node.labels);
  w.list("marks", node.marks, [&](const NodeMark& mark) {
    w.fields(1);
    w.text("key", mark.key);
    w.text("value", mark.value);
  });
  w.texts("features", node.features);
  w.texts("domains", node.domains);
  w.list("unconfirmed", node.unconfirmed, [&](const Unconfirmed&) { w.fields(4); });
  w.list("health", node.health, [&](const HealthFinding& one) {
    w.fields(8 + 4);  // its status has four
    w.text("check", one.check);
  });
  w.list("shortages", node.shortages, [&](const Shortage&) { w.fields(6); });
  w.text("reason", node.reason);
  w.text("word", node.word);
  w.fields(4);
  w.text("certificate", node.certificate);
  w.text("next_certificate", node.next_certificate);
  w.text("node_class", node.node_class);
  w.texts("own_features", node.own_features);
  w.text("address", node.terms.address);
  w.text("task_range", node.terms.task_range);
  weigh_counts(w, "counted", node.terms.counted);
  w.texts("domains", node.terms.domains);
}

void weigh(Weigher& w, const JoinToken& token) {
  weigh(w, token.meta);
  w.fields(3);
  w.text("secret_sha256", token.secret_sha256);
  w.text("realm", token.realm);
  w.text("node", token.node);
  w.text("address", token.address);
  w.text("task_range", token.task_range);
  w.fields(3);
  w.list("issued", token.issued, [&](const IssuedCertificate& issued) {
    w.fields(2);
    w.text("node", issued.node);
    w.text("certificate", issued.certificate);
    w.text("task_range", issued.task_range);
  });
}

void weigh(Weigher& w, const Task& task) {
  weigh(w, task.meta);
  w.fields(19);
  w.text("address", task.address);
  w.text("reason", task.reason);
  w.list("containers", task.containers, [&](const ContainerStatus& container) {
    w.fields(18);
    w.list("groups", container.groups, [&](std::uint32_t) { w.bytes(11); });
    w.text("name", container.name);
    w.text("reason", container.reason);
    w.text("message", container.message);
    w.text("last_reason", container.last_reason);
    w.text("last_message", container.last_message);
    w.text("image_digest", container.image_digest);
  });
}

void weigh(Weigher& w, const Object& object) {
  weigh(w, object.meta);
  w.text("type", object.type);
  w.text("body", object.body);
  w.list("shows", object.shows, [&](const Shown&) { w.fields(5); });
  w.list("ended", object.ended, [&](const EndedWork& end) {
    w.fields(16);
    w.text("ran_on", end.ran_on);
  });
}

void weigh(Weigher& w, const TresLimit& limit) {
  w.fields(6);
  weigh_counts(w, "limits", limit.others);
}

void weigh(Weigher& w, const Limits& limits) {
  w.fields(24);
  for (const TresLimit* limit : {&limits.grp_tres, &limits.grp_tres_mins, &limits.grp_tres_run_mins,
                                 &limits.max_tres_per_job, &limits.max_tres_per_node, &limits.max_tres_mins_per_job,
                                 &limits.max_tres_per_user, &limits.max_tres_per_account, &limits.min_tres_per_job})
    weigh(w, *limit);
}

void weigh(Weigher& w, const Account& account) {
  weigh(w, account.meta);
  w.fields(6);
  w.text("parent", account.parent);
  w.text("description", account.description);
  w.text("organization", account.organization);
  w.text("default_qos", account.default_qos);
  w.texts("qos", account.qos);
  w.texts("coordinators", account.coordinators);
  weigh(w, account.limits);
  for (const TresLimit* limit : {&account.quota.nominal, &account.quota.borrow, &account.quota.lend}) weigh(w, *limit);
}

void weigh(Weigher& w, const Association& association) {
  weigh(w, association.meta);
  w.fields(6);
  w.text("account", association.account);
  w.text("user", association.user);
  w.text("partition", association.partition);
  w.text("default_qos", association.default_qos);
  w.texts("qos", association.qos);
  weigh(w, association.limits);
}

void weigh(Weigher& w, const Qos& qos) {
  weigh(w, qos.meta);
  w.fields(18);
  w.text("description", qos.description);
  w.texts("preempts", qos.preempts);
  weigh(w, qos.limits);
}

void weigh(Weigher& w, const Usage& usage) {
  weigh(w, usage.meta);
  w.fields(6);
  w.text("account", usage.account);
  w.text("partition", usage.partition);
  w.text("qos", usage.qos);
  weigh(w, usage.spent);
}

void weigh(Weigher& w, const Licence& licence) {
  weigh(w, licence.meta);
  w.fields(1);
}

void weigh(Weigher& w, const Reservation& r) {
  weigh(w, r.meta);
  w.fields(26);
  w.texts("nodes", r.nodes);
  weigh(w, r.tres);
  w.text("partition", r.partition);
  w.text("features", r.features);
  weigh_counts(w, "licenses", r.licenses);
  w.texts("users", r.users);
  w.texts("accounts", r.accounts);
  w.texts("groups", r.groups);
  w.texts("qos", r.qos);
}

void weigh(Weigher& w, const Policy& policy) {
  weigh(w, policy.meta);
  w.fields(22);
  weigh_weights(w, "weight_tres", policy.weight_tres);
}

void weigh(Weigher& w, const Topology& topology) {
  weigh(w, topology.meta);
  w.fields(2);
  w.texts("levels", topology.levels);
  w.list("leaves", topology.leaves, [&](const TopologyLeaf& leaf) {
    w.bytes(4);
    w.texts("path", leaf.path);
    w.texts("nodes", leaf.nodes);
  });
}

void weigh(Weigher& w, const NodeClass& one) {
  weigh(w, one.meta);
  w.fields(4);
  w.texts("nodes", one.nodes);
  w.texts("features", one.features);
  w.text("gpu_type", one.gpu_type);
}

void weigh(Weigher& w, const HealthCheck& check) {
  weigh(w, check.meta);
  w.fields(5);
  w.text("user", check.user);
  w.text("account", check.account);
  w.text("script", check.script);
  w.texts("nodes", check.nodes);
  w.text("node_class", check.node_class);
  w.text("partition", check.partition);
  w.text("output", check.output);
}

void weigh(Weigher& w, const Packing& packing) {
  weigh(w, packing.meta);
  w.fields(4);
  w.list("classes", packing.classes, [&](const PackingClass& c) {
    w.fields(5);
    w.texts("models", c.models);
  });
}

template <class T>
Weight weight_of(const T& value, bool hurried) {
  Weigher w(hurried);
  weigh(w, value);
  return w.result();
}

// `part` weighs a spec, which others may share.
template <class Part>
Weight weight_of(const Record& record, bool hurried, Part part) {
  return std::visit(
      [&]<class T>(const Ref<T>& ref) {
        Weigher w(hurried);
        w.bytes(kFrame);
        weigh(w, *ref);
        if constexpr (std::is_same_v<T, Job>) {
          if (ref->spec)
            w.add(part(ref->spec));
          if (ref->first_step)
            w.add(part(ref->first_step));
        } else if constexpr (std::is_same_v<T, Step>) {
          if (ref->spec)
            w.add(part(ref->spec));
        }
        return w.result();
      },
      record);
}

}  // namespace

Weight stored_bytes_at_most(const Record& record) {
  return weight_of(record, false, [](const auto& spec) { return weight_of(*spec, false); });
}

template <class T>
Weight RecordScale::part(Known& known, const Ref<T>& ref) {
  if (!known.part.owner_before(ref) && !ref.owner_before(known.part)) {
    repeated_ += known.weight.bytes;
    return known.weight;
  }
  known = {ref, weight_of(*ref, true)};
  if (known.weight.bytes > kHurriedMost)
    known.weight = weight_of(*ref, false);
  return known.weight;
}

Weight RecordScale::weigh(const Record& record, std::size_t bytes_max) {
  const auto shared = [&]<class T>(const Ref<T>& spec) {
    Weight weight;
    if constexpr (std::is_same_v<T, JobSpec>)
      weight = part(job_spec_, spec);
    else
      weight = part(step_spec_, spec);
    if (weight.bytes > spec_.bytes)
      spec_ = weight;
    return weight;
  };
  repeated_ = fresh_ = 0;
  spec_ = {};
  const Weight quick = weight_of(record, true, shared);
  if (quick.bytes - repeated_ <= kOrdinaryMost)
    return quick;
  const std::size_t repeated = repeated_;  // the first look has made the others known
  const Weight exact = weight_of(record, false, shared);
  fresh_ = exact.bytes - std::min(exact.bytes, repeated);
  return quick.bytes <= bytes_max ? quick : exact;
}

bool may_be_heavier(const Job& before, const Job& after) {
  const auto newly = [](const auto& old, const auto& now) { return now && now != old; };
  return before.spec != after.spec || newly(before.allocation, after.allocation) ||
         newly(before.promise, after.promise) || newly(before.eviction, after.eviction) ||
         newly(before.array, after.array) || newly(before.first_step, after.first_step) ||
         newly(before.script_use, after.script_use) || newly(before.meta.extra, after.meta.extra) ||
         !before.ran_on.shares_with(after.ran_on) || !before.end_reason.shares_with(after.end_reason) ||
         after.members.size() > before.members.size();
}

bool may_be_heavier(const Step& before, const Step& after) {
  return before.spec != after.spec || !before.places.shares_with(after.places) ||
         (after.meta.extra && before.meta.extra != after.meta.extra) || after.members.size() > before.members.size() ||
         after.failures.size() > before.failures.size() || before.use != after.use;
}

}  // namespace lockstep
