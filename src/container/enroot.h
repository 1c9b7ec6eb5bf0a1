// `enroot`, as far as scripts written for pyxis use it: which containers with a name a user's jobs have on this node,
// their removal, their export and their start, and the import of an image into a file. Names are those that pyxis
// gives: "pyxis_12_web" is what job 12 calls web.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

// One command line of enroot, without its name.
struct EnrootAsk {
  enum class Verb : unsigned char { kHelp, kList, kRemove, kExport, kImport, kStart } verb = Verb::kHelp;
  bool fancy = false;               // of list: with what runs there
  bool force = false;               // no question before a removal, no care for a file that is there
  bool as_root = false;             // of start
  bool writable = false;            // likewise
  std::string output;               // of export and import
  std::vector<std::string> env;     // of start: K=V, or K alone
  std::vector<std::string> mounts;  // of start: SRC:DST
  std::vector<std::string> words;   // names; an image; a name and a command
};
Result<EnrootAsk> parse_enroot(const std::vector<std::string>& words);

// "pyxis_12_web" -> job 12's web. Nothing: it names no container of pyxis.
struct EnrootName {
  std::string job, name;
};
std::string enroot_name(const std::string& job, const std::string& name);
EnrootName parse_enroot_name(std::string_view text);

// What import calls the file of an image: "docker://nvcr.io#nvidia/cuda:12" is nvidia+cuda+12.sqsh.
std::string enroot_file_of(std::string_view image);

// home: of the user's containers on this node (step_container.h); "" = there is none. The exit code; what went wrong
// was said.
int run_enroot(const std::string& home, const std::vector<std::string>& words);

}  // namespace lockstep
