// The words behind a verb of `lockstep`: its options, and those that are none. What a verb does not take is refused
// here for all of them: one that went on without it would act on something else, as `lockstep down DIR` would on the
// default cluster.
#pragma once

#include <getopt.h>

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

inline constexpr std::size_t kAnyWords = static_cast<std::size_t>(-1);
inline constexpr const char* kDirInstead = "to name a directory: --dir DIR";

struct VerbSyntax {
  std::string verb;  // as messages have it: "down"
  const option* options = nullptr;
  const char* letters = "h";
  std::size_t words = 0;          // that are no options: at most so many
  const char* instead = nullptr;  // said to who gives one more
};

class VerbWords {
 public:
  // argv[0] is the verb.
  VerbWords(VerbSyntax syntax, int argc, char** argv);
  // As getopt_long, with `optarg`. '?': it is not taken, which has been said.
  int next(int* row = nullptr);
  // Those that are no options, once next() has come to its end.
  std::vector<std::string> rest() const;

 private:
  int refuse() const;

  VerbSyntax syntax_;
  std::string name_;
  std::vector<char*> argv_;
};

}  // namespace lockstep
