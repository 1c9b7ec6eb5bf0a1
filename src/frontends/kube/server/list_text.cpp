#include "frontends/kube/server/list_text.h"

#include <boost/json/object.hpp>
#include <utility>

#include "frontends/kube/machinery/yaml_text.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

void ListText::begin(std::string& out, std::string_view head, std::string_view end) {
  if (form_ == ListForm::kPlain) {
    out += head;
    return;
  }
  if (form_ == ListForm::kIndented)
    return indenter_.feed(head, out);
  // The keys of YAML stand in order: some before the items, some behind them.
  json::object before, behind;
  const json::value whole = parse_own(std::string(head) + std::string(end));
  list_key_ = whole.as_object().contains("rows") ? "rows" : "items";
  for (const auto& [key, value] : whole.as_object())
    if (key != list_key_)
      (key < json::string_view(list_key_) ? before : behind)[key] = value;
  if (!before.empty())
    out += yaml_text(before);
  if (!behind.empty())
    tail_ = yaml_text(behind);
}

void ListText::item(std::string& out, const std::function<void(std::string& out)>& write_json) {
  const bool first = std::exchange(is_empty_, false);
  if (form_ == ListForm::kPlain) {
    if (!first)
      out += ',';
    return write_json(out);
  }
  item_.clear();
  write_json(item_);
  if (form_ == ListForm::kIndented) {
    if (!first)
      indenter_.feed(",", out);
    return indenter_.feed(item_, out);
  }
  if (first)
    out += list_key_ + ":\n";
  out += yaml_item(parse_own(item_), yaml_most(item_.size()));
}

void ListText::end(std::string& out, std::string_view end) {
  if (form_ == ListForm::kYaml)
    out += (is_empty_ ? list_key_ + ": []\n" : "") + tail_;
  else if (form_ == ListForm::kIndented)
    indenter_.feed(end, out);
  else
    (out += end) += '\n';
}

}  // namespace lockstep::kube
