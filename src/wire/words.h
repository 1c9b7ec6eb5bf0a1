// Internal to wire: the text of every enum, in the order of its values. text_of() and the codecs read these tables.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "model/agent_messages.h"
#include "model/command.h"
#include "model/dependency.h"
#include "model/job_state.h"
#include "model/plan.h"
#include "model/sandbox.h"
#include "model/service.h"
#include "model/spec.h"

namespace lockstep::wire {

using WordList = std::span<const std::string_view>;

WordList words_of(JobState);
WordList words_of(Hold);
WordList words_of(Launch);
WordList words_of(RestartRule);
WordList words_of(TaskNetwork);
WordList words_of(ContainerKind);
WordList words_of(ContainerState);
WordList words_of(ContainerHook::How);
WordList words_of(PlacedVariable::What);
WordList words_of(SandboxContainer::Fetch);
WordList words_of(SandboxVolume::Kind);
WordList words_of(Sharing);
WordList words_of(LabelRule::Is);
WordList words_of(NodeMark::Effect);
WordList words_of(NeighbourTerm::Wish);
WordList words_of(Probe::What);
WordList words_of(Probe::How);
WordList words_of(Dependency::Type);
WordList words_of(MemberState);
WordList words_of(Kind);
WordList words_of(NodeLink);
WordList words_of(OnUnhealthy);
WordList words_of(HealthVerdict);
WordList words_of(Shortage::What);
WordList words_of(JoinToken::Role);
WordList words_of(StepState);
WordList words_of(StopWhy);
WordList words_of(Pmi);
WordList words_of(Container::Reuse);
WordList words_of(TaskState);
WordList words_of(Wait);
WordList words_of(SignalReach);
WordList words_of(PreemptMode);
WordList words_of(Policy::Reset);
WordList words_of(Recurrence);
WordList words_of(Errc);

// Names of a variant's alternatives: {"welcome":{…}}.
WordList words_of(const FromAgent*);
WordList words_of(const ToAgent*);
WordList words_of(const ReportBody*);
WordList words_of(const WorkPart*);

template <class E>
std::string_view word(E value) {
  const WordList words = words_of(value);
  const auto i = static_cast<std::size_t>(value);
  CHECK(i < words.size());
  return words[i];
}

}  // namespace lockstep::wire
