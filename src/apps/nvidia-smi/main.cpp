// nvidia-smi for nodes with simulated GPUs: NVIDIA's words, options and exit codes over whatever libnvidia-ml.so.1 the
// linker finds. CUDA_VISIBLE_DEVICES means nothing to it, as to NVIDIA's.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "gpus.h"

namespace lockstep::smi {
namespace {

constexpr const char* kHelp = R"help(NVIDIA System Management Interface, over simulated GPUs

    nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...

    -h,   --help                Print usage information and exit.
          --version             Print version information and exit.
    -L,   --list-gpus           Display a list of GPUs connected to the system.
    -q,   --query               Display GPU info.
    -d,   --display=            With -q: only MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER, CLOCK, PERFORMANCE,
                                ROW_REMAPPER; several with commas.
    -i,   --id=                 A GPU by index, UUID or PCI bus id; several with commas.
    -f,   --filename=           Log to a file, rather than to stdout.
          --query-gpu=          Information about GPUs: names with commas; --help-query-gpu tells them.
          --query-compute-apps= Information about processes; --help-query-compute-apps tells the names.
          --format=             csv, with noheader and nounits where wanted, with commas.

    As root:
    -pm,  --persistence-mode=   0 or 1.
    -c,   --compute-mode=       0/DEFAULT, 2/PROHIBITED, 3/EXCLUSIVE_PROCESS.
    -pl,  --power-limit=        Watts.
    -mig, --multi-instance-gpu= 0 or 1.

