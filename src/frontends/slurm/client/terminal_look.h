// How lists look on a terminal: states in colour, names as wide as there is room for. Pipes and files get plain text.
#pragma once

#include <string_view>

#include "frontends/slurm/client/table.h"

namespace lockstep::slurm {

// Colour is for a standard output that is a terminal which knows it, unless NO_COLOR asks for none.
bool wants_colour();
unsigned terminal_columns();  // of standard output; 0: it is no terminal

// The escape that a state is written after; "" for what needs no attention.
std::string_view colour_of_state(std::string_view state);
inline constexpr std::string_view kPlainAgain = "\x1b[0m";

// A terminal wider than the default's 80 columns gives what it has more to the names, as far as they need it.
void widen_names(TableFormat& format, const TableAsk& ask, const Rows& rows, unsigned columns);

}  // namespace lockstep::slurm
