// The API's questions and requests about the cluster itself: nodes, partitions, users, watches, history.
#include <unistd.h>

#include "base/text.h"
#include "controller/api.h"
#include "controller/ask_store.h"
#include "model/agent_messages.h"
#include "rules/awaited.h"
#include "rules/user_words.h"
#include "views/job_names.h"
#include "views/selectors.h"
#include "views/summary.h"
#include "wire/codec.h"
#include "wire/local_files.h"

namespace lockstep {

namespace {

std::string node_word(const Node& node, const NodeFacts& facts) {
  if (node_awaited(node))
    return "unknown";
  if (node.link == NodeLink::kLost)
    return "down";
  if (node_drained(node))
    return facts.busy == NodeBusy::kIdle ? "drained" : "draining";
  switch (facts.busy) {
    case NodeBusy::kIdle: return "idle";
    case NodeBusy::kMixed: return "mixed";
    case NodeBusy::kFull: return "allocated";
  }
  return "idle";
}

NodeStatus node_status(const Node& node, const NodeUse& use) {
  const NodeFacts facts = node_facts(node, use);
  NodeStatus one;
  one.name = node.meta.name;
  one.state = node_word(node, facts);
  one.address = node.address;
  one.version = node.version;
  one.reason = reason_of(node).words;
  one.cores = facts.cores;
  one.cores_used = facts.cores_used;
  one.devices = facts.devices;
  one.devices_used = facts.devices_used;
  one.memory_mb = facts.memory_mb;
  one.memory_used_mb = facts.memory_used_mb;
  if (!node.devices.empty())
    one.device_type = node.devices.front().type;
  return one;
}

// A machine that has just joined asks through its own agent: there its root is nobody, and this is all it is told.
void add_own_node(Ping& ping, const NodeStatus& node) {
  ping.node = node.name;
  ping.node_state = node.state;
  ping.node_reason = node.reason;
  ping.cores = node.cores;
  ping.memory_mb = node.memory_mb;
  ping.gpus = node.devices;
  ping.gpu_type = node.device_type;
}

constexpr std::string_view kNoNodes = "\"nodes\":[]}";  // how a status without nodes ends, but for a line end

// The members of the list that a status with only these nodes holds.
std::string nodes_text(std::vector<NodeStatus> nodes) {
  ClusterStatus only;
  only.nodes = std::move(nodes);
  const std::string text = encode(only);
  const auto begin = text.find("\"nodes\":[") + std::string_view("\"nodes\":[").size();
  return text.substr(begin, text.rfind("]}") - begin);
}

// Nodes that have less than their class expects. Some are named, and no more are looked at than a turn of the loop
// takes.
std::vector<std::string> shortfall_notices(const Tables& tables) {
  constexpr std::size_t kLookedAtMost = 10'000, kNamedMost = 5;
  std::vector<std::string> out;
  std::size_t looked = 0, short_nodes = 0;
  for (const auto& [name, one] : tables.node_classes)
    for (const std::string& node_name : one->nodes) {
      if (++looked > kLookedAtMost)
        return out;
      const Node* node = tables.node(node_name);
      const auto missing = node ? shortfalls(*one, *node) : std::vector<std::string>();
      if (!missing.empty() && ++short_nodes <= kNamedMost)
        out.push_back(format("node {} {}", node_name, join(missing, ", and ")));
      else if (!missing.empty() && short_nodes == kNamedMost + 1)
        out.emplace_back("more nodes have less than their class expects: see `lockstep diff`");
    }
  return out;
}

}  // namespace

void Api::ping(Visit visit) {
  Ping ping{.cluster = settings_.cluster_name, .version = LOCKSTEP_VERSION, .seq = world_.view.tables().seq};
  ping.read_only = read_only_;
  ping.pid = static_cast<std::int32_t>(getpid());
  ping.wall_us = world_.clock.now().us + world_.clock.wall_offset().us;
  ping.protocol_min = kProtocolMin;
  ping.protocol_max = kProtocolMax;
  if (const std::string name = visit.node(); !name.empty())
    if (const Node* node = world_.view.tables().node(name))
      add_own_node(ping, node_status(*node, world_.view.use(node->id)));
  visit.answer(encode(ping));
}

void Api::status(Visit visit) {
  const Tables& tables = world_.view.tables();
  ClusterStatus status;
  status.cluster = settings_.cluster_name;
  status.version = LOCKSTEP_VERSION;
  status.controller_pid = getpid();
  status.controller_state = read_only_ ? "read-only" : "up";
  status.seq = tables.seq;
  if (notices_)
    status.notices = notices_();
  if (std::string notice = powers_.ca_notice ? powers_.ca_notice() : std::string(); !notice.empty())
    status.notices.push_back(std::move(notice));
  if (read_only_)
    status.notices.insert(status.notices.begin(), "read-only: " + trouble_);
  if (visit.caller.admin)
    if (auto notice = stored_notice())
      status.notices.push_back(std::move(*notice));
  for (std::string& notice : shortfall_notices(tables)) status.notices.push_back(std::move(notice));
  const StateCounts& counts = world_.view.counts();
  for (std::size_t i = 0; i < kJobStates; ++i)
    if (counts.by_state[i] > 0)
      status.jobs[std::string(text_of(static_cast<JobState>(i)))] = counts.by_state[i];
  std::string rest = encode(status);
  const auto end = rest.rfind(kNoNodes);
  CHECK(end != std::string::npos, "a status without nodes ends with an empty list");
  const std::size_t begin = end + kNoNodes.size() - 2;
  PageReply reply{200, "application/json", rest.substr(0, begin), {}};
  reply.more = [this, next = NodeId{}, rest = rest.substr(begin), first = true](std::string& body) mutable {
    constexpr std::size_t kAtOnce = 32;
    const auto& nodes = world_.view.tables().nodes;
    std::vector<NodeStatus> some;
    auto at = nodes.lower_bound(next);
    for (; some.size() < kAtOnce && at != nodes.end(); ++at) {
      some.push_back(node_status(*at->second, world_.view.use(at->first)));
      next = NodeId(at->first.value + 1);
    }
    if (!some.empty()) {
      body += first ? "" : ",";
      body += nodes_text(std::move(some));
      first = false;
    }
    if (at != nodes.end())
      return true;
    body += rest;
    return false;
  };
  write(std::move(visit), std::move(reply));
}

namespace {

// Of so many nodes, which are those that came first: whoever collects metrics keeps each name for long.
constexpr std::size_t kMeasuredNodesMost = 4096;

struct NodeGauge {
  std::string_view name;
  double (*value)(const NodeMeasures&);
};
constexpr NodeGauge kNodeGauges[] = {
    {"node_load", [](const NodeMeasures& m) { return static_cast<double>(m.load_percent) / 100; }},
    {"node_memory_free_mb", [](const NodeMeasures& m) { return static_cast<double>(m.memory_free_mb); }},
};
struct GpuGauge {
  std::string_view name;
  std::int64_t (*value)(const DeviceSample&);
};
constexpr GpuGauge kGpuGauges[] = {
    {"gpu_busy_percent", [](const DeviceSample& d) -> std::int64_t { return d.busy_percent; }},
    {"gpu_memory_used_mb", [](const DeviceSample& d) -> std::int64_t { return d.memory_mb; }},
    {"gpu_watts", [](const DeviceSample& d) -> std::int64_t { return d.watts; }},
    {"gpu_celsius", [](const DeviceSample& d) -> std::int64_t { return d.celsius; }},
};

std::string node_metrics(const Tables& tables, const LiveUse& live) {
  std::vector<std::pair<const Node*, const NodeMeasures*>> measured;
  for (const auto& [id, node] : tables.nodes)
    if (const NodeMeasures* measures = live.node(id); measures && measured.size() < kMeasuredNodesMost)
      measured.emplace_back(node.get(), measures);
  std::string out;
  for (const NodeGauge& gauge : kNodeGauges) {
    out += format("# TYPE lockstep_{} gauge\n", gauge.name);
    for (const auto& [node, measures] : measured)
      out += format("lockstep_{}{{node=\"{}\"}} {:g}\n", gauge.name, node->meta.name, gauge.value(*measures));
  }
  for (const GpuGauge& gauge : kGpuGauges) {
    out += format("# TYPE lockstep_{} gauge\n", gauge.name);
    for (const auto& [node, measures] : measured)
      for (const DeviceSample& device : measures->devices)
        out += format("lockstep_{}{{node=\"{}\",gpu=\"{}\"}} {}\n", gauge.name, node->meta.name, device.device,
                      gauge.value(device));
  }
  return out;
}

}  // namespace

void Api::metrics(Visit visit) {
  const Tables& tables = world_.view.tables();
  const StateCounts& counts = world_.view.counts();
  ClusterFacts facts;
  for (const auto& [id, node] : tables.nodes) add(facts, node_facts(*node, world_.view.use(id)));
  std::string out = "# TYPE lockstep_jobs gauge\n";
  for (std::size_t i = 0; i < kJobStates; ++i)
    out += format("lockstep_jobs{{state=\"{}\"}} {}\n", text_of(static_cast<JobState>(i)), counts.by_state[i]);
  const auto gauge = [&out](std::string_view name, auto value) {
    out += format("# TYPE lockstep_{0} gauge\nlockstep_{0} {1}\n", name, value);
  };
  gauge("nodes", facts.nodes);
  gauge("nodes_usable", facts.nodes_usable);
  gauge("cores", facts.cores);
  gauge("cores_used", facts.cores_used);
  gauge("devices", facts.devices);
  gauge("devices_used", facts.devices_used);
  gauge("memory_mb", facts.memory_mb);
  gauge("memory_used_mb", facts.memory_used_mb);
  gauge("agent_links", world_.links.size());
  gauge("long_polls", world_.waiters.waiting());
  gauge("followed", world_.followers.following());
  gauge("step_streams", world_.step_io.sessions());
  gauge("read_only", read_only_ ? 1 : 0);
  gauge("history_behind", world_.history.behind());
  gauge("history_failing", world_.history.failing() ? 1 : 0);
  out += node_metrics(tables, world_.view.live());
  out += metrics_text(world_.watch.snapshot());
  out += metrics_text(world_.plan_refusals);
  out += format("# TYPE lockstep_seq counter\nlockstep_seq {}\n", tables.seq);
  out += format("# TYPE lockstep_http_requests counter\nlockstep_http_requests {}\n", requests_);
  out += "# TYPE lockstep_http_refusals counter\n";
  for (const auto& [reason, count] : refusals_.by_reason())
    out += format("lockstep_http_refusals{{reason=\"{}\"}} {}\n", reason, count);
  gauge("http_waiting", world_.turns.waiting());
  for (const auto& reader : settings_.readers) out += reader->metrics();
  visit.exchange->respond({200, "text/plain; version=0.0.4", std::move(out), {}});
}

void Api::update_node(Visit visit) {
  decoded(
      std::move(visit), [](const std::string& body) { return decode_update_node(body); },
      [this](Visit v, Result<UpdateNode> body) { update_node_read(std::move(v), std::move(body)); });
}

void Api::update_node_read(Visit visit, Result<UpdateNode> body) {
  if (!body.ok())
    return visit.refuse(body.error());
  body->name = visit.names[0];
  if (const auto free = check_not_own(body->task_range.value_or("")); !free.ok())
    return visit.refuse(free.error());
  const bool now = visit.query("now") == "1";
  if (now && !body->revoke)
    return visit.refuse(invalid("only a node that is revoked can be called off now", "now"));
  if (!now)
    return command(std::move(visit), std::move(*body));
  // The administrator's word is the proof that nothing runs there any more; else the fence has to pass. It counts only
  // when the node is cut off.
  const Caller caller = visit.caller;
  const std::string name = body->name;
  world_.core.submit({caller, std::move(*body)}, {}, [this, name, visit = std::move(visit)](Result<Answer> revoked) {
    if (!revoked.ok())
      return visit.refuse(revoked.error());
    const Node* node = world_.view.tables().node(name);
    if (!node)
      return visit.answer("{}");
    command(visit, NodeFenced{node->id, node->boot_id,
                              format("{} says that nothing runs there any more",
                                     user_words(world_.view.tables(), visit.caller.user))});
  });
}

void Api::own_word(Visit visit, NodeId id) {
  const Node* node = world_.view.tables().node(id);
  if (!node || visit.names[0] != node->meta.name)
    return visit.refuse(denied(format("root of a compute node changes nothing of node {}", visit.names[0])));
  decoded(
      std::move(visit), [](const std::string& body) { return decode_update_node(body); },
      [this, id](Visit v, Result<UpdateNode> body) { own_word_read(std::move(v), id, std::move(body)); });
}

void Api::own_word_read(Visit visit, NodeId id, Result<UpdateNode> body) {
  const Node* node = world_.view.tables().node(id);
  if (!node)
    return visit.refuse(not_found(format("node {} has gone", visit.names[0])));
  if (!body.ok())
    return visit.refuse(body.error());
  if (!body->drain || body->weight || body->features || body->trust_administrators || body->revoke || body->labels ||
      body->marks || body->added_counted || body->address || body->task_range || body->accept)
    return visit.refuse(
        denied(format("root of node {} drains and resumes it, and changes nothing else of it", node->meta.name)));
  if (const auto room = check_disk(visit); !room.ok())
    return visit.refuse(room.error());
  const std::string mark = format(" (said on {})", node->meta.name);
  const bool is_own = node->drain && !node->reason_by && node->reason.ends_with(mark);
  UpdateNode update;
  update.name = node->meta.name;
  update.drain = body->drain;
  if (*body->drain) {
    if (node->drain && !is_own)
      return visit.answer("{}");  // it is drained, and whoever said why is not talked over
    const std::string why = body->reason.value_or("");
    update.reason = (why.empty() ? std::string("drained by its root") : why) + mark;
  } else if (!node->drain) {
    return visit.answer("{}");
  } else if (!is_own) {
    return visit.refuse(
        denied(format("node {} was not drained by its own root: an administrator opens it, on the controller's machine",
                      update.name)));
  }
  world_.core.submit({Caller{UserId{}, true}, std::move(update)}, {}, [visit = std::move(visit)](Result<Answer> done) {
    if (done.ok())
      visit.answer("{}");
    else
      visit.refuse(done.error());
  });
}

void Api::plan_notes(Visit visit) {
  constexpr std::string_view kHead = "{\"notes\":[", kTail = "]}";
  std::vector<JobId> jobs;
  jobs.reserve(world_.view.notes().size());
  world_.view.notes().for_each([&](JobId job, const PlanNote&, Instant) { jobs.push_back(job); });
  PageReply reply{200, "application/json", std::string(kHead), {}};
  reply.more = [this, jobs = std::move(jobs), at = std::size_t{0}, kHead, kTail,
                first = true](std::string& body) mutable {
    constexpr std::size_t kAtOnce = 128;
    std::vector<PlanNote> some;
    for (std::size_t n = 0; n < kAtOnce && at < jobs.size(); ++n, ++at)
      if (auto note = world_.view.notes().whole(jobs[at]))
        some.push_back(std::move(*note));
    if (!some.empty()) {
      const std::string text = encode(some);
      body += first ? "" : ",";
      body.append(text, kHead.size(), text.size() - kHead.size() - kTail.size());
      first = false;
    }
    if (at < jobs.size())
      return true;
    body += kTail;
    return false;
  };
  write(std::move(visit), std::move(reply));
}

namespace {

// A watcher that is not shown the last changes learns how far it has come all the same.
std::string seq_line(Seq seq) { return format("{{\"seq\":{}}}\n", seq); }

constexpr std::string_view kNdjson = "application/x-ndjson";

Error changes_gone(Seq after) {
  return {Errc::kUnavailable, format("changes after {} are not kept any more: begin again without from", after),
          "from"};
}

// "job,step"; "" = every kind.
Result<KindSet> parse_kinds(std::string_view text) {
  KindSet kinds;
  if (text.empty())
    return kinds.set();
  for (const auto& word : split(text, ',')) {
    const auto row =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const KindRow& one) { return one.word == word; });
    if (row == std::end(kKinds))
      return invalid(format("there is no kind of record \"{}\"", word.substr(0, 60)), "kinds");
    kinds.set(static_cast<std::size_t>(row->kind));
  }
  return kinds;
}

}  // namespace

