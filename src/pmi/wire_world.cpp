#include "pmi/wire_world.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {
namespace {

// What clients of PMI-1 have room for in their lines of 1,024 bytes.
constexpr std::size_t kNameMax = 256, kKeyMax = 64, kValueMax = 1024;
constexpr std::size_t kMappingMax = 950;
constexpr std::string_view kMappingKey = "PMI_process_mapping";
constexpr std::size_t kWaitingMax = 4096;
constexpr std::size_t kWordsShown = 200;

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string yes_no(bool yes) { return yes ? "TRUE" : "FALSE"; }

PmiWords get_result(const std::string* value) {
  PmiWords words("get_result");
  words.add("rc", value ? "0" : "-1").add("msg", value ? "success" : "key_not_found");
  return words.add("value", value ? *value : "unknown");
}

PmiWords done1(std::string cmd, bool done, const std::string& why) {
  PmiWords words(std::move(cmd));
  return words.add("rc", done ? "0" : "-1").add("info", done ? "ok" : "notok").add("msg", done ? "success" : why);
}

}  // namespace

std::string words_of_end(const PmiWorld& world, std::uint32_t rank, const PmiEnd& end, std::string_view how) {
  const auto node = world.node_of(rank);
  const std::string where = node ? world.nodes[*node].name : std::string("?");
  const std::string what = end.signal ? format("signal {}", end.signal) : format("exit code {}", end.code);
  return format("task {} on {} {} ({})", rank, where, how, what);
}

WireWorld::WireWorld(PmiWorld world, Up up, ToRank to_rank)
    : world_(std::move(world)), up_(std::move(up)), to_rank_(std::move(to_rank)) {
  CHECK(up_ && to_rank_ && world_.node_index < world_.nodes.size());
  for (const auto rank : world_.here().ranks) ranks_.emplace_back().rank = rank;
  if (std::string mapping = process_mapping(world_, kMappingMax); !mapping.empty())
    job_values_[std::string(kMappingKey)] = std::move(mapping);
  job_values_["universeSize"] = std::to_string(world_.size());
  job_values_["hasNameServ"] = "TRUE";
}

Result<PmiVariables> WireWorld::begin() {
  PmiVariables variables;
  variables.common = {format("PMI_FD={}", kPmiTaskFd), format("PMI_JOBID={}", world_.job),
                      format("PMI_SIZE={}", world_.size())};
  for (const Rank& rank : ranks_) variables.by_local.push_back({format("PMI_RANK={}", rank.rank)});
  return variables;
}

void WireWorld::rank_said(std::uint32_t local, std::string_view bytes) {
  CHECK(local < ranks_.size());
  Rank& rank = ranks_[local];
  if (rank.broken)
    return;
  rank.cutter.add(bytes);
  for (;;) {
    auto words = rank.cutter.next();
    if (!words.ok())
      return give_up_on(local, words.error().message);
    if (!*words)
      return;
    act(local, **words);
    if (rank.broken)
      return;
  }
}

// A rank that cannot be understood would wait for ever, and the others for it.
void WireWorld::give_up_on(std::uint32_t local, std::string_view why) {
  Rank& rank = ranks_[local];
  rank.broken = true;
  abort(rank, 1, format("speaks no PMI that is understood here: {}", why));
}

void WireWorld::act(std::uint32_t local, const PmiWords& words) {
  Rank& rank = ranks_[local];
  if (rank.in_spawn) {  // its lines go on to this one
    if (words.all().size() == 1 && words.all().front().first == "endcmd") {
      rank.in_spawn = false;
      answer(local, done1("spawn_result", false, "not_supported"));
    }
    return;
  }
  const auto& commands = rank.cutter.speaks_pmi2() ? second_commands() : first_commands();
  const auto command = commands.find(words.cmd());
  if (command != commands.end())
    return (this->*command->second)(local, words);
  if (!rank.cutter.speaks_pmi2())
    return give_up_on(local, format("\"{}\"", words.cmd().substr(0, kWordsShown)));
  answer2(local, words, {{"rc", "1"}, {"errmsg", "not supported"}});
}

void WireWorld::answer(std::uint32_t local, PmiWords words) {
  to_rank_(local, ranks_[local].cutter.speaks_pmi2() ? encode_pmi2(words) : encode_pmi1(words));
}

void WireWorld::answer2(std::uint32_t local, const PmiWords& request, Pairs more) {
  PmiWords words(request.cmd() + "-response");
  if (const std::string* thread = request.find("thrid"))
    words.add("thrid", *thread);
  for (auto& [name, value] : more) words.add(std::move(name), std::move(value));
  answer(local, std::move(words));
}

