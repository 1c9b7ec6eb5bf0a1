#include "frontends/kube/machinery/json_patch.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kWorkMax = 250'000;      // values copied, compared or moved by one patch
constexpr std::size_t kOrderedMembers = 1000;  // of larger objects a removed key's place is taken by the last one

// One patch at work. Every step that fails leaves its reason in `refusal`.
class PatchRun {
 public:
  explicit PatchRun(json::value& document) : document_(document) {}

  bool apply(const json::object& operation);
  Status refusal;

 private:
  struct Place {
    json::value* parent = nullptr;
    std::string key;  // the last part of the path
  };

  bool refuse(std::string why) {
    refusal = Status::unprocessable(std::move(why));
    return false;
  }
  bool spend(std::size_t work) {
    work_ += work;
    return work_ <= kWorkMax ||
           refuse("the patch copies, moves or compares more values than one patch may; split it into several");
  }
  std::optional<std::vector<std::string>> parts_of(const json::object& operation, const char* which);
  std::optional<Place> find_parent(const std::vector<std::string>& parts, const std::string& missing);
  std::optional<std::size_t> index_in(const json::array& list, const std::string& key, std::size_t limit);
  json::value* find(const std::vector<std::string>& parts, const std::string& missing);
  bool put(const Place& place, json::value value, std::size_t depth, bool replace);
  bool take(const Place& place, json::value* taken, const std::string& path);
  bool add(const std::vector<std::string>& parts, const std::string& path, const char* verb, json::value value);
  bool test(const json::object& operation, const std::vector<std::string>& parts, const std::string& path);

  json::value& document_;
  std::size_t work_ = 0;
};

std::string unescaped(std::string_view part) {
  std::string out;
  for (std::size_t at = 0; at < part.size(); ++at) {
    if (part[at] == '~' && at + 1 < part.size() && (part[at + 1] == '0' || part[at + 1] == '1'))
      out += part[++at] == '0' ? '~' : '/';
    else
      out += part[at];
  }
  return out;
}

// A whole document has no parts. What does not begin with "/" is no path.
std::optional<std::vector<std::string>> PatchRun::parts_of(const json::object& operation, const char* which) {
  const json::value* text = operation.if_contains(which);
  if (text == nullptr || !text->is_string()) {
    refuse(format("operation missing {} field: missing value", which));
    return {};
  }
  const std::string_view path = text_of(*text);
  std::vector<std::string> parts;
  if (path.empty())
    return parts;
  if (path.front() != '/') {
    refuse(format("{} operation does not apply: doc is missing path: \"{}\": missing value",
                  text_of(operation.at("op")), path));
    return {};
  }
  std::size_t from = 1;
  while (true) {
    const std::size_t end = path.find('/', from);
    parts.push_back(unescaped(path.substr(from, end == path.npos ? end : end - from)));
    if (parts.size() > kDepthMax) {
      refuse(format("a path may have {} parts at most", kDepthMax));
      return {};
    }
    if (end == path.npos)
      return parts;
    from = end + 1;
  }
}

// Of an element that is there (limit = size), or of a place to insert at (limit = size + 1).
std::optional<std::size_t> PatchRun::index_in(const json::array& list, const std::string& key, std::size_t limit) {
  const auto number = parse_int(key);
  if (!number) {
    refuse(format("value was not a proper array index: '{}'", key));
    return {};
  }
  std::int64_t index = *number;
  if (index < 0 && index >= -static_cast<std::int64_t>(list.size()))
    index += static_cast<std::int64_t>(list.size());
  if (index < 0 || static_cast<std::size_t>(index) >= limit) {
    refuse(format("Unable to access invalid index: {}: invalid index referenced", *number));
    return {};
  }
  return static_cast<std::size_t>(index);
}

std::optional<PatchRun::Place> PatchRun::find_parent(const std::vector<std::string>& parts,
                                                     const std::string& missing) {
  json::value* at = &document_;
  for (std::size_t each = 0; each + 1 < parts.size(); ++each) {
    json::value* next = nullptr;
    if (json::object* object = at->if_object()) {
      next = object->if_contains(parts[each]);
    } else if (json::array* list = at->if_array()) {
      const auto index = parse_int(parts[each]);
      if (index && *index >= 0 && static_cast<std::size_t>(*index) < list->size())
        next = &(*list)[static_cast<std::size_t>(*index)];
    }
    if (next == nullptr) {
      refuse(missing);
      return {};
    }
    at = next;
  }
  if (!at->is_structured()) {
    refuse(missing);
    return {};
  }
  return Place{at, parts.back()};
}

json::value* PatchRun::find(const std::vector<std::string>& parts, const std::string& missing) {
  if (parts.empty())
    return &document_;
  const auto place = find_parent(parts, missing);
  if (!place)
    return nullptr;
  if (json::object* object = place->parent->if_object()) {
    json::value* found = object->if_contains(place->key);
    if (found == nullptr)
      refuse(missing);
    return found;
  }
  json::array& list = place->parent->get_array();
  const auto index = index_in(list, place->key, list.size());
  return index ? &list[*index] : nullptr;
}

bool PatchRun::put(const Place& place, json::value value, std::size_t depth, bool replace) {
  if (depth + depth_of(value) > kDepthMax)
    return refuse(format("the patched object would be deeper than {} levels", kDepthMax));
  if (json::object* object = place.parent->if_object()) {
    (*object)[place.key] = std::move(value);
    return true;
  }
  json::array& list = place.parent->get_array();
  if (!replace && place.key == "-") {
    list.push_back(std::move(value));
    return true;
  }
  const auto index = index_in(list, place.key, replace ? list.size() : list.size() + 1);
  if (!index)
    return false;
  if (replace)
    list[*index] = std::move(value);
  else if (!spend((list.size() - *index) / 16))
    return false;
  else
    list.insert(list.begin() + *index, std::move(value));
  return true;
}

