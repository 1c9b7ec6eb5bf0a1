#include "container/cdi.h"

#include <dirent.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/documents.h"

namespace lockstep {
namespace {

constexpr std::size_t kCdiFilesMax = 256;

template <class T, class Same>
void add_missing(std::vector<T>& to, const std::vector<T>& from, Same same) {
  for (const T& item : from)
    if (std::none_of(to.begin(), to.end(), [&](const T& other) { return same(item, other); }))
      to.push_back(item);
}

CdiEdits read_edits(const YamlNode* node) {
  CdiEdits edits;
  if (!node)
    return edits;
  edits.env = texts_of(node->child("env"));
  for (const YamlNode& device : children_of(node->child("deviceNodes"))) {
    const std::string inside = text_of(device.child("path"));
    const std::string outside = text_of(device.child("hostPath"));
    if (inside.starts_with("/dev/"))
      edits.devices.emplace_back(outside.empty() ? inside : outside, inside);
  }
  for (const YamlNode& entry : children_of(node->child("mounts"))) {
    Mount mount{text_of(entry.child("hostPath")), text_of(entry.child("containerPath")), false,
                texts_of(entry.child("options"))};
    mount.read_only = std::erase(mount.options, "ro") > 0;
    if (mount.source.starts_with('/') && mount.target.starts_with('/'))
      edits.mounts.push_back(std::move(mount));
  }
  for (const YamlNode& hook : children_of(node->child("hooks")))
    edits.hooks.push_back({text_of(hook.child("hookName")), text_of(hook.child("path")), texts_of(hook.child("args")),
                           texts_of(hook.child("env"))});
  return edits;
}

bool names_spec(std::string_view name) {
  return !name.starts_with('.') && (name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"));
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  DIR* const open = ::opendir(folder.c_str());
  if (!open)
    return files;
  while (const dirent* entry = ::readdir(open))
    if (names_spec(entry->d_name) && files.size() < kCdiFilesMax)
      files.push_back(folder + "/" + entry->d_name);
  ::closedir(open);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

void CdiEdits::add(const CdiEdits& other) {
  add_missing(env, other.env, std::equal_to<>());
  add_missing(devices, other.devices, std::equal_to<>());
  add_missing(mounts, other.mounts, std::equal_to<>());
  add_missing(hooks, other.hooks,
              [](const CdiHook& a, const CdiHook& b) { return a.path == b.path && a.args == b.args; });
}

Result<CdiSpec> parse_cdi(std::string_view text) {
  const YamlNode document = TRY(read_document(text, "CDI specification"));
  CdiSpec spec;
  spec.kind = text_of(document.child("kind"));
  if (spec.kind.find('/') == spec.kind.npos)
    return invalid("CDI specification: kind is missing, or has no vendor");
  spec.common = read_edits(document.child("containerEdits"));
  for (const YamlNode& device : children_of(document.child("devices")))
    if (const std::string name = text_of(device.child("name")); !name.empty())
      spec.devices[name] = read_edits(device.child("containerEdits"));
  return spec;
}

std::vector<CdiSpec> read_cdi(std::span<const std::string> folders, std::vector<std::string>& notes) {
  std::vector<CdiSpec> specs;
  for (const std::string& folder : folders)
    for (const std::string& file : files_in(folder)) {
      const auto text = read_plain(file, Links::kFollowed, kDocumentMax);
      auto spec = text.ok() ? parse_cdi(*text) : Result<CdiSpec>(text.error());
      if (spec.ok())
        specs.push_back(std::move(*spec));
      else
        notes.push_back(format("{}: {}", file, spec.error().message));
    }
  return specs;
}

Result<CdiEdits> find_cdi(std::span<const CdiSpec> specs, std::string_view kind, std::span<const std::string> names) {
  CdiEdits edits;
  for (const std::string& name : names) {
    // The folder read last wins, as the specification has it.
    const CdiSpec* found = nullptr;
    for (const CdiSpec& spec : specs)
      if (spec.kind == kind && spec.devices.contains(name))
        found = &spec;
    if (!found)
      return not_found(format("no file in /etc/cdi or /var/run/cdi knows the device {}={}", kind, name));
    edits.add(found->devices.at(name));
    edits.add(found->common);
  }
  return edits;
}

}  // namespace lockstep
