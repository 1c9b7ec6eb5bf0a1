// `lockstep man`: manual pages in troff. Those of sbatch, srun and salloc are made from the table behind --help and the
// parser itself; the others hold the text of their --help, so that neither can fall behind.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/options.h"
#include "frontends/slurm/client/say.h"
#include "frontends/slurm/client/shell_word.h"

namespace lockstep {

namespace {

constexpr const char* kUsage =
    "Usage: lockstep man [COMMAND]        print a manual page: lockstep man srun | man -l -\n"
    "       lockstep man --dir DIR        write all of them to DIR/man1, for MANPATH\n"
    "Verbs have pages of their own, too: lockstep man backup, man lockstep-backup.\n";

constexpr std::string_view kPages[] = {"lockstep", "sbatch",   "srun",  "salloc",   "squeue", "sinfo",
                                       "scancel",  "scontrol", "sacct", "sacctmgr", "sshare", "sprio",
                                       "sbcast",   "seff",     "sstat", "sattach"};

struct FromTable {
  std::string_view name;
  slurm::SlurmCommand command;
  std::string_view purpose;
};
constexpr FromTable kFromTable[] = {
    {"sbatch", slurm::SlurmCommand::kSbatch, "queue a batch script"},
    {"srun", slurm::SlurmCommand::kSrun, "run a command on nodes"},
    {"salloc", slurm::SlurmCommand::kSalloc, "hold nodes while a command or a shell runs"}};

// UTF-8 byte by byte, as troff's \[uXXXX]: a lead byte opens it, each that follows adds six bits.
void append_byte(std::string& out, unsigned char byte) {
  std::uint32_t code = byte & 0x3f;
  if (byte >= 0xc0) {
    out += format("\\[u{:04X}]", byte >= 0xf0 ? byte & 0x07 : byte >= 0xe0 ? byte & 0x0f : byte & 0x1f);
    return;
  }
  const auto open = out.rfind("\\[u");
  if (open == std::string::npos || out.back() != ']')
    return;
  code |= static_cast<std::uint32_t>(std::stoul(out.substr(open + 3), nullptr, 16)) << 6;
  out.resize(open);
  out += code == 0x2026 ? "..." : format("\\[u{:04X}]", code);  // terminals of ASCII alone have no ellipsis
}

// Text that troff leaves as it is: no requests at the beginning of a line, no escapes, no hyphens for minus signs.
std::string escaped(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\''))
      out += "\\&";
    line_begins = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (static_cast<unsigned char>(c) < 0x80)
      out += c;
    else
      append_byte(out, static_cast<unsigned char>(c));
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z')
      c = static_cast<char>(c - 'a' + 'A');
  return out;
}

std::string head_of(std::string_view name, std::string_view purpose) {
  return format(".TH {} 1 \"\" \"Lockstep {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", upper(name), LOCKSTEP_VERSION,
                name, escaped(purpose));
}

std::string option_entry(const slurm::OptionDef& def) {
  std::string out = ".TP\n";
  if (def.letter)
    out += format("\\fB\\-{}\\fR, ", def.letter);
  out += format("\\fB\\-\\-{}\\fR", escaped(def.name));
  const std::string value = *def.value ? escaped(def.value) : "VALUE";
  if (def.takes == slurm::Takes::kValue)
    out += format("=\\fI{}\\fR", value);
  if (def.takes == slurm::Takes::kMaybe)
    out += format("[=\\fI{}\\fR]", value);
  const bool idle = def.standing == slurm::Standing::kAdvisory || def.standing == slurm::Standing::kIgnored;
  return out + format("\n{}{}\n", escaped(def.about), idle ? " (accepted, no effect here)" : "");
}

std::string prefix_of(slurm::SlurmCommand command) {
  return command == slurm::SlurmCommand::kSbatch ? "SBATCH_"
         : command == slurm::SlurmCommand::kSrun ? "SLURM_"
                                                 : "SALLOC_";
}

std::string table_page(const FromTable& page) {
  const auto bit = static_cast<unsigned>(page.command);
  std::string out = head_of(page.name, page.purpose) + ".SH SYNOPSIS\n.nf\n" +
                    escaped(slurm::usage_text(page.command)) +
                    ".fi\n.SH OPTIONS\nA unique beginning of a long name is enough. The command line wins over the "
                    "environment, and both over #SBATCH lines.\n";
  std::string refused, variables;
  for (const slurm::OptionDef& def : slurm::option_table()) {
    if (!(def.commands & bit) || def.same_as)
      continue;
    if (def.standing == slurm::Standing::kRefused)
      refused += format(".TP\n\\fB\\-\\-{}\\fR\n{}\n", escaped(def.name), escaped(def.about));
    else if (*def.about)
      out += option_entry(def);
    if ((def.variable_in & bit) && *def.variable && def.standing != slurm::Standing::kRefused)
      variables +=
          format(".TP\n\\fB{}{}\\fR\nlike \\-\\-{}\n", prefix_of(page.command), def.variable, escaped(def.name));
  }
  out += ".SH NOT SUPPORTED YET\nKnown, and refused with a message.\n" + refused;
  return out + ".SH ENVIRONMENT\n" + variables + ".SH SEE ALSO\nlockstep(1), squeue(1), sacct(1), scontrol(1)\n";
}

