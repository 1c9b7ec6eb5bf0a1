// nvidia-smi --query-gpu and --query-compute-apps: properties by name, as comma separated values.
#include <stdio.h>

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "gpus.h"

namespace lockstep::smi {

namespace {

using Read = std::function<Shown(const Gpus&, const Gpu&)>;
struct Property {
  const char* name;
  const char* other;  // a second name; "" = none
  const char* help;
  const char* unit;  // in the header; "" = none
  Read read;
};

Shown plain(std::string text) { return text.empty() ? unknown() : Shown{std::move(text), "", true}; }
Shown number(unsigned long long value, const char* unit = "") { return {std::to_string(value), unit, true}; }
Shown on_off(bool on) { return plain(on ? "Enabled" : "Disabled"); }

using TextCall = NvmlCall<decltype(nvmlDeviceGetName)> NvmlLibrary::*;
Read text(TextCall call) {
  return [call](const Gpus& g, const Gpu& gpu) { return plain(text_of(g.nvml, g.nvml.*call, gpu.device)); };
}

using NumberCall = NvmlCall<decltype(nvmlDeviceGetPowerUsage)> NvmlLibrary::*;
Read count(NumberCall call, const char* unit = "") {
  return [call, unit](const Gpus& g, const Gpu& gpu) {
    unsigned int value = 0;
    return (g.nvml.*call)(gpu.device, &value) == NVML_SUCCESS_ ? number(value, unit) : unknown();
  };
}
Read watts(NumberCall call) {
  return [call](const Gpus& g, const Gpu& gpu) {
    unsigned int value = 0;
    return (g.nvml.*call)(gpu.device, &value) == NVML_SUCCESS_ ? Shown{format("{:.2f}", value / 1000.0), "W", true}
                                                               : unknown();
  };
}

enum class Part { kTotal, kReserved, kUsed, kFree };
Read memory(Part part) {
  return [part](const Gpus& g, const Gpu& gpu) {
    nvmlMemory_v2_t all{};
    all.version = NVML_VERSION_OF_(nvmlMemory_v2_t, 2u);
    if (g.nvml.nvmlDeviceGetMemoryInfo_v2(gpu.device, &all) != NVML_SUCCESS_)
      return unknown();
    const auto bytes = part == Part::kTotal      ? all.total
                       : part == Part::kReserved ? all.reserved
                       : part == Part::kUsed     ? all.used
                                                 : all.free;
    return number(bytes >> 20, "MiB");
  };
}

Read utilization(bool of_memory) {
  return [of_memory](const Gpus& g, const Gpu& gpu) {
    nvmlUtilization_t rates{};
    if (g.nvml.nvmlDeviceGetUtilizationRates(gpu.device, &rates) != NVML_SUCCESS_)
      return unknown();
    return number(of_memory ? rates.memory : rates.gpu, "%");
  };
}

Read clock(int which, bool most) {
  return [which, most](const Gpus& g, const Gpu& gpu) {
    unsigned int mhz = 0;
    const auto& call = most ? g.nvml.nvmlDeviceGetMaxClockInfo : g.nvml.nvmlDeviceGetClockInfo;
    return call(gpu.device, which, &mhz) == NVML_SUCCESS_ ? number(mhz, "MHz") : unknown();
  };
}

Read errors(int type, int counter) {
  return [type, counter](const Gpus& g, const Gpu& gpu) {
    unsigned long long found = 0;
    return g.nvml.nvmlDeviceGetTotalEccErrors(gpu.device, type, counter, &found) == NVML_SUCCESS_ ? number(found)
                                                                                                  : unknown();
  };
}

Read remapped(int which) {
  return [which](const Gpus& g, const Gpu& gpu) {
    unsigned int rows[4]{};
    if (g.nvml.nvmlDeviceGetRemappedRows(gpu.device, rows, rows + 1, rows + 2, rows + 3) != NVML_SUCCESS_)
      return unknown();
    return which < 2 ? number(rows[which]) : plain(rows[which] != 0 ? "Yes" : "No");
  };
}

bool reasons_of(const Gpus& g, const Gpu& gpu, unsigned long long& why) {
  return g.nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu.device, &why) == NVML_SUCCESS_ ||
         g.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu.device, &why) == NVML_SUCCESS_;
}
Read reason(unsigned long long bit) {
  return [bit](const Gpus& g, const Gpu& gpu) {
    unsigned long long why = 0;
    return reasons_of(g, gpu, why) ? plain((why & bit) != 0 ? "Active" : "Not Active") : unknown();
  };
}

