// Boost's parser keeps the last of two fields of one name and says nothing, so the text is read once more for this
// alone.
#include <boost/json/basic_parser_impl.hpp>
#include <unordered_set>

#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/pruning.h"

namespace lockstep::kube {
namespace {

// Follows where the parser is: a frame for each object and list that is open.
struct DuplicateHandler {
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  using Code = json::error_code;

  struct Frame {
    bool list = false;
    std::size_t index = 0;  // of the list's current element
    std::size_t path = 0;   // length of the path to the object or list itself
    std::unordered_set<std::string> keys;
  };
  std::vector<Frame> frames;
  std::string path, key;
  std::vector<std::string> found;

  // Called before each value: names it on the path.
  void begin_value() {
    if (frames.empty())
      return;
    Frame& frame = frames.back();
    if (frame.list) {
      path.resize(frame.path);
      path += "[" + std::to_string(frame.index++) + "]";
    }
  }
  bool scalar() { return begin_value(), true; }

  bool open(bool list) {
    begin_value();
    frames.push_back({list, 0, path.size(), {}});
    return true;
  }
  bool close() {
    path.resize(frames.back().path);
    frames.pop_back();
    return true;
  }
  bool take_key() {
    Frame& frame = frames.back();
    path.resize(frame.path);
    if (!path.empty())
      path += '.';
    path += key;
    if (!frame.keys.insert(key).second && found.size() < kStrictErrorsMax && (found.empty() || found.back() != path))
      found.push_back(path);
    key.clear();
    return true;
  }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return open(false); }
  bool on_object_end(std::size_t, Code&) { return close(); }
  bool on_array_begin(Code&) { return open(true); }
  bool on_array_end(std::size_t, Code&) { return close(); }
  bool on_key_part(json::string_view text, std::size_t, Code&) { return key += text, true; }
  bool on_key(json::string_view text, std::size_t, Code&) { return key += text, take_key(); }
  bool on_string_part(json::string_view, std::size_t, Code&) { return true; }
  bool on_string(json::string_view, std::size_t, Code&) { return scalar(); }
  bool on_number_part(json::string_view, Code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, Code&) { return scalar(); }
  bool on_uint64(std::uint64_t, json::string_view, Code&) { return scalar(); }
  bool on_double(double, json::string_view, Code&) { return scalar(); }
  bool on_bool(bool, Code&) { return scalar(); }
  bool on_null(Code&) { return scalar(); }
  bool on_comment_part(json::string_view, Code&) { return true; }
  bool on_comment(json::string_view, Code&) { return true; }
};

}  // namespace

std::vector<std::string> duplicate_fields(std::string_view text) {
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::basic_parser<DuplicateHandler> parser(options);
  json::error_code error;
  parser.write_some(false, text.data(), text.size(), error);
  return error ? std::vector<std::string>() : std::move(parser.handler().found);
}

}  // namespace lockstep::kube
