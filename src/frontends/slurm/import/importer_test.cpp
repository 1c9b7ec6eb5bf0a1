#include "frontends/slurm/import/importer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "base/hostlist.h"
#include "base/scenario.h"
#include "base/text.h"

namespace lockstep::slurm {
namespace {

using Files = std::map<std::string, std::string>;

Result<Imported> import(const Files& files) {
  const ReadFile read = [&files](const std::string& path) -> Result<std::string> {
    const auto file = files.find(path);
    return file == files.end() ? Result<std::string>(not_found(path + " is not there")) : file->second;
  };
  ImportPaths paths{.slurm_conf = "slurm.conf",
                    .gres_conf = "gres.conf",
                    .topology_conf = "topology.conf",
                    .accounts = {},
                    .qos = {}};
  if (files.contains("dump"))
    paths.accounts = "dump";
  if (files.contains("qos"))
    paths.qos = "qos";
  return import_slurm(paths, read);
}
Result<Imported> import(const std::string& slurm_conf) { return import(Files{{"slurm.conf", slurm_conf}}); }

std::string refusal(const Files& files) {
  const auto imported = import(files);
  return imported ? "taken" : imported.error().message;
}
std::string refusal(const std::string& slurm_conf) { return refusal(Files{{"slurm.conf", slurm_conf}}); }

// What the report says of a key: "taken: words".
std::string said(const Imported& imported, std::string_view key, std::string_view value = {}) {
  for (const ReportEntry& entry : imported.report.entries)
    if (entry.key == key && (value.empty() || entry.value == value))
      return format("{}: {}", verdict_text(entry.verdict), entry.words);
  return "nothing";
}
std::string said(const std::string& line) {
  const auto imported = import("ClusterName=x\n" + line + "\n");
  return imported ? format("{}: {}", verdict_text(imported->report.entries.back().verdict),
                           imported->report.entries.back().words)
                  : imported.error().message;
}
bool is_noted(const Imported& imported, std::string_view words) {
  for (const std::string& note : imported.report.notes)
    if (note.find(words) != std::string::npos)
      return true;
  return false;
}

// "gpu: n[1-2] cores=8 …"
std::string shown(const NodeClass& c) {
  std::string out = format("{}: {}", c.meta.name, compress_hostlist(c.nodes));
  if (c.cores)
    out += format(" cores={}", c.cores);
  if (c.memory_mb)
    out += format(" mem={}", c.memory_mb);
  if (c.gpus)
    out += format(" gpus={}", c.gpus);
  if (!c.gpu_type.empty())
    out += format(" type={}", c.gpu_type);
  if (c.weight)
    out += format(" weight={}", c.weight);
  if (!c.features.empty())
    out += format(" features={}", join(c.features, ","));
  return out;
}
std::string classes(const Files& files) {
  const auto imported = import(files);
  if (!imported)
    return imported.error().message;
  std::string out;
  for (const NodeClass& c : imported->file.node_classes) out += shown(c) + "\n";
  return out;
}
std::string classes(const std::string& slurm_conf) { return classes(Files{{"slurm.conf", slurm_conf}}); }

TEST(ImportNodes, NodesThatAreAlikeAreOneClass) {
  EXPECT_EQ(
      classes("NodeName=n[1-2],n5 CPUs=8 RealMemory=1000\nNodeName=n3 RealMemory=1000 Procs=8\n"
              "NodeName=n4 CPUs=8 RealMemory=1000 Feature=big\nNodeName=x-gpu-01 CPUs=8\nNodeName=7\n"),
      "n: n[1-2,5,3] cores=8 mem=1000\nn-2: n4 cores=8 mem=1000 features=big\nx-gpu: x-gpu-01 cores=8\nnodes: 7\n");
}

TEST(ImportNodes, DefaultsHoldForTheLinesBehindThem) {
  EXPECT_EQ(classes("NodeName=a1 CPUs=2\nNodeName=DEFAULT CPUs=4 Weight=7\nNodeName=default Feature=ib\nNodeName=b1\n"
                    "NodeName=c1 CPUs=16 Features=ib,fast\n"),
            "a: a1 cores=2\nb: b1 cores=4 weight=7 features=ib\nc: c1 cores=16 weight=7 features=ib,fast\n");
}

TEST(ImportNodes, CoresAreCountedAsALineSaysThem) {
  const auto cores = [](const std::string& words) {
    return import("NodeName=n " + words + "\n")->file.node_classes.at(0).cores;
  };
  EXPECT_EQ(cores(""), 0u);
  EXPECT_EQ(cores("CPUs=64"), 64u);
  EXPECT_EQ(cores("CPUs=64 ThreadsPerCore=2"), 32u);
  EXPECT_EQ(cores("CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2"), 32u);
  EXPECT_EQ(cores("Sockets=2 CoresPerSocket=16"), 32u);
  EXPECT_EQ(cores("Boards=2 SocketsPerBoard=2 CoresPerSocket=8 ThreadsPerCore=2"), 32u);
  EXPECT_EQ(cores("CPUs=64 Sockets=2"), 64u);
  EXPECT_EQ(cores("Sockets=2"), 2u);
  EXPECT_EQ(cores("CPUs=12 CoresPerSocket=6"), 12u);
  EXPECT_EQ(cores("CPUs=24 CoresPerSocket=6 ThreadsPerCore=2"), 12u);
}

TEST(ImportNodes, GpusAreCountedWithTheirType) {
  const auto gpus = [](const std::string& gres) {
    return shown(import("NodeName=n Gres=" + gres + "\n")->file.node_classes.at(0));
  };
  EXPECT_EQ(gpus("gpu:a100:8"), "n: n gpus=8 type=a100");
  EXPECT_EQ(gpus("gpu:1K"), "n: n gpus=1024");
  EXPECT_EQ(classes(Files{{"slurm.conf", "NodeName=n Gres=gpu:1g.5gb:7,gpu:a100:1\n"},
                          {"gres.conf", "NodeName=n Name=gpu Type=1g.5gb\n"}}),
            "n: n gpus=8\n");
  EXPECT_EQ(gpus("gpu:8"), "n: n gpus=8");
  EXPECT_EQ(gpus("gpu"), "n: n gpus=1");
  EXPECT_EQ(gpus("gpu:A100:4(S:0,1),gpu:v100:2"), "n: n gpus=6");
  EXPECT_EQ(gpus("gpu:tesla:no_consume:2"), "n: n gpus=2 type=tesla");
  EXPECT_EQ(gpus("none"), "n: n");
  EXPECT_EQ(said("NodeName=n Gres=gpu:2,nic:4,shard:16"),
            "no equal: nic:4, shard:16 has no equal: agents find GPUs by themselves, and no other kind exists; the "
            "GPUs are taken");
  EXPECT_EQ(said("NodeName=n Gres=gpu:99999999999999999999"), "taken: the GPUs that a node ought to have");
  EXPECT_EQ(said("NodeName=n Gres=gpu:9999999"), "unknown: no value of it: \"gpu:9999999\": more GPUs than 1000000");
}

TEST(ImportNodes, GresConfNamesTypesThatNodesLack) {
  EXPECT_EQ(
      classes({{"slurm.conf", "NodeName=n[1-2] Gres=gpu:4\nNodeName=n3 Gres=gpu:2\nNodeName=n4 Gres=gpu:v100:1\n"},
               {"gres.conf",
                "NodeName=n[1-2] Name=gpu Type=A100 File=/dev/nvidia[0-3]\n"
                "NodeName=n3 Name=gpu Type=a File=/dev/nvidia0\nNodeName=n3 Name=gpu Type=b\n"
                "NodeName=n4 Name=gpu Type=x\n"}}),
      "n: n[1-2] gpus=4 type=a100\nn-2: n3 gpus=2\nn-3: n4 gpus=1 type=v100\n");
  EXPECT_EQ(classes({{"slurm.conf", "NodeName=n1 Gres=gpu:4\n"},
                     {"gres.conf", "Name=gpu Type=h100 File=/dev/nvidia[0-3]\n"}}),
            "n: n1 gpus=4 type=h100\n");
}

TEST(ImportNodes, TwoNodesOfOneNameAndBadNamesAreRefused) {
  EXPECT_EQ(refusal("NodeName=n[1-3]\n\nNodeName=m1,n2\n"),
            "slurm.conf:3:1: node n2 is there already, in slurm.conf:1");
  EXPECT_EQ(refusal("NodeName=n1,n1\n"), "slurm.conf:1:1: node n1 is there already, in slurm.conf:1");
  EXPECT_EQ(refusal("NodeName=ALL\n"), "slurm.conf:1:1: \"ALL\" is no name of a node");
  EXPECT_EQ(refusal("NodeName=../x\n"), "slurm.conf:1:1: \"../x\" is no name of a node");
  EXPECT_NE(refusal("NodeName=n[1-\n").find("slurm.conf:1:1: host list, column"), std::string::npos);
}

TEST(ImportNodes, AHundredThousandNodesAreTakenAndMoreThanTheBoundRefused) {
  const auto many = import("NodeName=n[000001-100000] CPUs=4\nPartitionName=all Nodes=n[000001-100000]\n");
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_EQ(many->file.node_classes.at(0).nodes.size(), 100'000u);
  EXPECT_EQ(many->file.partitions.at(0).nodes.size(), 100'000u);
  EXPECT_NE(refusal("NodeName=n[1-300000]\n").find("slurm.conf:1:1: "), std::string::npos);
  EXPECT_EQ(refusal("NodeName=a[1-150000]\nNodeName=b[1-150000]\n"), "slurm.conf:2:1: more than 200000 nodes");
  std::string partitions = "NodeName=n[1-100000]\n";
  for (int i = 0; i < 30; ++i) partitions += format("PartitionName=p{} Nodes=n[1-100000]\n", i);
  EXPECT_NE(refusal(partitions).find("nodes are named more than 2000000 times"), std::string::npos)
      << refusal(partitions);
}

TEST(ImportPartitions, FieldsAreThoseOfScontrol) {
  const auto imported = import(
      "NodeName=n[1-4]\n"
      "PartitionName=main Nodes=n[1-2],n4 Default=YES MaxTime=2-0 DefaultTime=60 MaxNodes=2 PriorityTier=3 "
      "PriorityJobFactor=9 "
      "AllowAccounts=Physics,bio DenyQos=LOW QOS=Part DefMemPerCPU=2048 GraceTime=60 PreemptMode=REQUEUE State=DOWN "
      "TRESBillingWeights=\"CPU=1.0,Mem=0.25G\" OverSubscribe=NO Hidden=NO\n");
  ASSERT_TRUE(imported) << imported.error().message;
  const Partition& p = imported->file.partitions.at(0);
  EXPECT_EQ(compress_hostlist(p.nodes), "n[1-2,4]");
  EXPECT_TRUE(p.is_default);
  EXPECT_FALSE(p.up);
  EXPECT_EQ(p.time_max, hours(48));
  EXPECT_EQ(p.time_default, hours(1));
  EXPECT_EQ(p.nodes_max, 2u);
  EXPECT_EQ(p.tier, 3u);
  EXPECT_EQ(p.priority, 9u);
  EXPECT_EQ(p.allow_accounts, (std::vector<std::string>{"physics", "bio"}));
  EXPECT_EQ(p.deny_qos, std::vector<std::string>{"low"});
  EXPECT_EQ(p.qos, "part");
  EXPECT_EQ(p.memory_per_core_mb, 2048);
  EXPECT_EQ(p.grace, seconds(60));
  EXPECT_EQ(p.preempt_mode, PreemptMode::kRequeue);
  EXPECT_EQ(p.billing, (std::vector<TresWeight>{{"cpu", 1000}, {"mem", 250}}));
  EXPECT_TRUE(imported->report.is_whole());
  EXPECT_EQ(imported->file.qos.size(), 2u);  // named only: they must be there
  EXPECT_TRUE(is_noted(*imported, "QOS low, part are named and not described"));
}

TEST(ImportPartitions, DefaultsAndSetsOfNodes) {
  const auto imported = import(
      "DefMemPerCPU=500\nNodeName=a[1-2] Feature=x\nNodeName=b1 Feature=y,x\nNodeName=c1\n"
      "NodeSet=xs Feature=x\nNodeSet=mixed Nodes=c1 Feature=y\nNodeSet=all Nodes=ALL\n"
      "PartitionName=DEFAULT MaxTime=10 State=UP\nPartitionName=p Nodes=xs\nPartitionName=q Nodes=mixed,a1,c1 "
      "MaxTime=20\n"
      "PartitionName=default MaxNodes=3\nPartitionName=r Nodes=ALL DefMemPerCPU=7\nPartitionName=s Nodes=all\n");
  ASSERT_TRUE(imported) << imported.error().message;
  std::string out;
  for (const Partition& p : imported->file.partitions)
    out += format("{} {} {} {} {}\n", p.meta.name, compress_hostlist(p.nodes), p.time_max.seconds(), p.nodes_max,
                  p.memory_per_core_mb);
  EXPECT_EQ(out, "p a[1-2],b1 600 0 500\nq c1,b1,a1 1200 0 500\nr ALL 600 3 7\ns ALL 600 3 500\n");
}

TEST(ImportPartitions, WhatSlurmWouldNotStartWithIsRefused) {
  EXPECT_EQ(refusal("NodeName=n1\nPartitionName=p Nodes=n[1-2]\n"),
            "slurm.conf:2:1: partition p: no NodeName line has node n2, and no NodeSet is called so");
  EXPECT_EQ(refusal("NodeName=n1\nPartitionName=p Nodes=n1\nPartitionName=q Nodes=n1\nPartitionName=p Nodes=n1\n"),
            "slurm.conf:4:1: partition p is there already, in slurm.conf:2: make one line of the two");
  EXPECT_EQ(refusal("NodeName=n1\nNodeSet=s Nodes=n9\nPartitionName=p Nodes=s\n"),
            "slurm.conf:3:1: partition p: node set s: no NodeName line has node n9");
  EXPECT_EQ(refusal("PartitionName=a,b\n"), "slurm.conf:1:1: \"a,b\" is no name of a partition");
  EXPECT_NE(refusal("NodeName=n1\nPartitionName=p Nodes=n[\n").find("slurm.conf:2:1: partition p: host list"),
            std::string::npos);
}

TEST(ImportPartitions, OneIsTheDefaultAndOneWithoutNodesIsNoted) {
  const auto imported = import("NodeName=n1\nPartitionName=p Nodes=n1 Default=YES\nPartitionName=q Default=YES\n");
  ASSERT_TRUE(imported);
  EXPECT_FALSE(imported->file.partitions.at(0).is_default);
  EXPECT_TRUE(imported->file.partitions.at(1).is_default);
  EXPECT_TRUE(is_noted(*imported, "p and q are both the default partition: the later one is"));
  EXPECT_TRUE(is_noted(*imported, "partition q has no nodes"));
}

TEST(ImportPartitions, ValuesMeanWhatTheyMeanInSlurm) {
  const auto imported = import(
      "NodeName=n1\nPartitionName=a Nodes=n1 MaxTime=90:30 DefaultTime=0:30 MaxNodes=INFINITE GraceTime=UNLIMITED\n"
      "PartitionName=b Nodes=n1 MaxTime=0 MaxNodes=0 TRESBillingWeights=CPU=1,Mem=0.25,Energy=0\n"
      "PartitionName=c Nodes=n1 TRESBillingWeights=Mem=0.25G\nPreemptExemptTime=10\n");
  ASSERT_TRUE(imported) << imported.error().message;
  const auto& partitions = imported->file.partitions;
  EXPECT_EQ(partitions.at(0).time_max, minutes(91));
  EXPECT_EQ(partitions.at(0).time_default, minutes(1));
  EXPECT_EQ(partitions.at(0).nodes_max, 0u);
  EXPECT_EQ(said(*imported, "GraceTime").substr(0, 9), "no equal:");
  EXPECT_EQ(said(*imported, "MaxTime", "0").substr(0, 9), "no equal:");
  EXPECT_EQ(said(*imported, "MaxNodes", "0").substr(0, 9), "no equal:");
  EXPECT_EQ(partitions.at(1).billing, (std::vector<TresWeight>{{"cpu", 1000}, {"mem", 256'000}}));
  EXPECT_NE(said(*imported, "TRESBillingWeights").find("Energy=0 is not counted here"), std::string::npos);
  EXPECT_EQ(partitions.at(2).billing, (std::vector<TresWeight>{{"mem", 250}}));
  EXPECT_EQ(imported->file.policy->preempt_exempt, minutes(10));
}

TEST(ImportPartitions, AccountsThatAreNamedAreThere) {
  const auto imported = import(
      "NodeName=n1\nPartitionName=a Nodes=n1 AllowAccounts=root,Physics\n"
      "PartitionName=b Nodes=n1 DenyAccounts=root\nPartitionName=c Nodes=n1 AllowAccounts=root\n");
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->file.partitions.at(0).allow_accounts, std::vector<std::string>{"physics"});
  EXPECT_TRUE(imported->file.partitions.at(1).deny_accounts.empty());
  EXPECT_EQ(imported->file.partitions.at(2).allow_accounts, std::vector<std::string>{"root"}) << "it lets no user in";
  ASSERT_EQ(imported->file.accounts.size(), 2u);
  EXPECT_TRUE(is_noted(*imported, "accounts physics, root are named by partitions and not described"));
}

TEST(ImportNodes, CpusThatAreThreadsAreNoted) {
  EXPECT_TRUE(is_noted(*import("NodeName=n CPUs=8 ThreadsPerCore=2\n"), "counts cores now"));
  EXPECT_FALSE(is_noted(*import("NodeName=n CPUs=8\n"), "counts cores now"));
}

TEST(ImportReport, KeepsPasswordsToItself) {
  const auto imported = import("AccountingStoragePass=letmein JobCompPass=secret\nJobCompPass=again\n");
  ASSERT_TRUE(imported) << imported.error().message;
  const std::string text = report_text(imported->report, {.all = true}) + report_json(imported->report);
  for (const char* secret : {"letmein", "secret", "again"}) EXPECT_EQ(text.find(secret), std::string::npos) << text;
}

TEST(ImportReport, ShowsNoCharactersThatTurnTheDirectionOfWriting) {
  const auto imported = import("NodeName=n1 Reason=\"a\u202eb\"\n");
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(report_text(imported->report, {.all = true}).find("\u202e"), std::string::npos);
}

TEST(ImportReport, ALineThatIsMisspeltIsGuessed) {
  EXPECT_NE(said("PartitonName=p").find("partitionname meant"), std::string::npos) << said("PartitonName=p");
}

TEST(ImportPolicy, IsWhatSlurmWouldDo) {
  const auto nothing = import("ClusterName=x\n");
  EXPECT_EQ(nothing->file.policy->weight_fair_share, 0u);
  EXPECT_EQ(nothing->file.policy->preempt_mode, PreemptMode::kOff);
  EXPECT_TRUE(is_noted(*nothing, "no weight of priority is set"));

  const auto some = import(
      "PriorityType=priority/"
      "multifactor\nPriorityWeightAge=100\nPriorityWeightFairShare=2000\nPriorityWeightTRES=CPU=10,GRES/gpu=20\n"
      "PriorityMaxAge=1-0\nPriorityDecayHalfLife=14-0\nPreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\n"
      "AccountingStorageEnforce=all\nPriorityFavorSmall=YES\n");
  const Policy& p = *some->file.policy;
  EXPECT_EQ(p.weight_age, 100u);
  EXPECT_EQ(p.weight_fair_share, 2000u);
  EXPECT_EQ(p.weight_partition, 0u);
  EXPECT_EQ(p.weight_tres, (std::vector<TresWeight>{{"cpu", 10'000}, {"gres/gpu", 20'000}}));
  EXPECT_EQ(p.age_max, hours(24));
  EXPECT_EQ(p.half_life, hours(24 * 14));
  EXPECT_TRUE(p.preempt_by_tier && p.enforce_associations && p.enforce_qos && p.enforce_safe && p.favor_small);
  EXPECT_EQ(p.preempt_mode, PreemptMode::kSuspend);
  EXPECT_TRUE(some->report.is_whole()) << report_text(some->report, {});

  const auto basic = import("PriorityType=priority/basic\nPriorityWeightAge=100\n");
  EXPECT_EQ(basic->file.policy->weight_age, 0u);
  EXPECT_TRUE(is_noted(*basic, "no weight counts, in Slurm neither"));
}

TEST(ImportPolicy, ATimeOfNothingIsNone) {
  const auto imported = import(
      "PreemptExemptTime=00:00:00\nNodeName=n1\nPartitionName=p Nodes=n1 GraceTime=00:00:00\n"
      "PartitionName=q Nodes=n1 GraceTime=00:02:00\nPartitionName=r Nodes=n1 GraceTime=x\n");
  EXPECT_EQ(imported->file.policy->preempt_exempt, Duration{});
  EXPECT_EQ(imported->file.partitions.at(0).grace, Duration{});
  EXPECT_EQ(imported->file.partitions.at(1).grace, minutes(2));
  EXPECT_EQ(said(*imported, "GraceTime", "x"), "unknown: no value of it: a number of seconds is meant");
}

TEST(ImportPolicy, ModesThatAreNotThereAreTold) {
  EXPECT_EQ(said("PreemptMode=GANG"), "no equal: jobs do not take turns on the same cores (GANG); the rest is taken");
  EXPECT_EQ(said("PreemptMode=REQUEUE,WITHIN"),
            "no equal: jobs of one QOS do not preempt each other (WITHIN); the rest is taken");
  EXPECT_EQ(said("PreemptMode=wat"),
            "unknown: no value of it: \"wat\" is none of off, cancel, requeue, suspend, gang, within");
  EXPECT_EQ(
      said("AccountingStorageEnforce=limits,nosteps"),
      "no equal: nosteps has no equal: jobs and steps are always recorded, WCKeys are not enforced; the rest is taken");
}

TEST(ImportLicences, TheLastLineCounts) {
  const auto imported = import("Licenses=old:3\nLicenses=matlab:50;ansys:2@flex1,idl\n");
  ASSERT_EQ(imported->file.licences.size(), 2u);
  EXPECT_EQ(imported->file.licences[0].meta.name, "idl");
  EXPECT_EQ(imported->file.licences[0].total, 1);
  EXPECT_EQ(imported->file.licences[1].total, 50);
  EXPECT_EQ(said(*imported, "Licenses", "matlab:50;ansys:2@flex1,idl"),
            "no equal: licences of a server (ansys:2@flex1) are not asked for there: count them with `sacctmgr add "
            "resource`");
  EXPECT_TRUE(is_noted(*imported, "slurm.conf:2: Licenses is there already, in line 1: the later one counts"));
}

TEST(ImportReport, EverySettingHasItsVerdict) {
  const auto imported = import(
      "ClusterName=x "
      "KillWait=30\nKillWait=60\nSchedulerParameters=bf_window=10,defer,nonsense,max_rpc_cnt=1\nPrologFlags=NONE\n"
      "PriorityWeightAge=abc\nSuspendTme=3\nFrobnicate=1\nNodeName=n1 Featur=x Weight=-3\n");
  ASSERT_TRUE(imported) << imported.error().message;
  std::string out;
  for (const ReportEntry& e : imported->report.entries)
    out += format("{}:{} {} {}={}\n", e.line, e.column, verdict_text(e.verdict), e.key, e.value);
  EXPECT_EQ(out,
            "1:1 same ClusterName=x\n1:15 taken KillWait=30\n2:1 no equal KillWait=60\n"
            "3:1 same SchedulerParameters=bf_window=10\n3:1 same SchedulerParameters=defer\n"
            "3:1 unknown SchedulerParameters=nonsense\n3:1 same SchedulerParameters=max_rpc_cnt=1\n4:1 taken "
            "PrologFlags=NONE\n"
            "5:1 unknown PriorityWeightAge=abc\n6:1 unknown SuspendTme=3\n7:1 unknown Frobnicate=1\n"
            "8:1 taken NodeName=n1\n8:13 unknown Featur=x\n8:22 unknown Weight=-3\n");
  EXPECT_EQ(said(*imported, "SuspendTme"), "unknown: Slurm has no such parameter: is SuspendTime meant?");
  EXPECT_EQ(said(*imported, "Frobnicate"), "unknown: Slurm has no such parameter in slurm.conf");
  EXPECT_EQ(said(*imported, "Featur"), "unknown: Slurm has no such parameter: is Feature meant?");
  EXPECT_EQ(said(*imported, "Weight"), "unknown: no value of it: a number up to 1000000 is meant");
  EXPECT_EQ(report_summary(imported->report), "14 settings: 3 taken, 4 the same by nature, 1 without equal, 6 unknown");
  EXPECT_FALSE(imported->report.is_whole());
}

TEST(ImportReport, AnIncludeIsASettingToo) {
  const auto imported =
      import(Files{{"slurm.conf", "Include nodes.conf\nInclude=x\n"}, {"nodes.conf", "NodeName=n1\n"}});
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(said(*imported, "Include", "nodes.conf"), "taken: the file is read in its place");
  EXPECT_EQ(said(*imported, "Include", "x").substr(0, 8), "unknown:");
  EXPECT_EQ(said(*imported, "NodeName"), "taken: the nodes of a class");
}

TEST(ImportReport, OfSeveralControllersOneIsLeft) {
  const auto imported = import("SlurmctldHost=a\nSlurmctldHost=b\n");
  EXPECT_EQ(said(*imported, "SlurmctldHost", "a"), "same: nodes learn the controller's address when they join");
  EXPECT_EQ(said(*imported, "SlurmctldHost", "b").substr(0, 9), "no equal:");
  EXPECT_FALSE(is_noted(*imported, "is there already"));
}

TEST(ImportReport, FitsAHundredColumns) {
  const auto imported = import("ClusterName=" + std::string(300, 'x') +
                               "\nProlog=/a\nNodeName=n1 Gres=gpu:1,nic:" + std::string(200, '9') + "\n");
  for (const std::string& line : split(report_text(imported->report, {}), '\n'))
    EXPECT_LE(line.size(), 300u) << line;  // a word that is longer than the page is not broken
  for (const std::string& line : split(report_text(import("Prolog=/a\nTaskPlugin=task/cgroup\n")->report, {}), '\n'))
    EXPECT_LE(line.size(), 100u) << line;
}

TEST(ImportFiles, WhatIsNoSlurmConfIsToldSo) {
  EXPECT_EQ(refusal(""), "slurm.conf: there is no setting in it: is this a slurm.conf?");
  EXPECT_EQ(refusal("# only remarks\n"), "slurm.conf: there is no setting in it: is this a slurm.conf?");
  EXPECT_EQ(refusal("user=me\npassword=x\n"),
            "slurm.conf: none of its 2 settings is one of Slurm's: is this a slurm.conf?");
  EXPECT_EQ(refusal("node_classes:\n- name: n\n"),
            "slurm.conf:1:1: \"node_classes:\" is not KEY=VALUE, as every word of such a file is");
  EXPECT_EQ(refusal(Files{}), "slurm.conf is not there");
}

TEST(ImportTopology, IsReadWhereSlurmReadsIt) {
  const std::string nodes = "NodeName=n[1-4]\n",
                    tree =
                        "SwitchName=a Nodes=n[1-2] LinkSpeed=3\nSwitchName=b Nodes=n[3-4]\nSwitchName=s Switches=a,b\n";
  const auto taken = import(Files{{"slurm.conf", "TopologyPlugin=topology/tree\n" + nodes}, {"topology.conf", tree}});
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->file.topology->leaves.size(), 2u);
  EXPECT_EQ(said(*taken, "LinkSpeed"), "no equal: no part of a placement, in Slurm neither");
  const auto left = import(Files{{"slurm.conf", nodes}, {"topology.conf", tree}});
  EXPECT_FALSE(left->file.topology);
  EXPECT_TRUE(is_noted(*left, "topology.conf is not read: TopologyPlugin is neither tree nor block"));
  EXPECT_TRUE(is_noted(*import("TopologyPlugin=topology/block\n" + nodes), "there is no topology.conf"));
  EXPECT_EQ(refusal(Files{{"slurm.conf", "TopologyPlugin=topology/tree\n" + nodes},
                          {"topology.conf", "SwitchName=a Switches=a\n"}}),
            "topology.conf:1: a cycle: a hangs on a");
}

TEST(ImportTopology, WhatSlurmAloneTakesIsNoted) {
  const auto imported = import(Files{{"slurm.conf", "TopologyPlugin=topology/tree\nNodeName=n[1-3]\n"},
                                     {"topology.conf",
                                      "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=t Switches=a,b\n"
                                      "SwitchName=iso Nodes=n3\n"}});
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_FALSE(imported->file.topology);
  EXPECT_TRUE(is_noted(*imported, "no topology is taken over: topology.conf:4"));
}

TEST(ImportAccounts, AccountsUsersAndQosWithTheirLimits) {
  const auto imported = import(Files{
      {"slurm.conf", "NodeName=n1\nPartitionName=gpu Nodes=n1\n"},
      {"dump",
       "# a remark\nQOS - 'High':Priority=10:MaxTRESPU='gres/gpu=4':MaxWall=1-00:00:00:Flags='DenyOnLimit,Relative'\n"
       "Cluster - 'c':Fairshare=1:QOS='normal'\nParent - 'root'\n"
       "User - 'root':AdminLevel='Administrator'\nAccount - 'Top':Description='a: b':Fairshare=3\n"
       "Parent - 'top'\nAccount - 'sub':GrpTRES='cpu=10,mem=5':MaxWallDuration=60\n"
       "Parent - 'sub'\nUser - 'ann':DefaultAccount='sub':Coordinator='top':Fairshare=parent\n"
       "User - 'ann':AdminLevel='Administrator':Partition='gpu':MaxJobs=2:MaxTRESRunMins=cpu=1:Bogus=1\n"}});
  ASSERT_TRUE(imported) << imported.error().message;
  const ClusterFile& file = imported->file;
  ASSERT_EQ(file.accounts.size(), 2u);
  EXPECT_EQ(file.accounts[0].meta.name, "top");
  EXPECT_EQ(file.accounts[0].description, "a: b");
  EXPECT_EQ(file.accounts[0].shares, 3u);
  EXPECT_EQ(file.accounts[0].qos, std::vector<std::string>{"normal"});
  EXPECT_EQ(file.accounts[0].coordinators, std::vector<std::string>{"ann"});
  EXPECT_EQ(file.accounts[1].parent, "top");
  EXPECT_TRUE(file.accounts[1].qos.empty());
  EXPECT_EQ(file.accounts[1].limits.grp_tres.cpu, 10);
  EXPECT_EQ(file.accounts[1].limits.max_wall_mins_per_job, 60);
  ASSERT_EQ(file.associations.size(), 2u);
  EXPECT_TRUE(file.associations[0].is_default);
  EXPECT_EQ(file.associations[0].shares, kParentShares);
  EXPECT_EQ(file.associations[1].meta.name, association_name("sub", "ann", "gpu"));
  EXPECT_EQ(file.associations[1].limits.max_jobs, 2);
  ASSERT_EQ(file.qos.size(), 2u);  // and "normal", which is only named
  EXPECT_EQ(file.qos[0].limits.max_tres_per_user.gpus, 4);
  EXPECT_EQ(file.qos[0].limits.max_wall_mins_per_job, 24 * 60);
  EXPECT_TRUE(file.qos[0].deny_on_limit);
  EXPECT_EQ(file.administrators, std::vector<std::string>{"ann"});
  EXPECT_EQ(said(*imported, "Flags"), "no equal: Relative has no equal; the rest is taken");
  EXPECT_EQ(said(*imported, "AdminLevel"), "same: root needs no account");
  EXPECT_EQ(said(*imported, "MaxTRESRunMins"),
            "no equal: minutes to come are bounded by GrpTRESRunMins of an account or a QOS only");
  EXPECT_EQ(said(*imported, "Bogus"), "unknown: sacctmgr has no such word, or one that came later");
}

TEST(ImportAccounts, AQosWithASignChangesWhatIsAbove) {
  const auto imported = import(Files{{"slurm.conf", "NodeName=n1\n"},
                                     {"dump",
                                      "Cluster - 'c':QOS='debug,normal'\nParent - 'root'\n"
                                      "Account - 'bio':QOS='+high'\nAccount - 'art'\nAccount - 'own':QOS='low'\n"
                                      "Parent - 'bio'\nAccount - 'lab'\n"
                                      "Parent - 'lab'\nUser - 'ann':QOS='-debug,+Long'\n"
                                      "Parent - 'art'\nUser - 'bob':QOS='-debug'\n"
                                      "Parent - 'own'\nUser - 'eve':QOS='-low'\n"}});
  ASSERT_TRUE(imported) << imported.error().message;
  const ClusterFile& file = imported->file;
  const std::vector<std::string> all{"debug", "high", "normal"}, anns{"high", "long", "normal"}, bobs{"normal"};
  EXPECT_EQ(file.accounts.at(0).qos, all);
  ASSERT_EQ(file.associations.size(), 3u);
  EXPECT_EQ(file.associations[0].qos, anns);
  EXPECT_EQ(file.associations[1].qos, bobs);
  EXPECT_EQ(said(*imported, "QOS").substr(0, 6), "taken:");
  std::vector<std::string> names;
  for (const Qos& qos : file.qos) names.push_back(qos.meta.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"debug", "high", "long", "low", "normal"}));
}

TEST(ImportAccounts, ALineOfManyColonsIsReadOnce) {
  std::string dump = "Account - 'a':GrpTRES=";
  for (int i = 0; i < 1'000'000; ++i) dump += "1:";  // quadratic, it would take minutes
  const auto imported = import(Files{{"slurm.conf", "NodeName=n1\n"}, {"dump", dump + "1\n"}});
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(said(*imported, "GrpTRES").substr(0, 8), "unknown:");
}

TEST(ImportAccounts, WhatADumpOfARealDatabaseHas) {
  const auto imported =
      import(Files{{"slurm.conf", "NodeName=n1\nPartitionName=p Nodes=n1\n"},
                   {"dump",
                    "Account - 'a':Description='it's':GrpTRES=cpu=8,gres/gpu:h100=4,fs/disk=5:MaxJobs=3\n"
                    "Parent - 'a'\nUser - 'ann':Coordinator='a,gone':DefaultQOS='high':QOS='low'\n"
                    "User - 'bob':Partition='gone'\n"}});
  ASSERT_TRUE(imported) << imported.error().message;
  const Account& a = imported->file.accounts.at(0);
  EXPECT_EQ(a.description, "it's");
  EXPECT_EQ(a.limits.grp_tres.cpu, 8);
  ASSERT_EQ(a.limits.grp_tres.others.size(), 1u);
  EXPECT_EQ(a.limits.grp_tres.others[0].count, 4);
  EXPECT_EQ(a.limits.max_jobs, 3);
  EXPECT_NE(said(*imported, "GrpTRES").find("fs/disk=5 has no equal; the rest is taken"), std::string::npos);
  EXPECT_EQ(said(*imported, "Coordinator"), "no equal: the dump has no account gone");
  ASSERT_EQ(imported->file.associations.size(), 1u);
  EXPECT_TRUE(is_noted(*imported, "users in partition gone are left out"));
  const std::vector<std::string> both{"high", "low"};
  EXPECT_EQ(imported->file.associations[0].qos, both);
  EXPECT_TRUE(is_noted(*imported, "the default QOS of a/ann (high) was not among those allowed, and is now"));
}

TEST(ImportAccounts, WhatIsNoDumpIsRefusedWithItsPlace) {
  const auto refused = [](const std::string& dump) {
    return refusal(Files{{"slurm.conf", "NodeName=n1\n"}, {"dump", dump}});
  };
  EXPECT_EQ(refused(""), "dump:1:1: nothing in it: is this what `sacctmgr dump CLUSTER file=...` wrote?");
  EXPECT_EQ(refused("NodeName=n1\n"),
            "dump:1:1: KIND - 'NAME' is meant: is this what `sacctmgr dump CLUSTER file=...` wrote?");
  EXPECT_EQ(refused("Robot - 'x'\n"), "dump:1:1: \"Robot\" is none of Cluster, Parent, Account, User, QOS");
  EXPECT_EQ(refused("\nParent - 'x'\n"), "dump:2:1: account x is in no line before this one");
  EXPECT_EQ(refused("Account - 'x'\nAccount - 'X'\n"), "dump:2:1: account x is there already, in line 1");
  EXPECT_EQ(refused("QOS - 'x'\nQOS - 'x'\n"), "dump:2:1: QOS x is there already, in line 1");
  EXPECT_EQ(refused("Account - 'x'\nParent - 'x'\nUser - 'a'\nUser - 'a'\n"),
            "dump:4:1: user a is in account x already");
  EXPECT_EQ(refused("Account - 'a b'\n"), "dump:1:1: \"a b\" is no name");
  EXPECT_EQ(refused("Account - ''\n"), "dump:1:1: \"\" is no name");
  EXPECT_EQ(refused("Account - 'x\n"), "dump:1:11: the quote is not closed");
  EXPECT_EQ(refused("Account - 'x'y\n"), "dump:1:11: the quote is not closed");
  EXPECT_EQ(refused("Account - 'x':Fairshare\n"), "dump:1:15: KEY=VALUE is meant here");
  EXPECT_EQ(refused(std::string("Account - 'x\0'\n", 15)),
            "dump:1:1: a control character (byte 0): this is no dump of sacctmgr");
}

TEST(ImportAccounts, QosMayComeFromATable) {
  const auto imported =
      import(Files{{"slurm.conf", "NodeName=n1\n"},
                   {"qos",
                    "Name|Priority|GraceTime|Preempt|Flags|MaxWall|MaxTRESPU|MaxTRESRunMinsPA|\n"
                    "normal|0|00:00:00|||||\nHigh|50|00:01:00|normal|DenyOnLimit|2-00:00:00|gres/gpu=4|cpu=9|\n"},
                   {"dump", "QOS - 'high':Priority=1\n"}});
  ASSERT_TRUE(imported) << imported.error().message;
  ASSERT_EQ(imported->file.qos.size(), 2u);
  EXPECT_EQ(imported->file.qos[0].grace, Duration{});
  const Qos& high = imported->file.qos[1];
  EXPECT_EQ(high.meta.name, "high");
  EXPECT_EQ(high.priority, 50u);
  EXPECT_EQ(high.grace, seconds(60));
  EXPECT_EQ(high.preempts, std::vector<std::string>{"normal"});
  EXPECT_TRUE(high.deny_on_limit);
  EXPECT_EQ(high.limits.max_wall_mins_per_job, 48 * 60);
  EXPECT_EQ(high.limits.max_tres_per_user.gpus, 4);
  EXPECT_EQ(said(*imported, "MaxTRESRunMinsPA").substr(0, 9), "no equal:");
  const auto refused = [](const std::string& table) {
    return refusal(Files{{"slurm.conf", "NodeName=n1\n"}, {"qos", table}});
  };
  EXPECT_EQ(refused(""),
            "qos:1:1: a line of names is meant, Name|Priority|...: is this what `sacctmgr -P show qos` printed?");
  EXPECT_EQ(refused("Name|Priority\nx|1|2|3\n"), "qos:2:1: 4 cells below 2 names");
  EXPECT_EQ(refused("Name\nx\nx\n"), "qos:3:1: QOS x is there already, in line 2");
}

// --- the tables ---

TEST(ConfKeys, EveryKeyHasAVerdictAndWhatIsTakenIsDone) {
  std::size_t keys = 0;
  for (const ConfTable* table : conf_tables()) {
    std::set<std::string> names;
    for (const ConfKey& key : table->keys) {
      ++keys;
      const std::string what = format("{}: {}", table->title, key.name);
      EXPECT_NE(key.verdict, Verdict::kUnknown) << what;
      EXPECT_TRUE(names.insert(lower(key.name)).second) << what << " is there twice";
      EXPECT_EQ(lower(key.ours), key.ours) << what;
      EXPECT_TRUE(key.verdict != Verdict::kTaken || key.take) << what << " is taken by nobody";
      EXPECT_TRUE(key.take || key.options || !key.words.empty()) << what << " says nothing";
      EXPECT_FALSE(key.words.ends_with('.')) << what;
      EXPECT_EQ(find_key(*table, lower(key.name)), &key) << what;
    }
  }
  EXPECT_GT(kClusterKeys.keys.size(), 230u);
  EXPECT_GT(keys, 450u);
}

// --- the guide ---

// What docs/importing.md holds between two remarks; with LOCKSTEP_UPDATE=1 in the environment it is written anew.
void expect_in_guide(const std::string& begin, const std::string& end, const std::string& text) {
  const std::string path = scenario_folder(LOCKSTEP_TESTDATA) + "/../../../../../docs/importing.md";
  const std::string before = scenario_text(path);
  const auto from = before.find(begin), to = before.find(end);
  ASSERT_NE(from, std::string::npos) << path;
  ASSERT_NE(to, std::string::npos) << path;
  const std::string now = before.substr(0, from + begin.size()) + text + before.substr(to);
  if (::getenv("LOCKSTEP_UPDATE") == nullptr)
    EXPECT_EQ(now, before) << path << " says something else than the code";
  else if (now != before)
    std::ofstream(path) << now;
}

TEST(Guide, HasAllParameters) {
  expect_in_guide("<!-- lockstep import --keys -->\n", "<!-- end of the table -->", keys_as_markdown());
}

TEST(Guide, ShowsWhatIsReallyPrinted) {
  const std::string conf = scenario_text(scenario_folder(LOCKSTEP_TESTDATA) + "/manual/slurm.conf");
  const auto imported = import(conf);
  ASSERT_TRUE(imported) << imported.error().message;
  expect_in_guide("<!-- lockstep import testdata/manual/slurm.conf -->\n", "<!-- end of the report -->",
                  "```\n" + report_text(imported->report, {.all = false, .width = 100}) + "```\n");
}

}  // namespace
}  // namespace lockstep::slurm
