#include "pmi/control.h"

#include "base/check.h"
#include "base/text.h"
#include "pmi/bytes.h"

namespace lockstep {
namespace {

constexpr std::size_t kVariablesMax = 512;  // of one task

Result<std::vector<std::string>> read_variables(PmiReader& in) {
  const std::uint64_t count = in.number(4);
  if (count > kVariablesMax)
    return invalid(format("{} variables for one task", count));
  std::vector<std::string> out;
  for (std::uint64_t i = 0; i < count && in.good(); ++i) {
    out.push_back(in.text());
    const auto equals = out.back().find('=');
    if (equals == 0 || equals == std::string::npos || out.back().find('\0') != std::string::npos)
      return invalid("a variable that is none");
  }
  return out;
}

void put_variables(PmiWriter& out, const std::vector<std::string>& variables) {
  out.number(variables.size(), 4);
  for (const auto& variable : variables) out.text(variable);
}

}  // namespace

std::size_t pmi_control_bound(PmiControl kind) {
  switch (kind) {
    case PmiControl::kReady: return 8 << 20;
    case PmiControl::kUp: return 64 << 10;
    case PmiControl::kFailed: return kPmiWordsMax;
    default: return 0;
  }
}

std::string encode_pmi_control(PmiControl kind, std::string_view payload) {
  CHECK(payload.size() <= UINT32_MAX);
  return PmiWriter().number(payload.size(), 4).number(static_cast<std::uint8_t>(kind), 1).rest(payload).take();
}

Result<void> PmiControlReader::feed(std::string_view bytes,
                                    const std::function<void(PmiControl, std::string_view)>& on_message) {
  constexpr std::size_t kHead = 5;
  pending_.append(bytes);
  std::size_t from = 0;
  Result<void> result;
  while (pending_.size() - from >= kHead) {
    PmiReader in(std::string_view(pending_).substr(from, kHead));
    const std::uint64_t size = in.number(4);
    const auto kind = static_cast<PmiControl>(in.number(1));
    if (size > bound_(kind)) {
      result = invalid(format("a message of kind {} with {} bytes", static_cast<int>(kind), size));
      from = pending_.size();
      break;
    }
    if (pending_.size() - from - kHead < size)
      break;
    on_message(kind, std::string_view(pending_).substr(from + kHead, size));
    from += kHead + size;
  }
  pending_.erase(0, from);
  return result;
}

std::string encode_pmi_variables(const PmiVariables& variables) {
  PmiWriter out;
  put_variables(out, variables.common);
  for (const auto& of_rank : variables.by_local) put_variables(out, of_rank);
  return out.take();
}

Result<PmiVariables> decode_pmi_variables(std::string_view bytes, std::size_t ranks) {
  PmiReader in(bytes);
  PmiVariables variables;
  variables.common = TRY(read_variables(in));
  for (std::size_t i = 0; i < ranks && in.good(); ++i) variables.by_local.push_back(TRY(read_variables(in)));
  if (!in.at_end() || variables.by_local.size() != ranks)
    return invalid("variables for another number of tasks");
  return variables;
}

}  // namespace lockstep
