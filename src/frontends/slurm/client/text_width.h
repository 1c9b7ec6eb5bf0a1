// How many columns of a terminal a text takes, and its beginning that takes no more than so many: characters of two or
// more bytes are not cut in the middle, wide ones take two columns, marks that combine take none.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::slurm {

std::size_t width_of(std::string_view text);
std::string_view cut_to_width(std::string_view text, std::size_t width);

}  // namespace lockstep::slurm
