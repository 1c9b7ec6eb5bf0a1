// How many bytes a record takes in the log, worked out without writing it: an upper bound of its JSON
// (wire/entry_codec), the parts that it shares with other records included. The core refuses what would be larger than
// kRecordBytesMax.
#pragma once

#include <cstddef>
#include <memory>

#include "model/change.h"

namespace lockstep {

struct Weight {
  std::size_t bytes = 0;
  const char* heaviest = "";  // name of the text or list that takes most of it
};

// Close to what is written, but for text that is not ASCII, which counts up to three times.
Weight stored_bytes_at_most(const Record& record);

// Weighs one record after the other. Looks at the characters of texts only where it could matter, and at a spec that
// many records share only once.
class RecordScale {
 public:
  // An upper bound, too. Where it is beyond bytes_max it is at most 128 KiB more than stored_bytes_at_most().
  Weight weigh(const Record& record, std::size_t bytes_max);
  // Of what was weighed last, without a spec that the one before it had, too; 0 of an ordinary record.
  std::size_t fresh_bytes() const { return fresh_; }
  // Of what was weighed last, the heavier specification: its own, or that of its first step.
  const Weight& spec() const { return spec_; }

 private:
  struct Known {
    std::weak_ptr<const void> part;
    Weight weight;
  };
  template <class T>
  Weight part(Known& known, const Ref<T>& ref);

  Known job_spec_, step_spec_;
  std::size_t fresh_ = 0, repeated_ = 0;
  Weight spec_;
};

// False where the new version of a record cannot take more than the one before it, so that nothing need be weighed.
bool may_be_heavier(const Job& before, const Job& after);
bool may_be_heavier(const Step& before, const Step& after);

}  // namespace lockstep
