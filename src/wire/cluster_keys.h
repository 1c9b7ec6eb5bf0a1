// Internal to wire: every key of cluster.yaml, one row each. Reader, writer, comparison, the schema for editors and the
// table in docs/cluster-file.md follow from these rows.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/text.h"
#include "wire/cluster_file.h"
#include "wire/cluster_forms.h"

namespace lockstep::wire {

template <class T>
struct FileKey {
  std::string_view name;
  std::string_view also;  // other names that are read, with blanks between them; Slurm's, mostly
  const FormRow* form = nullptr;
  std::string_view meaning;
  Result<void> (*read)(const YamlNode&, T&) = nullptr;
  FileValue (*write)(const T&) = nullptr;
  void (*take)(const T& from, T& into) = nullptr;  // the member as `from` has it
  bool always = false;                             // written even at its default, and asked for when read
};

template <class T>
std::span<const FileKey<T>> file_keys();
template <>
std::span<const FileKey<NodeClass>> file_keys();
template <>
std::span<const FileKey<Partition>> file_keys();
template <>
std::span<const FileKey<Qos>> file_keys();
template <>
std::span<const FileKey<Account>> file_keys();
template <>
std::span<const FileKey<Association>> file_keys();
template <>
std::span<const FileKey<Licence>> file_keys();
template <>
std::span<const FileKey<Reservation>> file_keys();
template <>
std::span<const FileKey<HealthCheck>> file_keys();
template <>
std::span<const FileKey<Policy>> file_keys();
template <>
std::span<const FileKey<Topology>> file_keys();

// The row of that name, or of another of its names; null: there is none.
template <class T>
const FileKey<T>* file_key(std::string_view name) {
  const std::string asked = squeezed(name);
  for (const FileKey<T>& key : file_keys<T>()) {
    if (squeezed(key.name) == asked)
      return &key;
    for (const std::string& other : split_words(key.also))
      if (other == asked)
        return &key;
  }
  return nullptr;
}

template <class T>
const T& default_record() {
  static const T record{};
  return record;
}

// Whether the key says something: its value is not the default, or it is one that is always said.
template <class T>
bool is_said(const FileKey<T>& key, const T& record) {
  return key.always || key.write(record) != key.write(default_record<T>());
}

// A section of the file: the word at the top, which kind, and what stands behind a name when only one value does.
struct SectionRow {
  std::string_view word;
  Kind kind;
  std::string_view one;  // in messages: "node class"
  std::string_view meaning;
};
std::span<const SectionRow> file_sections();
const SectionRow& section_of(Kind kind);

}  // namespace lockstep::wire
