#include "controller/step_client.h"

#include <algorithm>

#include "model/request_name.h"

namespace lockstep {

namespace {

constexpr std::string_view kClientLabel = "lockstep.client";

const std::string* label_of(const StepSpec& spec, std::string_view name) {
  const auto label =
      std::find_if(spec.options.begin(), spec.options.end(), [&](const auto& option) { return option.first == name; });
  return label == spec.options.end() ? nullptr : &label->second;
}

}  // namespace

void set_client(StepSpec& spec, const LaunchClient& client) {
  std::erase_if(spec.options,
                [](const auto& option) { return option.first == kRequestLabel || option.first == kClientLabel; });
  const auto add = [&](std::string_view name, std::string value) {
    std::pair<std::string, std::string> label(name, std::move(value));
    spec.options.insert(std::upper_bound(spec.options.begin(), spec.options.end(), label), std::move(label));
  };
  if (!client.request.empty())
    add(kRequestLabel, client.request);
  if (client.step_ends_with_it)
    add(kClientLabel, "here");
}

std::string_view request_of(const StepSpec& spec) {
  const std::string* name = label_of(spec, kRequestLabel);
  return name ? std::string_view(*name) : std::string_view();
}

bool ends_with_client(const StepSpec& spec) { return label_of(spec, kClientLabel) != nullptr; }

}  // namespace lockstep
