// Asking the cluster for rows and texts: the part that squeue, sinfo, scontrol and sacct share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/slurm/client/asking.h"

namespace lockstep::slurm {

class Query {
 public:
  explicit Query(const ClientContext& context, Bearing bearing = Bearing::kPatient) : line_(context, bearing) {}
  // The body, or an Error whose message is what the cluster said.
  Result<std::string> get(std::string_view path, const std::map<std::string, std::string>& parameters,
                          std::optional<Duration> timeout = {});
  Result<std::string> send(std::string_view method, std::string_view target, std::string_view body,
                           std::optional<Duration> timeout = {});
  // A change that comes to the same when it is made twice: sent again, like a question, when the connection breaks.
  Result<std::string> set(std::string_view method, std::string_view target, std::string_view body);

 private:
  static Result<std::string> body_of(ApiClient::Reply reply);
  Asking line_;
};

// Rows between tabs, cut in place: cells point into the body.
class Rows {
 public:
  Rows(std::string body, std::size_t columns);
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  std::size_t size() const { return columns_ ? cells_.size() / columns_ : 0; }
  std::string_view cell(std::size_t row, std::size_t column) const {
    const Cell& at = cells_[row * columns_ + column];
    return std::string_view(body_).substr(at.from, at.size);
  }

 private:
  std::string body_;
  std::size_t columns_;
  struct Cell {
    std::uint32_t from = 0, size = 0;
  };
  std::vector<Cell> cells_;
};

// --clusters, or else $SLURM_CLUSTERS, names this cluster, or all, or nothing.
Result<std::string> check_clusters(const ClientContext& context, const std::string& names);

std::string variable_or(const char* name, std::string_view otherwise = {});  // from the environment

}  // namespace lockstep::slurm