struct Api::AllRecords {
  std::vector<Change> changes;
  Seq seq = 0;
};

// A watcher, before it has seen everything as it was when it came, and then.
struct Api::Watching {
  Viewer viewer;
  KindSet kinds;
  std::shared_ptr<const AllRecords> all;  // at first; null: all of it was said
  std::shared_ptr<const void> place;      // among those of the caller that are at their beginning
  std::size_t at = 0;                     // of it
  Seq after = 0;
};

// Each keeps a list of everything until its client has read it, so that a caller has few of them.
Result<std::shared_ptr<const void>> Api::begin_watch(const Payer& payer) {
  constexpr std::size_t kEach = 4, kReserved = 32;
  if (beginning_->size() > 10'000)
    return Error{Errc::kExhausted, "too many watches begin: come again in a moment", "pending"};
  std::size_t& count = (*beginning_)[payer.name];
  if (count >= (payer.reserved ? kReserved : kEach))
    return Error{
        Errc::kExhausted,
        format("{} watches of {} have not read everything there is yet: let them, or go on from where an older "
               "one was (from=SEQ)",
               count, payer.name),
        "pending"};
  ++count;
  return std::shared_ptr<const void>(nullptr, [counts = beginning_, name = payer.name](const void*) {
    if (--counts->at(name) == 0)
      counts->erase(name);
  });
}

// Everything as it is now; the seq at its end says where to go on. Put in order on the readers' thread, whose tables
// hold everything that anybody was told of; written in slices.
void Api::watch_from_the_start(Visit visit, KindSet kinds) {
  auto place = begin_watch(visit.payer);
  if (!place.ok())
    return visit.refuse(place.error());
  // Both belong to the I/O thread: what is held there is given back, never let go there.
  struct Begun {
    Visit visit;
    std::shared_ptr<const void> place;
  };
  const auto held = std::make_shared<Begun>(Begun{std::move(visit), std::move(*place)});
  const auto asked =
      world_.reads.ask(held->visit.payer, [this, held, kinds, gone = gone_mark(held->visit)](const Tables& tables) {
        if (*gone)
          return world_.loop.post([begun = std::move(*held)] {});
        auto all = std::make_shared<AllRecords>(AllRecords{tables.snapshot(), tables.seq});
        std::erase_if(all->changes, [&](const Change& change) { return !kinds[change.record.index()]; });
        all->changes.shrink_to_fit();
        world_.loop.post([this, begun = std::move(*held), all, kinds]() mutable {
          const Payer payer = begun.visit.payer;
          world_.turns.add(payer, [this, begun = std::move(begun), all, kinds]() mutable {
            Watching watching{begun.visit.viewer(), kinds, all, std::move(begun.place), 0, 0};
            if (begun.visit.query("follow") == "1")
              return follow_changes(begun.visit, std::move(watching));
            PageReply reply{200, std::string(kNdjson), {}, {}};
            reply.more = [watching = std::move(watching)](std::string& body) mutable {
              say_records(watching, body);
              return watching.all != nullptr;
            };
            write(std::move(begun.visit), std::move(reply));
          });
        });
      });
  if (!asked.ok())
    held->visit.refuse(asked.error());
}

void Api::say_records(Watching& watching, std::string& out) {
  constexpr std::size_t kAtOnce = 32, kBytesAtOnce = 32 << 10;
  const auto& changes = watching.all->changes;
  const std::size_t end = out.size() + kBytesAtOnce;
  for (std::size_t n = 0; n < kAtOnce && watching.at < changes.size() && out.size() < end; ++n, ++watching.at) {
    const Change& change = changes[watching.at];
    if (const auto shown = shown_to(watching.viewer, change.record))
      (out += encode_change(change.seq, *shown, false)) += '\n';
  }
  if (watching.at < changes.size())
    return;
  watching.after = watching.all->seq;
  out += seq_line(watching.after);
  watching.all = nullptr;
  watching.place = nullptr;
}

// The next changes from the window. Nothing: they are not kept any more.
std::optional<std::string> Api::next_changes(Watching& watching, std::size_t bytes) {
  auto page = world_.view.window().read(watching.viewer, watching.kinds, watching.after, bytes);
  if (!page)
    return std::nullopt;
  if (page->hidden)
    page->lines += seq_line(page->seen);
  watching.after = page->seen;
  return std::move(page->lines);
}

void Api::follow_changes(const Visit& visit, Watching watching) {
  constexpr std::size_t kBytesAtOnce = 32 << 10;
  constexpr Duration kLongest = hours(1);
  const auto is_admin = [this, user = visit.caller.user] {
    const User* record = world_.view.tables().user(user);
    return record && record->admin;
  };
  const auto pull = [this, watching = std::move(watching), is_admin, was_admin = is_admin()](std::string& out) mutable {
    if (is_admin() != was_admin)  // what it sees is different from now on: it may come again
      return Pulled::kEnd;
    if (watching.all) {
      say_records(watching, out);
      return Pulled::kMore;
    }
    const Seq before = watching.after;
    auto lines = next_changes(watching, kBytesAtOnce);
    if (!lines) {
      (out += encode_error(changes_gone(before))) += '\n';
      return Pulled::kEnd;
    }
    out += *lines;
    return watching.after == before ? Pulled::kNothing : Pulled::kMore;
  };
  const auto asked = parse_uint(visit.query("timeout_s"));
  const Duration longest =
      asked ? std::min(kLongest, seconds(static_cast<std::int64_t>(std::min<std::uint64_t>(*asked, 3600)))) : kLongest;
  follow(visit, {200, std::string(kNdjson), {}, {}}, pull, longest);
}

void Api::watch(Visit visit) {
  const auto kinds = parse_kinds(visit.query("kinds"));
  if (!kinds.ok())
    return visit.refuse(kinds.error());
  const auto from = parse_uint(visit.query("from"));
  if (!from || *from == 0)
    return watch_from_the_start(std::move(visit), *kinds);
  Watching watching{visit.viewer(), *kinds, nullptr, nullptr, 0, *from};
  if (visit.query("follow") == "1")
    return follow_changes(visit, std::move(watching));
  if (const auto room = world_.waiters.room(visit.payer); !room.ok())
    return visit.refuse(room.error());
  const auto ready = [this, watching]() mutable -> std::optional<HttpResponse> {
    constexpr std::size_t kBytesAtOnce = 512 << 10;  // the rest is asked for from there on
    const Seq before = watching.after;
    auto lines = next_changes(watching, kBytesAtOnce);
    if (!lines)
      return HttpResponse{410, "application/json", encode_error(changes_gone(before)), {}};
    if (watching.after == before)
      return std::nullopt;
    return HttpResponse{200, std::string(kNdjson), std::move(*lines), {}};
  };
  world_.waiters.add(visit.payer, JobId{}, visit.exchange, ready, poll_time(visit));
}

void Api::history(Visit visit) {
  HistoryQuery query;
  if (const auto text = visit.query("id"); !text.empty()) {
    auto names = parse_work_names(text);
    if (!names.ok())
      return visit.refuse(names.error());
    constexpr std::size_t kHistoryNamesMax = 400;  // each is a condition for the store, which takes a thousand
    if (names->size() > kHistoryNamesMax)
      return visit.refuse(invalid(format("at most {} jobs are named in one question about history", kHistoryNamesMax)));
    for (auto& name : *names) query.jobs.push_back(std::move(name.target));
  }
  for (const auto& [name, out] : {std::pair{"user", &query.users},
                                  {"account", &query.accounts},
                                  {"partition", &query.partitions},
                                  {"name", &query.names},
                                  {"state", &query.states}}) {
    auto words = parse_names(visit.query(name), name);
    if (!words.ok())
      return visit.refuse(words.error());
    *out = std::move(*words);
  }
  query.from_us = parse_int(visit.query("from_us")).value_or(0);
  query.to_us = parse_int(visit.query("to_us")).value_or(INT64_MAX);
  query.steps = visit.query("steps") != "0";
  query.duplicates = visit.query("duplicates") == "1";
  if (const auto limit = parse_uint(visit.query("limit")))
    query.limit = std::min<std::size_t>(query.limit, *limit);
  const auto held = std::make_shared<Visit>(std::move(visit));
  const auto asked = world_.history.ask(held->payer, [this, held, gone = gone_mark(*held), query = std::move(query)](
                                                         HistoryStore& store, const Tables& tables) {
    if (*gone)
      return world_.loop.post([v = std::move(*held)] {});
    const AnswerMost most{settings_.limits.history_rows_max, settings_.limits.reply_bytes_max};
    const auto rows = ask_store(store, query, most, held->viewer(), tables);
    auto text = std::make_shared<Result<std::string>>(rows.ok() ? Result<std::string>(encode(*rows))
                                                                : Result<std::string>(rows.error()));
    if (text->ok() && (*text)->size() > most.bytes)
      *text = reply_too_long(most.bytes);
    world_.loop.post([v = std::move(*held), text] {
      if (text->ok())
        v.answer(std::move(**text));
      else
        v.refuse(text->error(), text->error().code == Errc::kExhausted ? 413 : 0);
    });
  });
  if (!asked.ok())
    held->refuse(asked.error());
}

}  // namespace lockstep
