#include "frontends/slurm/client/terminal_look.h"

#include <gtest/gtest.h>

#include "frontends/slurm/client/squeue_fields.h"

namespace lockstep::slurm {
namespace {

TEST(TerminalLook, StatesHaveColours) {
  EXPECT_EQ(colour_of_state("R"), colour_of_state("RUNNING"));
  EXPECT_EQ(colour_of_state("idle*"), colour_of_state("idle"));
  EXPECT_NE(colour_of_state("F"), colour_of_state("R"));
  EXPECT_NE(colour_of_state("down"), "");
  EXPECT_EQ(colour_of_state("CD"), "");
  EXPECT_EQ(colour_of_state(""), "");
}

TEST(TerminalLook, NamesGetWhatIsLeft) {
  const Rows rows("a-rather-long-name\tmain\nshort\tmain\n", 2);
  const auto width = [&](unsigned columns) {
    TableFormat format = *parse_short_format("%.8j %.9P", squeue_job_fields());
    const TableAsk ask = ask_for(format);
    widen_names(format, ask, rows, columns);
    return std::pair(format.columns[0].width, format.columns[1].width);
  };
  EXPECT_EQ(width(0), std::pair(8u, 9u));
  EXPECT_EQ(width(80), std::pair(8u, 9u));
  EXPECT_EQ(width(84), std::pair(12u, 9u));
  EXPECT_EQ(width(200), std::pair(18u, 9u));
}

TEST(TerminalLook, OnlyStatesArePainted) {
  const Rows rows("R\tR\n", 2);
  const TableFormat format = *parse_short_format("%.4t %j|", squeue_job_fields());
  const TableAsk ask = ask_for(format);
  TableLook look;
  const std::uint32_t order[] = {0};
  EXPECT_EQ(write_table(format, ask, rows, order, look), "  ST NAME|\n   R R|\n");
  look.colour = true;
  EXPECT_EQ(write_table(format, ask, rows, order, look), "  ST NAME|\n   \x1b[32mR\x1b[0m R|\n");
}

}  // namespace
}  // namespace lockstep::slurm
