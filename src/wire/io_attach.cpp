#include "wire/io_attach.h"

#include <boost/json/object.hpp>

#include "wire/fields.h"

namespace lockstep {

void IoAttach::advance(std::uint32_t rank, std::uint8_t fd, std::uint64_t upto) {
  if (fd != 1 && fd != 2)
    return;
  auto& mark = have[rank][fd - 1u];
  mark = std::max(mark, upto);
}

bool IoAttach::cut(std::uint32_t rank, std::string& payload) {
  constexpr std::size_t kHead = 9;  // descriptor and offset
  if (payload.size() < kHead)
    return false;
  const auto fd = static_cast<std::uint8_t>(payload[0]);
  if (fd != 1 && fd != 2)
    return false;
  std::uint64_t from = 0;
  for (std::size_t i = 1; i < kHead; ++i) from = from << 8 | static_cast<unsigned char>(payload[i]);
  auto& mark = have[rank][fd - 1u];
  const std::uint64_t upto = from + payload.size() - kHead;
  if (upto <= mark)
    return false;
  if (from < mark) {
    payload.erase(kHead, mark - from);
    for (std::size_t i = 1; i < kHead; ++i) payload[i] = static_cast<char>(mark >> (8 * (kHead - 1 - i)));
  }
  mark = upto;
  return true;
}

IoAttach IoAttach::only(const std::vector<std::uint32_t>& ranks) const {
  IoAttach out;
  out.onlooker = onlooker;
  for (const auto rank : ranks)
    if (const auto it = have.find(rank); it != have.end())
      out.have.insert(*it);
  return out;
}

std::string encode(const IoAttach& attach) {
  std::string out = R"({"have":{)";
  for (const auto& [rank, marks] : attach.have) {
    if (out.back() != '{')
      out += ',';
    out += format(R"("{}":[{},{}])", rank, marks[0], marks[1]);
  }
  return out + (attach.onlooker ? R"(},"onlooker":true})" : "}}");
}

Result<IoAttach> decode_io_attach(std::string_view text) {
  IoAttach attach;
  if (trim(text).empty())
    return attach;
  using wire::Reader;
  Reader reader{wire::Origin::kStranger};
  const auto read = [](Reader& r, const wire::json::value& v, void* into) {
    const auto* object = wire::read_object(r, v);
    if (!object)
      return false;
    if (const auto* onlooker = object->if_contains("onlooker"))
      if (!wire::Codec<bool>::read(r, *onlooker, static_cast<IoAttach*>(into)->onlooker))
        return r.under("onlooker");
    const auto* have = object->if_contains("have");
    if (!have)
      return true;
    const auto* ranks = wire::read_object(r, *have);
    if (!ranks)
      return r.under("have");
    for (const auto& [key, value] : *ranks) {
      const auto rank = parse_uint({key.data(), key.size()});
      std::pair<std::uint64_t, std::uint64_t> marks;
      if (!rank || *rank > UINT32_MAX)
        return r.fail("names something that is no rank"), r.under("have");
      if (!wire::Codec<std::pair<std::uint64_t, std::uint64_t>>::read(r, value, marks))
        return r.under({key.data(), key.size()}), r.under("have");
      static_cast<IoAttach*>(into)->have[static_cast<std::uint32_t>(*rank)] = {marks.first, marks.second};
    }
    return true;
  };
  TRY(wire::with_document(text, reader, read, &attach));
  return attach;
}

}  // namespace lockstep
