#include "frontends/slurm/client/sacct_fields.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

namespace lockstep::slurm {
namespace {

std::string listing(std::string_view format, std::string body, SacctLook look = {}) {
  const auto columns = parse_sacct_format(format);
  if (!columns)
    return "error: " + columns.error().message;
  const SacctAsk ask = sacct_ask(*columns);
  return write_sacct(*columns, Rows(std::move(body), ask.names.size()), look, ask.cell_of);
}

TEST(Sacct, DefaultTable) {
  EXPECT_EQ(listing("jobid,jobname,partition,account,alloccpus,state,exitcode",
                    "12\ttrain\tmain\tml\t8\tCANCELLED by 1000\t0:15\n12.batch\tbatch\t\tml\t8\tCOMPLETED\t0:0\n"),
            "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
            "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
            "12                train       main         ml          8 CANCELLED+     0:15 \n"
            "12.batch          batch                    ml          8  COMPLETED      0:0 \n");
}

TEST(Sacct, Parsable) {
  SacctLook look;
  look.parsable = true;
  EXPECT_EQ(listing("JobID,State,NodeList", "12_[5-9%3]\tPENDING\tNone assigned\n", look),
            "JobID|State|NodeList\n12_[5-9%3]|PENDING|None assigned\n");
  look.trailing = true;
  look.header = false;
  look.delimiter = ";;";
  EXPECT_EQ(listing("jobidraw,STATE", "12\tCANCELLED by 0\n", look), "12;;CANCELLED by 0;;\n");
}

TEST(Sacct, WidthsAndNames) {
  SacctLook look;
  look.header = false;
  EXPECT_EQ(listing("State%20,jobid%-6", "RUNNING\t1\n", look), "             RUNNING 1      \n");
  EXPECT_EQ(listing("JobIDR", "1\n", look), "1            \n");  // a beginning is enough
  EXPECT_EQ(listing("state%0", "RUNNING\n", look), " \n");
}

TEST(Sacct, TimesLimitsAndUnits) {
  setenv("TZ", "UTC", 1);
  tzset();
  SacctLook look;
  look.parsable = true;
  look.header = false;
  EXPECT_EQ(listing("start,end,elapsed,timelimit,timelimitraw", "1700000000\t0\t61\t3600\n", look),
            "2023-11-14T22:13:20|Unknown|00:01:01|01:00:00|60\n");
  EXPECT_EQ(listing("timelimit,jobid,timelimitraw", "-1\t7\n", look), "UNLIMITED|7|UNLIMITED\n");
  EXPECT_EQ(listing("timelimitraw", "-2\n", look), "Partition_Limit\n");
  look.time_pattern = "%s";
  look.unit = 'G';
  EXPECT_EQ(listing("start,reqmem", "1700000000\t2560M\n", look), "1700000000|2.50G\n");
  look.unit = 'M';
  EXPECT_EQ(listing("maxrss,averss,avediskread", "10844K\t1024K\t0.25M\n", look), "10.59M|1M|0.25M\n");
}

TEST(Sacct, WidthsAreThoseOfATerminal) {
  SacctLook look;
  look.header = false;
  EXPECT_EQ(listing("jobname%6,jobname%4", "größe\n", look), " größe grö+ \n");
}

TEST(Sacct, EachColumnIsAskedForOnce) {
  EXPECT_EQ(sacct_ask(*parse_sacct_format("jobid,state,jobid,timelimit,timelimitraw")).names,
            (std::vector<std::string>{"jobid", "state", "timelimit"}));
  SacctLook look;
  look.parsable = true;
  EXPECT_EQ(listing("jobid,state,jobid", "7\tRUNNING\n", look), "JobID|State|JobID\n7|RUNNING|7\n");
}

TEST(Sacct, All) {
  const auto all = parse_sacct_format("ALL");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), sacct_fields().size());
  EXPECT_EQ(parse_sacct_format("alloc")->size(), 1u);
}

TEST(Sacct, HostileFormats) {
  EXPECT_EQ(listing("jobid,nonsense", ""), "error: Invalid field requested: \"nonsense\"");
  EXPECT_EQ(listing("jobid%x", ""), "error: Invalid width: \"jobid%x\"");
  EXPECT_EQ(listing("jobid%99999999", ""), "error: Invalid width: \"jobid%99999999\"");
  EXPECT_EQ(listing("%20", ""), "error: Invalid field requested: \"\"");
  EXPECT_EQ(listing("", ""), "error: No field requested");
  EXPECT_EQ(listing(",", ""), "error: No field requested");
}

TEST(Sacct, EmptyItemsAreSkipped) {
  const auto columns = parse_sacct_format(",jobid,,state%5,");
  ASSERT_TRUE(columns.ok());
  EXPECT_EQ(columns->size(), 2u);
}

}  // namespace
}  // namespace lockstep::slurm
