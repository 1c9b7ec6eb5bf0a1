#include "frontends/slurm/client/step_output.h"

#include "base/text.h"
#include "frontends/slurm/client/values.h"
#include "model/exit_status.h"

namespace lockstep::slurm {

namespace {
std::string taken(std::string& text) {
  std::string out;
  out.swap(text);
  return out;
}
constexpr std::size_t kLineMax = 64 << 10;  // a longer line is passed on in parts
constexpr std::size_t kChunk = 64 << 10;    // input bytes in one frame
}  // namespace

std::string frame_number(std::uint64_t value, unsigned bytes) {
  std::string out;
  while (bytes-- > 0) out += static_cast<char>(value >> (8 * bytes));
  return out;
}

std::optional<std::uint64_t> read_frame_number(std::string_view payload, std::size_t at, unsigned bytes) {
  if (payload.size() < at + bytes)
    return std::nullopt;
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(payload[at + i]);
  return value;
}

bool StepOutput::take(const Frame& frame) {
  const auto rank = static_cast<std::uint32_t>(frame.stream);
  if (frame.stream >= style_.tasks)
    return false;
  if (frame.type == static_cast<std::uint8_t>(IoFrame::kExited)) {
    if (frame.payload.size() < 3)
      return false;
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(frame.payload[i]); };
    exited(rank, exit_status(byte(0), byte(1), byte(2)));
    return true;
  }
  const auto fd = read_frame_number(frame.payload, 0, 1);
  const auto offset = read_frame_number(frame.payload, 1, 8);
  if (!fd || !offset || (*fd != 1 && *fd != 2))
    return false;
  Stream& stream = streams_[{rank, static_cast<int>(*fd)}];
  if (frame.type == static_cast<std::uint8_t>(IoFrame::kOutputEof)) {
    emit(rank, static_cast<int>(*fd), stream, taken(stream.line));
    return true;
  }
  std::string_view bytes = std::string_view(frame.payload).substr(9);
  if (*offset + bytes.size() <= stream.received)
    return true;  // sent again on a new connection
  if (*offset < stream.received)
    bytes.remove_prefix(stream.received - *offset);
  stream.received = *offset + (frame.payload.size() - 9);
  write(rank, static_cast<int>(*fd), stream, bytes);
  return true;
}

void StepOutput::exited(std::uint32_t rank, ExitStatus exit) {
  if (exits_.emplace(rank, exit).second)
    new_exits_.emplace_back(rank, exit);
}

void StepOutput::flush() {
  for (auto& [key, stream] : streams_) emit(key.first, key.second, stream, taken(stream.line));
}

void StepOutput::write(std::uint32_t rank, int fd, Stream& stream, std::string_view bytes) {
  if (!style_.by_line) {
    emit(rank, fd, stream, bytes);
    return;
  }
  const auto last = bytes.rfind('\n');
  if (last != std::string_view::npos) {
    stream.line += bytes.substr(0, last + 1);
    emit(rank, fd, stream, taken(stream.line));
    bytes.remove_prefix(last + 1);
  }
  stream.line += bytes;
  if (stream.line.size() > kLineMax)
    emit(rank, fd, stream, taken(stream.line));
}

void StepOutput::emit(std::uint32_t rank, int fd, Stream& stream, std::string_view text) {
  if (text.empty())
    return;
  if (!style_.label) {
    sink_(rank, fd, text);
    return;
  }
  const std::string last_rank = format("{}", style_.tasks - 1);
  const std::string label = format("{:>{}}: ", rank, last_rank.size());
  std::string out;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (!stream.mid_line)
      out += label;
    stream.mid_line = end == std::string_view::npos;
    const std::size_t length = stream.mid_line ? text.size() : end + 1;
    out += text.substr(0, length);
    text.remove_prefix(length);
  }
  // A last line without its end must not run into another task's.
  if (stream.mid_line && style_.by_line) {
    out += '\n';
    stream.mid_line = false;
  }
  sink_(rank, fd, out);
}

std::string StepOutput::have_json(bool onlooker) const {
  std::map<std::uint32_t, std::uint64_t[2]> have;
  for (const auto& [key, stream] : streams_) have[key.first][key.second - 1] = stream.received;
  std::string out = "{\"have\":{";
  bool first = true;
  for (const auto& [rank, offsets] : have) {
    out += format("{}\"{}\":[{},{}]", first ? "" : ",", rank, offsets[0], offsets[1]);
    first = false;
  }
  return out + (onlooker ? "},\"onlooker\":true}" : "}}");
}

std::string StepOutput::take_acks() {
  std::string out;
  for (auto& [key, stream] : streams_) {
    if (stream.acknowledged == stream.received)
      continue;
    stream.acknowledged = stream.received;
    out += encode_frame(static_cast<std::uint8_t>(IoFrame::kOutputAck), key.first,
                        frame_number(static_cast<std::uint64_t>(key.second), 1) + frame_number(stream.received, 8));
  }
  return out;
}

std::string StepInput::frames(std::uint64_t offset, std::string_view bytes) const {
  std::string out;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kChunk);
    out += encode_frame(static_cast<std::uint8_t>(IoFrame::kStdin), stream_, frame_number(offset, 8).append(part));
    offset += part.size();
    bytes.remove_prefix(part.size());
  }
  return out;
}

std::string StepInput::take(std::string_view bytes) {
  const std::uint64_t offset = base_ + kept_.size();
  kept_ += bytes;
  return frames(offset, bytes);
}

std::string StepInput::end() {
  eof_ = true;
  return encode_frame(static_cast<std::uint8_t>(IoFrame::kStdinEof), stream_, frame_number(base_ + kept_.size(), 8));
}

void StepInput::acknowledge(std::uint32_t rank, std::uint64_t offset) {
  auto& known = acknowledged_[rank];
  known = std::max(known, offset);
  if (acknowledged_.size() < readers_)
    return;
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& [reader, have] : acknowledged_) least = std::min(least, have);
  const std::uint64_t done = std::min<std::uint64_t>(least > base_ ? least - base_ : 0, kept_.size());
  kept_.erase(0, done);
  base_ += done;
}

std::string StepInput::again() const {
  std::string out = frames(base_, kept_);
  if (eof_)
    out += encode_frame(static_cast<std::uint8_t>(IoFrame::kStdinEof), stream_, frame_number(base_ + kept_.size(), 8));
  return out;
}

int highest_code(const std::map<std::uint32_t, ExitStatus>& exits) {
  constexpr int kOutOfMemoryCode = 253;  // Slurm's 0:125, as the shell shows a signal
  int code = 0;
  for (const auto& [rank, exit] : exits)
    code = std::max(code, exit.oom          ? kOutOfMemoryCode
                          : exit.not_opened ? 1
                          : exit.signal     ? 128 + exit.signal
                                            : exit.code);
  return code;
}

std::string exit_words(const ExitStatus& exit) {
  if (exit.oom)
    return "Out Of Memory";
  if (exit.not_opened)
    return format("not started (0:{})", exit.signal);
  if (exit.signal)
    return signal_text(exit.signal);
  return format("Exited with exit code {}", exit.code);
}

}  // namespace lockstep::slurm
