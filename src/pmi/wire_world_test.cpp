#include "pmi/wire_world.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/text.h"
#include "pmi/testing.h"

namespace lockstep {
namespace {

struct WireWorldTest : ::testing::Test {
  std::vector<PmiMessage> ups;
  std::vector<std::string> heard;
  std::unique_ptr<WireWorld> world;

  WireWorld& make(const PmiWorld& of) {
    ups.clear();
    heard.assign(of.here().ranks.size(), {});
    world = std::make_unique<WireWorld>(
        of, [this](const PmiMessage& message) { ups.push_back(message); },
        [this](std::uint32_t local, std::string_view bytes) { heard[local] += bytes; });
    return *world;
  }
  std::string says(std::uint32_t local, std::string_view bytes) {
    world->rank_said(local, bytes);
    return std::exchange(heard[local], {});
  }
  // As a client of PMI-2 writes it.
  std::string says2(std::uint32_t local, std::string_view body) {
    const std::string answer = says(local, format("{:>6}{}", body.size(), body));
    if (answer.empty())
      return {};
    EXPECT_EQ(parse_uint(trim(answer.substr(0, 6))), answer.size() - 6) << answer;
    return answer.substr(6);
  }
  void begin2(std::uint32_t local, std::uint32_t rank) {
    EXPECT_EQ(says(local, "cmd=init pmi_version=2 pmi_subversion=0\n"),
              "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
    EXPECT_EQ(
        says2(local, format("cmd=fullinit;pmijobid=12.0;pmirank={};threaded=FALSE;", rank)),
        format("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank={};size={};appnum=0;debugged=FALSE;"
               "pmiverbose=FALSE;",
               rank, 4));
  }
  template <class T>
  T last() const {
    return std::get<T>(ups.back());
  }
};

TEST_F(WireWorldTest, VariablesOfEachTask) {
  const auto variables = make(world_with({{0, 1}, {2, 3}}, 1)).begin();
  ASSERT_TRUE(variables.ok());
  EXPECT_EQ(variables->common, (std::vector<std::string>{"PMI_FD=3", "PMI_JOBID=12.0", "PMI_SIZE=4"}));
  EXPECT_EQ(variables->by_local, (std::vector<std::vector<std::string>>{{"PMI_RANK=2"}, {"PMI_RANK=3"}}));
}

TEST_F(WireWorldTest, ARankOfPmi1) {
  make(world_with({{0, 1}, {2, 3}}));
  EXPECT_EQ(says(0, "cmd=init pmi_version=1 pmi_subversion=1\n"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  EXPECT_EQ(last<PmiJoined>(), PmiJoined{});
  EXPECT_EQ(says(0, "cmd=get_maxes\n"), "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  EXPECT_EQ(says(0, "cmd=get_appnum\n"), "cmd=appnum rc=0 appnum=0\n");
  EXPECT_EQ(says(0, "cmd=get_my_kvsname\n"), "cmd=my_kvsname rc=0 kvsname=12.0\n");
  EXPECT_EQ(says(0, "cmd=get_universe_size\n"), "cmd=universe_size rc=0 size=4\n");
  EXPECT_EQ(says(0, "cmd=get kvsname=12.0 key=PMI_process_mapping\n"),
            "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n");
  EXPECT_EQ(says(0, "cmd=put kvsname=12.0 key=card value=one two\n"), "cmd=put_result rc=0 info=ok msg=success\n");
  EXPECT_EQ(says(0, "cmd=get kvsname=12.0 key=card\n"), "cmd=get_result rc=0 msg=success value=one two\n");
  EXPECT_EQ(says(0, "cmd=get kvsname=12.0 key=other\n"), "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  EXPECT_EQ(says(0, "cmd=getbyidx kvsname=12.0 idx=0\n"), "cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n");
  EXPECT_EQ(says(0, "mcmd=spawn\nnprocs=2\nexecname=a\nendcmd\n"),
            "cmd=spawn_result rc=-1 info=notok msg=not_supported\n");
  EXPECT_EQ(says(0, "cmd=finalize\n"), "cmd=finalize_ack rc=0\n");
  world->rank_ended(0, {0, 0});
  EXPECT_EQ(ups.size(), 1u);
}

TEST_F(WireWorldTest, ABarrierOverNodesBringsWhatTheOthersSaid) {
  make(world_with({{0, 1}, {2, 3}}));
  for (std::uint32_t local : {0u, 1u}) says(local, "cmd=init pmi_version=1 pmi_subversion=1\n");
  says(0, "cmd=put kvsname=12.0 key=a value=1\n");
  EXPECT_EQ(says(0, "cmd=barrier_in\n"), "");
  EXPECT_EQ(ups.size(), 1u);
  EXPECT_EQ(says(1, "cmd=barrier_in\n"), "");
  const auto gather = last<PmiGather>();
  EXPECT_EQ(gather.key, "barrier 0");
  EXPECT_TRUE(gather.nodes.empty());

  PmiKeyValues other;
  other.put("b", "2");
  world->hear(PmiGathered{"barrier 1", {}});  // none of ours
  EXPECT_EQ(heard[0], "");
  world->hear(PmiGathered{"barrier 0", gather.data + other.take_said()});
  EXPECT_EQ(std::exchange(heard[0], {}), "cmd=barrier_out\n");
  EXPECT_EQ(std::exchange(heard[1], {}), "cmd=barrier_out\n");
  for (std::uint32_t local : {0u, 1u}) {
    EXPECT_EQ(says(local, "cmd=get kvsname=12.0 key=a\n"), "cmd=get_result rc=0 msg=success value=1\n");
    EXPECT_EQ(says(local, "cmd=get kvsname=12.0 key=b\n"), "cmd=get_result rc=0 msg=success value=2\n");
  }
  says(0, "cmd=barrier_in\n");
  says(1, "cmd=barrier_in\n");
  EXPECT_EQ(last<PmiGather>(), (PmiGather{"barrier 1", {}, ""}));  // what was told is not told again
}

TEST_F(WireWorldTest, OnOneNodeNobodyElseIsAsked) {
  make(world_with({{0, 1}}));
  for (std::uint32_t local : {0u, 1u}) says(local, "cmd=init pmi_version=1 pmi_subversion=1\n");
  says(0, "cmd=barrier_in\n");
  EXPECT_EQ(says(1, "cmd=barrier_in\n"), "cmd=barrier_out\n");
  EXPECT_EQ(heard[0], "cmd=barrier_out\n");
  EXPECT_EQ(ups.size(), 1u);
}

TEST_F(WireWorldTest, RanksOfPmi2) {
  make(world_with({{0, 1}, {2, 3}}));
  begin2(0, 0);
  begin2(1, 1);
  EXPECT_EQ(says2(0, "cmd=job-getid;thrid=7;"), "cmd=job-getid-response;thrid=7;rc=0;jobid=12.0;");
  EXPECT_EQ(says2(0, "cmd=kvs-put;key=a;value=x;;y=;;;"), "cmd=kvs-put-response;rc=0;");
  EXPECT_EQ(says2(0, "cmd=kvs-get;jobid=12.0;srcid=-1;key=a;"), "cmd=kvs-get-response;rc=0;found=TRUE;value=x;;y=;;;");
  EXPECT_EQ(says2(0, "cmd=kvs-get;jobid=12.0;srcid=-1;key=b;"), "cmd=kvs-get-response;rc=0;found=FALSE;");
  EXPECT_EQ(says2(1, "cmd=info-getjobattr;key=universeSize;"), "cmd=info-getjobattr-response;rc=0;found=TRUE;value=4;");
  EXPECT_EQ(says2(1, "cmd=info-getnodeattr;key=leader;wait=FALSE;"), "cmd=info-getnodeattr-response;rc=0;found=FALSE;");
  EXPECT_EQ(says2(1, "cmd=info-getnodeattr;thrid=3;key=leader;wait=TRUE;"), "");
  EXPECT_EQ(says2(0, "cmd=info-putnodeattr;key=leader;value=me;"), "cmd=info-putnodeattr-response;rc=0;");
  EXPECT_EQ(std::exchange(heard[1], {}), "    63cmd=info-getnodeattr-response;thrid=3;rc=0;found=TRUE;value=me;");
  EXPECT_EQ(says2(0, "cmd=spawn;ncmds=1;"), "cmd=spawn-response;rc=1;errmsg=not supported;");
  EXPECT_EQ(says2(0, "cmd=what;"), "cmd=what-response;rc=1;errmsg=not supported;");
  EXPECT_EQ(says2(0, "cmd=kvs-fence;thrid=9;"), "");
  says2(1, "cmd=kvs-fence;");
  world->hear(PmiGathered{"barrier 0", {}});
  EXPECT_EQ(std::exchange(heard[0], {}), "    36cmd=kvs-fence-response;thrid=9;rc=0;");
  EXPECT_EQ(std::exchange(heard[1], {}), "    28cmd=kvs-fence-response;rc=0;");
  EXPECT_EQ(says2(0, "cmd=finalize;"), "cmd=finalize-response;rc=0;");
}

TEST_F(WireWorldTest, NamesGoThroughTheClient) {
  make(world_with({{0, 1}, {2, 3}}));
  says(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
  begin2(1, 1);
  says(0, "cmd=publish_name service=s port=p\n");
  EXPECT_EQ(last<PmiName>(), (PmiName{PmiName::Do::kPublish, 1, "s", "p", false}));
  world->hear(PmiName{PmiName::Do::kAnswer, 1, "s", "", true});
  EXPECT_EQ(std::exchange(heard[0], {}), "cmd=publish_result rc=0 info=ok msg=success\n");
  says2(1, "cmd=name-lookup;name=s;");
  world->hear(PmiName{PmiName::Do::kAnswer, 2, "s", "p", true});
  EXPECT_EQ(std::exchange(heard[1], {}), "    56cmd=name-lookup-response;rc=0;found=TRUE;value=p;port=p;");
  world->hear(PmiName{PmiName::Do::kAnswer, 2, "s", "p", true});  // once
  EXPECT_EQ(heard[1], "");
  says(0, "cmd=lookup_name service=t\n");
  world->hear(PmiName{PmiName::Do::kAnswer, 3, "t", "", false});
  EXPECT_EQ(heard[0], "cmd=lookup_result rc=-1 info=notok msg=service_not_found\n");
}

TEST_F(WireWorldTest, BadEnds) {
  make(world_with({{0, 1}, {2, 3}}, 1));
  says(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
  says(0, "cmd=abort exitcode=3\n");
  EXPECT_EQ(last<PmiAbort>(), (PmiAbort{3, "task 2 on n2 called MPI_Abort (exit code 3)"}));
  const std::size_t told = ups.size();
  world->rank_ended(0, {3, 0});
  EXPECT_EQ(ups.size(), told);
  world->rank_ended(1, {0, 0});
  EXPECT_EQ(last<PmiLeft>(),
            (PmiLeft{1, "task 3 on n2 ended before it called MPI_Init, which the others wait for (exit code 0)"}));

  make(world_with({{0, 1}, {2, 3}}));
  says(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
  world->rank_ended(0, {0, 9});
  EXPECT_EQ(last<PmiAbort>(), (PmiAbort{137, "task 0 on n1 ended without MPI_Finalize (signal 9)"}));
  begin2(1, 1);
  says2(1, "cmd=abort;isworld=TRUE;msg=no;;more;");
  EXPECT_EQ(last<PmiAbort>(), (PmiAbort{1, "task 1 on n1 called MPI_Abort: no;more"}));
}

TEST_F(WireWorldTest, WhatIsNoPmiEndsTheWorld) {
  const auto why = [&](std::string_view bytes) {
    make(world_with({{0}}));
    world->rank_said(0, bytes);
    const auto* abort = ups.empty() ? nullptr : std::get_if<PmiAbort>(&ups.back());
    return abort ? abort->why : std::string("nothing");
  };
  EXPECT_EQ(why("GET / HTTP/1.1\n"), "task 0 on n1 speaks no PMI that is understood here: \"\"");
  EXPECT_EQ(why("cmd=dance\n"), "task 0 on n1 speaks no PMI that is understood here: \"dance\"");
  EXPECT_EQ(why(std::string(kPmiLineMax + 1, 'x')),
            "task 0 on n1 speaks no PMI that is understood here: a line of more than 65536 bytes");
  EXPECT_EQ(why("cmd=init pmi_version=2 pmi_subversion=0\nabcdefcmd=fullinit;"),
            "task 0 on n1 speaks no PMI that is understood here: a command without its length");
  EXPECT_EQ(why("cmd=init pmi_version=2 pmi_subversion=0\n999999cmd=fullinit;"),
            "task 0 on n1 speaks no PMI that is understood here: a command without its length");
  EXPECT_EQ(why("cmd=ini"), "nothing");
}

// Whatever a rank and the client say, in whatever pieces.
TEST_F(WireWorldTest, RandomWordsHurtNobody) {
  Rng rng(11);
  const std::vector<std::string> words = {"cmd=init pmi_version=1 pmi_subversion=1\n",
                                          "cmd=init pmi_version=2 pmi_subversion=0\n",
                                          "cmd=barrier_in\n",
                                          "cmd=put key=a value=b\n",
                                          "cmd=get key=a\n",
                                          "cmd=get\n",
                                          "cmd=finalize\n",
                                          "mcmd=spawn\n",
                                          "endcmd\n",
                                          "=\n",
                                          "\n",
                                          "cmd\n",
                                          "    13cmd=finalize;",
                                          "    15cmd=kvs-fence;;",
                                          "    28cmd=kvs-put;key=a;value=b;;;",
                                          "    14cmd=kvs-fence;",
                                          "    36cmd=info-getnodeattr;key=k;wait=TRUE;",
                                          "    31cmd=info-putnodeattr;key=k;x=1;",
                                          "     0",
                                          "     1;",
                                          "    30cmd=name-lookup;name=x;thrid=1",
                                          "cmd=abort exitcode=99999999999999999999\n"};
  for (int round = 0; round < 300; ++round) {
    make(world_with({{0, 1}, {2, 3}}));
    for (int i = 0; i < 60; ++i) {
      const auto local = static_cast<std::uint32_t>(rng.below(2));
      std::string bytes = words[rng.below(words.size())];
      if (rng.below(4) == 0)
        bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
      world->rank_said(local, bytes.substr(0, rng.below(8) == 0 ? rng.below(bytes.size()) : bytes.size()));
      if (rng.below(10) == 0)
        world->hear(PmiGathered{format("barrier {}", rng.below(3)),
                                std::string(rng.below(20), static_cast<char>(rng.below(4)))});
      if (rng.below(20) == 0)
        world->hear(PmiName{PmiName::Do::kAnswer, rng.below(4), "", "", true});
      if (rng.below(40) == 0)
        world->rank_ended(local, {0, 0});
    }
  }
}

}  // namespace
}  // namespace lockstep
