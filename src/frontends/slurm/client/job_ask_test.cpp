#include "frontends/slurm/client/job_ask.h"

#include <gtest/gtest.h>

#include <map>

#include "base/text.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/script.h"
#include "frontends/slurm/client/test_scripts.h"

namespace lockstep::slurm {
namespace {

Surroundings around() {
  Surroundings out;
  out.work_dir = "/home/ann";
  out.host_name = "login1";
  out.now = WallTime{1'700'000'000'000'000};
  out.read_file = [](const std::string& path) -> Result<std::string> {
    if (path == "/home/ann/./hosts")
      return std::string("n1\nn2\n");
    return not_found(path);
  };
  return out;
}

OptionSet options_of(SlurmCommand command, const std::string& line, std::map<std::string, std::string> variables = {}) {
  OptionSet options(command);
  auto words = split_words(line);
  words.insert(words.begin(), "command");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  EXPECT_TRUE(options
                  .read_environment([&](const char* name) -> const char* {
                    const auto found = variables.find(name);
                    return found == variables.end() ? nullptr : found->second.c_str();
                  })
                  .ok());
  const auto read = options.read_command_line(static_cast<int>(words.size()), argv.data());
  EXPECT_TRUE(read.ok()) << line << ": " << (read ? "" : read.error().message);
  return options;
}

std::string ask_text(const std::vector<DeviceAsk>& asks) {
  std::string out;
  for (const auto& ask : asks)
    out += format("{}{}{}:{}", out.empty() ? "" : ",", ask.kind, ask.type.empty() ? "" : ":" + ask.type, ask.count);
  return out;
}

// "tasks 4-4 nodes 2-2 per-node 2! cores 1 …" or the error.
std::string shape(const std::string& line) {
  std::vector<std::string> notes;
  const auto group = group_of(options_of(SlurmCommand::kSbatch, line), around(), notes);
  if (!group)
    return "error: " + group.error().message;
  std::string out = format("t{}-{} n{}-{}", group->tasks.min, group->tasks.max, group->nodes.min, group->nodes.max);
  if (group->tasks_per_node)
    out += format(" each{}{}", group->tasks_per_node, group->tasks_per_node_exact ? "!" : "");
  out += format(" c{}", group->per_task.cores);
  if (!group->per_node.devices.empty())
    out += " node=" + ask_text(group->per_node.devices);
  if (!group->per_task.devices.empty())
    out += " task=" + ask_text(group->per_task.devices);
  if (!group->per_job.empty())
    out += " job=" + ask_text(group->per_job);
  return out;
}

TEST(JobAsk, AMillionNamesAreReadInOneGo) {  // each looked for among all the others, this would take a day
  const auto line = [](std::string only, std::string exclude) {
    const auto choice = node_choice_of(
        options_of(SlurmCommand::kSbatch, "-w " + std::move(only) + " -x " + std::move(exclude)), around());
    return choice ? format("{} {}", choice->only.size(), choice->exclude.size()) : choice.error().message;
  };
  EXPECT_EQ(line("n[1-300000],n[1-300000]", "m[1-300000]"), "300000 300000");
  EXPECT_EQ(line("n[1-300000]", "n[300000-400000]"), "node n300000 is both in --nodelist and in --exclude");
}

TEST(JobAsk, TasksAndNodes) {
  EXPECT_EQ(shape(""), "t1-1 n0-0 c1");
  EXPECT_EQ(shape("-n 8"), "t8-8 n0-0 c1");
  EXPECT_EQ(shape("-N 4"), "t4-4 n4-4 c1");
  EXPECT_EQ(shape("-N 2-4"), "t2-4 n2-4 c1");
  EXPECT_EQ(shape("-N 4 --ntasks-per-node=8"), "t32-32 n4-4 each8! c1");
  EXPECT_EQ(shape("-N 2-4 --ntasks-per-node=8"), "t16-32 n2-4 each8! c1");
  EXPECT_EQ(shape("--ntasks-per-node=8"), "t8-8 n1-1 each8! c1");
  EXPECT_EQ(shape("-n 5 -N 3 --ntasks-per-node=2"), "t5-5 n3-3 each2 c1");
  EXPECT_EQ(shape("-n 5 --ntasks-per-node=2"), "t5-5 n3-3 each2 c1");
  EXPECT_EQ(shape("-n 2 -N 4"), "t2-2 n2-2 c1");
  EXPECT_EQ(shape("-N 4 --tasks-per-node=2 -c 4"), "t8-8 n4-4 each2! c4");
  EXPECT_EQ(shape("-w n[1-3]"), "t3-3 n3-3 c1");
  EXPECT_EQ(shape("-F ./hosts"), "t2-2 n2-2 c1");
  EXPECT_EQ(shape("-w n1 -N 2"), "t2-2 n2-2 c1");
}

TEST(JobAsk, Gpus) {
  EXPECT_EQ(shape("--gres=gpu:4"), "t1-1 n0-0 c1 node=gpu:4");
  EXPECT_EQ(shape("-N2 --gpus-per-node=h100:8"), "t2-2 n2-2 c1 node=gpu:h100:8");
  EXPECT_EQ(shape("--gres=gpu:8 --gpus-per-node=8"), "t1-1 n0-0 c1 node=gpu:8");
  EXPECT_EQ(shape("-G 16"), "t1-1 n0-0 c1 job=gpu:16");
  EXPECT_EQ(shape("-G 16 --gpus-per-node=8"), "t2-2 n2-2 c1 node=gpu:8");
  EXPECT_EQ(shape("-n 4 --gpus-per-task=1"), "t4-4 n0-0 c1 task=gpu:1");
  EXPECT_EQ(shape("-G 8 --gpus-per-task=2"), "t4-4 n0-0 c1 task=gpu:2");
  EXPECT_EQ(shape("-G 8 --ntasks-per-gpu=2"), "t16-16 n0-0 c1 job=gpu:8");
  EXPECT_EQ(shape("-n 8 --ntasks-per-gpu=4"), "t8-8 n0-0 c1 job=gpu:2");
  EXPECT_EQ(shape("-N 2 --gpus-per-node=4 --ntasks-per-gpu=1"), "t8-8 n2-2 each4 c1 node=gpu:4");
  EXPECT_EQ(shape("-n 12 --ntasks-per-gpu=1"), "t12-12 n0-0 c1 task=gpu:1") << "tasks are where their GPUs are";
  EXPECT_EQ(shape("-G h100:4 --ntasks-per-gpu=1"), "t4-4 n0-0 c1 task=gpu:h100:1");
  EXPECT_EQ(shape("-G 4 --cpus-per-gpu=6"), "t1-1 n0-0 c0 job=gpu:4");
  EXPECT_EQ(shape("-n2 --tres-per-task=cpu:4,gres/gpu:1"), "t2-2 n0-0 c4 task=gpu:1");
}

TEST(JobAsk, ANodeForEveryTask) {
  EXPECT_EQ(shape("-m arbitrary -w n2,n1,n2"), "t3-3 n2-2 c1");
  EXPECT_EQ(shape("-m arbitrary -w n2,n1,n2 -n2"), "t2-2 n2-2 c1");
  EXPECT_EQ(shape("-m arbitrary -w n2,n1,n2 -n4").substr(0, 64),
            "error: Asked for 4 tasks have 3 in the nodelist.  Check your nod");
  EXPECT_EQ(shape("-m arbitrary"),
            "error: With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option");
  std::vector<std::string> notes;
  const auto request = job_request({options_of(SlurmCommand::kSalloc, "-m arbitrary -w n2,n[1-2]")}, around(), notes);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->spec.groups[0].only_nodes, (std::vector<std::string>{"n2", "n1"}));
  EXPECT_NE(std::find(request->spec.options.begin(), request->spec.options.end(),
                      std::pair<std::string, std::string>{"nodelist", "n2,n1,n2"}),
            request->spec.options.end());
}

TEST(JobAsk, AHostfileNamesTheNodeOfEveryTask) {
  const auto with = [](const std::string& line, std::map<std::string, std::string> variables) {
    OptionSet options = options_of(SlurmCommand::kSrun, line, variables);
    const auto done = place_by_hostfile(options, around(), [&](const char* name) -> const char* {
      const auto at = variables.find(name);
      return at == variables.end() ? nullptr : at->second.c_str();
    });
    if (!done)
      return "error: " + done.error().message;
    return options.text("nodelist") + " " + options.text("distribution") + " " + options.text("ntasks");
  };
  EXPECT_EQ(with("", {{"SLURM_HOSTFILE", "hosts"}}), "n1,n2 arbitrary 2");
  EXPECT_EQ(with("-n1", {{"SLURM_HOSTFILE", "./hosts"}}), "n1,n2 arbitrary 1");
  EXPECT_EQ(with("-w n3", {{"SLURM_HOSTFILE", "./hosts"}}), "n3  ");
  EXPECT_EQ(with("", {{"SLURM_DISTRIBUTION", "arbitrary"}, {"SLURM_ARBITRARY_NODELIST", "n2,n1,n2"}}),
            "n2,n1,n2 arbitrary 3");
  EXPECT_EQ(with("-m block", {{"SLURM_DISTRIBUTION", "arbitrary"}, {"SLURM_ARBITRARY_NODELIST", "n2,n1,n2"}}),
            " block ");
  EXPECT_EQ(with("", {{"SLURM_HOSTFILE", "nofile"}}).substr(0, 48), "error: Failure getting NodeNames from hostfile: ");
}

// What Debian's Slurm 22.05 gave on nodes of 8 GPUs, as nodes, tasks and GPUs of each node.
TEST(JobAsk, WhatIsAskedForTwiceIsTheSame) {
  EXPECT_EQ(shape("--gres=gpu:4 --gpus-per-task=1 -n4"), "t4-4 n1-1 each4 c1 node=gpu:4");
  EXPECT_EQ(shape("--gres=gpu:8 --ntasks-per-node=8 --gpus-per-task=1"), "t8-8 n1-1 each8! c1 node=gpu:8");
  EXPECT_EQ(shape("--gres=gpu:4 --gpus-per-task=2 -n4"), "t4-4 n2-2 each2 c1 node=gpu:4");
  EXPECT_EQ(shape("--gres=gpu:4 --gpus-per-task=1 -n8"), "t8-8 n2-2 each4 c1 node=gpu:4");
  EXPECT_EQ(shape("--gres=gpu:4 --gpus-per-task=1 -N2 -n6"), "t6-6 n2-2 each4 c1 node=gpu:4");
  EXPECT_EQ(shape("--gres=gpu:4 --tres-per-task=gres/gpu:1 -n4"), "t4-4 n1-1 each4 c1 node=gpu:4");
  EXPECT_EQ(shape("--gres=gpu:4 --gpus-per-node=2"), "t1-1 n0-0 c1 node=gpu:4");
  EXPECT_EQ(shape("--gres=gpu:2,gpu:3"), "t1-1 n0-0 c1 node=gpu:3");
  EXPECT_EQ(shape("--gpus=h100:2,h100:1"), "t1-1 n0-0 c1 job=gpu:h100:1");
  EXPECT_EQ(shape("--gpus=8 --gres=gpu:4"), "t2-2 n2-2 c1 node=gpu:4");
  EXPECT_EQ(shape("--gpus=8 --gres=gpu:4 -N2"), "t2-2 n2-2 c1 node=gpu:4");
  EXPECT_EQ(shape("--gpus=8 --gres=gpu:4 -N1-4"), "t2-2 n2-2 c1 node=gpu:4");
  EXPECT_EQ(shape("--gpus=4 --gres=gpu:4 --gpus-per-task=1"), "t4-4 n1-1 each4 c1 node=gpu:4");
  EXPECT_EQ(shape("--gpus=4 --gpus-per-task=1"), "t4-4 n0-0 c1 task=gpu:1");
  EXPECT_EQ(shape("--gpus=8 --gpus-per-node=4 --gpus-per-task=1"), "t8-8 n2-2 each4 c1 node=gpu:4");
  EXPECT_EQ(shape("--gpus=8 --gpus-per-node=4 --ntasks-per-node=4"), "t8-8 n2-2 each4! c1 node=gpu:4");
  EXPECT_EQ(shape("--gpus=8 --gpus-per-task=1 --ntasks-per-node=4"), "t8-8 n2-2 each4 c1 task=gpu:1");
  EXPECT_EQ(shape("--gpus-per-node=4 --gpus-per-task=1 --ntasks-per-node=4 -N2"), "t8-8 n2-2 each4! c1 node=gpu:4");
  EXPECT_EQ(shape("--gpus-per-node=h100:4 --gpus-per-task=h100:1 -n4"), "t4-4 n1-1 each4 c1 node=gpu:h100:4");
  EXPECT_EQ(shape("--ntasks-per-gpu=2 --gres=gpu:4"), "t8-8 n1-1 each8 c1 node=gpu:4");
  EXPECT_EQ(shape("--ntasks-per-gpu=1 -n4 --gres=gpu:2"), "t4-4 n2-2 each2 c1 node=gpu:2");
  EXPECT_EQ(shape("--gres=gpu:4 --gpus-per-task=1 -n4 --cpus-per-gpu=2"), "t4-4 n1-1 each4 c0 node=gpu:4");
  EXPECT_EQ(shape("--gres=gpu:4 --gpus-per-task=1"), "t4-4 n1-1 each4! c1 node=gpu:4") << "Slurm wants -n as well";
}

TEST(JobAsk, TheStrongerOriginSpeaksForTheGpusOfANode) {
  OptionSet options = options_of(SlurmCommand::kSbatch, "--gpus-per-node=8");
  ASSERT_TRUE(options.read_directive({"--gres=gpu:4,nic:1"}, 5).ok());
  std::vector<std::string> notes;
  const auto group = group_of(options, around(), notes);
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(ask_text(group->per_node.devices), "nic:1,gpu:8");
}

TEST(JobAsk, Contradictions) {
  for (const char* line : {"-N 0",
                           "-N x",
                           "-N 4-2",
                           "-n 0",
                           "-n -1",
                           "-n 1x",
                           "-c 0",
                           "-N 1 -n 9 --ntasks-per-node=4",
                           "--gres=gpu:",
                           "--gres=gpu:4 --gpus-per-task=3 -n1",
                           "--gres=gpu:2 --gpus-per-task=4 -n1",
                           "--gres=gpu:4 --gpus-per-task=1 -n8 -N1",
                           "--gres=gpu:h100:4 --gpus-per-task=1 -n4",
                           "--gpus-per-node=4 --gpus-per-task=h100:1 -n4",
                           "--gpus=8 --gres=gpu:4 -N1",
                           "--gpus=8 --gres=gpu:3",
                           "--gpus=4 --gres=gpu:8",
                           "--gpus=4 --gpus-per-task=1 -n2",
                           "--gpus-per-node=4 --gpus-per-task=1 --ntasks-per-node=2 -N2",
                           "--ntasks-per-gpu=1 --gpus-per-task=1 -n4",
                           "--ntasks-per-gpu=1 --ntasks-per-node=4 --gres=gpu:4",
                           "-N 4 -G 2",
                           "-G 7 --gpus-per-task=2",
                           "-n 3 -G 8 --gpus-per-task=2",
                           "--cpus-per-gpu=4",
                           "--cpus-per-gpu=4 -G1 -c 2",
                           "--mem=lots",
                           "--mem-per-cpu=-1",
                           "-w n1 -x n1",
                           "-w n[1-3] -N 2",
                           "-w n[1-",
                           "--exclusive=maybe",
                           "--hint=purple",
                           "--threads-per-core=0",
                           "-m plane",
                           "-m plane=0",
                           "-m round",
                           "-N 2000000000 --ntasks-per-node=2000000000",
                           "--ntasks-per-gpu=2",
                           "--tmp=x",
                           "--constraint=",
                           "-F ./nothing",
                           "--gpu-bind=map_gpu",
                           "--gpu-bind=bogus",
                           "--gres=shard:8 --gpus=1",
                           "--gres=mps:50 --gpus-per-node=1",
                           "--gres=gres/mps:50 --gpus-per-task=1",
                           "--gpu-bind=verbose",
                           "--gpu-bind=",
                           "--gpu-bind=single:0",
                           "--gpu-bind=per_task:",
                           "--gpu-bind=map_gpu:",
                           "--gpu-bind=map_gpu:1,",
                           "--gpu-bind=map_gpu:64",
                           "--gpu-bind=map_gpu:1*0",
                           "--gpu-bind=mask_gpu:zz",
                           "--gpu-bind=mask_gpu:0x0",
                           "--gpu-bind=mask_gpu:0x1*2x",
                           "--gres-flags=enforce-binding"})
    EXPECT_EQ(shape(line).substr(0, 6), "error:") << line << " gave " << shape(line);
}

TEST(JobAsk, WhatStrangersScriptsSayIsTaken) {
  EXPECT_EQ(shape("--gpu-bind=map_gpu:0,1 -n2"), shape("-n2"));
  EXPECT_EQ(shape("--gpu-bind=map_gpu:0x1*2,3 -n2"), shape("-n2"));
  EXPECT_EQ(shape("--gpu-bind=verbose,mask_gpu:0x1 -n2"), shape("-n2"));
  EXPECT_EQ(shape("--gpu-bind=bogus"), "error: Invalid --gpu-bind argument: bogus");
  for (const char* line : {"--core-spec=1", "-S 1", "--thread-spec=1", "--ntasks-per-socket=2", "--hint=multithread",
                           "--hint=memory_bound"}) {
    std::vector<std::string> notes;
    const OptionSet options = options_of(SlurmCommand::kSbatch, line);
    EXPECT_TRUE(group_of(options, around(), notes).ok()) << line;
    EXPECT_EQ(notes.size() + options.notes().size(), 1u) << line << " has no effect, which is said";
  }
  EXPECT_EQ(shape("-N 0-2"), shape("-N 1-2"));
  EXPECT_EQ(shape("-N 0"), "error: \"0\" is not a valid node count: --nodes");
}

TEST(JobAsk, ErrorsNameTheScriptLine) {
  OptionSet options(SlurmCommand::kSbatch);
  ASSERT_TRUE(options.read_directive({"--mem=lots"}, 5).ok());
  std::vector<std::string> notes;
  const auto request = job_request({options}, around(), notes);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().message, "Invalid --mem (script line 5) specification \"lots\"");
}

TEST(JobAsk, MemoryAndSharing) {
  std::vector<std::string> notes;
  const auto group = [&](const std::string& line) {
    return *group_of(options_of(SlurmCommand::kSbatch, line), around(), notes);
  };
  EXPECT_EQ(group("--mem=16G").per_node.memory_mb, 16384);
  EXPECT_TRUE(group("--mem=0").all_memory);
  EXPECT_EQ(group("--mem-per-cpu=2g").memory_per_core_mb, 2048);
  EXPECT_EQ(group("--mem-per-gpu=64G -G1").memory_per_device_mb, 65536);
  EXPECT_EQ(group("--exclusive").sharing, Sharing::kExclusive);
  EXPECT_TRUE(group("--exclusive").all_cores);
  EXPECT_EQ(group("--exclusive=user").sharing, Sharing::kExclusiveUser);
  EXPECT_EQ(group("-C a100&nvlink").constraint, "a100&nvlink");
  EXPECT_TRUE(group("-O").overcommit);
}

TEST(JobAsk, Topology) {
  std::vector<std::string> notes;
  const auto group = [&](const std::string& line) {
    auto asked = group_of(options_of(SlurmCommand::kSbatch, line), around(), notes);
    return asked ? *asked : [&] {
      GroupSpec none;
      none.name = "refused: " + asked.error().message;
      return none;
    }();
  };
  EXPECT_EQ(group("--switches=2").switches_max, 2u);
  EXPECT_EQ(group("--switches=2").switches_wait, kForever);
  EXPECT_EQ(group("--switches=1@5").switches_wait, minutes(5));
  EXPECT_EQ(group("--switches=1@1:00:00").switches_wait, hours(1));
  EXPECT_EQ(group("--switches=1@0").switches_wait, Duration{});
  EXPECT_EQ(group("--switches=1 --wait-for-switch=2").switches_wait, minutes(2));
  EXPECT_EQ(group("-N4 --segment=2").segment, 2u);
  EXPECT_EQ(group("--topology=leaf").topology_level, "!leaf");
  EXPECT_EQ(group("--topology=block:preferred").topology_level, "block");
  for (const char* line : {"--switches=0", "--switches=x", "--switches=1@", "--switches=1@soon", "--switches=-1",
                           "--segment=0", "--topology=:preferred", "--topology=leaf:maybe", "--topology=!leaf"})
    EXPECT_TRUE(group(line).name.starts_with("refused: Invalid")) << line << ": " << group(line).name;
}

TEST(JobAsk, TheJobItself) {
  std::vector<std::string> notes;
  const auto request = job_request(
      {options_of(SlurmCommand::kSbatch,
                  "-J x -A proj -q high -p a,b -t 1-23:59:30 --time-min=60 -b now+1hour --deadline=now+1week "
                  "-d afterok:7:8 --kill-on-invalid-dep=no -H --nice=5 --no-requeue -k --signal=B:USR1@60 -D sub -o "
                  "none -e e.%j --open-mode=append --comment=c --licenses=m:2 -a 0-7%2")},
      around(), notes);
  ASSERT_TRUE(request.ok()) << request.error().message;
  const JobSpec& spec = request->spec;
  EXPECT_EQ(spec.front_end, "slurm");
  EXPECT_EQ(spec.partitions, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(spec.time_limit, hours(48));
  EXPECT_EQ(spec.time_min, hours(1));
  EXPECT_EQ(spec.begin.seconds(), 1'700'003'600);
  EXPECT_EQ(spec.dependencies.size(), 2u);
  EXPECT_FALSE(spec.kill_on_invalid_dependency);
  EXPECT_TRUE(spec.hold);
  EXPECT_EQ(spec.nice, 5);
  EXPECT_FALSE(spec.requeue);
  EXPECT_TRUE(spec.requeue_set);
  EXPECT_TRUE(spec.survive_node_loss);
  EXPECT_EQ(spec.signal_ahead, (SignalAhead{10, seconds(60), true}));
  EXPECT_EQ(spec.work_dir, "/home/ann/sub");
  EXPECT_EQ(spec.std_out, "/dev/null");
  EXPECT_EQ(spec.std_err, "e.%j");
  EXPECT_TRUE(spec.append);
  ASSERT_TRUE(request->array);
  EXPECT_EQ(request->array->throttle, 2u);
  EXPECT_TRUE(std::is_sorted(spec.options.begin(), spec.options.end()));
  EXPECT_NE(std::find(spec.options.begin(), spec.options.end(), std::pair<std::string, std::string>{"array", "0-7%2"}),
            spec.options.end());
}

TEST(JobAsk, EmptyItemsOfListsAreSkipped) {
  std::vector<std::string> notes;
  const auto request =
      job_request({options_of(SlurmCommand::kSbatch, "-p a,,b, -L m:2,,n, -a 1,,3, --gres=gpu:1,")}, around(), notes);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->spec.partitions, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->spec.licenses, "m:2,n");
  EXPECT_EQ(request->array->indices.text(), "1,3");
  EXPECT_EQ(request->spec.groups[0].per_node.devices.size(), 1u);
}

TEST(JobAsk, RefusedJobs) {
  for (const char* line : {"--time=soon", "--time=10 --time-min=20", "--begin=yesterdayish", "--deadline=now-1hour",
                           "--dependency=afterok:x", "--nice=9999999999", "--signal=FOO", "--open-mode=sideways",
                           "--array=5-1", "--licenses=:1", "-p ,", "--priority=-3", "--kill-on-invalid-dep=perhaps"}) {
    std::vector<std::string> notes;
    EXPECT_FALSE(job_request({options_of(SlurmCommand::kSbatch, line)}, around(), notes).ok()) << line;
  }
}

TEST(JobAsk, HetJobsHaveOneGroupForEachComponent) {
  std::vector<std::string> notes;
  const auto request = job_request({options_of(SlurmCommand::kSalloc, "-N1 -p gpu --gpus-per-node=8"),
                                    options_of(SlurmCommand::kSalloc, "-N2 -c 4")},
                                   around(), notes);
  ASSERT_TRUE(request.ok());
  ASSERT_EQ(request->spec.groups.size(), 2u);
  EXPECT_EQ(request->spec.groups[1].nodes.min, 2u);
  EXPECT_NE(std::find(request->spec.options.begin(), request->spec.options.end(),
                      std::pair<std::string, std::string>{"het-1/nodes", "2"}),
            request->spec.options.end());
  EXPECT_FALSE(job_request({options_of(SlurmCommand::kSalloc, "-p a"), options_of(SlurmCommand::kSalloc, "-p b")},
                           around(), notes)
                   .ok());
}

TEST(JobAsk, RealScriptsBecomeRequests) {
  for (const auto& script : kTestScripts) {
    const auto read = read_directives(script.text);
    ASSERT_TRUE(read.ok()) << script.name;
    std::vector<OptionSet> components;
    for (const auto& component : read->components) {
      OptionSet options(SlurmCommand::kSbatch);
      for (const auto& directive : component) {
        const auto taken = options.read_directive(directive.words, directive.line);
        ASSERT_TRUE(taken.ok()) << script.name << ": " << taken.error().message;
      }
      components.push_back(std::move(options));
    }
    std::vector<std::string> notes;
    const auto request = job_request(components, around(), notes);
    ASSERT_TRUE(request.ok()) << script.name << ": " << request.error().message;
    const auto back = decode_submit(encode(*request));
    ASSERT_TRUE(back.ok()) << script.name << ": " << back.error().message;
    EXPECT_EQ(back->spec.groups, request->spec.groups) << script.name;
  }
}

StepSpec step(const std::string& line, std::map<std::string, std::string> variables = {}) {
  std::vector<std::string> notes;
  auto spec = step_of(options_of(SlurmCommand::kSrun, line, std::move(variables)), around(), notes);
  EXPECT_TRUE(spec.ok()) << line << ": " << (spec ? "" : spec.error().message);
  return spec ? *spec : StepSpec{};
}

TEST(StepAsk, PlainSrunTakesWhatTheJobHas) {
  const StepSpec plain =
      step("", {{"SLURM_JOB_ID", "1"}, {"SLURM_NNODES", "4"}, {"SLURM_NTASKS", "32"}, {"SLURM_NTASKS_PER_NODE", "8"}});
  EXPECT_EQ(plain.tasks, 32u);
  EXPECT_EQ(plain.nodes.min, 4u);
  EXPECT_TRUE(plain.whole);
  EXPECT_FALSE(plain.exact);
}

TEST(StepAsk, OneTaskOfALargeJob) {
  const std::map<std::string, std::string> job = {
      {"SLURM_JOB_ID", "1"}, {"SLURM_NNODES", "4"}, {"SLURM_NTASKS", "32"}, {"SLURM_NTASKS_PER_NODE", "8"}};
  const StepSpec one = step("-n 1", job);
  EXPECT_EQ(one.tasks, 1u);
  EXPECT_LE(one.nodes.min, 1u);
  const StepSpec on_node = step("--nodes=1 --ntasks=1 -w n3 --overlap", job);
  EXPECT_EQ(on_node.only_nodes, (std::vector<std::string>{"n3"}));
  EXPECT_EQ(on_node.nodes.max, 1u);
  EXPECT_TRUE(on_node.overlap);
  const StepSpec one_each = step("--ntasks-per-node=1", job);
  EXPECT_EQ(one_each.tasks, 4u);
  EXPECT_EQ(one_each.tasks_per_node, 1u);
}

TEST(StepAsk, OwnCoresMakeItExact) {
  EXPECT_TRUE(step("-n 2 -c 4").exact);
  EXPECT_TRUE(step("--exact").exact);
  EXPECT_FALSE(step("-c 4 --whole").exact);
  EXPECT_EQ(step("-n 2 -c 4").cores_per_task, 4u);
}

TEST(StepAsk, Devices) {
  EXPECT_EQ(ask_text(step("--gres=gpu:2", {{"SLURM_GPUS_PER_NODE", "8"}}).devices_per_node), "gpu:2");
  EXPECT_EQ(ask_text(step("--gpus-per-task=1 -n2").devices_per_task), "gpu:1");
  EXPECT_EQ(ask_text(step("--gpu-bind=per_task:1 -n2").devices_per_task), "gpu:1");
  EXPECT_EQ(step("--gpus=3").devices_total, 3u);
  EXPECT_TRUE(step("--gpus=3").devices_per_node.empty());
  EXPECT_EQ(step("--gpus=A100:3").devices_total, 3u);
  EXPECT_EQ(step("--gpus=A100:3").devices_per_node, (std::vector<DeviceAsk>{{"gpu", "a100", 0}}));
  EXPECT_EQ(ask_text(step("--gres=none").devices_per_node), "gpu:0");
}

TEST(StepAsk, WhatIsAskedForTwiceIsTheSame) {
  const auto gpus = [](const std::string& line, std::map<std::string, std::string> job) {
    const StepSpec spec = step(line, std::move(job));
    return format("t{} node={} task={} total={}", spec.tasks, ask_text(spec.devices_per_node),
                  ask_text(spec.devices_per_task), spec.devices_total);
  };
  const std::map<std::string, std::string> eight = {{"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "1"}};
  EXPECT_EQ(gpus("--gres=gpu:4 --gpus-per-task=1 -n4", eight), "t4 node= task=gpu:1 total=0");
  EXPECT_EQ(gpus("--gpus-per-node=8 --gpus-per-task=2 -n4", eight), "t4 node= task=gpu:2 total=0");
  EXPECT_EQ(gpus("--gpus=4 --gpus-per-task=1", eight), "t8 node= task=gpu:1 total=0");
  EXPECT_EQ(gpus("--gpus=4 --gpus-per-task=1 -n2", eight), "t2 node= task=gpu:1 total=0");
  EXPECT_EQ(gpus("--gpus=4 --gres=gpu:4", eight), "t8 node=gpu:4 task= total=0");
  EXPECT_EQ(gpus("--ntasks-per-gpu=1 -n4", eight), "t4 node= task=gpu:1 total=0");
  EXPECT_EQ(gpus("", {{"SLURM_NTASKS", "4"}, {"SLURM_GPUS_PER_NODE", "4"}, {"SLURM_GPUS_PER_TASK", "1"}}),
            "t4 node= task=gpu:1 total=0");
}

TEST(StepAsk, ItsOwnGpusReplaceThoseOfTheJobsVariables) {
  const std::map<std::string, std::string> whole = {{"SLURM_GPUS", "4"}, {"SLURM_NTASKS", "4"}};
  const std::map<std::string, std::string> each = {{"SLURM_GPUS_PER_NODE", "4"}, {"SLURM_NTASKS", "4"}};
  const std::map<std::string, std::string> per_task = {{"SLURM_GPUS_PER_TASK", "1"}, {"SLURM_NTASKS", "4"}};
  for (const auto& job : {whole, each, per_task}) {
    EXPECT_EQ(step("--gpus=1", job).devices_total, 1u);
    EXPECT_TRUE(step("--gpus=1", job).devices_per_node.empty() && step("--gpus=1", job).devices_per_task.empty());
    EXPECT_EQ(ask_text(step("--gpus-per-task=1 -n2", job).devices_per_task), "gpu:1");
    EXPECT_EQ(ask_text(step("--gpus-per-node=1", job).devices_per_node), "gpu:1");
    EXPECT_EQ(ask_text(step("--gres=gpu:1", job).devices_per_node), "gpu:1");
    EXPECT_EQ(ask_text(step("--gres=nic:1", job).devices_per_node), "nic:1");
    for (const char* none : {"--gres=none", "--gres=gpu:0", "--gpus=0", "--gpus-per-node=0", "--gpus-per-task=0"}) {
      const StepSpec spec = step(none, job);
      EXPECT_EQ(ask_text(spec.devices_per_node), "gpu:0") << none;
      EXPECT_TRUE(spec.devices_per_task.empty() && spec.devices_total == 0) << none;
    }
  }
  EXPECT_EQ(step("", whole).devices_total, 4u);
  EXPECT_EQ(ask_text(step("-n1", each).devices_per_node), "gpu:4");
  EXPECT_EQ(step("-c 4", {{"SLURM_TRES_PER_TASK", "cpu:2,gres/gpu:1"}}).cores_per_task, 4u);
  EXPECT_EQ(step("--tres-per-task=cpu:1", {{"SLURM_CPUS_PER_TASK", "2"}}).cores_per_task, 1u);
}

TEST(StepAsk, ANodeForEveryTask) {
  const StepSpec listed = step("-m arbitrary -w n2,n1,n2");
  EXPECT_EQ(listed.only_nodes, (std::vector<std::string>{"n2", "n1", "n2"}));
  EXPECT_EQ(listed.tasks, 3u);
  EXPECT_EQ(listed.distribution, "arbitrary");
  EXPECT_EQ(step("-m arbitrary -n2 -w n2,n1,n2").tasks, 2u);
  EXPECT_EQ(step("-m plane=2 -n4").distribution, "plane=2");
  std::vector<std::string> notes;
  for (const char* line : {"-m arbitrary", "-m arbitrary -n4 -w n2,n1,n2", "--gpu-bind=bogus", "--gpu-bind=map_gpu:"})
    EXPECT_FALSE(step_of(options_of(SlurmCommand::kSrun, line), around(), notes).ok()) << line;
}

TEST(StepAsk, TasksPerGpuShareIt) {
  const auto binding = [](const StepSpec& spec) -> std::string {
    for (const auto& [name, text] : spec.options)
      if (name == "gpu-bind")
        return text;
    return {};
  };
  const StepSpec shared = step("-n4 --ntasks-per-gpu=2", {{"SLURM_GPUS", "4"}});
  EXPECT_EQ(shared.devices_total, 2u);
  EXPECT_EQ(binding(shared), "single:2");
  EXPECT_EQ(binding(step("-n4", {{"SLURM_NTASKS_PER_GPU", "2"}, {"SLURM_GPUS", "2"}})), "single:2");
  EXPECT_EQ(binding(step("-n4 --ntasks-per-gpu=2 --gpu-bind=none")), "none");
  EXPECT_EQ(binding(step("-n4 --gpus-per-task=1", {{"SLURM_NTASKS_PER_GPU", "2"}})), "");
}

TEST(StepAsk, AccelBindIsAGpuBinding) {
  const auto binding = [](const std::string& line) -> std::string {
    std::vector<std::string> notes;
    const auto spec = step_of(options_of(SlurmCommand::kSrun, line), around(), notes);
    if (!spec)
      return spec.error().message;
    for (const auto& [name, text] : spec->options)
      if (name == "gpu-bind")
        return text;
    return {};
  };
  EXPECT_EQ(binding("--accel-bind=g"), "closest");
  EXPECT_EQ(binding("--accel-bind=gnv"), "closest");
  EXPECT_EQ(binding("--accel-bind=g --gpu-bind=single:1"), "single:1");
  EXPECT_EQ(binding("--accel-bind=v"), "");
  EXPECT_EQ(binding("--accel-bind=x"), "Invalid --accel-bind specification");
}

TEST(StepAsk, MemoryOfTheJobIsNotAsked) {
  EXPECT_EQ(step("", {{"SLURM_MEM_PER_NODE", "1000"}}).memory_mb, -1);
  EXPECT_EQ(step("--mem=0").memory_mb, -1);
  EXPECT_EQ(step("--mem=2G").memory_mb, 2048);
  EXPECT_EQ(step("--mem-per-cpu=500").memory_mb, 500);
  EXPECT_EQ(step("-n2 --mem-per-cpu=300", {{"SLURM_NNODES", "1"}}).memory_mb, 600);
  EXPECT_EQ(step("-n4 -N2 -c3 --mem-per-cpu=100").memory_mb, 600);
}

TEST(StepAsk, Rest) {
  const StepSpec s = step("-l -u -K -W 30 -r 1 -m cyclic -O --cpu-bind=none --open-mode=append -D /tmp");
  EXPECT_TRUE(s.label && s.unbuffered && s.kill_on_bad_exit && s.overcommit && s.append);
  EXPECT_EQ(s.wait_after_first, seconds(30));
  EXPECT_EQ(s.relative, 1u);
  EXPECT_EQ(s.distribution, "cyclic");
  EXPECT_EQ(s.work_dir, "/tmp");
  EXPECT_FALSE(step("--kill-on-bad-exit=0").kill_on_bad_exit);
  std::vector<std::string> notes;
  for (const char* bound : {"--cpu-bind=mask_cpu:0x3", "--cpu-bind=v,map_cpu:0,2,4", "--cpu-bind=cores",
                            "--mem-bind=map_mem:0,1", "--mem-bind=prefer,rank"}) {
    EXPECT_TRUE(step_of(options_of(SlurmCommand::kSrun, bound), around(), notes).ok());
    EXPECT_TRUE(notes.empty()) << bound;
  }
  for (const char* wish : {"--cpu-bind=boards", "--mem-bind=boards"}) {
    notes.clear();
    EXPECT_TRUE(step_of(options_of(SlurmCommand::kSrun, wish), around(), notes).ok());
    EXPECT_EQ(notes.size(), 1u) << wish;
  }
  for (const char* missing : {"--cpu-bind=mask_cpu", "--cpu-bind=mask_cpu:"})
    EXPECT_FALSE(step_of(options_of(SlurmCommand::kSrun, missing), around(), notes).ok()) << missing;
  for (const char* list : {"map_cpu:0,x", "map_cpu:1,", "mask_cpu:0xg", "mask_cpu:3,-1", "map_cpu:1*0", "map_cpu:1*",
                           "map_ldom:0x", "v,mask_ldom:0x1,sockets"})
    EXPECT_NE(step_of(options_of(SlurmCommand::kSrun, format("--cpu-bind={}", list).c_str()), around(), notes)
                  .error()
                  .message.find("Unable to satisfy cpu bind request"),
              std::string::npos)
        << list;
  for (const char* list : {"map_cpu:0,0x3,2*4", "mask_cpu:FF,0x3*2", "quiet,mask_cpu:0x1,0x10"})
    EXPECT_TRUE(step_of(options_of(SlurmCommand::kSrun, format("--cpu-bind={}", list).c_str()), around(), notes).ok())
        << list;
}

TEST(StepAsk, AComponentOfAHetJobHasItsOwnShape) {
  const std::map<std::string, std::string> job = {
      {"SLURM_JOB_ID", "1"}, {"SLURM_NNODES", "1"},        {"SLURM_NTASKS", "1"},  {"SLURM_NTASKS_PER_NODE", "1"},
      {"SLURM_GPUS", "3"},   {"SLURM_CPUS_PER_TASK", "7"}, {"SLURM_HET_SIZE", "2"}};
  const StepSpec other = step("--het-group=1", job);
  EXPECT_EQ(other.group, 1u);
  EXPECT_EQ(other.tasks, 0u) << "as its component was planned";
  EXPECT_EQ(other.nodes.max, 0u);
  EXPECT_EQ(other.devices_total, 0u);
  EXPECT_EQ(other.cores_per_task, 0u);
  EXPECT_EQ(step("--het-group=1 -n2", job).tasks, 2u);
  EXPECT_EQ(step("", job).tasks, 1u);
}

}  // namespace
}  // namespace lockstep::slurm
