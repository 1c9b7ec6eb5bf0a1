#include "views/plan_notes.h"

#include <tuple>

namespace lockstep {

bool PlanNotes::Less::operator()(const Ref<PlanNote>& a, const Ref<PlanNote>& b) const {
  return std::tie(a->wait, a->detail, a->expected_nodes) < std::tie(b->wait, b->detail, b->expected_nodes);
}

void PlanNotes::put(const PlanNote& note) {
  const Said* old = notes_.get(note.job);
  if (old && old->words->wait == note.wait && old->words->detail == note.detail &&
      old->words->expected_nodes == note.expected_nodes) {
    notes_.get(note.job)->expected_start = note.expected_start;
    return;
  }
  erase(note.job);
  auto words = std::make_shared<PlanNote>(note);
  words->job = {};
  words->expected_start = {};
  notes_[note.job] = {note.expected_start, *words_.insert(std::move(words)).first};
}

void PlanNotes::erase(JobId job) {
  const Said* said = notes_.get(job);
  if (!said)
    return;
  constexpr long kLastUse = 2;  // this one and the set's own
  if (said->words.use_count() == kLastUse)
    words_.erase(said->words);
  notes_.erase(job);
}

const PlanNote* PlanNotes::of(JobId job) const {
  const Said* said = notes_.get(job);
  return said ? said->words.get() : nullptr;
}

Instant PlanNotes::expected_start(JobId job) const {
  const Said* said = notes_.get(job);
  return said ? said->expected_start : Instant{};
}

std::optional<PlanNote> PlanNotes::whole(JobId job) const {
  const Said* said = notes_.get(job);
  if (!said)
    return std::nullopt;
  PlanNote note = *said->words;
  note.job = job;
  note.expected_start = said->expected_start;
  return note;
}

}  // namespace lockstep
