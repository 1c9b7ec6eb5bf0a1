// A pod as it is shown: where it is and how far it has come follows from the records of its job and its task. What
// others wrote through /status (conditions of their own, a reason) stands in the object, and so does how it ended once
// its job is forgotten.
// Source: kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "base/time.h"
#include "model/shown_records.h"

namespace lockstep::kube {

namespace json = boost::json;

using PodRecords = ShownRecords;
inline PodRecords records_of_pod(const Tables& tables, const Object& pod) { return shown_records(tables, pod); }

// How the pod's job ended, once it is forgotten. Null: it is not.
const EndedWork* ended_job_of(const Object& pod);

// Sets in the pod's tree what the records say. why: why its job waits, in a sentence ("" = nobody has looked at it
// yet), or who_cancelled. wall_offset: adds to an Instant to give the wall clock.
void show_pod(json::object& tree, const Object& pod, const PodRecords& records, std::string_view why,
              Duration wall_offset);

// "Job 26 was cancelled by ann"; "" of a job that was not.
std::string who_cancelled(const Tables& tables, const Job& job);

// What others write through /status of what is the records' to say (phase, conditions) is shown as they wrote it until
// the records or the pod change next, as where a node's agent writes over it at its next look; that it has ended stays.
// Notes that in the tree which is to be stored. old: as it was shown.
void note_written_status(json::object& tree, const json::object& old, const PodRecords& records);

// Whether the shown tree says that it has ended: "Succeeded" or "Failed".
bool pod_has_ended(const json::object& tree);

}  // namespace lockstep::kube