bool PatchRun::take(const Place& place, json::value* taken, const std::string& path) {
  if (json::object* object = place.parent->if_object()) {
    const auto at = object->find(place.key);
    if (at == object->end())
      return refuse(format("error in remove for path: '{}': Unable to remove nonexistent key: {}: missing value", path,
                           place.key));
    if (taken != nullptr)
      *taken = std::move(at->value());
    if (object->size() <= kOrderedMembers)
      object->stable_erase(at);
    else
      object->erase(at);
    return true;
  }
  json::array& list = place.parent->get_array();
  const auto index = index_in(list, place.key, list.size());
  if (!index || !spend((list.size() - *index) / 16))
    return false;
  if (taken != nullptr)
    *taken = std::move(list[*index]);
  list.erase(list.begin() + *index);
  return true;
}

bool PatchRun::add(const std::vector<std::string>& parts, const std::string& path, const char* verb,
                   json::value value) {
  if (parts.empty()) {
    document_ = std::move(value);
    return true;
  }
  const auto place =
      find_parent(parts, format("{} operation does not apply: doc is missing path: \"{}\": missing value", verb, path));
  return place && put(*place, std::move(value), parts.size(), false);
}

bool PatchRun::test(const json::object& operation, const std::vector<std::string>& parts, const std::string& path) {
  const json::value null;
  const json::value* wanted = operation.if_contains("value");
  const json::value* found = parts.empty() ? &document_ : nullptr;
  if (found == nullptr) {
    const auto place =
        find_parent(parts, format("test operation does not apply: is missing path: {}: missing value", path));
    if (!place)
      return false;
    if (const json::object* object = place->parent->if_object()) {
      found = object->if_contains(place->key);  // what is absent equals null
    } else {
      const json::array& list = place->parent->get_array();
      const auto index = index_in(list, place->key, list.size());
      if (!index)
        return false;
      found = &list[*index];
    }
  }
  if (wanted == nullptr)
    wanted = &null;
  if (found == nullptr)
    found = &null;
  return spend(nodes_of(*wanted)) &&
         (same_json(*found, *wanted) || refuse(format("testing value {} failed: test failed", path)));
}

bool PatchRun::apply(const json::object& operation) {
  const json::value* op = operation.if_contains("op");
  const std::string_view verb = op == nullptr ? std::string_view() : text_of(*op);
  if (verb.empty())
    return refuse("operation missing op field: missing value");
  const auto parts = parts_of(operation, "path");
  if (!parts)
    return false;
  const std::string path(text_of(operation.at("path")));
  const json::value* value = operation.if_contains("value");
  if ((verb == "add" || verb == "replace") && value == nullptr)
    return refuse("operation, missing value field: missing value");
  if (verb == "add")
    return spend(nodes_of(*value)) && add(*parts, path, "add", *value);
  if (verb == "test")
    return test(operation, *parts, path);
  if (verb == "replace") {
    const std::string missing =
        format("replace operation does not apply: doc is missing path: {}: missing value", path);
    if (!spend(nodes_of(*value)))
      return false;
    if (parts->empty())
      return add(*parts, path, "replace", *value);
    // A member that is not there is added, as the real server does.
    const auto place = find_parent(*parts, missing);
    return place && put(*place, *value, parts->size(), true);
  }
  if (verb == "remove") {
    if (parts->empty())
      return refuse("remove operation does not apply: doc is missing path: \"\": missing value");
    const auto place = find_parent(
        *parts, format("remove operation does not apply: doc is missing path: \"{}\": missing value", path));
    return place && take(*place, nullptr, path);
  }
  if (verb != "move" && verb != "copy")
    return refuse(format("Unexpected kind: {}", verb));
  const auto source = parts_of(operation, "from");
  if (!source)
    return false;
  const std::string from(text_of(operation.at("from")));
  const std::string missing =
      format("{} operation does not apply: doc is missing from path: {}: missing value", verb, from);
  const json::value* found = find(*source, missing);
  if (found == nullptr)
    return false;
  if (verb == "copy") {
    // The copy is made before anything is put: a part may be copied into itself.
    if (!spend(nodes_of(*found)))
      return false;
    return add(*parts, path, "copy", json::value(*found));
  }
  if (*source == *parts)
    return true;
  if (source->size() < parts->size() && std::equal(source->begin(), source->end(), parts->begin()))
    return refuse(format("move operation does not apply: {} is a part of {}", path, from));
  json::value moved;
  return take(*find_parent(*source, missing), &moved, from) && spend(nodes_of(moved)) &&
         add(*parts, path, "move", std::move(moved));
}

}  // namespace

Answered<json::value> apply_json_patch(json::value document, const json::value& patch) {
  const json::array* operations = patch.if_array();
  if (operations == nullptr)
    return Status::bad_request("error decoding patch: a JSON patch is a list of operations");
  if (operations->size() > kPatchOperationsMax) {
    Status status = Status::too_large(0);
    status.message = format("Request entity too large: The allowed maximum operations in a JSON patch is {}, got {}",
                            kPatchOperationsMax, operations->size());
    return status;
  }
  PatchRun run(document);
  for (const json::value& operation : *operations) {
    if (!operation.is_object())
      return Status::bad_request("error decoding patch: each operation of a JSON patch is an object");
    if (!run.apply(operation.get_object()))
      return std::move(run.refusal);
  }
  return document;
}

}  // namespace lockstep::kube
