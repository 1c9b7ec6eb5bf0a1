#include "rules/limit_words.h"

#include <cstddef>
#include <iterator>

namespace lockstep {

namespace {

enum Column : std::size_t { kCpu, kMem, kNode, kGres, kBilling, kLicense, kUnknown, kColumns };

// The list of https://slurm.schedmd.com/job_reason_codes.html.
constexpr std::string_view kWords[][kColumns] = {
    {"AssocGrpCpuLimit", "AssocGrpMemLimit", "AssocGrpNodeLimit", "AssocGrpGRES", "AssocGrpBilling", "AssocGrpLicense",
     "AssocGrpUnknown"},
    {"QOSGrpCpuLimit", "QOSGrpMemLimit", "QOSGrpNodeLimit", "QOSGrpGRES", "QOSGrpBilling", "QOSGrpLicense",
     "QOSGrpUnknown"},
    {"AssocGrpCPUMinutesLimit", "AssocGrpMemMinutes", "AssocGrpNodeMinutes", "AssocGrpGRESMinutes",
     "AssocGrpBillingMinutes", "AssocGrpLicenseMinutes", "AssocGrpUnknownMinutes"},
    {"QOSGrpCPUMinutesLimit", "QOSGrpMemoryMinutes", "QOSGrpNodeMinutes", "QOSGrpGRESMinutes", "QOSGrpBillingMinutes",
     "QOSGrpLicenseMinutes", "QOSGrpUnknownMinutes"},
    {"AssocGrpCPURunMinutesLimit", "AssocGrpMemRunMinutes", "AssocGrpNodeRunMinutes", "AssocGrpGRESRunMinutes",
     "AssocGrpBillingRunMinutes", "AssocGrpLicenseRunMinutes", "AssocGrpUnknownRunMinutes"},
    {"QOSGrpCPURunMinutesLimit", "QOSGrpMemoryRunMinutes", "QOSGrpNodeRunMinutes", "QOSGrpGRESRunMinutes",
     "QOSGrpBillingRunMinutes", "QOSGrpLicenseRunMinutes", "QOSGrpUnknownRunMinutes"},
    {"AssocMaxCpuPerJobLimit", "AssocMaxMemPerJob", "AssocMaxNodePerJobLimit", "AssocMaxGRESPerJob",
     "AssocMaxBillingPerJob", "AssocMaxLicensePerJob", "AssocMaxUnknownPerJob"},
    {"QOSMaxCpuPerJobLimit", "QOSMaxMemoryPerJob", "QOSMaxNodePerJobLimit", "QOSMaxGRESPerJob", "QOSMaxBillingPerJob",
     "QOSMaxLicensePerJob", "QOSMaxUnknownPerJob"},
    {"AssocMaxCpuPerNode", "AssocMaxMemPerNode", "AssocMaxUnknownPerNode", "AssocMaxGRESPerNode",
     "AssocMaxBillingPerNode", "AssocMaxUnknownPerNode", "AssocMaxUnknownPerNode"},
    {"QOSMaxCpuPerNode", "QOSMaxMemoryPerNode", "QOSMaxUnknownPerNode", "QOSMaxGRESPerNode", "QOSMaxBillingPerNode",
     "QOSMaxUnknownPerNode", "QOSMaxUnknownPerNode"},
    {"AssocMaxCpuMinutesPerJobLimit", "AssocMaxMemMinutesPerJob", "AssocMaxNodeMinutesPerJob",
     "AssocMaxGRESMinutesPerJob", "AssocMaxBillingMinutesPerJob", "AssocMaxLicenseMinutesPerJob",
     "AssocMaxUnknownMinutesPerJob"},
    {"QOSMaxCpuMinutesPerJobLimit", "QOSMaxMemoryMinutesPerJob", "QOSMaxNodeMinutesPerJob", "QOSMaxGRESMinutesPerJob",
     "QOSMaxBillingMinutesPerJob", "QOSMaxLicenseMinutesPerJob", "QOSMaxUnknownMinutesPerJob"},
    {"QOSMaxCpuPerUserLimit", "QOSMaxMemoryPerUser", "QOSMaxNodePerUserLimit", "QOSMaxGRESPerUser",
     "QOSMaxBillingPerUser", "QOSMaxLicensePerUser", "QOSMaxUnknownPerUser"},
    {"MaxCpuPerAccount", "MaxMemoryPerAccount", "MaxNodePerAccount", "MaxGRESPerAccount", "MaxBillingPerAccount",
     "MaxLicensePerAccount", "MaxUnknownPerAccount"},
    {"QOSMinCpuNotSatisfied", "QOSMinMemory", "QOSMinNode", "QOSMinGRES", "QOSMinBilling", "QOSMinLicense",
     "QOSMinUnknown"},
};
static_assert(std::size(kWords) == static_cast<std::size_t>(LimitFamily::kQosMin) + 1);

Column column_of(std::string_view resource) {
  if (resource == "cpu")
    return kCpu;
  if (resource == "mem")
    return kMem;
  if (resource == "node")
    return kNode;
  if (resource == "billing")
    return kBilling;
  if (resource.starts_with("gres/"))
    return kGres;
  return resource.starts_with("license/") ? kLicense : kUnknown;
}

}  // namespace

std::string_view limit_word(LimitFamily family, std::string_view resource) {
  return kWords[static_cast<std::size_t>(family)][column_of(resource)];
}

}  // namespace lockstep
