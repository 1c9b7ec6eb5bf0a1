// Batches and snapshots as the log holds them: one document (see encode_entry) after the other. A document that is
// longer than an entry may be is cut into pieces, each an entry of its own with one letter in front:
//
//   {"v":2,…}         a whole document
//   <{"v":2,  +…  >…}  its pieces: the first, those between, the last
//
// A batch counts with its closing entry. One that never got it did not happen: its numbers are given out again, by
// which it is known. An entry without a byte stands for one that was lost, and says nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wire/codec.h"
#include "wire/long_values.h"

namespace lockstep {

// Texts of at most bytes_max (2 or more); a document that is short enough stays as it is.
std::vector<std::string> cut_document(std::string document, std::size_t bytes_max);

// Writes changes one by one and knows how long the document has become, so that it can be ended in time.
class EntryWriter {
 public:
  // Long values go to `apart`; null: they stay in their records.
  explicit EntryWriter(Instant at, LongValues* apart = nullptr);
  ~EntryWriter();
  void add(const Change& change);
  std::size_t bytes() const;  // of the document so far, but for its last brackets
  // Hands the document out and begins the next. Events are not state: none are written if they take more than
  // events_bytes_max, which SIZE_MAX says never happens.
  std::string finish(const std::vector<Event>& events = {}, std::size_t events_bytes_max = SIZE_MAX);

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

// Puts entries together again, in their order. Errors are kCorrupt.
class EntryReader {
 public:
  // Jobs share their specs with what else was read with this pool; null = with those of their document. Long values
  // are looked up in `apart`; null: an entry that names one is corrupt.
  explicit EntryReader(SpecPool* pool = nullptr, LongValues* apart = nullptr) : pool_(pool), apart_(apart) {}

  // True: this entry closes a batch, which take() hands out.
  Result<bool> add(std::string_view bytes, bool closing);
  EntryBody take();

 private:
  Result<void> read(std::string_view document);

  SpecPool* pool_;
  LongValues* apart_;
  EntryBody batch_;
  std::string pieces_;  // of a document whose last piece is still to come
  bool in_pieces_ = false;
};

}  // namespace lockstep
