#include "model/change.h"

#include "model/accounting.h"
#include "model/job.h"
#include "model/node.h"
#include "model/records.h"
#include "model/reservation.h"
#include "model/step.h"

namespace lockstep {

const Meta& meta_of(const Record& record) {
  return std::visit([](const auto& ref) -> const Meta& { return ref->meta; }, record);
}

Kind kind_of(const Record& record) {
  // Record lists its alternatives in the order of Kind.
  return static_cast<Kind>(record.index());
}

}  // namespace lockstep