void WireWorld::join(Rank& rank) {
  rank.joined = true;
  rank.finalized = false;
  if (!std::exchange(joined_, true))
    up_(PmiJoined{});
}

void WireWorld::abort(Rank& rank, std::int32_t code, std::string_view words) {
  if (!std::exchange(rank.aborted, true))
    up_(PmiAbort{code, format("task {} on {} {}", rank.rank, world_.here().name, words)});
}

void WireWorld::rank_ended(std::uint32_t local, const PmiEnd& end) {
  CHECK(local < ranks_.size());
  Rank& rank = ranks_[local];
  if (std::exchange(rank.ended, true) || rank.aborted)
    return;
  if (!rank.joined)
    up_(PmiLeft{end.client_code(),
                words_of_end(world_, rank.rank, end, "ended before it called MPI_Init, which the others wait for")});
  else if (!rank.finalized)
    up_(PmiAbort{end.client_code(), words_of_end(world_, rank.rank, end, "ended without MPI_Finalize")});
}

void WireWorld::enter_barrier(std::uint32_t local, const PmiWords& words) {
  Rank& rank = ranks_[local];
  if (std::exchange(rank.in_barrier, true))
    return;
  rank.barrier_thread = words.text("thrid");
  if (++in_barrier_ < ranks_.size())
    return;
  std::string said = values_.take_said();
  if (world_.nodes.size() == 1)
    leave_barrier({});
  else
    up_(PmiGather{format("barrier {}", barriers_), {}, std::move(said)});
}

void WireWorld::leave_barrier(std::string_view said) {
  ++barriers_;
  in_barrier_ = 0;
  if (!values_.merge(said))
    return up_(
        PmiAbort{1, format("what the tasks of the step tell each other is too much for {}", world_.here().name)});
  for (std::uint32_t local = 0; local < ranks_.size(); ++local) {
    Rank& rank = ranks_[local];
    if (!std::exchange(rank.in_barrier, false))
      continue;
    if (!rank.cutter.speaks_pmi2()) {
      answer(local, PmiWords("barrier_out"));
      continue;
    }
    PmiWords words("kvs-fence-response");
    if (!rank.barrier_thread.empty())
      words.add("thrid", std::exchange(rank.barrier_thread, {}));
    answer(local, words.add("rc", "0"));
  }
}

void WireWorld::hear(PmiMessage message) {
  if (const auto* gathered = std::get_if<PmiGathered>(&message)) {
    if (in_barrier_ == ranks_.size() && gathered->key == format("barrier {}", barriers_))
      leave_barrier(gathered->data);
  } else if (const auto* name = std::get_if<PmiName>(&message)) {
    take_name(*name);
  }
}

const std::string* WireWorld::job_value(const std::string& key) {
  const auto at = job_values_.find(key);
  return at == job_values_.end() ? nullptr : &at->second;
}

void WireWorld::ask_name(std::uint32_t local, const PmiWords& words, PmiName::Do what, std::string name,
                         std::string value) {
  if (names_asked_.size() >= kWaitingMax)
    return give_up_on(local, "it asks for more names than there may be");
  names_asked_[next_name_] = {local, words};
  up_(PmiName{what, next_name_++, std::move(name), std::move(value), false});
}

void WireWorld::take_name(const PmiName& name) {
  const auto at = names_asked_.find(name.number);
  if (at == names_asked_.end())
    return;
  const Waiting asked = std::move(at->second);
  names_asked_.erase(at);
  const std::string& cmd = asked.request.cmd();
  if (ranks_[asked.local].cutter.speaks_pmi2()) {
    Pairs more{{"rc", name.found ? "0" : "1"}};
    if (cmd == "name-lookup")
      more.insert(more.end(), {{"found", yes_no(name.found)}, {"value", name.value}, {"port", name.value}});
    return answer2(asked.local, asked.request, std::move(more));
  }
  const std::string kind = cmd.substr(0, cmd.find('_'));  // publish, unpublish, lookup
  PmiWords words = done1(kind + "_result", name.found, "service_not_found");
  if (kind == "lookup" && name.found)
    words.add("port", name.value);
  answer(asked.local, std::move(words));
}

// PMI-1.

const std::map<std::string_view, WireWorld::Act>& WireWorld::first_commands() {
  static const std::map<std::string_view, Act> kCommands = {
      {"init", &WireWorld::init},
      {"get_maxes", &WireWorld::get_maxes},
      {"get_appnum", &WireWorld::get_appnum},
      {"get_my_kvsname", &WireWorld::get_kvsname},
      {"create_kvs", &WireWorld::create_kvs},
      {"destroy_kvs", &WireWorld::destroy_kvs},
      {"get_universe_size", &WireWorld::get_universe_size},
      {"put", &WireWorld::put},
      {"get", &WireWorld::get},
      {"getbyidx", &WireWorld::get_by_index},
      {"barrier_in", &WireWorld::enter_barrier},
      {"finalize", &WireWorld::finalize},
      {"abort", &WireWorld::abort1},
      {"publish_name", &WireWorld::publish1},
      {"unpublish_name", &WireWorld::withdraw1},
      {"lookup_name", &WireWorld::look_up1},
      {"spawn", &WireWorld::spawn1},
  };
  return kCommands;
}

