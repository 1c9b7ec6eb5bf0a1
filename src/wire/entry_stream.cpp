#include "wire/entry_stream.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace lockstep {

namespace {

constexpr char kFirst = '<', kBetween = '+', kLast = '>';

Error broken(const char* what) { return {Errc::kCorrupt, std::string("log entry: ") + what, {}}; }

}  // namespace

std::vector<std::string> cut_document(std::string document, std::size_t bytes_max) {
  CHECK(bytes_max >= 2, "a piece holds its letter and a byte");
  std::vector<std::string> out;
  if (document.size() <= bytes_max) {
    out.push_back(std::move(document));
    return out;
  }
  const std::size_t each = bytes_max - 1;
  for (std::size_t at = 0; at < document.size(); at += each) {
    std::string piece(1, at == 0 ? kFirst : at + each < document.size() ? kBetween : kLast);
    out.push_back(std::move(piece.append(document, at, each)));
  }
  return out;
}

Result<void> EntryReader::read(std::string_view document) {
  auto body = TRY(decode_entry(document, pool_, apart_));
  auto& open = batch_.changes;
  if (!open.empty() && !body.changes.empty() && body.changes.front().seq <= open.back().seq)
    batch_ = {};  // of a batch that was never closed
  std::move(body.changes.begin(), body.changes.end(), std::back_inserter(open));
  std::move(body.events.begin(), body.events.end(), std::back_inserter(batch_.events));
  batch_.at = body.at;
  return {};
}

Result<bool> EntryReader::add(std::string_view bytes, bool closing) {
  const char letter = bytes.empty() ? '\0' : bytes.front();
  if (letter == kFirst) {
    pieces_ = bytes.substr(1);
    in_pieces_ = true;
  } else if (letter == kBetween || letter == kLast) {
    if (!in_pieces_)
      return broken("a piece without those before it");
    pieces_ += bytes.substr(1);
    if (letter == kLast) {
      in_pieces_ = false;
      TRY(read(std::exchange(pieces_, {})));
    }
  } else if (!bytes.empty()) {
    in_pieces_ = false;
    pieces_ = {};
    TRY(read(bytes));
  }
  if (closing && in_pieces_)
    return broken("a batch ends in the middle of a record");
  return closing;
}

EntryBody EntryReader::take() { return std::exchange(batch_, {}); }

}  // namespace lockstep
