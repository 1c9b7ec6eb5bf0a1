// Table objects: what `kubectl get` prints. The server names the columns and fills the cells.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "frontends/kube/machinery/json_path.h"

namespace lockstep::kube {

struct Column {
  std::string name;
  std::string type;    // "string", "integer", "number", "boolean", "date"
  std::string format;  // "name" for the one that names the object
  std::string description;
  std::int32_t priority = 0;  // above 0: only in wide output
};

// How much of each object stands beside its row.
enum class RowObject : unsigned char { kNone, kMetadata, kObject };
std::optional<RowObject> row_object(std::string_view text);  // of ?includeObject=; "" is kMetadata

class Table {
 public:
  // `version`: "v1" or "v1beta1", as the request's Accept header says.
  Table(std::string version, std::vector<Column> columns, RowObject include)
      : version_(std::move(version)), columns_(std::move(columns)), include_(include) {}

  void add_row(json::array cells, const json::object& object);

  // `list_metadata`: resourceVersion, continue, remainingItemCount. `headers`: false in watch events after the first.
  json::object body(json::object list_metadata, bool headers = true) &&;

 private:
  std::string version_;
  std::vector<Column> columns_;
  RowObject include_;
  json::array rows_;
};

// The columns of a custom resource's version: its name, then additionalPrinterColumns, or the age where there are none.
class CustomColumns {
 public:
  const std::vector<Column>& columns() const { return columns_; }
  json::array cells(const json::value& object, WallTime now) const;

 private:
  friend Result<CustomColumns> read_custom_columns(const json::value& version);

  std::vector<Column> columns_;
  std::vector<JsonPath> paths_;  // of columns_ without the first
};

// Error: a column's path is none.
Result<CustomColumns> read_custom_columns(const json::value& version);

// "<unknown>" for a time that is absent, "<invalid>" for a text that is none.
std::string since_text(const json::value* timestamp, WallTime now);

}  // namespace lockstep::kube