void WireWorld::init(std::uint32_t local, const PmiWords& words) {
  const bool second = words.text("pmi_version") == "2";
  const bool known = second || words.text("pmi_version") == "1";
  PmiWords out("response_to_init");
  out.add("pmi_version", second ? "2" : "1").add("pmi_subversion", second ? "0" : "1").add("rc", known ? "0" : "-1");
  answer(local, std::move(out));
  if (second)
    ranks_[local].cutter.speak_pmi2(true);
  else if (known)
    join(ranks_[local]);
}

void WireWorld::get_maxes(std::uint32_t local, const PmiWords&) {
  PmiWords out("maxes");
  out.add("rc", "0").add("kvsname_max", std::to_string(kNameMax)).add("keylen_max", std::to_string(kKeyMax));
  answer(local, out.add("vallen_max", std::to_string(kValueMax)));
}

void WireWorld::get_appnum(std::uint32_t local, const PmiWords&) {
  answer(local, PmiWords("appnum").add("rc", "0").add("appnum", "0"));
}

void WireWorld::get_kvsname(std::uint32_t local, const PmiWords&) {
  answer(local, PmiWords("my_kvsname").add("rc", "0").add("kvsname", world_.job));
}

void WireWorld::create_kvs(std::uint32_t local, const PmiWords&) {
  answer(local, PmiWords("newkvs").add("rc", "0").add("kvsname", world_.job));
}

void WireWorld::destroy_kvs(std::uint32_t local, const PmiWords&) {
  answer(local, PmiWords("kvs_destroyed").add("rc", "0"));
}

void WireWorld::get_universe_size(std::uint32_t local, const PmiWords&) {
  answer(local, PmiWords("universe_size").add("rc", "0").add("size", std::to_string(world_.size())));
}

void WireWorld::put(std::uint32_t local, const PmiWords& words) {
  answer(local, done1("put_result", values_.put(words.text("key"), words.text("value")), "no_room"));
}

void WireWorld::get(std::uint32_t local, const PmiWords& words) {
  const std::string key = words.text("key");
  const std::string* value = values_.get(key);
  answer(local, get_result(value ? value : job_value(key)));
}

void WireWorld::get_by_index(std::uint32_t local, const PmiWords&) {
  answer(local, PmiWords("getbyidx_results").add("rc", "-1").add("reason", "no_more_keyvals"));
}

void WireWorld::finalize(std::uint32_t local, const PmiWords&) {
  ranks_[local].finalized = true;
  answer(local, PmiWords("finalize_ack").add("rc", "0"));
}

void WireWorld::abort1(std::uint32_t local, const PmiWords& words) {
  const auto code = parse_int(words.text("exitcode")).value_or(1);
  abort(ranks_[local], static_cast<std::int32_t>(code), format("called MPI_Abort (exit code {})", code));
}

void WireWorld::publish1(std::uint32_t local, const PmiWords& words) {
  ask_name(local, words, PmiName::Do::kPublish, words.text("service"), words.text("port"));
}

void WireWorld::withdraw1(std::uint32_t local, const PmiWords& words) {
  ask_name(local, words, PmiName::Do::kWithdraw, words.text("service"), {});
}

void WireWorld::look_up1(std::uint32_t local, const PmiWords& words) {
  ask_name(local, words, PmiName::Do::kLookUp, words.text("service"), {});
}

void WireWorld::spawn1(std::uint32_t local, const PmiWords&) { ranks_[local].in_spawn = true; }

// PMI-2.

const std::map<std::string_view, WireWorld::Act>& WireWorld::second_commands() {
  static const std::map<std::string_view, Act> kCommands = {
      {"fullinit", &WireWorld::full_init},
      {"finalize", &WireWorld::finalize2},
      {"abort", &WireWorld::abort2},
      {"job-getid", &WireWorld::get_job_id},
      {"job-connect", &WireWorld::decline2},
      {"job-disconnect", &WireWorld::decline2},
      {"kvs-put", &WireWorld::put2},
      {"kvs-get", &WireWorld::get2},
      {"kvs-fence", &WireWorld::enter_barrier},
      {"info-putnodeattr", &WireWorld::put_node_value},
      {"info-getnodeattr", &WireWorld::get_node_value},
      {"info-getjobattr", &WireWorld::get_job_value},
      {"name-publish", &WireWorld::publish2},
      {"name-unpublish", &WireWorld::withdraw2},
      {"name-lookup", &WireWorld::look_up2},
      {"spawn", &WireWorld::decline2},
  };
  return kCommands;
}

