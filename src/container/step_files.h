// Where a step's container keeps what it needs on this node, and who waits for whom.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "container/open_file.h"
#include "container/step_container.h"
#include "model/work_id.h"

namespace lockstep {

// Of a container that runs.
struct BoxState {
  pid_t holder = 0;              // the step's process; 0: it could not be made
  std::vector<pid_t> others;     // of a container with a name: what holds it for steps that began before
  std::string space;             // which mount namespace it is, as the kernel names it
  std::string image;             // key in the store; "" = a bundle
  std::vector<std::string> env;  // that its devices ask for
  friend bool operator==(const BoxState&, const BoxState&) = default;
};
std::string encode_state(const BoxState& state);
BoxState decode_state(std::string_view text);

// Where a step says which image its name means, for the step's other nodes: its digest, "begun" or "none". It stays
// until the job has gone, however short the step is.
std::string step_key_path(const std::string& home, const WorkId& work);

// What lies in a folder and has none of these names. Nothing there is no error.
Result<void> remove_all_but(const std::string& folder, const std::vector<std::string>& kept);

class StepFiles {
 public:
  static Result<StepFiles> of(const StepContainer& step);

  const std::string& step() const { return step_; }
  const std::string& box() const { return box_; }  // of the container: the step's own, or the one with the name

  Result<void> make_box_folder() const;
  Result<OpenFile> lock_step() const;
  Result<OpenFile> lock_box() const;
  Result<OpenFile> open_running() const;  // locked for as long as anybody runs in the container

  Result<std::optional<BoxState>> state_of_step() const;
  Result<void> keep_state_of_step(const BoxState& state) const;
  Result<BoxState> state_of_box() const;
  Result<void> keep_state_of_box(const BoxState& state) const;
  std::string image_of_box() const;  // "" = none was made yet
  Result<void> keep_image(const std::string& key) const;

  Result<void> publish_key(std::string_view word) const;

  // The step has ended: what has no name goes out of the way. To remove many files takes longer than most tasks that
  // somebody waits for: the agent lets it be done soon (sweep_containers).
  void remove_step() const;

 private:
  std::string trash_, job_, step_, box_, key_;
};

}  // namespace lockstep