Read mig(bool pending) {
  return [pending](const Gpus& g, const Gpu& gpu) {
    unsigned int modes[2]{};
    if (g.nvml.nvmlDeviceGetMigMode(gpu.device, modes, modes + 1) != NVML_SUCCESS_)
      return unknown();
    return on_off(modes[pending ? 1 : 0] == 1);
  };
}

Read mode(NvmlCall<decltype(nvmlDeviceGetPersistenceMode)> NvmlLibrary::*call) {
  return [call](const Gpus& g, const Gpu& gpu) {
    int on = 0;
    return (g.nvml.*call)(gpu.device, &on) == NVML_SUCCESS_ ? on_off(on == 1) : unknown();
  };
}

Shown compute_mode(const Gpus& g, const Gpu& gpu) {
  int mode = 0;
  if (g.nvml.nvmlDeviceGetComputeMode(gpu.device, &mode) != NVML_SUCCESS_)
    return unknown();
  return plain(mode == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS_ ? "Exclusive_Process"
               : mode == NVML_COMPUTEMODE_PROHIBITED_      ? "Prohibited"
                                                           : "Default");
}

Shown recovery(const Gpus& g, const Gpu& gpu) {
  nvmlFieldValue_t value{};
  value.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION_;
  if (g.nvml.nvmlDeviceGetFieldValues(gpu.device, 1, &value) != NVML_SUCCESS_ || value.nvmlReturn != NVML_SUCCESS_)
    return unknown();
  static const char* const kActions[] = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"};
  return plain(value.value.uiVal < 5 ? kActions[value.value.uiVal] : "Unknown");
}

Read pci(const std::function<std::string(const nvmlPciInfo_t&)>& tell) {
  return [tell](const Gpus& g, const Gpu& gpu) {
    nvmlPciInfo_t info{};
    return g.nvml.nvmlDeviceGetPciInfo_v3(gpu.device, &info) == NVML_SUCCESS_ ? plain(tell(info)) : unknown();
  };
}

Shown driver(const Gpus& g, const Gpu&) {
  char version[80] = "";
  return g.nvml.nvmlSystemGetDriverVersion(version, sizeof version) == NVML_SUCCESS_ ? plain(version) : unknown();
}

