// What a pod's object and its job have to do with each other: made together in one entry, or the object alone where no
// node will do yet; and the pod as the records show it.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/command.h"
#include "model/tables.h"

namespace lockstep::kube {

namespace json = boost::json;

struct PodWork {
  CommandBody body;     // SubmitJob with the object, or PutObject
  std::string waits;    // why it has no job yet; "" = it has
  bool failed = false;  // and will have none: its node does not take it
};

// The command that makes the pod. tree: whole, with its defaults, admitted; its status says what there is to say of
// scheduling. if_seq: the version of an object that is there already and has no job yet; 0 = it is new. Errors: a pod
// that no job can be.
Result<PodWork> pod_work(const Tables& tables, Instant now, json::object tree, Seq if_seq = 0);
// The same without a job: it could not be submitted.
CommandBody pod_without_work(const Tables& tables, Instant now, json::object tree, const std::string& why,
                             Seq if_seq = 0);

// The object with the condition DisruptionTarget: it ends for a reason that is not its own. time: of the wall clock.
Object disrupted(const Object& pod, const std::string& time, const char* reason, const std::string& message);

// The object with metadata.deletionGracePeriodSeconds.
Object with_grace(const Object& pod, std::int64_t seconds);

// The pod's tree with what the records say.
json::object pod_as_shown(const Tables& tables, const Object& pod);

}  // namespace lockstep::kube
