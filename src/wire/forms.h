// Internal to wire: fields that are written in a form of their own, by the descriptor beside them (model/bounded.h).
#pragma once

#include <cstdint>
#include <vector>

#include "model/agent_messages.h"
#include "model/told_to.h"
#include "wire/json.h"

namespace lockstep::wire {

using Numbers = bounded::RankList;

// Results of tasks; those that ended alike in one piece: [{"ranks":"0-3,7","exit":{…}}].
struct ByRank : bounded::Items {};

template <class How, class M>
struct Form {
  static void write(Writer& w, const M& v, const M& base) { Codec<M>::write(w, v, base); }
  static bool read(Reader& r, const json::value& v, M& out) { return Codec<M>::read(r, v, out); }
};

// Who may see a field changes nothing of how it is written.
template <class How, Visibility kTo, class M>
struct Form<Told<How, kTo>, M> : Form<How, M> {};
template <class How, class M>
struct Form<ToldByWord<How>, M> : Form<How, M> {};

template <>
struct Form<bounded::RankList, std::vector<std::uint32_t>> {
  using V = std::vector<std::uint32_t>;
  static void write(Writer& w, const V& v, const V& base);
  static bool read(Reader& r, const json::value& v, V& out);
};

template <>
struct Form<bounded::MemberLetters, std::vector<MemberState>> {
  using V = std::vector<MemberState>;
  static void write(Writer& w, const V& v, const V& base);
  static bool read(Reader& r, const json::value& v, V& out);
};

template <>
struct Form<ByRank, std::vector<TaskResult>> {
  using V = std::vector<TaskResult>;
  static void write(Writer& w, const V& v, const V& base);
  static bool read(Reader& r, const json::value& v, V& out);
};

std::size_t entries_of(const json::value& v);  // of a list or an object; 0 of anything else
bool refuse(Reader& r, Fault fault);           // fails with it; false

}  // namespace lockstep::wire