const std::vector<Property>& properties() {
  using L = NvmlLibrary;
  constexpr int kVolatile = NVML_VOLATILE_ECC_, kAggregate = NVML_AGGREGATE_ECC_;
  static const std::vector<Property> all{
      {"timestamp", "", "when the query was made", "",
       [](const Gpus&, const Gpu&) { return plain(local_time("%Y/%m/%d %H:%M:%S") + ".000"); }},
      {"driver_version", "", "version of the driver", "", driver},
      {"count", "", "number of GPUs", "", [](const Gpus& g, const Gpu&) { return number(g.all); }},
      {"name", "gpu_name", "official product name", "", text(&L::nvmlDeviceGetName)},
      {"serial", "gpu_serial", "serial number of the board", "", text(&L::nvmlDeviceGetSerial)},
      {"uuid", "gpu_uuid", "globally unique identifier", "", text(&L::nvmlDeviceGetUUID)},
      {"pci.bus_id", "gpu_bus_id", "PCI bus id, domain:bus:device.function", "",
       pci([](const nvmlPciInfo_t& p) { return std::string(p.busId); })},
      {"pci.domain", "", "PCI domain", "", pci([](const nvmlPciInfo_t& p) { return format("0x{:04X}", p.domain); })},
      {"pci.bus", "", "PCI bus", "", pci([](const nvmlPciInfo_t& p) { return format("0x{:02X}", p.bus); })},
      {"pci.device", "", "PCI device", "", pci([](const nvmlPciInfo_t& p) { return format("0x{:02X}", p.device); })},
      {"pci.device_id", "", "PCI vendor and device id", "",
       pci([](const nvmlPciInfo_t& p) { return format("0x{:08X}", p.pciDeviceId); })},
      {"pcie.link.gen.current", "", "PCIe generation now", "", count(&L::nvmlDeviceGetCurrPcieLinkGeneration)},
      {"pcie.link.gen.max", "", "PCIe generation at most", "", count(&L::nvmlDeviceGetMaxPcieLinkGeneration)},
      {"pcie.link.width.current", "", "PCIe lanes now", "", count(&L::nvmlDeviceGetCurrPcieLinkWidth)},
      {"pcie.link.width.max", "", "PCIe lanes at most", "", count(&L::nvmlDeviceGetMaxPcieLinkWidth)},
      {"index", "", "zero based index", "", [](const Gpus&, const Gpu& gpu) { return number(gpu.index); }},
      {"display_mode", "", "whether a display is connected", "", mode(&L::nvmlDeviceGetDisplayMode)},
      {"display_active", "", "whether a display is initialised", "", mode(&L::nvmlDeviceGetDisplayActive)},
      {"persistence_mode", "", "whether the driver stays loaded", "", mode(&L::nvmlDeviceGetPersistenceMode)},
      {"vbios_version", "", "version of the board's BIOS", "", text(&L::nvmlDeviceGetVbiosVersion)},
      {"fan.speed", "", "speed of the fan", "%", count(&L::nvmlDeviceGetFanSpeed, "%")},
      {"pstate", "", "performance state, P0 (most) to P12 (least)", "",
       [](const Gpus& g, const Gpu& gpu) {
         int state = 0;
         return g.nvml.nvmlDeviceGetPerformanceState(gpu.device, &state) == NVML_SUCCESS_ ? plain(format("P{}", state))
                                                                                          : unknown();
       }},
      {"clocks_event_reasons.active", "clocks_throttle_reasons.active", "bit mask of why clocks are lower", "",
       [](const Gpus& g, const Gpu& gpu) {
         unsigned long long why = 0;
         return reasons_of(g, gpu, why) ? plain(format("0x{:016x}", why)) : unknown();
       }},
      {"clocks_event_reasons.gpu_idle", "clocks_throttle_reasons.gpu_idle", "nothing runs", "",
       reason(NVML_CLOCKS_REASON_GPU_IDLE_)},
      {"clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap", "the power limit is reached", "",
       reason(NVML_CLOCKS_REASON_SW_POWER_CAP_)},
      {"clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.hw_slowdown", "hardware slowdown", "",
       reason(NVML_CLOCKS_REASON_HW_SLOWDOWN_)},
      {"clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown", "too hot", "",
       reason(NVML_CLOCKS_REASON_HW_THERMAL_)},
      {"clocks_event_reasons.hw_power_brake_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown",
       "the server asks for less power", "", reason(NVML_CLOCKS_REASON_HW_POWER_BRAKE_)},
      {"clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown",
       "the driver slows it down for its heat", "", reason(NVML_CLOCKS_REASON_SW_THERMAL_)},
      {"memory.total", "", "memory of the GPU", "MiB", memory(Part::kTotal)},
      {"memory.reserved", "", "memory that driver and firmware keep", "MiB", memory(Part::kReserved)},
      {"memory.used", "", "memory that contexts have allocated", "MiB", memory(Part::kUsed)},
      {"memory.free", "", "memory that is free", "MiB", memory(Part::kFree)},
      {"compute_mode", "", "whether several processes may use it", "", compute_mode},
      {"compute_cap", "", "CUDA compute capability", "",
       [](const Gpus& g, const Gpu& gpu) {
         int major = 0, minor = 0;
         return g.nvml.nvmlDeviceGetCudaComputeCapability(gpu.device, &major, &minor) == NVML_SUCCESS_
                    ? plain(format("{}.{}", major, minor))
                    : unknown();
       }},
      {"utilization.gpu", "", "percent of time in which kernels ran", "%", utilization(false)},
      {"utilization.memory", "", "percent of time in which memory was read or written", "%", utilization(true)},
      {"ecc.mode.current", "", "whether ECC is on", "",
       [](const Gpus& g, const Gpu& gpu) {
         int now = 0, pending = 0;
         return g.nvml.nvmlDeviceGetEccMode(gpu.device, &now, &pending) == NVML_SUCCESS_ ? on_off(now == 1) : unknown();
       }},
      {"ecc.errors.corrected.volatile.total", "", "corrected errors since the driver was loaded", "",
       errors(NVML_MEMORY_ERROR_TYPE_CORRECTED_, kVolatile)},
      {"ecc.errors.corrected.aggregate.total", "", "corrected errors of the GPU's life", "",
       errors(NVML_MEMORY_ERROR_TYPE_CORRECTED_, kAggregate)},
      {"ecc.errors.uncorrected.volatile.total", "", "uncorrected errors since the driver was loaded", "",
       errors(NVML_MEMORY_ERROR_TYPE_UNCORRECTED_, kVolatile)},
      {"ecc.errors.uncorrected.aggregate.total", "", "uncorrected errors of the GPU's life", "",
       errors(NVML_MEMORY_ERROR_TYPE_UNCORRECTED_, kAggregate)},
      {"remapped_rows.correctable", "", "rows remapped for corrected errors", "", remapped(0)},
      {"remapped_rows.uncorrectable", "", "rows remapped for uncorrected errors", "", remapped(1)},
      {"remapped_rows.pending", "", "whether a row is remapped at the next reset", "", remapped(2)},
      {"remapped_rows.failure", "", "whether a row could not be remapped", "", remapped(3)},
      {"temperature.gpu", "", "core temperature in degrees Celsius", "",
       [](const Gpus& g, const Gpu& gpu) {
         unsigned int degrees = 0;
         return g.nvml.nvmlDeviceGetTemperature(gpu.device, 0, &degrees) == NVML_SUCCESS_ ? number(degrees) : unknown();
       }},
      {"power.draw", "", "power drawn by the board", "W", watts(&L::nvmlDeviceGetPowerUsage)},
      {"power.draw.instant", "", "power drawn at this moment", "W", watts(&L::nvmlDeviceGetPowerUsage)},
      {"power.limit", "", "the software's power limit", "W", watts(&L::nvmlDeviceGetPowerManagementLimit)},
      {"enforced.power.limit", "", "the power limit in force", "W", watts(&L::nvmlDeviceGetEnforcedPowerLimit)},
      {"power.default_limit", "", "the power limit after the driver is loaded", "W",
       watts(&L::nvmlDeviceGetPowerManagementDefaultLimit)},
      {"clocks.current.graphics", "clocks.gr", "graphics clock", "MHz", clock(NVML_CLOCK_GRAPHICS_, false)},
      {"clocks.current.sm", "clocks.sm", "clock of the multiprocessors", "MHz", clock(NVML_CLOCK_SM_, false)},
      {"clocks.current.memory", "clocks.mem", "memory clock", "MHz", clock(NVML_CLOCK_MEM_, false)},
      {"clocks.current.video", "clocks.video", "video clock", "MHz", clock(NVML_CLOCK_VIDEO_, false)},
      {"clocks.max.graphics", "clocks.max.gr", "highest graphics clock", "MHz", clock(NVML_CLOCK_GRAPHICS_, true)},
      {"clocks.max.sm", "", "highest clock of the multiprocessors", "MHz", clock(NVML_CLOCK_SM_, true)},
      {"clocks.max.memory", "clocks.max.mem", "highest memory clock", "MHz", clock(NVML_CLOCK_MEM_, true)},
      {"mig.mode.current", "", "whether the GPU is in MIG mode", "", mig(false)},
      {"mig.mode.pending", "", "whether it is after the next reset", "", mig(true)},
      {"gpu_recovery_action", "", "what brings the GPU back after an error", "", recovery},
  };
  return all;
}

