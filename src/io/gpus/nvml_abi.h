// The part of NVML's C interface that we call or play, as NVIDIA publishes it in nvml.h of driver 535 and later: names,
// numbers and layouts only. Shared with the stand-in library. Constants end in "_", so that a program may include
// NVIDIA's header as well.
#pragma once

#include <stddef.h>

extern "C" {

typedef struct nvmlDevice_st* nvmlDevice_t;
typedef struct nvmlGpuInstance_st* nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st* nvmlComputeInstance_t;
typedef struct nvmlEventSet_st* nvmlEventSet_t;
typedef int nvmlReturn_t;  // an enum in nvml.h, as every `int` below

enum {
  NVML_SUCCESS_ = 0,
  NVML_ERROR_UNINITIALIZED_ = 1,
  NVML_ERROR_INVALID_ARGUMENT_ = 2,
  NVML_ERROR_NOT_SUPPORTED_ = 3,
  NVML_ERROR_NO_PERMISSION_ = 4,
  NVML_ERROR_NOT_FOUND_ = 6,
  NVML_ERROR_INSUFFICIENT_SIZE_ = 7,
  NVML_ERROR_DRIVER_NOT_LOADED_ = 9,
  NVML_ERROR_TIMEOUT_ = 10,
  NVML_ERROR_LIBRARY_NOT_FOUND_ = 12,
  NVML_ERROR_FUNCTION_NOT_FOUND_ = 13,
  NVML_ERROR_GPU_IS_LOST_ = 15,
  NVML_ERROR_OPERATING_SYSTEM_ = 17,
  NVML_ERROR_IN_USE_ = 19,
  NVML_ERROR_INSUFFICIENT_RESOURCES_ = 23,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH_ = 25,
  NVML_ERROR_UNKNOWN_ = 999,
};

enum { NVML_MEMORY_ERROR_TYPE_CORRECTED_ = 0, NVML_MEMORY_ERROR_TYPE_UNCORRECTED_ = 1 };
enum { NVML_VOLATILE_ECC_ = 0, NVML_AGGREGATE_ECC_ = 1 };
enum { NVML_MEMORY_LOCATION_DRAM_ = 2, NVML_MEMORY_LOCATION_COUNT_ = 8 };
enum { NVML_NVLINK_MAX_LINKS_ = 18, NVML_NVLINK_ERROR_COUNT_ = 5, NVML_NVLINK_CAP_COUNT_ = 6 };
enum { NVML_NVLINK_DEVICE_TYPE_GPU_ = 0, NVML_NVLINK_DEVICE_TYPE_SWITCH_ = 2, NVML_NVLINK_DEVICE_TYPE_UNKNOWN_ = 255 };
enum {
  NVML_TOPOLOGY_INTERNAL_ = 0,
  NVML_TOPOLOGY_SINGLE_ = 10,
  NVML_TOPOLOGY_MULTIPLE_ = 20,
  NVML_TOPOLOGY_HOSTBRIDGE_ = 30,
  NVML_TOPOLOGY_NODE_ = 40,
  NVML_TOPOLOGY_SYSTEM_ = 50
};
enum { NVML_P2P_CAPS_INDEX_NVLINK_ = 2, NVML_P2P_CAPS_INDEX_UNKNOWN_ = 5 };
enum { NVML_P2P_STATUS_OK_ = 0, NVML_P2P_STATUS_NOT_SUPPORTED_ = 5 };
enum { NVML_CLOCK_GRAPHICS_ = 0, NVML_CLOCK_SM_ = 1, NVML_CLOCK_MEM_ = 2, NVML_CLOCK_VIDEO_ = 3 };
enum {
  NVML_TEMPERATURE_THRESHOLD_SHUTDOWN_ = 0,
  NVML_TEMPERATURE_THRESHOLD_SLOWDOWN_ = 1,
  NVML_TEMPERATURE_THRESHOLD_MEM_MAX_ = 2,
  NVML_TEMPERATURE_THRESHOLD_GPU_MAX_ = 3
};
enum { NVML_COMPUTEMODE_DEFAULT_ = 0, NVML_COMPUTEMODE_PROHIBITED_ = 2, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS_ = 3 };
enum {
  NVML_FI_DEV_ECC_CURRENT_ = 1,
  NVML_FI_DEV_ECC_SBE_VOL_TOTAL_ = 3,
  NVML_FI_DEV_ECC_DBE_VOL_TOTAL_ = 4,
  NVML_FI_DEV_ECC_SBE_AGG_TOTAL_ = 5,
  NVML_FI_DEV_ECC_DBE_AGG_TOTAL_ = 6,
  NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION_ = 83,
  NVML_FI_DEV_NVLINK_LINK_COUNT_ = 91,
  NVML_FI_DEV_REMAPPED_COR_ = 142,
  NVML_FI_DEV_REMAPPED_UNC_ = 143,
  NVML_FI_DEV_REMAPPED_PENDING_ = 144,
  NVML_FI_DEV_REMAPPED_FAILURE_ = 145,
  NVML_FI_DEV_NVLINK_GET_SPEED_ = 164,
  NVML_FI_DEV_NVLINK_GET_STATE_ = 165,
  NVML_FI_DEV_POWER_AVERAGE_ = 185,
  NVML_FI_DEV_POWER_INSTANT_ = 186,
  NVML_FI_DEV_GET_GPU_RECOVERY_ACTION_ = 230,
};
enum { NVML_VALUE_TYPE_UNSIGNED_INT_ = 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG_ = 3 };
enum {
  NVML_GPU_RECOVERY_ACTION_NONE_ = 0,
  NVML_GPU_RECOVERY_ACTION_GPU_RESET_ = 1,
  NVML_GPU_RECOVERY_ACTION_NODE_REBOOT_ = 2,
  NVML_GPU_RECOVERY_ACTION_DRAIN_P2P_ = 3,
  NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET_ = 4
};
enum {
  NVML_EVENT_SINGLE_BIT_ECC_ = 1,
  NVML_EVENT_DOUBLE_BIT_ECC_ = 2,
  NVML_EVENT_PSTATE_ = 4,
  NVML_EVENT_XID_ = 8,
};
enum {
  NVML_CLOCKS_REASON_GPU_IDLE_ = 0x1,
  NVML_CLOCKS_REASON_SW_POWER_CAP_ = 0x4,
  NVML_CLOCKS_REASON_HW_SLOWDOWN_ = 0x8,
  NVML_CLOCKS_REASON_SW_THERMAL_ = 0x20,
  NVML_CLOCKS_REASON_HW_THERMAL_ = 0x40,
  NVML_CLOCKS_REASON_HW_POWER_BRAKE_ = 0x80,
};
enum { NVML_GPU_INSTANCE_PROFILE_COUNT_ = 16, NVML_COMPUTE_INSTANCE_PROFILE_COUNT_ = 8 };
#define NVML_NO_INSTANCE_ 0xFFFFFFFFu

typedef struct {
  unsigned long long total, free, used;  // bytes
} nvmlMemory_t;

typedef struct {
  unsigned int version;
  unsigned long long total, reserved, free, used;  // bytes
} nvmlMemory_v2_t;

typedef struct {
  unsigned long long bar1Total, bar1Free, bar1Used;  // bytes
} nvmlBAR1Memory_t;

typedef struct {
  char busIdLegacy[16];
  unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} nvmlPciInfo_t;

typedef struct {
  unsigned int gpu, memory;  // percent
} nvmlUtilization_t;

typedef struct {  // v2 and v3 of the calls that list processes
  unsigned int pid;
  unsigned long long usedGpuMemory;  // bytes
  unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
  unsigned int pid;
  unsigned long long timeStamp;  // microseconds since 1970
  unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef union {
  double dVal;
  unsigned int uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
  long long sllVal;
} nvmlValue_t;

typedef struct {
  unsigned int fieldId, scopeId;
  long long timestamp, latencyUsec;
  int valueType;
  nvmlReturn_t nvmlReturn;
  nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
  nvmlDevice_t device;
  unsigned long long eventType, eventData;
  unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
  unsigned int multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount,
      sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
  unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct {
  unsigned int start, size;  // memory slices of a GPU instance, computing slices of a compute instance
} nvmlInstancePlacement_t;

typedef struct {
  unsigned int id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount,
      encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct {
  unsigned int version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount,
      decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
  char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
  nvmlDevice_t device;
  unsigned int id, profileId;
  nvmlInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
  unsigned int id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount,
      sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct {
  unsigned int version, id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount,
      sharedEncoderCount, sharedJpegCount, sharedOfaCount;
  char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
  nvmlDevice_t device;
  nvmlGpuInstance_t gpuInstance;
  unsigned int id, profileId;
  nvmlInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

// The sizes that the versioned structures carry in their low bits, and those that arrays of others are laid out by.
static_assert(sizeof(nvmlMemory_v2_t) == 0x28 && sizeof(nvmlGpuInstanceProfileInfo_v2_t) == 0x98 &&
              sizeof(nvmlComputeInstanceProfileInfo_v2_t) == 0x88);
static_assert(sizeof(nvmlPciInfo_t) == 68 && sizeof(nvmlProcessInfo_t) == 24 && sizeof(nvmlFieldValue_t) == 40 &&
              sizeof(nvmlEventData_t) == 32 && sizeof(nvmlProcessUtilizationSample_t) == 32 &&
              sizeof(nvmlGpuInstanceProfileInfo_t) == 48 && sizeof(nvmlComputeInstanceProfileInfo_t) == 36 &&
              sizeof(nvmlDeviceAttributes_t) == 40 && offsetof(nvmlGpuInstanceInfo_t, placement) == 16 &&
              offsetof(nvmlComputeInstanceInfo_t, placement) == 24);
#define NVML_VERSION_OF_(type, version) ((unsigned int)(sizeof(type) | ((version) << 24)))

// Every call: X(name, (parameters)). All return nvmlReturn_t.
#define NVML_CALLS_(X)                                                                                                 \
  X(nvmlInit_v2, (void))                                                                                               \
  X(nvmlInitWithFlags, (unsigned int flags))                                                                           \
  X(nvmlShutdown, (void))                                                                                              \
  X(nvmlSystemGetDriverVersion, (char* text, unsigned int size))                                                       \
  X(nvmlSystemGetNVMLVersion, (char* text, unsigned int size))                                                         \
  X(nvmlSystemGetCudaDriverVersion_v2, (int* version))                                                                 \
  X(nvmlSystemGetProcessName, (unsigned int pid, char* name, unsigned int size))                                       \
  X(nvmlDeviceGetCount_v2, (unsigned int* count))                                                                      \
  X(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t* device))                                         \
  X(nvmlDeviceGetHandleByUUID, (const char* uuid, nvmlDevice_t* device))                                               \
  X(nvmlDeviceGetHandleByPciBusId_v2, (const char* bus_id, nvmlDevice_t* device))                                      \
  X(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned int* index))                                                    \
  X(nvmlDeviceGetName, (nvmlDevice_t device, char* name, unsigned int size))                                           \
  X(nvmlDeviceGetUUID, (nvmlDevice_t device, char* uuid, unsigned int size))                                           \
  X(nvmlDeviceGetMinorNumber, (nvmlDevice_t device, unsigned int* minor))                                              \
  X(nvmlDeviceGetSerial, (nvmlDevice_t device, char* serial, unsigned int size))                                       \
  X(nvmlDeviceGetVbiosVersion, (nvmlDevice_t device, char* version, unsigned int size))                                \
  X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t * pci))                                               \
  X(nvmlDeviceGetBrand, (nvmlDevice_t device, int* brand))                                                             \
  X(nvmlDeviceGetArchitecture, (nvmlDevice_t device, unsigned int* architecture))                                      \
  X(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int* major, int* minor))                                 \
  X(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, int* mode))                                                    \
  X(nvmlDeviceSetPersistenceMode, (nvmlDevice_t device, int mode))                                                     \
  X(nvmlDeviceGetComputeMode, (nvmlDevice_t device, int* mode))                                                        \
  X(nvmlDeviceSetComputeMode, (nvmlDevice_t device, int mode))                                                         \
  X(nvmlDeviceGetDisplayMode, (nvmlDevice_t device, int* mode))                                                        \
  X(nvmlDeviceGetDisplayActive, (nvmlDevice_t device, int* active))                                                    \
  X(nvmlDeviceGetEccMode, (nvmlDevice_t device, int* current, int* pending))                                           \
  X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t * memory))                                             \
  X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t * memory))                                       \
  X(nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t device, nvmlBAR1Memory_t * memory))                                     \
  X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t * rates))                                   \
  X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned int* milliwatts))                                          \
  X(nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t device, unsigned int* milliwatts))                                \
  X(nvmlDeviceGetPowerManagementDefaultLimit, (nvmlDevice_t device, unsigned int* milliwatts))                         \
  X(nvmlDeviceGetPowerManagementLimitConstraints, (nvmlDevice_t device, unsigned int* least, unsigned int* most))      \
  X(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned int* milliwatts))                                  \
  X(nvmlDeviceSetPowerManagementLimit, (nvmlDevice_t device, unsigned int milliwatts))                                 \
  X(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long* millijoules))                       \
  X(nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned int* celsius))                                \
  X(nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t device, int threshold, unsigned int* celsius))                    \
  X(nvmlDeviceGetFanSpeed, (nvmlDevice_t device, unsigned int* percent))                                               \
  X(nvmlDeviceGetPerformanceState, (nvmlDevice_t device, int* state))                                                  \
  X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, int clock, unsigned int* mhz))                                       \
  X(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, int clock, unsigned int* mhz))                                    \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, unsigned long long* reasons))                     \
  X(nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t device, unsigned long long* reasons))                        \
  X(nvmlDeviceGetSupportedClocksThrottleReasons, (nvmlDevice_t device, unsigned long long* reasons))                   \
  X(nvmlDeviceGetTotalEccErrors, (nvmlDevice_t device, int type, int counter, unsigned long long* errors))             \
  X(nvmlDeviceGetMemoryErrorCounter,                                                                                   \
    (nvmlDevice_t device, int type, int counter, int location, unsigned long long* errors))                            \
  X(nvmlDeviceGetRemappedRows, (nvmlDevice_t device, unsigned int* corrected, unsigned int* uncorrected,               \
                                unsigned int* pending, unsigned int* failure))                                         \
  X(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t* values))                              \
  X(nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t device, unsigned int* generation))                              \
  X(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned int* generation))                               \
  X(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t device, unsigned int* lanes))                                        \
  X(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned int* lanes))                                         \
  X(nvmlDeviceGetComputeRunningProcesses_v2, (nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_t* processes)) \
  X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_t* processes)) \
  X(nvmlDeviceGetGraphicsRunningProcesses_v3,                                                                          \
    (nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_t* processes))                                          \
  X(nvmlDeviceGetMPSComputeRunningProcesses_v3,                                                                        \
    (nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_t* processes))                                          \
  X(nvmlDeviceGetProcessUtilization,                                                                                   \
    (nvmlDevice_t device, nvmlProcessUtilizationSample_t * samples, unsigned int* count, unsigned long long since))    \
  X(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t a, nvmlDevice_t b, int* level))                                 \
  X(nvmlDeviceGetTopologyNearestGpus, (nvmlDevice_t device, int level, unsigned int* count, nvmlDevice_t* devices))    \
  X(nvmlDeviceGetP2PStatus, (nvmlDevice_t a, nvmlDevice_t b, int capability, int* status))                             \
  X(nvmlDeviceGetCpuAffinity, (nvmlDevice_t device, unsigned int words, unsigned long* cpus))                          \
  X(nvmlDeviceGetCpuAffinityWithinScope,                                                                               \
    (nvmlDevice_t device, unsigned int words, unsigned long* cpus, unsigned int scope))                                \
  X(nvmlDeviceGetMemoryAffinity, (nvmlDevice_t device, unsigned int words, unsigned long* nodes, unsigned int scope))  \
  X(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned int link, unsigned int* active))                          \
  X(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t device, unsigned int link, unsigned int* version))                       \
  X(nvmlDeviceGetNvLinkCapability, (nvmlDevice_t device, unsigned int link, int capability, unsigned int* result))     \
  X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci))                 \
  X(nvmlDeviceGetNvLinkRemoteDeviceType, (nvmlDevice_t device, unsigned int link, int* type))                          \
  X(nvmlDeviceGetNvLinkErrorCounter,                                                                                   \
    (nvmlDevice_t device, unsigned int link, int counter, unsigned long long* errors))                                 \
  X(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned int* current, unsigned int* pending))                         \
  X(nvmlDeviceSetMigMode, (nvmlDevice_t device, unsigned int mode, nvmlReturn_t* activation))                          \
  X(nvmlDeviceGetGpuInstanceProfileInfo,                                                                               \
    (nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_t* info))                                   \
  X(nvmlDeviceGetGpuInstanceProfileInfoV,                                                                              \
    (nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_v2_t* info))                                \
  X(nvmlDeviceGetGpuInstancePossiblePlacements_v2,                                                                     \
    (nvmlDevice_t device, unsigned int profile_id, nvmlInstancePlacement_t* placements, unsigned int* count))          \
  X(nvmlDeviceGetGpuInstanceRemainingCapacity, (nvmlDevice_t device, unsigned int profile_id, unsigned int* count))    \
  X(nvmlDeviceCreateGpuInstance, (nvmlDevice_t device, unsigned int profile_id, nvmlGpuInstance_t* instance))          \
  X(nvmlDeviceCreateGpuInstanceWithPlacement, (nvmlDevice_t device, unsigned int profile_id,                           \
                                               const nvmlInstancePlacement_t* placement, nvmlGpuInstance_t* instance)) \
  X(nvmlGpuInstanceDestroy, (nvmlGpuInstance_t instance))                                                              \
  X(nvmlDeviceGetGpuInstances,                                                                                         \
    (nvmlDevice_t device, unsigned int profile_id, nvmlGpuInstance_t* instances, unsigned int* count))                 \
  X(nvmlDeviceGetGpuInstanceById, (nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t* instance))                 \
  X(nvmlGpuInstanceGetInfo, (nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t * info))                                \
  X(nvmlGpuInstanceGetComputeInstanceProfileInfo,                                                                      \
    (nvmlGpuInstance_t instance, unsigned int profile, unsigned int engine, nvmlComputeInstanceProfileInfo_t* info))   \
  X(nvmlGpuInstanceGetComputeInstanceProfileInfoV, (nvmlGpuInstance_t instance, unsigned int profile,                  \
                                                    unsigned int engine, nvmlComputeInstanceProfileInfo_v2_t* info))   \
  X(nvmlGpuInstanceGetComputeInstanceRemainingCapacity,                                                                \
    (nvmlGpuInstance_t instance, unsigned int profile_id, unsigned int* count))                                        \
  X(nvmlGpuInstanceCreateComputeInstance,                                                                              \
    (nvmlGpuInstance_t instance, unsigned int profile_id, nvmlComputeInstance_t* compute))                             \
  X(nvmlComputeInstanceDestroy, (nvmlComputeInstance_t compute))                                                       \
  X(nvmlGpuInstanceGetComputeInstances,                                                                                \
    (nvmlGpuInstance_t instance, unsigned int profile_id, nvmlComputeInstance_t* computes, unsigned int* count))       \
  X(nvmlGpuInstanceGetComputeInstanceById,                                                                             \
    (nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t* compute))                                     \
  X(nvmlComputeInstanceGetInfo_v2, (nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t * info))                  \
  X(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, unsigned int* is_mig))                                          \
  X(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t device, unsigned int* id))                                               \
  X(nvmlDeviceGetComputeInstanceId, (nvmlDevice_t device, unsigned int* id))                                           \
  X(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned int* count))                                        \
  X(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t device, unsigned int index, nvmlDevice_t* mig))                 \
  X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t mig, nvmlDevice_t * device))                           \
  X(nvmlDeviceGetAttributes_v2, (nvmlDevice_t device, nvmlDeviceAttributes_t * attributes))                            \
  X(nvmlEventSetCreate, (nvmlEventSet_t * set))                                                                        \
  X(nvmlDeviceRegisterEvents, (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set))                     \
  X(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, unsigned long long* types))                                \
  X(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t * data, unsigned int timeout_ms))                        \
  X(nvmlEventSetFree, (nvmlEventSet_t set))

#define NVML_DECLARE_(name, parameters) nvmlReturn_t name parameters;
NVML_CALLS_(NVML_DECLARE_)
#undef NVML_DECLARE_
const char* nvmlErrorString(nvmlReturn_t code);

}  // extern "C"
