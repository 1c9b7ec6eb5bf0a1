#include "frontends/slurm/client/terminal_look.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/text_width.h"

namespace lockstep::slurm {

namespace {

constexpr unsigned kDefaultColumns = 80;  // Slurm's default formats are made for them
constexpr std::string_view kGreen = "\x1b[32m", kYellow = "\x1b[33m", kRed = "\x1b[31m", kCyan = "\x1b[36m";

// Compact and long words of jobs, then those of nodes.
constexpr std::pair<std::string_view, std::string_view> kPaints[] = {
    {"r", kGreen},
    {"running", kGreen},
    {"cg", kGreen},
    {"completing", kGreen},
    {"idle", kGreen},
    {"pd", kYellow},
    {"pending", kYellow},
    {"cf", kYellow},
    {"configuring", kYellow},
    {"mix", kYellow},
    {"mixed", kYellow},
    {"alloc", kYellow},
    {"allocated", kYellow},
    {"resv", kYellow},
    {"reserved", kYellow},
    {"f", kRed},
    {"failed", kRed},
    {"to", kRed},
    {"timeout", kRed},
    {"nf", kRed},
    {"node_fail", kRed},
    {"oom", kRed},
    {"out_of_memory", kRed},
    {"bf", kRed},
    {"boot_fail", kRed},
    {"dl", kRed},
    {"deadline", kRed},
    {"down", kRed},
    {"fail", kRed},
    {"failing", kRed},
    {"s", kCyan},
    {"suspended", kCyan},
    {"st", kCyan},
    {"stopped", kCyan},
    {"pr", kCyan},
    {"preempted", kCyan},
    {"rq", kCyan},
    {"requeued", kCyan},
    {"drain", kCyan},
    {"drained", kCyan},
    {"drng", kCyan},
    {"draining", kCyan},
    {"maint", kCyan},
};

}  // namespace

bool wants_colour() {
  const char* refused = ::getenv("NO_COLOR");
  const char* terminal = ::getenv("TERM");
  return ::isatty(STDOUT_FILENO) && !(refused && *refused) && terminal && std::string_view(terminal) != "dumb";
}

unsigned terminal_columns() {
  ::winsize size{};
  return ::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string_view colour_of_state(std::string_view state) {
  std::string word = lower(trim(state));
  while (!word.empty() && (word.back() < 'a' || word.back() > 'z')) word.pop_back();  // "idle*", "down~"
  for (const auto& [known, colour] : kPaints)
    if (word == known)
      return colour;
  return {};
}

void widen_names(TableFormat& format, const TableAsk& ask, const Rows& rows, unsigned columns) {
  std::uint32_t spare = columns > kDefaultColumns ? columns - kDefaultColumns : 0;
  for (std::size_t c = 0; c < format.columns.size(); ++c) {
    TableColumn& column = format.columns[c];
    const std::string_view name = column.field->name;
    if (column.width == 0 || (name != "name" && name != "username" && name != "partition"))
      continue;
    std::size_t widest = 0;
    for (std::size_t row = 0; row < rows.size(); ++row)
      widest = std::max(widest, width_of(rows.cell(row, ask.cell_of[c])));
    const auto more =
        static_cast<std::uint32_t>(std::min<std::size_t>(spare, widest > column.width ? widest - column.width : 0));
    column.width += more;
    spare -= more;
  }
}

}  // namespace lockstep::slurm
