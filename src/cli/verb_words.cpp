#include "cli/verb_words.h"

#include <stdio.h>

#include <algorithm>

namespace lockstep {

VerbWords::VerbWords(VerbSyntax syntax, int argc, char** argv)
    : syntax_(std::move(syntax)), name_("lockstep " + syntax_.verb), argv_{name_.data()} {
  argv_.insert(argv_.end(), argv + std::min(argc, 1), argv + argc);
  argv_.push_back(nullptr);
  optind = 0;  // begins anew, whatever was read before
}

int VerbWords::refuse() const {
  fprintf(stderr, "Try `%s --help`.\n", name_.c_str());
  return '?';
}

int VerbWords::next(int* row) {
  const int argc = static_cast<int>(argv_.size()) - 1;
  const int c = getopt_long(argc, argv_.data(), syntax_.letters, syntax_.options, row);
  if (c == '?')
    return refuse();
  const auto words = static_cast<std::size_t>(argc - optind);
  if (c != -1 || words <= syntax_.words)
    return c;
  const char* const unexpected = argv_[static_cast<std::size_t>(optind) + syntax_.words];
  fprintf(stderr, "%s: unexpected argument: %s%s%s\n", name_.c_str(), unexpected, syntax_.instead ? "; " : "",
          syntax_.instead ? syntax_.instead : "");
  return refuse();
}

std::vector<std::string> VerbWords::rest() const { return {argv_.begin() + optind, argv_.end() - 1}; }

}  // namespace lockstep
