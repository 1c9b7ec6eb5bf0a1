// The driving file: text <-> a machine.
#pragma once

#include <string>

#include "standin/machine.h"

namespace standin {

// Fills the machine. Where a line is not understood: its number, else 0.
int parse_machine(const std::string& text, Machine& machine);

// The text with what the library itself changes of one GPU (modes, MIG, power limit) as it is now; all else stays.
std::string with_gpu(const std::string& text, unsigned int gpu, const Gpu& now);

// Whether it is a regular file of at most 1 MiB that can be read: a FIFO would hold us up until somebody writes to it,
// a device or a huge file for ever.
enum class Read : unsigned char { kText, kNothing, kRefused };
Read read_driving_file(const std::string& path, std::string& text);

}  // namespace standin
