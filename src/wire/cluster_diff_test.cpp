// A file beside a cluster: what differs, in which order it is changed, and a file that is kept as somebody wrote it.
#include "wire/cluster_diff.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "wire/cluster_keep.h"

namespace lockstep {
namespace {

using Lines = std::vector<std::string>;

ClusterFile file_from(std::string_view text) {
  auto file = decode_cluster_file(text);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
  return file.ok() ? std::move(*file) : ClusterFile{};
}

// A cluster that a file describes; each record has a version of its own.
LiveCluster cluster_of(std::string_view text) {
  LiveCluster live;
  live.file = file_from(text);
  Seq seq = 100;
  const auto number = [&](auto& records) {
    for (auto& record : records) record.meta.seq = ++seq;
  };
  number(live.file.node_classes);
  number(live.file.partitions);
  number(live.file.qos);
  number(live.file.accounts);
  number(live.file.associations);
  number(live.file.licences);
  number(live.file.reservations);
  number(live.file.health_checks);
  return live;
}

Lines shown_difference(std::string_view wanted, const LiveCluster& live) {
  Lines out;
  for (const RecordDifference& one : differences(file_from(wanted), live, {}).records)
    for (std::string& line : lines_of(one)) out.push_back(std::move(line));
  return out;
}

Lines plan_words(std::string_view wanted, const LiveCluster& live, bool prune = false) {
  Lines out;
  for (const PlannedChange& one : planned_changes(file_from(wanted), live, {}, prune))
    out.push_back(format("{}@{}", one.words, one.change.is_new ? "new" : format("{}", one.change.if_seq)));
  return out;
}

std::string reference_error(std::string_view wanted, const LiveCluster& live, bool prune = false) {
  const auto done = check_references(file_from(wanted), live, prune);
  return done ? "" : done.error().message;
}

constexpr const char* kLive =
    "partitions:\n  gpu: {nodes: 'g[1-2]', time_max: 1d, default: true}\n  cpu: {nodes: c1}\n"
    "qos:\n  normal: {}\n  old: {priority: 3}\n"
    "accounts:\n  a:\n    users: [ann]\n  b: {}\n"
    "licences: {matlab: 5}\n";

TEST(ClusterDiff, NamesEveryKeyThatDiffers) {
  const LiveCluster live = cluster_of(kLive);
  EXPECT_EQ(shown_difference(kLive, live), Lines{});
  EXPECT_EQ(plan_words(kLive, live), Lines{});
  const Lines expected = {"partition gpu: nodes g[1-2] → g[1-4]",
                          "partition gpu: time_max 1d → 2d",
                          "partition gpu: allow_accounts (none) → [a, b]",
                          "partition new: new",
                          "partition new: nodes ALL",
                          "partition cpu: not in the file",
                          "account b: parent (none) → a",
                          "association b/ann: new",
                          "licence matlab: total 5 → 7"};
  EXPECT_EQ(
      shown_difference("partitions:\n  gpu: {nodes: 'g[1-4]', time_max: 2d, allow_accounts: [a, b], default: true}\n"
                       "  new: {nodes: ALL}\n"
                       "accounts:\n  a:\n    users: [ann]\n    accounts:\n      b: {users: [ann]}\n"
                       "licences: {matlab: 7}\n",
                       live),
      expected);
}

TEST(ClusterDiff, APartOfAUsersAccountsLeavesTheDefaultWhereItIs) {
  const LiveCluster live = cluster_of("accounts:\n  a: {users: {ann: {default: true}}}\n  b: {users: [ann]}\n");
  EXPECT_EQ(plan_words("accounts:\n  b: {users: [ann]}\n", live), Lines{});
  EXPECT_EQ(plan_words("accounts:\n  b: {users: {ann: {default: true}}}\n", live), Lines{"association b/ann@104"});
}

TEST(ClusterDiff, WhatTheCoreSettlesIsNoDifference) {
  LiveCluster live = cluster_of(
      "accounts:\n  a: {users: {ann: {default: true}}}\n  b: {users: [ann]}\n"
      "reservations:\n  r: {start: 2030-01-01T00:00Z, duration: 1h, node_count: 2}\n");
  live.file.reservations[0].nodes = {"n1", "n2"};
  EXPECT_EQ(shown_difference("accounts:\n  a: {users: [ann]}\n  b: {users: [ann]}\n"
                             "reservations:\n  r: {start: 2030-01-01T00:00Z, duration: 1h, node_count: 2}\n",
                             live),
            Lines{});
  LiveCluster marked = cluster_of("accounts:\n  a: {users: [ann, ann/p]}\n");
  marked.file.associations[0].is_default = false;  // the one of the partition was made first
  marked.file.associations[1].is_default = true;
  EXPECT_EQ(shown_difference("accounts:\n  a: {users: [ann, ann/p]}\n", marked), Lines{});
  EXPECT_EQ(shown_difference("reservations:\n  r: {start: 2030-01-01T00:00Z, duration: 1h, node_count: 3}\n", live),
            (Lines{"reservation r: nodes n[1-2] → (none)", "reservation r: node_count 2 → 3"}));
  const auto over =
      differences(file_from("reservations:\n  old: {start: 2020-01-01T00:00Z, duration: 1h, nodes: n1}\n"), live,
                  WallTime{1'700'000'000'000'000});
  EXPECT_EQ(over.notes, (Lines{"reservation old is over: take it out of the file"}));
  EXPECT_EQ(over.records.size(), 1u) << "only that r is not in the file";
}

TEST(ClusterDiff, ChangesComeInAnOrderThatHolds) {
  // A default moves: the other one is it no more before.
  EXPECT_EQ(plan_words("partitions:\n  gpu: {nodes: 'g[1-2]', time_max: 1d}\n  cpu: {nodes: c1, default: true}\n",
                       cluster_of(kLive)),
            (Lines{"partition gpu@101", "partition cpu@102"}));
  // QOS, accounts and partitions before what names them; a new account below a new one.
  EXPECT_EQ(plan_words("partitions:\n  p: {nodes: n1, qos: fast}\n"
                       "qos:\n  fast: {preempts: [slow]}\n  slow: {}\n"
                       "accounts:\n  x: {parent: y, qos: [fast], users: [bob]}\n  y: {}\n",
                       cluster_of(kLive)),
            (Lines{"QOS slow@new", "QOS fast@new", "account y@new", "account x@new", "partition p@new",
                   "association x/bob@new"}));
  // Who stops whom is turned round, accounts are turned over, two classes exchange their nodes.
  EXPECT_EQ(plan_words("qos:\n  a: {}\n  b: {preempts: [a]}\n", cluster_of("qos:\n  a: {preempts: [b]}\n  b: {}\n")),
            (Lines{"QOS a@101", "QOS b@102"}));
  EXPECT_EQ(plan_words("qos:\n  a: {preempts: [c]}\n  b: {preempts: [a]}\n  c: {}\n",
                       cluster_of("qos:\n  a: {preempts: [b]}\n  b: {}\n  c: {}\n")),
            (Lines{"QOS a@101", "QOS a@0", "QOS b@102"}));
  EXPECT_EQ(
      plan_words("accounts:\n  b:\n    accounts: {a: {}}\n", cluster_of("accounts:\n  a:\n    accounts: {b: {}}\n")),
      (Lines{"account b@102", "account a@101"}));
  EXPECT_EQ(plan_words("nodes:\n  a: {nodes: n2}\n  b: {nodes: n1}\n",
                       cluster_of("nodes:\n  a: {nodes: n1}\n  b: {nodes: n2}\n")),
            (Lines{"node class a@101", "node class b@102", "node class a@0", "node class b@0"}));
}

TEST(ClusterDiff, PruningRemovesWhatTheFileHasASectionFor) {
  const LiveCluster live = cluster_of(kLive);
  EXPECT_EQ(plan_words("qos:\n  normal: {}\n", live), Lines{});
  EXPECT_EQ(plan_words("qos:\n  normal: {}\n", live, true), (Lines{"removal of QOS old@0"}));
  EXPECT_EQ(plan_words("qos: {}\n", cluster_of("qos:\n  a: {}\n  b: {preempts: [a]}\n"), true),
            (Lines{"removal of QOS b@0", "removal of QOS a@0"}));
  EXPECT_EQ(plan_words("accounts: {}\n", live, true), (Lines{"removal of account a@0", "removal of account b@0"}));
  EXPECT_EQ(plan_words("accounts:\n  a: {}\n  b: {}\n", live, true), (Lines{"removal of association a/ann@0"}));
}

std::string text_with(std::string_view text, std::string_view word) {
  const auto at = text.find("%s");
  return format("{}{}{}", text.substr(0, at), word, text.substr(at + 2));
}

TEST(ClusterDiff, ReferencesAreKnown) {
  const LiveCluster live = cluster_of(kLive);
  EXPECT_EQ(reference_error("partitions:\n  p: {nodes: n1, allow_qos: [normal, old]}\n", live), "");
  EXPECT_EQ(
      reference_error("partitions:\n  p: {nodes: n1, allow_qos: [normla]}\n", live),
      "line 2: partition p: allow_qos: there is no QOS normla, neither in the file nor in the cluster; did you mean "
      "\"normal\"?");
  EXPECT_EQ(reference_error("partitions:\n  p: {nodes: n1, allow_qos: [old]}\nqos:\n  normal: {}\n", live), "");
  EXPECT_NE(reference_error("partitions:\n  p: {nodes: n1, allow_qos: [old]}\nqos:\n  normal: {}\n", live, true), "");
  constexpr const char* kCheck =
      "health_checks:\n  burn: {nodes: ALL, class: %s, user: monitor, every: 1d, time_limit: 10m, script: \"true\"}\n"
      "nodes:\n  large: {nodes: n1}\n";
  EXPECT_EQ(reference_error(text_with(kCheck, "large"), live), "");
  EXPECT_EQ(
      reference_error(text_with(kCheck, "lrage"), live),
      "line 2: health check burn: class: there is no class of nodes lrage, neither in the file nor in the cluster; "
      "did you mean \"large\"?");
  EXPECT_EQ(reference_error("accounts:\n  x: {parent: nobody}\n", live),
            "line 2: account x: parent: there is no account nobody, neither in the file nor in the cluster");
  EXPECT_EQ(reference_error("accounts:\n  x: {users: [ann/gqu]}\n", live),
            "line 2: association x/ann/gqu: there is no partition gqu, neither in the file nor in the cluster; did you "
            "mean \"gpu\"?");
  EXPECT_NE(reference_error("partitions:\n  p: {nodes: n1, deny_accounts: [z]}\n", live), "");
  EXPECT_NE(reference_error("reservations:\n  r: {start: 2030-01-01T00:00Z, duration: 1h, licences: {cad: 1}}\n", live),
            "");
}

TEST(ClusterDiff, GroupsAreAsLargeAsTheCoreTakes) {
  std::string text = "licences:\n";
  for (int i = 0; i < 450; ++i) text += format("  l{}: 1\n", i);
  const auto groups = in_groups(planned_changes(file_from(text), LiveCluster{}, {}, false));
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].size() + groups[1].size() + groups[2].size(), 450u);
  LiveCluster live;
  for (int i = 1; i <= 300; ++i) live.nodes.emplace_back().meta.name = format("n{}", i);
  const auto wide = in_groups(
      planned_changes(file_from("nodes:\n  a: {nodes: 'n[1-300]'}\nqos:\n  q: {}\n  r: {}\n"), live, {}, false));
  ASSERT_EQ(wide.size(), 2u);
  EXPECT_EQ(wide[0].size(), 1u);
  EXPECT_EQ(wide[1].size(), 2u);
}

TEST(ClusterDiff, NodesThatHaveLessThanTheirClassAreNamed) {
  LiveCluster live;
  Node& node = live.nodes.emplace_back();
  node.meta.name = "n1";
  node.cores = 4;
  EXPECT_EQ(class_shortfalls(file_from("nodes:\n  big: {nodes: 'n[1-2]', cores: 8}\n"), live),
            (Lines{"node n1 has 4 cores; its class big expects 8"}));
}

// --- a file that is kept ---

constexpr const char* kWritten =
    "# Our cluster. Ask Ann before you change a limit.\n"
    "partitions:\n"
    "    gpu:                       # the big ones\n"
    "        nodes: g[1-2]\n"
    "        # short, on purpose\n"
    "        time_max: 1-00:00:00   # one day\n"
    "        allow_accounts:\n"
    "        - a                    # the first\n"
    "        - b\n"
    "\n"
    "    cpu: { nodes: c1, tier: 2 }\n"
    "qos:\n"
    "  normal:\n"
    "accounts:\n"
    "  a:\n"
    "    users: [ann, bob]   # both\n"
    "  b:\n"
    "    users:\n"
    "      eve: {shares: 2}\n"
    "# the end\n";

KeptFile kept_as(std::string_view live) {
  auto kept = keep_cluster_file(kWritten, file_from(live));
  EXPECT_TRUE(kept.ok()) << (kept.ok() ? "" : kept.error().message);
  return kept.ok() ? std::move(*kept) : KeptFile{};
}

TEST(ClusterKeep, NothingChangesWhereNothingDiffers) {
  const KeptFile kept = kept_as(kWritten);
  EXPECT_EQ(kept.text, kWritten);
  EXPECT_EQ(kept.left, Lines{});
}

TEST(ClusterKeep, OnlyWhatDiffersIsWritten) {
  const KeptFile kept = kept_as(
      "partitions:\n"
      "  gpu: {nodes: 'g[1-4]', time_max: 2d, state: down, allow_accounts: [a, c]}\n"
      "  cpu: {nodes: c1, tier: 3, priority: 7}\n"
      "  new: {nodes: ALL}\n"
      "qos:\n  normal: {description: for all}\n"
      "accounts:\n"
      "  a: {shares: 5, users: [ann, bob, carl]}\n"
      "  b: {users: {eve: {shares: 3}, dan: {max_jobs: 1}}}\n"
      "  c: {users: [zoe]}\n");
  EXPECT_EQ(kept.text,
            "# Our cluster. Ask Ann before you change a limit.\n"
            "partitions:\n"
            "    gpu:                       # the big ones\n"
            "        nodes: g[1-4]\n"
            "        # short, on purpose\n"
            "        time_max: 2d   # one day\n"
            "        allow_accounts:\n"
            "        - a                    # the first\n"
            "        - c\n"
            "        state: down\n"
            "\n"
            "    cpu: { nodes: c1, tier: 3, priority: 7 }\n"
            "    new:\n"
            "      nodes: ALL\n"
            "qos:\n"
            "  normal: {description: for all}\n"
            "accounts:\n"
            "  a:\n"
            "    shares: 5\n"
            "    users: [ann, bob, carl]   # both\n"
            "  b:\n"
            "    users:\n"
            "      eve: {shares: 3}\n"
            "      dan: {max_jobs: 1}\n"
            "  c:\n"
            "    users: [zoe]\n"
            "# the end\n");
  EXPECT_EQ(kept.left, Lines{});
  const auto again = keep_cluster_file(kept.text, file_from(kept.text));
  EXPECT_EQ(again->text, kept.text);
}

TEST(ClusterKeep, WhatItCannotDoIsSaid) {
  const KeptFile kept = kept_as(
      "partitions:\n  gpu: {nodes: 'g[1-2]', time_max: 1d, allow_accounts: [a, b]}\n"
      "qos:\n  normal: {}\n"
      "accounts:\n  a: {users: [ann]}\n  b: {parent: a, users: {eve: {shares: 2}}}\n");
  EXPECT_EQ(kept.text, kWritten);
  EXPECT_EQ(kept.left,
            (Lines{"partition cpu: in the file, and not in the cluster", "account b: parent is a in the cluster",
                   "association a/bob: in the file, and not in the cluster"}));
}

TEST(ClusterKeep, WhichAssociationOfTheDefaultAccountIsMarkedSaysNothing) {
  constexpr std::string_view kUsers =
      "accounts:\n  a:\n    users:\n      ann: {shares: 2}\n      ann/p: {max_jobs: 1}\n";
  ClusterFile live = file_from(kUsers);
  live.associations[1].is_default = true;  // it was made first
  EXPECT_EQ(keep_cluster_file(kUsers, live)->text, kUsers);
}

TEST(ClusterKeep, SectionsThatAreEmpty) {
  const ClusterFile live = file_from("qos:\n  normal: {}\n");
  EXPECT_EQ(keep_cluster_file("qos:\n", live)->text, "qos:\n  normal: {}\n");
  EXPECT_EQ(keep_cluster_file("qos: {}\npolicy: {}\n", live)->text, "qos:\n  normal: {}\npolicy: {}\n");
  EXPECT_EQ(keep_cluster_file("qos: {}", live)->text, "qos:\n  normal: {}\n");
  EXPECT_EQ(keep_cluster_file("policy: {}\n", live)->text, "policy: {}\n") << "no section is added";
  const auto flow = keep_cluster_file("qos: {a: {}}\n", live);
  EXPECT_EQ(flow->left, (Lines{"QOS a: in the file, and not in the cluster",
                               "QOS normal: in the cluster, and there was no place for it in the file"}));
}

}  // namespace
}  // namespace lockstep
