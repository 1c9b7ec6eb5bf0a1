#include "frontends/slurm/import/conf_keys.h"

#include <map>

#include "base/nearest.h"
#include "base/text.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/import/option_tables.h"

namespace lockstep::slurm {

std::string_view verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kTaken: return "taken";
    case Verdict::kSame: return "same";
    case Verdict::kNoEqual: return "no equal";
    case Verdict::kUnknown: return "unknown";
  }
  return "";
}

std::vector<const ConfTable*> conf_tables() {
  return {&kClusterKeys,       &kNodeKeys,       &kDownNodesKeys,  &kFrontendKeys,      &kNodeSetKeys,
          &kPartitionKeys,     &kGresKeys,       &kTopologyKeys,   &kSchedulerOptions,  &kSelectOptions,
          &kPriorityOptions,   &kPreemptOptions, &kPrologOptions,  &kDependencyOptions, &kLaunchOptions,
          &kControllerOptions, &kAgentOptions,   &kTopologyOptions};
}

namespace {

// A file may have half a million settings: they are not compared with every row.
using KeyIndex = std::map<const ConfTable*, std::map<std::string, const ConfKey*, std::less<>>>;

KeyIndex index_of_keys() {
  KeyIndex index;
  for (const ConfTable* table : conf_tables())
    for (const ConfKey& key : table->keys) index[table].emplace(lower(key.name), &key);
  return index;
}

}  // namespace

const ConfKey* find_key(const ConfTable& table, std::string_view name) {
  static const KeyIndex kIndex = index_of_keys();
  const auto& rows = kIndex.at(&table);
  const auto found = rows.find(lower(name));
  return found == rows.end() ? nullptr : found->second;
}

std::string_view nearest_key(const ConfTable& table, std::string_view name) {
  if (name.size() > 64)
    return {};
  std::vector<std::string> lowered;
  for (const ConfKey& key : table.keys) lowered.push_back(lower(key.name));
  const std::vector<std::string_view> known(lowered.begin(), lowered.end());
  const std::string_view meant = nearest(lower(name), known);
  for (std::size_t i = 0; i < known.size(); ++i)
    if (!meant.empty() && known[i] == meant)
      return table.keys[i].name;
  return {};
}

Fate settle(const ConfKey& key, Site& site, const ConfWord& word) {
  if (!key.ours.empty() && is_among(key.ours, lower(word.value)))
    return {Verdict::kTaken, "Lockstep does just that"};
  Fate fate{key.verdict, {}};
  if (key.take) {
    auto taken = key.take(site, word);
    fate = taken ? std::move(*taken) : Fate{Verdict::kUnknown, format("no value of it: {}", taken.error().message)};
  }
  if (fate.words.empty())
    fate.words = key.words;
  return fate;
}

std::string keys_as_markdown() {
  std::string out;
  for (const ConfTable* table : conf_tables()) {
    out += format("### {}\n\n| parameter | verdict | what becomes of it |\n| --- | --- | --- |\n", table->title);
    for (const ConfKey& key : table->keys) {
      std::string words = key.options ? format("option by option: see {}", key.options->title) : std::string(key.words);
      if (words.empty())
        words = "by its value";
      if (!key.ours.empty()) {
        std::string values;
        for (const std::string& value : split_words(key.ours))
          values += format("{}`{}`", values.empty() ? "" : ", ", value);
        words += format(". Taken: {}", values);
      }
      out += format("| {} | {} | {} |\n", key.name, key.options ? "–" : verdict_text(key.verdict), words);
    }
    out += "\n";
  }
  return out;
}

}  // namespace lockstep::slurm
