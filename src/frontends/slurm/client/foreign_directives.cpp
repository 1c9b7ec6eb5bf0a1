#include "frontends/slurm/client/foreign_directives.h"

#include <algorithm>
#include <map>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/option_words.h"
#include "frontends/slurm/client/values.h"

namespace lockstep::slurm {

namespace {

constexpr std::size_t kCommandsRead = 100;  // lines that are no comments, behind which Slurm looks no further

// What is made of the lines of one script.
struct Translation {
  ForeignOptions out;
  unsigned line = 0;     // of the option that is read
  std::string exported;  // by every -v so far

  void ask(std::string word) { out.directives.push_back({{std::move(word)}, line}); }
  void ask(std::string_view option, std::string_view value) { ask(format("--{}={}", option, value)); }
  void tell(std::string_view what) {
    out.notes.push_back(format("script line {}: {} has no meaning here and is ignored", line, what));
  }
  Error refuse(std::string_view what) const { return invalid(format("script line {}: {}", line, what), "script"); }
};

// "4gb" is Slurm's "4g".
std::string_view without_b(std::string_view amount) {
  const bool has_b = amount.size() > 1 && (amount.back() == 'b' || amount.back() == 'B');
  return amount.substr(0, amount.size() - (has_b ? 1 : 0));
}

// "2:ppn=4:gpus=1+n7:ppn=2": how many nodes, or which, and what of each.
Result<void> take_nodes(Translation& to, std::string_view text) {
  constexpr std::uint64_t kMost = 1 << 20;
  std::uint64_t nodes = 0, tasks_of_each = 0;
  std::vector<std::string> names;
  std::string parts(text);
  std::replace(parts.begin(), parts.end(), '+', ':');
  for (const std::string& part : items_of(parts, ':')) {
    const auto equals = part.find('=');
    const std::string value = equals == part.npos ? part : part.substr(equals + 1);
    const auto count = parse_uint(value);
    if (part.starts_with("gpus="))
      to.ask("gpus-per-node", value);
    else if (part.starts_with("ppn=") && count && *count <= kMost)
      tasks_of_each += *count;
    else if (equals == part.npos && count && *count <= kMost)
      nodes += *count;
    else if (equals == part.npos && !count)
      names.push_back(part);
    else
      return to.refuse(format("nodes={}: \"{}\" is no number of nodes, no ppn=N, gpus=N and no name", text, part));
  }
  if (nodes > 0)
    to.ask("nodes", format("{}", nodes));
  if (tasks_of_each > 0)
    to.ask("ntasks", format("{}", tasks_of_each * std::max<std::uint64_t>(nodes, 1)));
  if (!names.empty())
    to.ask("nodelist", join(names, ","));
  return {};
}

struct Resource {
  std::string_view name, option;
};
constexpr Resource kResources[] = {
    {"walltime", "time"},      {"cput", "time"},    {"pcput", "time"},    {"nice", "nice"},
    {"proc", "constraint"},    {"select", "nodes"}, {"ncpus", "mincpus"}, {"mpiprocs", "ntasks-per-node"},
    {"ngpus", "gpus-per-node"}};

// PBS Pro counts the processors and the processes of a node: so many processors has each process.
void take_cores_of_each(Translation& to, const std::map<std::string, std::string>& given) {
  const auto count_of = [&](const char* name) {
    const auto found = given.find(name);
    return found == given.end() ? 0 : parse_count(found->second).value_or(0);
  };
  const std::uint32_t cores = count_of("ncpus"), tasks = count_of("mpiprocs");
  if (given.contains("select") && tasks > 0 && cores > tasks)
    to.ask("cpus-per-task", format("{}", cores / tasks));
}

// "nodes=2:ppn=4,walltime=1:00:00", "select=2:ncpus=8:mpiprocs=4:mem=16gb".
Result<void> take_resources(Translation& to, std::string_view list) {
  std::map<std::string, std::string> given;
  for (const std::string& item : items_of(list)) {
    const std::string first = lower(item.substr(0, item.find('=')));
    if (first == "nodes" && item.find('=') != item.npos) {
      TRY(take_nodes(to, std::string_view(item).substr(6)));
      continue;
    }
    // A time has colons of its own; the parts of a chunk are between colons.
    const bool is_chunk = first == "select" || first == "ncpus" || first == "mpiprocs" || first == "ngpus";
    for (const std::string& part : is_chunk ? items_of(item, ':') : std::vector<std::string>{item}) {
      const auto equals = part.find('=');
      const std::string name = lower(part.substr(0, equals));
      const std::string value = equals == part.npos ? std::string() : part.substr(equals + 1);
      const auto known = std::find_if(std::begin(kResources), std::end(kResources),
                                      [&](const Resource& resource) { return resource.name == name; });
      if (value.empty() && (known != std::end(kResources) || name == "mem" || name == "file"))
        return to.refuse(format("No value given for {}", name));
      if (known != std::end(kResources))
        to.ask(known->option, value);
      else if (name == "mem" || name == "file")
        to.ask(name == "mem" ? "mem" : "tmp", without_b(value));
      else if (name == "naccelerators" || (name == "accelerator" && lower(value) == "true"))
        to.ask("gres", format("gpu:{}", name == "accelerator" ? "1" : value));
      else
        to.tell(format("#PBS -l {}", part));
      given[name] = value;
    }
  }
  take_cores_of_each(to, given);
  return {};
}

std::string mail_types(std::string_view letters) {
  std::vector<std::string> out;
  for (const auto& [letter, word] : {std::pair{'b', "BEGIN"}, {'e', "END"}, {'a', "FAIL"}})
    if (lower(letters).find(letter) != std::string::npos)
      out.emplace_back(word);
  return lower(letters).find('n') != std::string::npos || out.empty() ? "NONE" : join(out, ",");
}

struct Foreign {
  char letter;
  std::string_view name;  // long
  Takes takes;
  std::string_view option;  // of sbatch. "" = what it asks for is so anyway, or it needs more than another word
};

constexpr Foreign kOfPbs[] = {{'a', "start_time", Takes::kValue, "begin"},
                              {'A', "account", Takes::kValue, "account"},
                              {'c', "checkpoint", Takes::kValue, ""},
                              {'C', "working_dir", Takes::kValue, ""},
                              {'d', "", Takes::kValue, "chdir"},
                              {'e', "error", Takes::kValue, "error"},
                              {'h', "hold", Takes::kNothing, "hold"},
                              {'I', "interactive", Takes::kNothing, ""},
                              {'j', "join", Takes::kValue, ""},
                              {'J', "job_array", Takes::kValue, "array"},
                              {'k', "keep", Takes::kValue, ""},
                              {'l', "resource_list", Takes::kValue, ""},
                              {'m', "mail_options", Takes::kValue, ""},
                              {'M', "mail_user_list", Takes::kValue, "mail-user"},
                              {'N', "job_name", Takes::kValue, "job-name"},
                              {'o', "out", Takes::kValue, "output"},
                              {'p', "priority", Takes::kValue, "nice"},
                              {'q', "destination", Takes::kValue, "partition"},
                              {'r', "rerunable", Takes::kValue, ""},
                              {'S', "script_path", Takes::kValue, ""},
                              {'t', "array", Takes::kValue, "array"},
                              {'u', "running_user", Takes::kValue, ""},
                              {'v', "variable_list", Takes::kValue, ""},
                              {'V', "all_env", Takes::kNothing, ""},
                              {'w', "", Takes::kValue, "chdir"},
                              {'W', "attributes", Takes::kValue, ""},
                              {'z', "no_std", Takes::kNothing, ""}};

Result<void> take_pbs(Translation& to, char letter, const std::string& value) {
  switch (letter) {
    case 'l': return take_resources(to, value);
    case 'm': to.ask("mail-type", mail_types(value)); break;
    case 'v':
      to.exported += (to.exported.empty() ? "" : ",") + value;
      to.ask("export", to.exported);
      break;
    case 'W':
      if (lower(value).starts_with("depend="))
        to.ask("dependency", value.substr(7));
      else
        to.tell(format("#PBS -W {}", value));
      break;
    case 'c':
    case 'C':
    case 'I':
    case 'u': to.tell(format("#PBS -{}", letter)); break;
    default: break;  // the shell is that of #!, outputs are joined, and the environment is all there
  }
  return {};
}

constexpr Foreign kOfBsub[] = {
    {'c', "cwd", Takes::kValue, "chdir"},          {'e', "error_file", Takes::kValue, "error"},
    {'J', "job_name", Takes::kValue, "job-name"},  {'m', "hostname", Takes::kValue, ""},
    {'M', "memory_limit", Takes::kValue, ""},      {'n', "", Takes::kValue, ""},
    {'o', "output_file", Takes::kValue, "output"}, {'q', "queue_name", Takes::kValue, "partition"},
    {'W', "time", Takes::kValue, "time"},          {'x', "exclusive", Takes::kNothing, "exclusive"}};

Result<void> take_bsub(Translation& to, char letter, const std::string& value) {
  if (letter == 'm')
    to.ask("nodelist", join(split_words(value), ","));
  if (letter == 'M')  // kilobytes, where no unit is given
    to.ask("mem-per-cpu", value + (!value.empty() && value.back() >= '0' && value.back() <= '9' ? "K" : ""));
  if (letter != 'n')
    return {};
  const std::string most = value.substr(value.find(',') == value.npos ? 0 : value.find(',') + 1);  // "least,most"
  if (most.empty())
    return to.refuse(format("#BSUB -n format not correct given: '{}'", value));
  to.ask("ntasks", most);
  return {};
}

struct Scheduler {
  std::string_view prefix;
  std::span<const Foreign> options;
  Result<void> (*take)(Translation&, char, const std::string&);
};
constexpr Scheduler kSchedulers[] = {{"#BSUB", kOfBsub, take_bsub}, {"#PBS", kOfPbs, take_pbs}};

Result<void> take_line(Translation& to, const Scheduler& scheduler, std::vector<std::string> words) {
  for (std::string& word : words)
    if (scheduler.prefix == "#BSUB" && word == "-cwd")  // LSF has one dash before long names
      word = "-c";
  std::vector<OptionSpelling> spellings;
  for (std::size_t row = 0; row < scheduler.options.size(); ++row)
    spellings.push_back(
        {scheduler.options[row].name, scheduler.options[row].letter, scheduler.options[row].takes, row});
  OptionWords cut(spellings, std::move(words), OptionsStand::kInFront);
  for (;;) {
    const auto found = cut.next();
    if (!found)
      return to.refuse(format("{}: {}", scheduler.prefix, found.error().message));
    if (!*found)
      break;
    const Foreign& option = scheduler.options[(*found)->row];
    const std::string value = (*found)->value.value_or("");
    if (option.option.empty())
      TRY(scheduler.take(to, option.letter, value));
    else if (option.takes == Takes::kNothing)
      to.ask(format("--{}", option.option));
    else
      to.ask(option.option, value);
  }
  if (!cut.others().empty())
    return to.refuse(format("{}: Invalid argument: {}", scheduler.prefix, cut.others().front()));
  return {};
}

// The options of one scheduler, or nothing where the script has no line of it.
Result<ForeignOptions> options_of(std::string_view text, const Scheduler& scheduler) {
  Translation to;
  std::size_t commands = 0;
  while (!text.empty() && commands <= kCommandsRead) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++to.line;
    commands += !line.starts_with('#');
    if (line.starts_with(scheduler.prefix))
      TRY(take_line(to, scheduler, TRY(split_directive(line.substr(scheduler.prefix.size()), to.line))));
  }
  return std::move(to.out);
}

}  // namespace

Result<ForeignOptions> read_foreign_directives(std::string_view script) {
  for (const Scheduler& scheduler : kSchedulers) {
    ForeignOptions found = TRY(options_of(script, scheduler));
    if (!found.directives.empty() || !found.notes.empty())
      return found;  // those of one scheduler, as in Slurm
  }
  return ForeignOptions{};
}

}  // namespace lockstep::slurm
