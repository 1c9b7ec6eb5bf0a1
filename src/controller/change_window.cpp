#include "controller/change_window.h"

#include <algorithm>

#include "wire/api.h"

namespace lockstep {

namespace {

std::size_t index_of(const Record& record) { return record.index(); }

}  // namespace

void ChangeWindow::add(const Change& change) {
  const std::size_t kind = index_of(change.record);
  auto& kept = kept_[kind];
  kept.push_back({change, {}});
  if (kept.size() <= most_.changes)
    return;
  from_[kind] = kept.front().change.seq;
  forget_text(kept.front());
  kept.pop_front();
}

void ChangeWindow::forget_text(Entry& entry) {
  for (std::string& text : entry.text) {
    text_bytes_ -= text.size();
    text = {};
  }
}

void ChangeWindow::forget_oldest_texts() {
  while (text_bytes_ > most_.text_bytes) {
    const auto [kind, seq] = texts_.front();
    texts_.pop_front();
    auto& kept = kept_[kind];
    const auto at = std::lower_bound(kept.begin(), kept.end(), seq,
                                     [](const Entry& entry, Seq wanted) { return entry.change.seq < wanted; });
    if (at != kept.end() && at->change.seq == seq)
      forget_text(*at);
  }
}

// Of changes that are not kept any more. Looked for when the list has doubled, so that each costs a look or two.
void ChangeWindow::forget_gone_texts() {
  if (texts_.size() < texts_most_)
    return;
  std::erase_if(texts_, [&](const auto& text) { return text.second <= from_[text.first]; });
  texts_most_ = std::max(kTextsAtFirst, texts_.size() * 2);
}

void ChangeWindow::append_text(Entry& entry, Visibility how, std::string& out) {
  std::string& text = entry.text[static_cast<std::size_t>(how)];
  if (text.empty()) {
    const Change& change = entry.change;
    text = encode_change(change.seq, as_seen_by(change.record, how), change.removed) + '\n';
    text_bytes_ += text.size();
    texts_.emplace_back(index_of(change.record), change.seq);
    ++encoded_;
  }
  out += text;
  forget_oldest_texts();
  forget_gone_texts();
}

std::optional<ChangeWindow::Page> ChangeWindow::read(const Viewer& viewer, KindSet kinds, Seq after,
                                                     std::size_t bytes) {
  using At = std::deque<Entry>::iterator;
  std::vector<std::pair<At, At>> rows;  // what is left of each kind; few, so that the least is found by looking
  for (std::size_t kind = 0; kind < kKindCount; ++kind) {
    if (!kinds[kind])
      continue;
    if (after < from_[kind])
      return std::nullopt;
    auto& kept = kept_[kind];
    const auto at = std::upper_bound(kept.begin(), kept.end(), after,
                                     [](Seq seq, const Entry& entry) { return seq < entry.change.seq; });
    if (at != kept.end())
      rows.emplace_back(at, kept.end());
  }
  Page page{.seen = after};
  constexpr int kLooksAtOnce = 4'000;  // what is hidden from the viewer costs a look all the same
  for (int looks = 0; !rows.empty() && page.lines.size() < bytes && looks < kLooksAtOnce; ++looks) {
    const auto next = std::min_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.first->change.seq < b.first->change.seq;
    });
    Entry& entry = *next->first;
    page.seen = entry.change.seq;
    const auto how = seen_as(viewer, entry.change.record);
    page.hidden = !how;
    if (how)
      append_text(entry, *how, page.lines);
    if (++next->first == next->second)
      rows.erase(next);
  }
  return page;
}

}  // namespace lockstep
