// The bodies of questions about what is foreseen, and of what-if changes (docs/explain.md): decoders take bytes from
// strangers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/foresight.h"

namespace lockstep {

std::string encode(const Explanation& explanation);
Result<Explanation> decode_explanation(std::string_view text);

std::string encode(const WhatIfAnswer& answer);
Result<WhatIfAnswer> decode_what_if_answer(std::string_view text);

std::string encode(const WhatIfPast& answer);
Result<WhatIfPast> decode_what_if_past(std::string_view text);

// What a test submission would become: {"job_id":12,"foreseen":{…},"message":"Job 12 to start at …"}
struct TrySubmit {
  JobId job;
  Foreseen foreseen;
  std::string message;
};
std::string encode(const TrySubmit& answer);
// As Slurm's client prints it; `start` is its time as the reader's zone has it.
std::string sentence(JobId job, const Foreseen& foreseen, std::string_view start);
Result<TrySubmit> decode_try_submit(std::string_view text);

// {"changes":[{"drain":"n[1-2]"},{"job":{"id":12,"nodes":6}}]}; the list may also be an object of changes, and stand
// without the object around it. The Error's field is where in the text it went wrong.
Result<std::vector<ChangeAsk>> decode_changes(std::string_view text);

// The record with the fields laid over it. `base` is of the edit's kind.
Result<Record> laid_over(const EditRecord& edit, const Record& base);

}  // namespace lockstep
