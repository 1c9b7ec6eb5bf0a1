#include "frontends/kube/machinery/yaml_text.h"

#include <boost/json/serialize.hpp>
#include <map>

#include "wire/yaml.h"

namespace lockstep::kube {

namespace {

class Writer {
 public:
  explicit Writer(std::size_t most, std::string begin = {}) : left_(most), out_(std::move(begin)) {}
  // Behind "key:" or "-": the blank or the line break is written here.
  void value(const json::value& value, std::size_t depth, bool in_list) {
    if (value.is_object() && !value.get_object().empty() && has_room(value.get_object().size(), depth))
      object(value.get_object(), depth, in_list);
    else if (value.is_array() && !value.get_array().empty() && has_room(value.get_array().size(), depth))
      list(value.get_array(), depth, in_list);
    else
      out_.append(1, ' ').append(scalar(value)).append(1, '\n');
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string scalar(const json::value& value) {
    return value.is_string() ? yaml_scalar(value.get_string(), YamlPlace::kBlock) : json::serialize(value);
  }
  void object(const json::object& object, std::size_t depth, bool in_list) {
    std::map<std::string_view, const json::value*> sorted;
    for (const auto& [key, value] : object) sorted[key] = &value;
    // The first entry stands beside the list's dash.
    bool beside = in_list;
    if (!in_list && depth > 0)
      out_ += '\n';
    for (const auto& [key, value] : sorted) {
      out_.append(beside ? 1 : indent(depth), ' ').append(yaml_scalar(key, YamlPlace::kBlock)).append(1, ':');
      beside = false;
      this->value(*value, depth + 1, false);
    }
  }
  void list(const json::array& list, std::size_t depth, bool in_list) {
    // A list stands as deep as the key that it belongs to.
    const std::size_t own = in_list ? depth : depth - (depth > 0);
    bool beside = in_list;
    if (!in_list && depth > 0)
      out_ += '\n';
    for (const json::value& one : list) {
      out_.append(beside ? 1 : indent(own), ' ').append(1, '-');
      beside = false;
      value(one, own + 1, true);
    }
  }
  // For so many lines. What has none stands on one line, as JSON.
  bool has_room(std::size_t lines, std::size_t depth) {
    const std::size_t cost = lines * (indent(depth) + 3);
    if (cost > left_)
      return false;
    left_ -= cost;
    return true;
  }
  static std::size_t indent(std::size_t depth) { return 2 * depth; }

  std::size_t left_;  // of the bytes that lines may begin with
  std::string out_;
};

}  // namespace

std::string yaml_item(const json::value& value, std::size_t most) {
  Writer writer(most, "-");
  writer.value(value, 1, true);
  return writer.take();
}

std::string yaml_text(const json::value& value, std::size_t most) {
  Writer writer(most);
  if (!value.is_structured() || (value.is_object() ? value.get_object().empty() : value.get_array().empty()))
    return json::serialize(value) + "\n";
  writer.value(value, 0, false);
  return writer.take();
}

}  // namespace lockstep::kube
