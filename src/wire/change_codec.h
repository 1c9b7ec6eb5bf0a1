// Internal to wire: a change, as log entries and watches write it.
#pragma once

#include "model/change.h"
#include "wire/json.h"

namespace lockstep::wire {

// {"job":{…},"seq":…,"removed":true}; seq only where it is not the record's own.
template <>
struct Codec<Change> {
  static void write(Writer& w, const Change& change, const Change&);
  static bool read(Reader& r, const json::value& v, Change& out);
};

}  // namespace lockstep::wire
