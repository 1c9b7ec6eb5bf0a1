// The statuses of a pod's containers, from what the node says of its sandbox.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/sandbox.h"

namespace lockstep {
struct Job;
struct Task;
}  // namespace lockstep

namespace lockstep::kube {

namespace json = boost::json;

class ContainerViews {
 public:
  // task: null before it has one. wall_offset: adds to an Instant to give the wall clock.
  ContainerViews(const json::object& pod, const Job& job, const Task* task, Duration wall_offset);

  // What has not run will not: it waits for nothing.
  void nothing_starts_any_more() { over_ = true; }

  enum class Which : unsigned char { kInit, kMain, kAdded };
  json::array statuses(Which which) const;

  bool initialized() const;
  Instant initialized_at() const;        // when the last init container ended; 0 = there is none
  std::string incomplete_words() const;  // the init containers that have not ended: "[a b]"
  bool all_ready() const;                // main containers and sidecars
  std::string unready_words() const;     // "containers with unready status: [a b]"
  Instant changed_at() const;            // the last start or end of one that counts for readiness; 0 = none
  bool all_ended() const;                // and none of them starts again
  bool all_succeeded() const;            // main ones, all with exit code 0
  bool all_resized() const;              // what runs has the cores and memory that are asked for
  std::string_view phase() const;        // as the containers alone make it

 private:
  struct One {
    const json::value* asked;
    ContainerKind kind = ContainerKind::kMain;
    const ContainerStatus* told = nullptr;  // null: the node has said nothing yet
    bool restarts = false;                  // after an end like its last one
  };
  static bool ended(const One& one);
  static bool failed(const One& one);
  json::object status_of(const One& one) const;
  json::object resources_of(const One& one) const;
  json::object state_of(const One& one) const;
  json::object terminated(const One& one, Instant started, Instant ended, std::string_view reason,
                          std::string_view message) const;
  std::string time(Instant at) const;
  std::string id_of(const One& one, std::uint32_t life) const;

  const json::object& pod_;
  const Job& job_;
  const Task* task_;
  Duration wall_offset_;
  bool over_ = false;
  // Those that the pod was made with; nothing but their statuses is asked of those added since.
  std::span<const One> asked() const { return {all_.data(), asked_}; }

  std::vector<One> all_;
  std::size_t asked_ = 0;
};

// The exit code that Kubernetes shows: that of the program, or 128 and the signal that ended it.
std::int32_t exit_code_of(const ExitStatus& exit);

}  // namespace lockstep::kube
