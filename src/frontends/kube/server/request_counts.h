// RequestCounts: how many requests there were, how long they took and how many are under way, under the names by which
// dashboards of Kubernetes' API servers ask for them.
// Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "frontends/kube/server/request.h"

namespace lockstep::kube {

class RequestCounts final : public FrontReader, public std::enable_shared_from_this<RequestCounts> {
 public:
  // Requests of further resources are counted together: a tenant's resources make a page of numbers no longer.
  static constexpr std::size_t kSeriesMost = 200;
  static constexpr std::array kBounds = {0.005, 0.025, 0.05, 0.1, 0.2, 0.4,  0.6,  0.8,  1.0,  1.25, 1.5, 2.0,
                                         3.0,   4.0,   5.0,  6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0};

  // The same visit, counted when it is answered. The request's kind and target are known.
  std::shared_ptr<FrontVisit> counted(const Request& request);

  void begin(const Tables&) override {}
  void change(const Tables&, const Change&) override {}
  std::string metrics() const override;

 private:
  class Counted;
  struct Under;  // one request that is under way
  struct Series {
    std::map<int, std::uint64_t> by_code;
    std::array<std::uint64_t, kBounds.size() + 1> by_duration = {};  // the last: longer than all bounds
    double seconds = 0;
    std::uint64_t lasting = 0;  // watches that are open
  };
  Series& series(const std::string& labels);
  void ended(const std::string& labels, int code, Duration took, bool lasts);

  std::map<std::string, Series> by_labels_;
  std::uint64_t reading_ = 0, changing_ = 0;  // under way
};

}  // namespace lockstep::kube
