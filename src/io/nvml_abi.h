// The part of NVML's C interface we call, as NVIDIA publishes it in nvml.h (stable since NVML 11): names, numbers and
// layouts only. Shared with the stand-in library.
#pragma once

extern "C" {

typedef struct nvmlDevice_st* nvmlDevice_t;
typedef int nvmlReturn_t;  // an enum in nvml.h

enum {
  NVML_SUCCESS_ = 0,
  NVML_ERROR_UNINITIALIZED_ = 1,
  NVML_ERROR_INVALID_ARGUMENT_ = 2,
  NVML_ERROR_NOT_SUPPORTED_ = 3,
  NVML_ERROR_NOT_FOUND_ = 6,
  NVML_ERROR_INSUFFICIENT_SIZE_ = 7,
  NVML_ERROR_GPU_IS_LOST_ = 15,
  NVML_ERROR_UNKNOWN_ = 999,
};

typedef struct {
  unsigned long long total, free, used;  // bytes
} nvmlMemory_t;

typedef struct {
  char busIdLegacy[16];
  unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} nvmlPciInfo_t;

enum { NVML_MEMORY_ERROR_TYPE_UNCORRECTED_ = 1, NVML_VOLATILE_ECC_ = 0, NVML_NVLINK_MAX_LINKS_ = 18 };

typedef nvmlReturn_t (*nvmlInit_v2_t)(void);
typedef nvmlReturn_t (*nvmlShutdown_t)(void);
typedef nvmlReturn_t (*nvmlDeviceGetCount_v2_t)(unsigned int*);
typedef nvmlReturn_t (*nvmlDeviceGetHandleByIndex_v2_t)(unsigned int, nvmlDevice_t*);
typedef nvmlReturn_t (*nvmlDeviceGetName_t)(nvmlDevice_t, char*, unsigned int);
typedef nvmlReturn_t (*nvmlDeviceGetUUID_t)(nvmlDevice_t, char*, unsigned int);
typedef nvmlReturn_t (*nvmlDeviceGetMinorNumber_t)(nvmlDevice_t, unsigned int*);
typedef nvmlReturn_t (*nvmlDeviceGetMemoryInfo_t)(nvmlDevice_t, nvmlMemory_t*);
typedef nvmlReturn_t (*nvmlDeviceGetPciInfo_v3_t)(nvmlDevice_t, nvmlPciInfo_t*);
typedef nvmlReturn_t (*nvmlDeviceGetNvLinkState_t)(nvmlDevice_t, unsigned int, unsigned int*);
typedef nvmlReturn_t (*nvmlDeviceGetNvLinkRemotePciInfo_v2_t)(nvmlDevice_t, unsigned int, nvmlPciInfo_t*);
typedef nvmlReturn_t (*nvmlDeviceGetTotalEccErrors_t)(nvmlDevice_t, int, int, unsigned long long*);
typedef const char* (*nvmlErrorString_t)(nvmlReturn_t);

}  // extern "C"
