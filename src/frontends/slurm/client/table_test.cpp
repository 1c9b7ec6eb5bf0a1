#include "frontends/slurm/client/table.h"

#include <gtest/gtest.h>

#include "frontends/slurm/client/sinfo_fields.h"
#include "frontends/slurm/client/squeue_fields.h"

namespace lockstep::slurm {
namespace {

std::string listing(std::string_view format, std::string body, bool header = true, bool long_form = false) {
  const auto layout =
      long_form ? parse_long_format(format, squeue_job_fields()) : parse_short_format(format, squeue_job_fields());
  if (!layout)
    return "error: " + layout.error().message;
  const TableAsk ask = ask_for(*layout);
  const Rows rows(std::move(body), ask.names.size());
  TableLook look;
  look.header = header;
  std::vector<std::uint32_t> order = sorted_rows(rows, {});
  return write_table(*layout, ask, rows, order, look);
}

TEST(ShortFormat, SqueuesDefault) {
  EXPECT_EQ(listing("%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R",
                    "12\tmain\ttrain-a-very-long-name\talice\tR\t3661\t4\tn[1-4]\n"),
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
            "                12      main train-a-    alice  R    1:01:01      4 n[1-4]\n");
}

TEST(ShortFormat, WidthsAndLiterals) {
  EXPECT_EQ(listing("%5i|%.5i|%-5i|%i", "12\n", false), "12   |   12|12   |12\n");
  EXPECT_EQ(listing("%10.3j.", "abcdef\n", false), "abc       .\n");
  EXPECT_EQ(listing("{\"id\": %A, \"state\": \"%T\"}", "12\tRUNNING\n", false),
            "{\"id\": 12, \"state\": \"RUNNING\"}\n");
  EXPECT_EQ(listing("%A,%T,%r", "12\tPENDING\tPriority\n", false), "12,PENDING,Priority\n");
  EXPECT_EQ(listing(" 100%% %i", "12\n", false), " 100% 12\n");
  EXPECT_EQ(listing("no fields", "", true), "no fields\n");
}

TEST(ShortFormat, WidthsAreThoseOfATerminal) {
  EXPECT_EQ(listing("%.5j|%5j|%-3j|%10.3j|", "größen\n", false), "größe|größe|grö|grö       |\n");
  EXPECT_EQ(listing("%.5j|%5j|%#j|", "訓練\n", false), " 訓練|訓練 |訓練|\n");
  EXPECT_EQ(listing("%.3j|", "訓練\n", false), " 訓|\n") << "half of a wide character cannot be shown";
}

TEST(ShortFormat, ColumnsAreAskedOnce) {
  const auto layout = parse_short_format("%i %t %i", squeue_job_fields()).value();
  EXPECT_EQ(ask_for(layout).names, (std::vector<std::string>{"jobarrayid", "statecompact"}));
}

TEST(ShortFormat, HostileText) {
  EXPECT_EQ(listing("%", ""), "error: Invalid job format specification: it ends after %");
  EXPECT_EQ(listing("%i %12", ""), "error: Invalid job format specification: it ends after %");
  EXPECT_EQ(listing("%@", ""), "error: Invalid job format specification: @");
  EXPECT_EQ(listing("%99999999999999999999i", "1\n", false).size(), kWidthMax + 1);
}

TEST(LongFormat, WidthsAndSuffixes) {
  EXPECT_EQ(listing("jobid:6,partition:.8,name", "12\tmain\ttrain\n", true, true),
            "JOBID PARTITIO"
            "NAME                \n"
            "12        main"
            "train               \n");
  EXPECT_EQ(listing("JobID:|,tres-alloc:100|,UserName: ", "12\tcpu=1\talice\n", false, true).substr(0, 9), "12|cpu=1 ");
  EXPECT_EQ(listing("StateCompact:5|,TIMEUSED:", "R\t59\n", false, true), "R    |0:59\n");
}

TEST(LongFormat, HostileText) {
  EXPECT_EQ(listing("nonsense:5", "", true, true), "error: Invalid job format specification: nonsense");
  EXPECT_EQ(listing("", "", true, true), "error: Invalid job format specification: it is empty");
  EXPECT_EQ(listing(",", "", true, true), "error: Invalid job format specification: it is empty");
}

TEST(LongFormat, EmptyItemsAreSkipped) {
  EXPECT_EQ(listing("jobid:5,", "12\n", false, true), "12   \n");
  EXPECT_EQ(listing(",jobid:5,,name:3,", "12\tab\n", false, true), "12   ab \n");
}

TEST(Cells, LimitsAndTimes) {
  EXPECT_EQ(listing("%l %L", "-1\t-2\n", false), "UNLIMITED NOT_SET\n");
  EXPECT_EQ(listing("%l %M", "172800\t0\n", false), "2-00:00:00 0:00\n");
  EXPECT_EQ(listing("%S", "0\n", false), "N/A\n");
}

TEST(RowsTest, EscapesAndShortLines) {
  const Rows rows("a\\tb\tc\\\\d\ne\\nf\nlast", 2);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.cell(0, 0), "a\tb");
  EXPECT_EQ(rows.cell(0, 1), "c\\d");
  EXPECT_EQ(rows.cell(1, 0), "e\nf");
  EXPECT_EQ(rows.cell(1, 1), "");
  EXPECT_EQ(rows.cell(2, 0), "last");
  EXPECT_EQ(Rows("a\tb\tc\n", 2).cell(0, 1), "b");
  EXPECT_EQ(Rows("", 2).size(), 0u);
  EXPECT_EQ(Rows("x\\", 1).cell(0, 0), "x\\");
}

TEST(Cells, WhateverANameHoldsItStaysInItsCell) {
  const auto layout = parse_short_format("%.20j|%t", squeue_job_fields()).value();
  const TableAsk ask = ask_for(layout);
  const Rows rows("a\\nb\x1b[2J\tR\n", 2);
  EXPECT_EQ(write_table(layout, ask, rows, sorted_rows(rows, {}), {.header = false}), "         a\\nb\\x1b[2J|R\n");
}

TEST(Sorting, DefaultOrderIsPartitionStatePriority) {
  TableAsk ask;
  ask.add("partition");
  const auto keys = squeue_sort_keys("P,t,-p", squeue_job_fields(), ask).value();
  EXPECT_EQ(ask.names, (std::vector<std::string>{"partition", "stateorder", "prioritylong"}));
  const Rows rows("b\t0\t9\na\t1\t5\na\t0\t5\na\t0\t10\n", 3);
  EXPECT_EQ(sorted_rows(rows, keys), (std::vector<std::uint32_t>{3, 2, 1, 0}));
  EXPECT_FALSE(squeue_sort_keys("P,!", squeue_job_fields(), ask).ok());
}

TEST(Widest, HashMakesRoomForTheLongestCell) {
  const auto layout = parse_short_format("%#P %.5a", sinfo_fields()).value();
  const TableAsk ask = ask_for(layout);
  const Rows rows("a-long-partition*\tup\nb\tdown\n", 2);
  EXPECT_EQ(write_table(layout, ask, rows, sorted_rows(rows, {}), {}),
            "PARTITION         AVAIL\n"
            "a-long-partition*    up\n"
            "b                  down\n");
}

TEST(Table, AllFieldsThatHaveALetter) {
  const auto all = parse_short_format("%all", squeue_job_fields());
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->columns.front().field->letter, 'a');
  EXPECT_EQ(all->columns.front().suffix, "|");
  EXPECT_EQ(all->columns.back().suffix, "");
  std::size_t lettered = 0;
  for (const FieldDef& field : squeue_job_fields()) lettered += field.letter != 0;
  EXPECT_EQ(all->columns.size(), lettered);
  EXPECT_TRUE(parse_short_format("%all", sinfo_fields()).ok());
}

}  // namespace
}  // namespace lockstep::slurm