// What `lockstep NAME --help` prints, by this very program.
Result<std::string> help_of(std::string_view name) {
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0)
    return os_error("/proc/self/exe");
  const std::string program(self, static_cast<std::size_t>(n));
  FILE* const pipe =
      ::popen(format("{} {} --help", slurm::shell_quoted(program), name == "lockstep" ? "" : name).c_str(), "re");
  if (!pipe)
    return os_error("popen");
  std::string out;
  char chunk[4096];
  while (const std::size_t got = ::fread(chunk, 1, sizeof chunk, pipe)) out.append(chunk, got);
  if (::pclose(pipe) != 0)
    return invalid(format("lockstep {} --help failed", name));
  return out;
}

constexpr std::string_view kOwn = "lockstep-";

// The line of `lockstep --help` that says what a verb is for, which may begin with it or end with it: "  history jobs
// that have ended            sacct".
std::string purpose_of(std::string_view verb) {
  const auto help = help_of("lockstep");
  for (const auto& line : split(help ? *help : "", '\n')) {
    const auto words = split_words(line);
    if (words.size() < 2 || !line.starts_with("  ") || line.starts_with("   "))
      continue;
    const std::size_t begin = line.find(words[1], 2 + words[0].size());
    const std::string_view purpose = std::string_view(line).substr(begin);
    const std::size_t gap = purpose.find("  ");
    const auto own = split_words(gap == purpose.npos ? std::string_view() : purpose.substr(gap));
    if (words[0] == verb || (!own.empty() && own[0] == verb))
      return std::string(purpose.substr(0, gap));
  }
  return "see lockstep(1)";
}

// Verbs of lockstep's own, of which the Slurm commands' other names are none.
bool is_own_verb(std::string_view verb) {
  const auto verbs = all_verbs();
  if (verb == "help" || verb == "version" || std::find(verbs.begin(), verbs.end(), verb) == verbs.end())
    return false;
  const auto help = help_of(verb);
  return help && help->starts_with("Usage: lockstep ");
}

std::string help_page(std::string_view name, std::string_view purpose, std::string_view help) {
  return head_of(name, purpose) + ".SH DESCRIPTION\n.nf\n" + escaped(help) + ".fi\n.SH SEE ALSO\nlockstep(1)\n";
}

// "lockstep-up" is `lockstep up`, and so is "up".
Result<std::string> page_of(std::string_view name) {
  for (const FromTable& page : kFromTable)
    if (page.name == name)
      return table_page(page);
  if (name == "lockstep")
    return help_page(name, "training, interactive work and services on one pool of GPU nodes", TRY(help_of(name)));
  const std::string_view verb = name.starts_with(kOwn) ? name.substr(kOwn.size()) : name;
  const auto verbs = all_verbs();
  if (std::find(verbs.begin(), verbs.end(), verb) == verbs.end())
    return not_found(format("no manual page for \"{}\": there is one for lockstep and for each of its verbs", name));
  const std::string title = is_own_verb(verb) ? std::string(kOwn) + std::string(verb) : std::string(verb);
  return help_page(title, purpose_of(verb), TRY(help_of(verb)));
}

Result<void> write_page(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0)
    return os_error(path);
  const bool written = slurm::write_all(fd, text);
  const int why = errno;
  ::close(fd);
  errno = why;
  return written ? Result<void>() : os_error(path);
}

Result<void> write_all_pages(const std::string& dir) {
  for (const auto& folder : {dir, dir + "/man1"})
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
      return os_error(folder);
  std::vector<std::string> names(std::begin(kPages), std::end(kPages));
  for (const auto verb : all_verbs())
    if (is_own_verb(verb))
      names.push_back(std::string(kOwn) + std::string(verb));
  for (const auto& name : names) {
    const std::string page = TRY(page_of(name));
    TRY(write_page(format("{}/man1/{}.1", dir, name), page));
  }
  return {};
}

int fail(const Error& error) {
  fprintf(stderr, "lockstep man: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int man_main(int argc, char** argv) {
  static const option kOptions[] = {{"dir", 1, nullptr, 'd'}, {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  VerbWords words({.verb = "man", .options = kOptions, .words = 1}, argc, argv);
  std::string dir;
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'd': dir = optarg; break;
      case 'h': slurm::say(kUsage); return 0;
      default: return 2;
    }
  const auto names = words.rest();
  if (!dir.empty() && !names.empty()) {
    fputs(kUsage, stderr);
    return 2;
  }
  if (!dir.empty()) {
    const auto written = write_all_pages(dir);
    return written ? 0 : fail(written.error());
  }
  const auto page = page_of(names.empty() ? "lockstep" : names[0]);
  if (!page)
    return fail(page.error());
  slurm::say(*page);
  return 0;
}

}  // namespace lockstep
