#include "pmi/hub.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "wire/pmi_frame.h"

namespace lockstep {
namespace {

std::string pmi_frame(std::uint64_t stream, const PmiDown& down) {
  return encode_frame(static_cast<std::uint8_t>(IoFrame::kPmi), stream, encode(down));
}

}  // namespace

PmiHub::PmiHub(std::vector<std::uint32_t> first_ranks) {
  for (const auto rank : first_ranks) {
    index_of_[rank] = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back().first_rank = rank;
  }
  CHECK(index_of_.size() == nodes_.size(), "two nodes of a step begin with the same rank");
}

void PmiHub::take(const Frame& frame) {
  if (frame.type != static_cast<std::uint8_t>(IoFrame::kPmi) || frame.stream > UINT32_MAX)
    return;
  const auto at = index_of_.find(static_cast<std::uint32_t>(frame.stream));
  const auto up = decode_pmi_up(frame.payload);
  if (at == index_of_.end() || !up)
    return;
  Node& node = nodes_[at->second];
  if (up->fresh) {
    node.connected = true;
    node.owes_ack = true;
    node.sent_own = std::clamp(up->got_own, node.own.base(), node.own.end());
    node.sent_all = std::clamp(up->got_all, all_.base(), all_.end());
  }
  node.own.trim(up->got_own);
  node.got_all = std::max(node.got_all, std::min(up->got_all, all_.end()));
  trim_all();
  if (up->bytes.empty() || up->offset > node.got)
    return;
  node.owes_ack = true;
  const std::uint64_t known = node.got - up->offset;
  if (known >= up->bytes.size() || node.broken)
    return;
  const std::string_view fresh = up->bytes.substr(known);
  node.got += fresh.size();
  const auto read = node.reader.feed(fresh, [&](PmiMessage message) { hear(at->second, std::move(message)); });
  if (read.ok())
    return;
  node.broken = true;
  end({1,
       format("what node {} of the step says of its tasks is not understood: {}", at->second, read.error().message)});
}

void PmiHub::disconnected() {
  for (Node& node : nodes_) node.connected = false;
}

void PmiHub::trim_all() {
  std::uint64_t least = all_.end();
  for (const Node& node : nodes_) least = std::min(least, node.got_all);
  all_.trim(least);
}

void PmiHub::hear(std::uint32_t index, PmiMessage message) {
  std::visit([&](auto&& m) { hear_of(index, std::move(m)); }, std::move(message));
}

void PmiHub::hear_of(std::uint32_t index, PmiGather gather) {
  std::vector<std::uint32_t> nodes = std::move(gather.nodes);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  if (nodes.empty()) {
    nodes.resize(nodes_.size());
    std::iota(nodes.begin(), nodes.end(), 0);
  }
  if (nodes.back() >= nodes_.size() || !std::binary_search(nodes.begin(), nodes.end(), index))
    return end({1, format("node {} of the step gathers for others than itself", index)});
  Gathering& gathering = gatherings_[gather.key];
  if (gathering.parts.empty())
    gathering.nodes = nodes;
  if (gathering.nodes != nodes || gathering.parts.contains(index))
    return end({1, format("the nodes of the step do not agree on who takes part in an exchange ({})",
                          gather.key.substr(0, kPmiWordsMax / 4))});
  gathering.bytes += gather.data.size();
  if (gathering.bytes > kGatheredMax)
    return end({1, format("the tasks exchange more than {} MiB at once", kGatheredMax >> 20)});
  gathering.parts[index] = std::move(gather.data);
  if (gathering.parts.size() < gathering.nodes.size())
    return;
  PmiGathered result{gather.key, {}};
  result.data.reserve(gathering.bytes);
  for (const auto& [node, part] : gathering.parts) result.data += part;
  const auto told = std::move(gathering.nodes);
  gatherings_.erase(gather.key);
  if (told.size() == nodes_.size())
    return all_.append(encode_pmi_message(result));
  for (const auto node : told) tell(node, result);
}

void PmiHub::hear_of(std::uint32_t index, PmiPassed passed) {
  if (passed.node < nodes_.size())
    tell(passed.node, PmiPassed{index, std::move(passed.data)});
}

bool PmiHub::do_name(PmiName& name) {
  const auto known = names_.find(name.name);
  switch (name.what) {
    case PmiName::Do::kPublish:
      if (known != names_.end() || names_.size() >= kNamesMax)
        return false;
      names_[name.name] = std::exchange(name.value, {});
      return true;
    case PmiName::Do::kWithdraw: return names_.erase(name.name) > 0;
    case PmiName::Do::kLookUp:
      if (known != names_.end())
        name.value = known->second;
      return known != names_.end();
    case PmiName::Do::kAnswer: break;
  }
  return false;
}

void PmiHub::hear_of(std::uint32_t index, PmiName name) {
  name.found = do_name(name);
  name.what = PmiName::Do::kAnswer;
  tell(index, name);
}

void PmiHub::hear_of(std::uint32_t, const PmiJoined&) {
  joined_ = true;
  check_joined();
}

void PmiHub::hear_of(std::uint32_t, PmiLeft left) {
  if (!left_)
    left_ = std::move(left);
  check_joined();
}

void PmiHub::check_joined() {
  if (joined_ && left_)
    end({left_->code, left_->why});
}

void PmiHub::end(PmiAbort why) {
  if (!abort_ && !aborted_)
    abort_ = std::move(why);
}

std::optional<PmiAbort> PmiHub::take_abort() {
  if (!abort_)
    return std::nullopt;
  aborted_ = true;
  return std::exchange(abort_, std::nullopt);
}

std::string PmiHub::frames() {
  std::string out;
  send_to_all(out);
  for (Node& node : nodes_)
    if (node.connected)
      out += frames_to(node);
  return out;
}

// Once for all, while they are all as far as each other.
void PmiHub::send_to_all(std::string& out) {
  if (nodes_.empty())
    return;
  const std::uint64_t sent = nodes_.front().sent_all;
  if (!std::all_of(nodes_.begin(), nodes_.end(),
                   [&](const Node& node) { return node.connected && node.sent_all == sent; }))
    return;
  std::uint64_t at = sent;
  while (at < all_.end() && at < all_.base() + kPmiWindow) {
    const std::string_view bytes = all_.read(at, kPmiChunk);
    out += pmi_frame(kAllRanks, {true, at, 0, bytes});
    at += bytes.size();
  }
  for (Node& node : nodes_) node.sent_all = at;
}

std::string PmiHub::frames_to(Node& node) {
  std::string out;
  node.sent_all = std::max(node.sent_all, all_.base());
  node.sent_own = std::max(node.sent_own, node.own.base());
  while (node.sent_all < all_.end() && node.sent_all < node.got_all + kPmiWindow) {
    const std::string_view bytes = all_.read(node.sent_all, kPmiChunk);
    out += pmi_frame(node.first_rank, {true, node.sent_all, node.got, bytes});
    node.sent_all += bytes.size();
    node.owes_ack = false;
  }
  while (node.sent_own < node.own.end() && node.sent_own < node.own.base() + kPmiWindow) {
    const std::string_view bytes = node.own.read(node.sent_own, kPmiChunk);
    out += pmi_frame(node.first_rank, {false, node.sent_own, node.got, bytes});
    node.sent_own += bytes.size();
    node.owes_ack = false;
  }
  if (std::exchange(node.owes_ack, false))
    out += pmi_frame(node.first_rank, {false, node.sent_own, node.got, {}});
  return out;
}

}  // namespace lockstep