void WireWorld::full_init(std::uint32_t local, const PmiWords& words) {
  const Rank& rank = ranks_[local];
  join(ranks_[local]);
  answer2(local, words,
          {{"rc", "0"},
           {"pmi-version", "2"},
           {"pmi-subversion", "0"},
           {"rank", std::to_string(rank.rank)},
           {"size", std::to_string(world_.size())},
           {"appnum", "0"},
           {"debugged", "FALSE"},
           {"pmiverbose", "FALSE"}});
}

// Whoever begins anew on the same descriptor, as a script of several programs does, begins with PMI-1 again.
void WireWorld::finalize2(std::uint32_t local, const PmiWords& words) {
  ranks_[local].finalized = true;
  answer2(local, words, {{"rc", "0"}});
  ranks_[local].cutter.speak_pmi2(false);
}

void WireWorld::abort2(std::uint32_t local, const PmiWords& words) {
  const auto code = parse_int(words.text("exitcode")).value_or(1);
  const std::string said = words.text("msg").substr(0, kWordsShown);
  abort(ranks_[local], static_cast<std::int32_t>(code),
        said.empty() ? std::string("called MPI_Abort") : format("called MPI_Abort: {}", said));
}

void WireWorld::get_job_id(std::uint32_t local, const PmiWords& words) {
  answer2(local, words, {{"rc", "0"}, {"jobid", world_.job}});
}

void WireWorld::put2(std::uint32_t local, const PmiWords& words) {
  answer2(local, words, {{"rc", values_.put(words.text("key"), words.text("value")) ? "0" : "1"}});
}

void WireWorld::get2(std::uint32_t local, const PmiWords& words) {
  const std::string key = words.text("key");
  const std::string* value = values_.get(key);
  if (!value)
    value = job_value(key);
  Pairs more{{"rc", "0"}, {"found", yes_no(value != nullptr)}};
  if (value)
    more.emplace_back("value", *value);
  answer2(local, words, std::move(more));
}

void WireWorld::put_node_value(std::uint32_t local, const PmiWords& words) {
  const std::string key = words.text("key");
  const bool done = values_.put_here(key, words.text("value"));
  answer2(local, words, {{"rc", done ? "0" : "1"}});
  if (done)
    tell_waiting(key);
}

void WireWorld::tell_waiting(const std::string& key) {
  const auto end = std::stable_partition(waiting_.begin(), waiting_.end(),
                                         [&](const Waiting& one) { return one.request.text("key") != key; });
  const std::vector<Waiting> told(std::make_move_iterator(end), std::make_move_iterator(waiting_.end()));
  waiting_.erase(end, waiting_.end());
  for (const Waiting& one : told)
    answer2(one.local, one.request, {{"rc", "0"}, {"found", "TRUE"}, {"value", *values_.get_here(key)}});
}

void WireWorld::get_node_value(std::uint32_t local, const PmiWords& words) {
  const std::string* value = values_.get_here(words.text("key"));
  if (value)
    return answer2(local, words, {{"rc", "0"}, {"found", "TRUE"}, {"value", *value}});
  if (lower(words.text("wait")) != "true")
    return answer2(local, words, {{"rc", "0"}, {"found", "FALSE"}});
  if (waiting_.size() >= kWaitingMax)
    return give_up_on(local, "it waits for more values than there may be");
  waiting_.push_back({local, words});
}

void WireWorld::get_job_value(std::uint32_t local, const PmiWords& words) {
  const std::string* value = job_value(words.text("key"));
  Pairs more{{"rc", "0"}, {"found", yes_no(value != nullptr)}};
  if (value)
    more.emplace_back("value", *value);
  answer2(local, words, std::move(more));
}

void WireWorld::publish2(std::uint32_t local, const PmiWords& words) {
  ask_name(local, words, PmiName::Do::kPublish, words.text("name"), words.text("port"));
}

void WireWorld::withdraw2(std::uint32_t local, const PmiWords& words) {
  ask_name(local, words, PmiName::Do::kWithdraw, words.text("name"), {});
}

void WireWorld::look_up2(std::uint32_t local, const PmiWords& words) {
  ask_name(local, words, PmiName::Do::kLookUp, words.text("name"), {});
}

void WireWorld::decline2(std::uint32_t local, const PmiWords& words) {
  answer2(local, words, {{"rc", "1"}, {"errmsg", "not supported"}});
}

}  // namespace lockstep