const Property* find(const std::string& name) {
  for (const Property& one : properties())
    if (name == one.name || (name == one.other && !name.empty()))
      return &one;
  return nullptr;
}

std::vector<std::string> names_in(const std::string& fields) {
  std::vector<std::string> names;
  for (const auto& part : split(fields, ',')) names.emplace_back(trim(part));
  return names;
}

std::string cell(const Shown& shown, QueryFormat how) {
  if (!shown.known)
    return "[N/A]";
  return how.units && !shown.unit.empty() ? shown.text + " " + shown.unit : shown.text;
}

int refuse(const std::string& name, const char* of) {
  printf("Field \"%s\" is not a valid field to query.\n\nRun \"nvidia-smi --help-query-%s\" to see them.\n",
         name.c_str(), of);
  return kBadArgument;
}

struct ProcessProperty {
  const char *name, *other, *help, *unit;
  std::function<Shown(const Gpus&, const Process&)> read;
};
const std::vector<ProcessProperty>& process_properties() {
  static const std::vector<ProcessProperty> all{
      {"timestamp", "", "when the query was made", "",
       [](const Gpus&, const Process&) { return plain(local_time("%Y/%m/%d %H:%M:%S") + ".000"); }},
      {"gpu_name", "", "product name of the GPU", "",
       [](const Gpus& g, const Process& p) { return plain(text_of(g.nvml, g.nvml.nvmlDeviceGetName, p.device)); }},
      {"gpu_bus_id", "", "PCI bus id of the GPU", "",
       [](const Gpus& g, const Process& p) { return plain(bus_id_of(g.nvml, p.device)); }},
      {"gpu_serial", "", "serial number of the board", "",
       [](const Gpus& g, const Process& p) { return plain(text_of(g.nvml, g.nvml.nvmlDeviceGetSerial, p.device)); }},
      {"gpu_uuid", "", "identifier of the GPU", "",
       [](const Gpus& g, const Process& p) { return plain(text_of(g.nvml, g.nvml.nvmlDeviceGetUUID, p.device)); }},
      {"pid", "", "process id", "", [](const Gpus&, const Process& p) { return number(p.info.pid); }},
      {"process_name", "name", "name of the program", "",
       [](const Gpus& g, const Process& p) { return plain(process_name(g.nvml, p.info.pid)); }},
      {"used_gpu_memory", "used_memory", "memory that the process has on the GPU", "MiB",
       [](const Gpus&, const Process& p) { return number(p.info.usedGpuMemory >> 20, "MiB"); }},
  };
  return all;
}

