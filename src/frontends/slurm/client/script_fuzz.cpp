// libFuzzer entry: a script of any bytes through the check, the directives and the options to a request.
#include <cstdint>
#include <string_view>

#include "frontends/slurm/client/job_ask.h"
#include "frontends/slurm/client/script.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  using namespace lockstep::slurm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)check_script(text);
  const auto read = read_directives(text);
  if (!read)
    return 0;
  std::vector<OptionSet> components;
  for (const auto& component : read->components) {
    OptionSet options(SlurmCommand::kSbatch);
    for (const auto& directive : component)
      if (!options.read_directive(directive.words, directive.line))
        return 0;
    components.push_back(std::move(options));
  }
  Surroundings around;
  around.work_dir = "/";
  around.now = WallTime{1'700'000'000'000'000};
  around.read_file = [](const std::string& path) -> Result<std::string> { return not_found(path); };
  std::vector<std::string> notes;
  if (const auto request = job_request(components, around, notes))
    (void)encode(*request);
  return 0;
}
