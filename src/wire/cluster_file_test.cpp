// cluster.yaml: every field of every kind survives, a file is written as people would, and what is refused.
#include "wire/cluster_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/text.h"
#include "model/tres_names.h"
#include "wire/cluster_keep.h"
#include "wire/cluster_keys.h"
#include "wire/codec.h"
#include "wire/random_value.h"
#include "wire/yaml.h"

namespace lockstep {
namespace {

constexpr const char* kWholeFile = R"(# our cluster
administrators: [root, ann]

nodes:
  gpu:
    nodes: gpu[01-04]
    features: [h100, nvlink]
    weight: 40
    cores: 64
    memory: 512G
    gpus: 8
    gpu_type: h100

partitions:
  gpu:
    nodes: gpu[01-04]
    default: true
    time_default: 1h
    time_max: 7d
    allow_qos: [high, normal]
    billing: {cpu: 1, mem: 0.25, gpu: 10}
  debug:
    nodes: ALL
    state: down

qos:
  normal:
    description: for everybody
  high:
    priority: 100
    usage_factor: 2
    preempts: [normal]
    flags: [deny_on_limit]
    max_wall_per_job: 1d12h
    max_tres_per_user: {cpu: 100, mem: 2T, gpu: 8}

accounts:
  science:
    shares: 3
    qos: [normal]
    grp_tres: {node: 4, "gpu:h100": 16}
    accounts:
      biology:
        users: [eve]
      physics:
        default_qos: normal
        qos: [normal, high]
        quota: {gpu: 8}
        users:
          ann: {default: true, shares: 5}
          ann/debug: {max_jobs: 2}
          bob: {}
  teaching:
    users: [ann]

licences:
  matlab: 50

reservations:
  maintenance:
    start: "2030-01-07T08:00:00+01:00"
    duration: 8h
    repeats: weekly
    nodes: gpu[01-02]
    flags: [maint, ignore_jobs]

policy:
  weight_age: 1000
  half_life: 14d
  enforce: [associations]

topology:
  levels: [spine, leaf]
  tree:
    spine0:
      leaf1: gpu[01-02]
      leaf2: gpu[03-04]
    login: login[1-2]
)";

std::string refusal(std::string_view text) {
  const auto file = decode_cluster_file(text);
  return file.ok() ? "" : file.error().message;
}

TEST(ClusterFile, IsWrittenAsPeopleWould) {
  const auto file = decode_cluster_file(kWholeFile);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ("# our cluster\n" + encode_cluster_file(*file), kWholeFile);
}

TEST(ClusterFile, SaysWhatTheRecordsSay) {
  const ClusterFile file = decode_cluster_file(kWholeFile).value();
  ASSERT_EQ(file.partitions.size(), 2u);
  const Partition& gpu = file.partitions[0];
  EXPECT_EQ(gpu.nodes, (std::vector<std::string>{"gpu01", "gpu02", "gpu03", "gpu04"}));
  EXPECT_EQ(gpu.time_max, hours(7 * 24));
  EXPECT_EQ(gpu.billing, (std::vector<TresWeight>{{"cpu", 1000}, {"mem", 250}, {"gres/gpu", 10'000}}));
  EXPECT_FALSE(file.partitions[1].up);
  EXPECT_EQ(file.node_classes[0].memory_mb, 512 * 1024);
  EXPECT_EQ(file.qos[1].limits.max_wall_mins_per_job, 36 * 60);
  EXPECT_EQ(file.qos[1].limits.max_tres_per_user.gpus, 8);
  EXPECT_EQ(file.qos[1].usage_factor_milli, 2000u);
  ASSERT_EQ(file.accounts.size(), 4u);
  EXPECT_EQ(file.accounts[2].meta.name, "physics");
  EXPECT_EQ(file.accounts[2].parent, "science");
  EXPECT_EQ(bound_of(file.accounts[0].limits.grp_tres, "gres/gpu:h100"), 16);
  ASSERT_EQ(file.associations.size(), 5u);
  EXPECT_EQ(file.associations[0].meta.name, "biology/eve");
  EXPECT_TRUE(file.associations[0].is_default) << "her only account";
  EXPECT_EQ(file.associations[2].meta.name, "physics/ann/debug");
  EXPECT_EQ(file.reservations[0].zone_s, 3600);
  EXPECT_EQ(file.reservations[0].start.seconds(), 1'893'999'600);
  EXPECT_TRUE(file.policy->enforce_associations && !file.policy->enforce_qos);
  ASSERT_EQ(file.topology->leaves.size(), 3u);
  EXPECT_EQ(file.topology->leaves[2].path, (std::vector<std::string>{"login", "login"}));
  EXPECT_EQ(file.places.at("partition gpu"), "line 15");
  EXPECT_EQ(file.places.at("association physics/bob"), "line 52");
}

TEST(ClusterFile, OtherSpellingsAreRead) {
  const auto file = decode_cluster_file(
      "partitions:\n"
      "  a:\n"
      "    Nodes: [n1, 'n[2-3]']\n"
      "    MaxTime: 1-12:00:00\n"
      "    Default: YES\n"
      "    State: UP\n"
      "    TRESBillingWeights: CPU=1.0,GRES/gpu=2\n"
      "    AllowAccounts: a,b\n"
      "qos:\n"
      "  q: {GrpTRES: 'cpu=8,gres/gpu=2,mem=4G', MaxWall: 12:00:00, Flags: 'DenyOnLimit,NoDecay', grp_jobs: "
      "unlimited}\n");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->partitions[0].nodes.size(), 3u);
  EXPECT_EQ(file->partitions[0].time_max, hours(36));
  EXPECT_TRUE(file->partitions[0].is_default);
  EXPECT_EQ(file->partitions[0].billing, (std::vector<TresWeight>{{"cpu", 1000}, {"gres/gpu", 2000}}));
  EXPECT_EQ(file->partitions[0].allow_accounts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file->qos[0].limits.grp_tres.memory_mb, 4096);
  EXPECT_EQ(file->qos[0].limits.max_wall_mins_per_job, 720);
  EXPECT_TRUE(file->qos[0].deny_on_limit && file->qos[0].no_decay);
}

TEST(ClusterFile, RefusesWithLinePathAndWhatWasMeant) {
  const std::pair<const char*, const char*> kBad[] = {
      {"", "line 1: the file is empty"},
      {"# nothing\n", "line 1: the file is empty"},
      {"- a\n", "line 1: must have sections: nodes, partitions, qos, accounts, …"},
      {"partition:\n  a: {nodes: ALL}\n", "line 1: no section \"partition\" is known: did you mean \"partitions\"?"},
      {"partitions:\n  a:\n    nodes: ALL\n    tiem_max: 1d\n",
       "line 4: partitions.a: no key \"tiem_max\" is known: did you mean \"time_max\"?"},
      {"partitions:\n  a:\n    nodes: ALL\n    time_max: 1d\n    MaxTime: 2d\n",
       "line 5: partitions.a: time_max is there twice"},
      {"partitions:\n  a: {nodes: ALL}\n  a: {nodes: ALL}\n", "line 3: a is there twice"},
      {"partitions:\n  a: {tier: 2}\n",
       "line 2: partitions.a: names no nodes: say `nodes: ALL` for every node, `nodes: []` for none yet"},
      {"partitions:\n  a: {nodes: ALL, time_max: 60}\n",
       "line 2: partitions.a.time_max: \"60\" has no unit: 60m is minutes, 60s is seconds"},
      {"partitions:\n  a: {nodes: ALL, time_max: 7x}\n",
       "line 2: partitions.a.time_max: \"7x\" is no time: write 90m, 7d, 1h30m or 1-12:00:00"},
      {"partitions:\n  a: {nodes: ALL, memory_per_core: 512}\n",
       "line 2: partitions.a.memory_per_core: \"512\" has no unit: 512M is megabytes, 512G gigabytes"},
      {"partitions:\n  a: {nodes: ALL, memory_per_core: 4X}\n",
       "line 2: partitions.a.memory_per_core: \"4X\" is no amount of memory: write 512G, 2T or 1536M"},
      {"partitions:\n  a: {nodes: 'n[1-', tier: 1}\n", "line 2: partitions.a.nodes: "},
      {"partitions:\n  a: {nodes: 'n1,n1'}\n", "line 2: partitions.a.nodes: node n1 is there twice"},
      {"partitions:\n  a: {nodes: ALL, tier: -1}\n",
       "line 2: partitions.a.tier: \"-1\" is no number from 0 to 4294967295"},
      {"partitions:\n  a: {nodes: ALL, state: drain}\n",
       "line 2: partitions.a.state: \"drain\" is not among the words here; known are: down, up"},
      {"partitions:\n  a: {nodes: ALL, default: true}\n  b: {nodes: ALL, default: true}\n",
       "line 3: partition b: partition a is the default already; there is one"},
      {"partitions:\n  'a b': {nodes: ALL}\n", "line 2: \"a b\" is no name here"},
      {"partitions: 5\n", "line 1: partitions: must have keys, one a line"},
      {"nodes:\n  a: {nodes: 'n[1-2]'}\n  b: {nodes: n2}\n",
       "line 3: node class b: node n2 is in class a already; a node is in one class at most"},
      {"nodes:\n  a: {nodes: ALL}\n", "line 2: node class a: \"ALL\" is no name of a node"},
      {"nodes:\n  a: {nodes: n1, gpus: many}\n", "line 2: nodes.a.gpus: \"many\" is no number"},
      {"qos:\n  a: {max_tres_per_user: {cpus: 5, gpuz: 1}}\n",
       "line 2: qos.a.max_tres_per_user: \"gpuz\" is nothing that is counted: did you mean \"gpu\"?"},
      {"qos:\n  a: {max_tres_per_user: {cpu: 1, cores: 1}}\n", "line 2: qos.a.max_tres_per_user: cpu is there twice"},
      {"qos:\n  a: {preempts: [b]}\n  b: {preempts: [a]}\n", "line 2: QOS a: its `preempts` lead back to itself"},
      {"qos:\n  a: {max_wall_per_job: 90s}\n", "line 2: qos.a.max_wall_per_job: \"90s\" must be whole minutes"},
      {"accounts:\n  a: {parent: b}\n  b: {parent: a}\n", "line 2: account a: would be below itself: it is below b"},
      {"accounts:\n  a:\n    accounts:\n      b: {parent: c}\n",
       "line 4: accounts.a.accounts.b.parent: stands in account a, and names c as the one above it"},
      {"accounts:\n  a: {users: [ann, ann]}\n", "line 2: accounts.a.users: ann is there twice"},
      {"accounts:\n  a: {users: {ann: {sharez: 1}}}\n",
       "line 2: accounts.a.users.ann: no key \"sharez\" is known: did you mean \"shares\"?"},
      {"accounts:\n  a: {users: {ann: {default: true}}}\n  b: {users: {ann: {default: true}}}\n",
       "line 3: association b/ann: account a is the default of ann already"},
      {"reservations:\n  r: {start: 2030-01-07T08:00, duration: 8h}\n",
       "line 2: reservations.r.start: \"2030-01-07T08:00\" does not say its zone: 2030-01-07T08:00+01:00, or "
       "2030-01-07T08:00Z for UTC"},
      {"reservations:\n  r: {start: 2030-02-30T08:00Z, duration: 8h}\n",
       "line 2: reservations.r.start: \"2030-02-30T08:00Z\" is no moment"},
      {"reservations:\n  r: {nodes: n1}\n", "line 2: reservations.r: does not say start: when it begins"},
      {"topology:\n  levels: [leaf]\n", "line 2: topology: has no tree"},
      {"topology:\n  levels: [leaf]\n  tree: {a: {b: n1}}\n",
       "line 3: topology.tree.a: lies deeper than the 1 level(s)"},
      {"topology:\n  levels: [leaf]\n  tree: {a: n1, b: n1}\n", "line 3: topology.tree.b: node n1 is on a already"},
      {"licences:\n  matlab: many\n", "line 2: licences.matlab: \"many\" is no number"},
      {"a: &x 1\nb: *x\n", "line 1: anchors are not read: write it out"},
      {"partitions: !!map {}\n", "line 1: anchors and tags are not read"},
      {"partitions:\n\ta: {nodes: ALL}\n", "line 2: there is a tab before the words: YAML is indented with blanks"},
      {"partitions:\n  a:\n  \tnodes: ALL\n", "line 3: there is a tab before the words: YAML is indented with blanks"},
      {"policy: {}\n---\npolicy: {}\n", "line 2: a second document: one is read"},
      {"hooks: {}\n", "line 1: no section \"hooks\" is known"},
  };
  for (const auto& [text, why] : kBad) {
    const std::string said = refusal(text);
    EXPECT_TRUE(said.starts_with(why)) << text << "says: " << said;
  }
  EXPECT_EQ(refusal("partitions:\n  a:\tnodes: ALL\n").find("line 2"), 0u);
  EXPECT_EQ(refusal("partitions:\n  a: {nodes:\tALL}\n"), "") << "a tab between words is a blank";
}

TEST(ClusterFile, IsBounded) {
  EXPECT_EQ(refusal(std::string((16 << 20) + 1, '#')), "16777217 bytes are too many; 16777216 are read");
  std::string many = "licences:\n";
  for (int i = 0; i < 10'001; ++i) many += format("  l{}: 1\n", i);
  EXPECT_EQ(refusal(many), "line 10002: more than 10000 of a kind: licence l10000");
  std::string wide = "partitions: [";
  for (int i = 0; i < 600'000; ++i) wide += "1,";
  EXPECT_EQ(refusal(wide + "1]"), "line 1: more than 500000 values");
  EXPECT_NE(refusal("partitions: {a: {nodes: 'n[1-9999999]'}}"), "");
}

// --- every field survives ---

void tame(std::vector<std::string>& names, std::string_view prefix) {
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = format("{}{}", prefix, i);
}
void tame(TresLimit& limit) {
  for (std::size_t i = 0; i < limit.others.size(); ++i)
    limit.others[i] = {format("gres/x{}", i), std::max<std::int64_t>(limit.others[i].count, 0)};
}
void tame(std::vector<TresWeight>& weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i].name = format("gres/x{}", i);
}
void tame(Limits& limits) {
  for (auto member : {&Limits::grp_tres, &Limits::grp_tres_mins, &Limits::grp_tres_run_mins, &Limits::max_tres_per_job,
                      &Limits::max_tres_per_node, &Limits::max_tres_mins_per_job, &Limits::max_tres_per_user,
                      &Limits::max_tres_per_account, &Limits::min_tres_per_job})
    tame(limits.*member);
  for (auto member : {&Limits::grp_wall_mins, &Limits::max_wall_mins_per_job})
    limits.*member = std::min<std::int64_t>(limits.*member, 1'000'000'000);
}
void tame(Partition& p) {
  tame(p.nodes, "n");
  tame(p.billing);
  for (auto list : {&Partition::allow_accounts, &Partition::deny_accounts, &Partition::allow_qos, &Partition::deny_qos})
    tame(p.*list, "w");
  p.is_default = false;
}
void tame(NodeClass& c) {
  tame(c.nodes, "n");
  tame(c.features, "f");
}
void tame(Qos& q) {
  tame(q.limits);
  tame(q.preempts, "other");
}
void tame(Account& a) {
  tame(a.limits);
  for (auto part : {&Quota::nominal, &Quota::borrow, &Quota::lend}) tame(a.quota.*part);
  tame(a.qos, "q");
  tame(a.coordinators, "u");
  a.parent.clear();
}
void tame(Licence&) {}
void tame(Reservation& r) {
  r.start = {std::abs(r.start.us % 4'000'000'000) * 1'000'000};
  r.zone_s = r.zone_s % 50'000 / 60 * 60;
  r.unused_since = {};
  tame(r.nodes, "n");
  r.tres = {.cpu = 3, .gpus = 4};
  for (auto list : {&Reservation::users, &Reservation::accounts, &Reservation::groups, &Reservation::qos})
    tame(r.*list, "w");
  for (std::size_t i = 0; i < r.licenses.size(); ++i)
    r.licenses[i] = {format("l{}", i), 1 + std::abs(r.licenses[i].count % 1000)};
}
void tame(HealthCheck& c) {
  c.changed = {};  // the core writes it
  tame(c.nodes, "n");
  // What YAML cannot hold is refused at the door.
  std::erase_if(c.script, [](char one) { return (one < ' ' && one != '\n' && one != '\t') || one == 0x7f; });
}
void tame(Policy& p) {
  tame(p.weight_tres);
  p.reset_at = {std::abs(p.reset_at.us % 4'000'000'000) * 1'000'000};
}
void tame(Association& a) {
  tame(a.limits);
  tame(a.qos, "q");
  a.account = "acct";
  a.user = "ann";
  a.partition = "";
  a.is_default = true;
}

template <class T>
T tame_value(Rng& rng) {
  T record = wire::random_value<T>(rng);
  tame(record);
  record.meta = {};
  record.meta.name = std::is_same_v<T, Policy> ? "policy" : std::is_same_v<T, Association> ? "acct/ann" : "one";
  return record;
}

template <class T>
void expect_same(const T& record, const T& back, const std::string& text) {
  EXPECT_EQ(encode_whole(std::make_shared<const T>(back)), encode_whole(std::make_shared<const T>(record))) << text;
}

TEST(ClusterFile, EveryFieldSurvives) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    ClusterFile file;
    file.node_classes = {tame_value<NodeClass>(rng)};
    file.partitions = {tame_value<Partition>(rng)};
    file.qos = {tame_value<Qos>(rng)};
    file.accounts = {tame_value<Account>(rng)};
    file.accounts[0].meta.name = "acct";
    file.associations = {tame_value<Association>(rng)};
    file.licences = {tame_value<Licence>(rng)};
    file.reservations = {tame_value<Reservation>(rng)};
    file.health_checks = {tame_value<HealthCheck>(rng)};
    file.policy = tame_value<Policy>(rng);
    const std::string text = encode_cluster_file(file);
    const auto back = decode_cluster_file(text);
    ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << back.error().message << "\n" << text;
    expect_same(file.node_classes[0], back->node_classes[0], text);
    expect_same(file.partitions[0], back->partitions[0], text);
    expect_same(file.qos[0], back->qos[0], text);
    expect_same(file.accounts[0], back->accounts[0], text);
    expect_same(file.associations[0], back->associations[0], text);
    expect_same(file.licences[0], back->licences[0], text);
    expect_same(file.reservations[0], back->reservations[0], text);
    expect_same(file.health_checks[0], back->health_checks[0], text);
    expect_same(*file.policy, *back->policy, text);
    ASSERT_EQ(encode_cluster_file(*back), text) << "seed " << seed;
    if (HasFailure())
      FAIL() << "seed " << seed;
  }
}

TEST(ClusterFile, AHealthCheckHasItsScriptAsText) {
  const auto file = decode_cluster_file(
      "health_checks:\n  burn:\n    nodes: g[1-2]\n    user: monitor\n    every: 1d\n    gpus: true\n    on_failure: "
      "tell\n"
      "    script: |\n      #!/bin/bash\n      dcgmi diag\n");
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->health_checks.size(), 1u);
  const HealthCheck& burn = file->health_checks[0];
  EXPECT_EQ(burn.script, "#!/bin/bash\ndcgmi diag\n");
  EXPECT_EQ(burn.nodes, (std::vector<std::string>{"g1", "g2"}));
  EXPECT_EQ(burn.every, hours(24));
  EXPECT_EQ(burn.on_failure, OnUnhealthy::kTell);
  EXPECT_EQ(refusal("health_checks:\n  burn: {nodes: ALL, script: 'true'}\n"),
            "line 2: health_checks.burn: does not say user: the ordinary user that it runs as");
}

TEST(ClusterFile, DeepAccountsNameTheirParent) {
  ClusterFile file;
  for (int i = 0; i < 40; ++i) {
    Account& account = file.accounts.emplace_back();
    account.meta.name = format("a{:02}", i);
    account.parent = i == 0 ? "" : format("a{:02}", i - 1);
  }
  const auto back = decode_cluster_file(encode_cluster_file(file));
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->accounts.size(), 40u);
  for (const Account& account : back->accounts)
    EXPECT_EQ(account.parent,
              account.meta.name == "a00" ? "" : format("a{:02}", parse_int(account.meta.name.substr(1)).value() - 1));
}

TEST(ClusterFile, TextThatLooksLikeSomethingElseKeepsToBeText) {
  for (const std::string text :
       {"yes", "12", "1e5", "0x1f", "12:30:00",  "2026-01-01", "null", "~",  "a: b", "a #b", "- a", "",  " a", "[a]",
        "{a",  "@a", "é",   "a\nb", "tab\there", "\"q\"",      "'q'",  "%a", "&a",   "*a",   "!a",  "|", ">",  "a:"}) {
    ClusterFile file;
    Qos& qos = file.qos.emplace_back();
    qos.meta.name = "one";
    qos.description = text;
    const std::string written = encode_cluster_file(file);
    const auto back = decode_cluster_file(written);
    ASSERT_TRUE(back.ok()) << written << back.error().message;
    EXPECT_EQ(back->qos[0].description, text) << written;
  }
}

// Damaged in a few places: refused, or read as something that says the same when it is written out and kept.
TEST(ClusterFile, DamagedFilesAreRefusedOrReadTheSameAgain) {
  Rng rng(11);
  constexpr std::string_view kPieces[] = {":", "\n",   " ",    "[",  "]",          "{",         "}",   ",",
                                          "-", "'",    "\"",   "#",  "0",          "unlimited", "\t",  "é",
                                          "|", "null", "  a:", "- ", "9999999999", "n[1-",      "true"};
  int read = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text = kWholeFile;
    for (std::uint64_t n = 1 + rng.below(3); n > 0; --n) {
      const std::size_t at = rng.below(text.size()), size = rng.below(4);
      if (rng.chance(0.5))
        text.erase(at, size);
      else
        text.insert(at, kPieces[rng.below(std::size(kPieces))]);
    }
    const auto file = decode_cluster_file(text);
    if (!file.ok())
      continue;
    ++read;
    const std::string once = encode_cluster_file(*file);
    const auto again = decode_cluster_file(once);
    ASSERT_TRUE(again.ok()) << text << "\n---\n" << once << again.error().message;
    ASSERT_EQ(encode_cluster_file(*again), once);
    const auto kept = keep_cluster_file(text, *file);
    ASSERT_TRUE(kept.ok());
    ASSERT_EQ(kept->text, text);
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace lockstep