template <class Properties>
void help(const Properties& all, const char* of) {
  printf("List of valid properties to query for the switch \"--query-%s\":\n", of);
  for (const auto& one : all)
    if (one.other[0])
      printf("\n\"%s\" or \"%s\"\n%s.\n", one.name, one.other, one.help);
    else
      printf("\n\"%s\"\n%s.\n", one.name, one.help);
}

}  // namespace

bool is_property(const std::string& name) { return find(name) != nullptr; }
Shown property(const Gpus& gpus, const Gpu& gpu, const std::string& name) { return find(name)->read(gpus, gpu); }

int query_gpus(const Gpus& gpus, const std::string& fields, QueryFormat how) {
  std::vector<std::string> header;
  const auto names = names_in(fields);
  for (const auto& name : names) {
    const Property* one = find(name);
    if (!one)
      return refuse(name, "gpu");
    header.push_back(how.units && one->unit[0] ? format("{} [{}]", name, one->unit) : name);
  }
  if (how.header)
    printf("%s\n", join(header, ", ").c_str());
  int code = kFine;
  for (const Gpu& gpu : gpus.chosen) {
    if (!gpu.device) {
      code = exit_code_of(gpu.error);
      continue;
    }
    std::vector<std::string> cells;
    for (const auto& name : names) cells.push_back(cell(find(name)->read(gpus, gpu), how));
    printf("%s\n", join(cells, ", ").c_str());
  }
  return code;
}

int query_processes(const Gpus& gpus, const std::string& fields, QueryFormat how) {
  std::vector<const ProcessProperty*> chosen;
  std::vector<std::string> header;
  for (const auto& name : names_in(fields)) {
    const auto& all = process_properties();
    const auto one = std::find_if(all.begin(), all.end(),
                                  [&](const auto& p) { return name == p.name || (name == p.other && !name.empty()); });
    if (one == all.end())
      return refuse(name, "compute-apps");
    chosen.push_back(&*one);
    header.push_back(how.units && one->unit[0] ? format("{} [{}]", name, one->unit) : name);
  }
  if (how.header)
    printf("%s\n", join(header, ", ").c_str());
  for (const Process& process : compute_processes(gpus)) {
    std::vector<std::string> cells;
    for (const auto* one : chosen) cells.push_back(cell(one->read(gpus, process), how));
    printf("%s\n", join(cells, ", ").c_str());
  }
  return kFine;
}

void help_query_gpus() { help(properties(), "gpu"); }
void help_query_processes() { help(process_properties(), "compute-apps"); }

}  // namespace lockstep::smi
