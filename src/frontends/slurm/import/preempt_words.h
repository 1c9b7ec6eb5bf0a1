// PreemptMode of slurm.conf, which may be a list: "SUSPEND,GANG", "REQUEUE,WITHIN".
#pragma once

#include <string>

#include "base/result.h"
#include "frontends/slurm/import/conf_keys.h"

namespace lockstep::slurm {

struct PreemptWords {
  PreemptMode mode = PreemptMode::kCluster;  // the one that is no flag; kCluster where there is none
  bool gang = false, within = false;
};
Result<PreemptWords> preempt_words(const std::string& text);
Fate preempt_fate(const PreemptWords& words);  // GANG beside SUSPEND is how Slurm spells what happens here anyway

}  // namespace lockstep::slurm