    topo -m                     How GPUs are joined.
    mig -lgip | -lgipp | -lgi | -lci
    mig -cgi PROFILES [-C] | -cci [-gi ID] | -dci [-gi ID] [-ci ID] | -dgi [-gi ID]
                                GPU instances and compute instances: profiles and placements, made and destroyed.
)help";

// Options that stand alone, and those with a value, by every name they have.
const std::map<std::string, char> kSwitches{{"-h", 'h'},
                                            {"--help", 'h'},
                                            {"-L", 'L'},
                                            {"--list-gpus", 'L'},
                                            {"-q", 'q'},
                                            {"--query", 'q'},
                                            {"--version", 'v'},
                                            {"--help-query-gpu", 'G'},
                                            {"--help-query-compute-apps", 'P'}};
const std::map<std::string, std::string> kValues{{"-i", "id"},
                                                 {"--id", "id"},
                                                 {"-d", "display"},
                                                 {"--display", "display"},
                                                 {"-f", "filename"},
                                                 {"--filename", "filename"},
                                                 {"--query-gpu", "query-gpu"},
                                                 {"--query-compute-apps", "query-compute-apps"},
                                                 {"--format", "format"},
                                                 {"-pm", "persistence"},
                                                 {"--persistence-mode", "persistence"},
                                                 {"-c", "compute"},
                                                 {"--compute-mode", "compute"},
                                                 {"-pl", "power"},
                                                 {"--power-limit", "power"},
                                                 {"-mig", "mig"},
                                                 {"--multi-instance-gpu", "mig"}};

struct Words {
  std::string command;  // "topo", "mig" or ""
  std::string switches;
  std::map<std::string, std::string> values;
  std::vector<std::string> rest;  // of a command
};

// False where one is not known; it is said then.
bool parse(int argc, char** argv, Words& words) {
  int at = 1;
  if (argc > 1 && (strcmp(argv[1], "topo") == 0 || strcmp(argv[1], "mig") == 0))
    words.command = argv[at++];
  for (; at < argc; ++at) {
    const std::string word = argv[at];
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto value = kValues.find(name);
    if (value != kValues.end() && (words.command.empty() || value->second == "id")) {
      if (equals == word.npos && at + 1 == argc) {
        printf("Option \"%s\" needs a value. Run 'nvidia-smi -h' for help.\n", word.c_str());
        return false;
      }
      words.values[value->second] = equals != word.npos ? word.substr(equals + 1) : argv[++at];
    } else if (!words.command.empty()) {
      words.rest.push_back(word);
    } else if (const auto found = kSwitches.find(word); found != kSwitches.end()) {
      words.switches += found->second;
    } else {
      printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
      return false;
    }
  }
  return true;
}

Gpu gpu_at(const NvmlLibrary& nvml, unsigned int index) {
  Gpu gpu;
  gpu.index = index;
  gpu.error = nvml.nvmlDeviceGetHandleByIndex_v2(index, &gpu.device);
  if (gpu.error != NVML_SUCCESS_)
    gpu.device = nullptr;
  return gpu;
}

// Index, UUID or bus id. False: no such GPU.
bool find_gpu(const Gpus& gpus, const std::string& word, Gpu& gpu) {
  const auto index = parse_uint(word);
  if (index && *index < gpus.all) {
    gpu = gpu_at(gpus.nvml, static_cast<unsigned int>(*index));
    return true;
  }
  nvmlDevice_t device = nullptr;
  if (index || (gpus.nvml.nvmlDeviceGetHandleByUUID(word.c_str(), &device) != NVML_SUCCESS_ &&
                gpus.nvml.nvmlDeviceGetHandleByPciBusId_v2(word.c_str(), &device) != NVML_SUCCESS_))
    return false;
  unsigned int number = 0;
  gpu.device = device;
  if (gpus.nvml.nvmlDeviceGetIndex(device, &number) != NVML_SUCCESS_)
    return false;
  gpu.index = number;
  return true;
}

int set(const Gpus& gpus, const std::string& what, const std::string& value) {
  const auto number = parse_uint(value);
  int mode = number && *number < 100'000 ? static_cast<int>(*number) : -1;
  if (what == "compute" && !number)
    mode = lower(value) == "default"             ? NVML_COMPUTEMODE_DEFAULT_
           : lower(value) == "prohibited"        ? NVML_COMPUTEMODE_PROHIBITED_
           : lower(value) == "exclusive_process" ? NVML_COMPUTEMODE_EXCLUSIVE_PROCESS_
                                                 : -1;
  if (mode < 0 || ((what == "mig" || what == "persistence") && mode > 1)) {
    printf("Invalid value \"%s\". Please run 'nvidia-smi -h' for help.\n", value.c_str());
    return kBadArgument;
  }
  for (const Gpu& gpu : gpus.chosen) {
    nvmlReturn_t activation = NVML_SUCCESS_;
    const nvmlReturn_t done =
        !gpu.device             ? gpu.error
        : what == "persistence" ? gpus.nvml.nvmlDeviceSetPersistenceMode(gpu.device, mode)
        : what == "compute"     ? gpus.nvml.nvmlDeviceSetComputeMode(gpu.device, mode)
        : what == "power"
            ? gpus.nvml.nvmlDeviceSetPowerManagementLimit(gpu.device, static_cast<unsigned int>(mode) * 1000)
            : gpus.nvml.nvmlDeviceSetMigMode(gpu.device, static_cast<unsigned int>(mode), &activation);
    const std::string bus = gpu.device ? bus_id_of(gpus.nvml, gpu.device) : format("{}", gpu.index);
    const std::string name = what == "persistence" ? "persistence mode"
                             : what == "compute"   ? "compute mode"
                             : what == "power"     ? "power limit"
                                                   : "MIG mode";
    if (done != NVML_SUCCESS_) {
      printf("Unable to set %s for GPU %s: %s\n", name.c_str(), bus.c_str(), gpus.nvml.words(done).c_str());
      return exit_code_of(done);
    }
    if (what == "mig")
      printf("%s MIG Mode for GPU %s\n", mode == 1 ? "Enabled" : "Disabled", bus.c_str());
    else
      printf("Set %s to %s for GPU %s.\n", name.c_str(), value.c_str(), bus.c_str());
  }
  printf("All done.\n");
  return kFine;
}

bool read_format(const Words& words, QueryFormat& how) {
  const auto given = words.values.find("format");
  bool csv = false;
  if (given != words.values.end())
    for (const auto& part : split(given->second, ',')) {
      const std::string word(trim(part));
      csv = csv || word == "csv";
      how.header = how.header && word != "noheader";
      how.units = how.units && word != "nounits";
      if (word != "csv" && word != "noheader" && word != "nounits")
        return false;
    }
  if (!csv)
    printf("\"--format=\" switch is missing. See 'nvidia-smi -h'.\n");
  return csv;
}

int act(const Gpus& gpus, const Words& words) {
  if (words.command == "topo") {
    if (words.rest == std::vector<std::string>{"-m"} || words.rest == std::vector<std::string>{"--matrix"})
      return show_topology(gpus);
    printf("Invalid combination of input arguments. topo -m is known here.\n");
    return kBadArgument;
  }
  if (words.command == "mig")
    return run_mig(gpus, words.rest);
  for (const char* setting : {"persistence", "compute", "power", "mig"})
    if (const auto value = words.values.find(setting); value != words.values.end())
      return set(gpus, setting, value->second);
  QueryFormat how;
  for (const char* query : {"query-gpu", "query-compute-apps"})
    if (const auto fields = words.values.find(query); fields != words.values.end()) {
      if (!read_format(words, how))
        return kBadArgument;
      return strcmp(query, "query-gpu") == 0 ? query_gpus(gpus, fields->second, how)
                                             : query_processes(gpus, fields->second, how);
    }
  if (words.switches.find('L') != std::string::npos)
    return list_gpus(gpus);
  if (words.switches.find('q') != std::string::npos) {
    std::vector<std::string> sections;
    if (const auto wanted = words.values.find("display"); wanted != words.values.end())
      for (const auto& part : split(wanted->second, ',')) sections.push_back(lower(trim(part)));
    return show_everything(gpus, sections);
  }
  return show_table(gpus);
}

int run(int argc, char** argv) {
  Words words;
  if (!parse(argc, argv, words))
    return kBadArgument;
  const auto has = [&](char letter) { return words.switches.find(letter) != std::string::npos; };
  if (has('h'))
    return fputs(kHelp, stdout), kFine;
  if (has('G'))
    return help_query_gpus(), kFine;
  if (has('P'))
    return help_query_processes(), kFine;
  if (const auto file = words.values.find("filename"); file != words.values.end())
    if (!freopen(file->second.c_str(), "w", stdout)) {
      fprintf(stderr, "Failed to open %s: %s\n", file->second.c_str(), strerror(errno));
      return kBadArgument;
    }
  const auto session = NvmlSession::open();
  if (!session) {
    if (session.error().code == Errc::kNotFound) {
      printf(
          "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display "
          "Driver is properly installed and present in your system.\n");
      return kNoLibrary;
    }
    printf("Failed to initialize NVML: %s\n", session.error().message.c_str());
    return kOther;
  }
  Gpus gpus{**session, {}, 0};
  gpus.nvml.nvmlDeviceGetCount_v2(&gpus.all);
  if (has('v')) {
    char driver[80] = "";
    gpus.nvml.nvmlSystemGetDriverVersion(driver, sizeof driver);
    printf("NVIDIA-SMI version  : %s\nDRIVER version      : %s\n", driver, driver);
    return kFine;
  }
  if (const auto ids = words.values.find("id"); ids != words.values.end()) {
    for (const auto& part : split(ids->second, ',')) {
      Gpu gpu;
      if (!find_gpu(gpus, std::string(trim(part)), gpu)) {
        printf("No devices were found\n");
        return kNotFound;
      }
      gpus.chosen.push_back(gpu);
    }
  } else {
    for (unsigned int i = 0; i < gpus.all; ++i) gpus.chosen.push_back(gpu_at(gpus.nvml, i));
  }
  if (gpus.chosen.empty()) {
    printf("No devices were found\n");
    return kNotFound;
  }
  for (const Gpu& gpu : gpus.chosen)
    if (!gpu.device)
      printf("Unable to determine the device handle for GPU%u: %s%s\n", gpu.index, gpus.nvml.words(gpu.error).c_str(),
             gpu.error == NVML_ERROR_GPU_IS_LOST_ ? ".  Reboot the system to recover this GPU" : "");
  return act(gpus, words);
}

}  // namespace
}  // namespace lockstep::smi

int main(int argc, char** argv) { return lockstep::smi::run(argc, argv); }
