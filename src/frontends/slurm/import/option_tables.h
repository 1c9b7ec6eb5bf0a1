// Parameters of slurm.conf whose value is a list of options, such as SchedulerParameters: each option has its row.
#pragma once

#include "frontends/slurm/import/conf_keys.h"

namespace lockstep::slurm {

extern const ConfTable kSchedulerOptions, kSelectOptions, kPriorityOptions, kPreemptOptions, kPrologOptions,
    kDependencyOptions, kLaunchOptions, kControllerOptions, kAgentOptions, kTopologyOptions;

}  // namespace lockstep::slurm
