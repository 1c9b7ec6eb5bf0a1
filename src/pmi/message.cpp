#include "pmi/message.h"

#include "base/check.h"
#include "base/text.h"
#include "pmi/bytes.h"
#include "pmi/world.h"

namespace lockstep {
namespace {

// As the alternatives of PmiMessage, from 1 on.
enum class MessageKind : std::uint8_t { kGather = 1, kGathered, kPassed, kAbort, kJoined, kLeft, kName };

std::string cut_words(std::string_view words) { return std::string(words.substr(0, kPmiWordsMax)); }

void put(PmiWriter& out, const PmiGather& m) {
  out.text(m.key).number(m.nodes.size(), 4);
  for (const auto node : m.nodes) out.number(node, 4);
  out.rest(m.data);
}
void put(PmiWriter& out, const PmiGathered& m) { out.text(m.key).rest(m.data); }
void put(PmiWriter& out, const PmiPassed& m) { out.number(m.node, 4).rest(m.data); }
void put(PmiWriter& out, const PmiAbort& m) {
  out.number(static_cast<std::uint32_t>(m.code), 4).rest(cut_words(m.why));
}
void put(PmiWriter&, const PmiJoined&) {}
void put(PmiWriter& out, const PmiLeft& m) { out.number(static_cast<std::uint32_t>(m.code), 4).rest(cut_words(m.why)); }
void put(PmiWriter& out, const PmiName& m) {
  out.number(static_cast<std::uint8_t>(m.what), 1).number(m.number, 8).text(m.name).text(m.value).number(m.found, 1);
}

PmiGather read_gather(PmiReader& in) {
  PmiGather m;
  m.key = in.text();
  const std::uint64_t nodes = in.number(4);
  for (std::uint64_t i = 0; i < nodes && in.good(); ++i) m.nodes.push_back(static_cast<std::uint32_t>(in.number(4)));
  m.data = in.rest();
  return m;
}

PmiName read_name(PmiReader& in) {
  PmiName m;
  m.what = static_cast<PmiName::Do>(in.number(1) & 3);
  m.number = in.number(8);
  m.name = in.text();
  m.value = in.text();
  m.found = in.number(1) != 0;
  return m;
}

std::int32_t read_code(PmiReader& in) { return static_cast<std::int32_t>(in.number(4)); }

Result<PmiMessage> decode_message(std::string_view body) {
  PmiReader in(body.substr(1));
  PmiMessage message;
  switch (static_cast<MessageKind>(body[0])) {
    case MessageKind::kGather: message = read_gather(in); break;
    case MessageKind::kGathered: {
      PmiGathered m;
      m.key = in.text();
      m.data = in.rest();
      message = std::move(m);
      break;
    }
    case MessageKind::kPassed: {
      PmiPassed m;
      m.node = static_cast<std::uint32_t>(in.number(4));
      m.data = in.rest();
      message = std::move(m);
      break;
    }
    case MessageKind::kAbort: {
      const std::int32_t code = read_code(in);
      message = PmiAbort{code, cut_words(in.rest())};
      break;
    }
    case MessageKind::kJoined: message = PmiJoined{}; break;
    case MessageKind::kLeft: {
      const std::int32_t code = read_code(in);
      message = PmiLeft{code, cut_words(in.rest())};
      break;
    }
    case MessageKind::kName: message = read_name(in); break;
    default: return invalid(format("a message of kind {}, which is not known", static_cast<int>(body[0])));
  }
  if (!in.at_end())
    return invalid("a message that is shorter or longer than its fields");
  return message;
}

}  // namespace

std::string encode_pmi_message(const PmiMessage& message) {
  PmiWriter body;
  body.number(message.index() + 1, 1);
  std::visit([&](const auto& m) { put(body, m); }, message);
  const std::string text = body.take();
  CHECK(text.size() <= kPmiMessageMax, format("a message of {} bytes", text.size()));
  return PmiWriter().text(text).take();
}

Result<void> PmiMessageReader::feed(std::string_view bytes, const std::function<void(PmiMessage)>& on_message) {
  pending_.append(bytes);
  std::size_t from = 0;
  Result<void> result;
  while (pending_.size() - from >= 4) {
    const std::string_view rest = std::string_view(pending_).substr(from);
    const std::uint64_t size = PmiReader(rest).number(4);
    if (size == 0 || size > kPmiMessageMax) {
      result = invalid(format("a message of {} bytes", size));
      break;
    }
    if (rest.size() - 4 < size)
      break;
    auto message = decode_message(rest.substr(4, size));
    if (!message.ok()) {
      result = message.error();
      break;
    }
    from += 4 + size;
    on_message(std::move(*message));
  }
  pending_.erase(0, result.ok() ? from : pending_.size());
  return result;
}

}  // namespace lockstep
