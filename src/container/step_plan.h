// What a step's container is made of: layers, mounts and devices, from what the user asked for, what the image says and
// what the job was given on this node.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "container/box.h"
#include "container/image_store.h"
#include "container/step_container.h"
#include "container/step_files.h"

namespace lockstep {

struct StepPlan {
  BoxPlan box;
  std::string image;               // its key; "" = a bundle
  std::vector<std::string> notes;  // for the user
};

// image: called where there is no bundle. Makes the folders that the plan names.
Result<StepPlan> plan_step(const StepContainer& step, const StepFiles& files,
                           const std::function<Result<StoredImage>()>& image);

// The layers of a container whose tasks have ended, for whoever reads them; what enroot wants to know lies over them.
Result<BoxPlan> plan_saving(const StepContainer& step, const StepFiles& files, const BoxState& state,
                            const ImageConfig& config);

Result<Bundle> read_bundle(const std::string& folder);

std::string own_program_folder();

// What the devices need that the job has on this node, by its environment. notes: what is missing.
CdiEdits devices_of_job(std::vector<std::string>& notes);

}  // namespace lockstep
