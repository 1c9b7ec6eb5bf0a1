// APIs of other servers under our paths: which APIService leads where, whether it answers, and what it serves.
// Source: kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "frontends/kube/server/kinds.h"
#include "frontends/kube/server/pass_on.h"
#include "routes/front_end.h"

namespace lockstep::kube {

struct AggregatedApi {
  std::string name, group, version;  // "v1.example.com"
  json::value service;               // {"namespace", "name", "port"}
  std::string ca_pem;
  bool anybody = false;    // insecureSkipTLSVerify
  bool available = false;  // as its condition says
  bool asked = false;      // whether it answers is being found out
  std::uint64_t asks = 0;  // so often
};

// The APIServices that name a Service. Each is asked now and then what it serves, which discovery shows like our own,
// and its condition Available says what came of it.
class AggregatedApis final : public FrontReader, public std::enable_shared_from_this<AggregatedApis> {
 public:
  AggregatedApis(Kinds& kinds, PassesOn passes_on) : kinds_(kinds), passes_on_(std::move(passes_on)) {}

  const AggregatedApi* find(std::string_view group, std::string_view version) const;
  // Where it is at the moment.
  static Result<WebhookTarget> place_of(const Tables& tables, const AggregatedApi& api);

  void begin(const Tables& tables) override;
  void change(const Tables& before, const Change& change) override;
  void meet(const std::shared_ptr<FrontHands>& hands) override;

 private:
  void take(const Object& object, bool there);
  void look_soon();
  void look();
  void ask(AggregatedApi& api);
  void answered(const std::string& name, const Result<std::string>& list, const char* reason);
  void serve(const AggregatedApi& api, const std::string& list);
  void tell(const AggregatedApi& api, bool available, const char* reason, const std::string& message);

  Kinds& kinds_;
  PassesOn passes_on_;
  std::shared_ptr<FrontHands> hands_;
  std::map<std::pair<std::string, std::string>, AggregatedApi> apis_;
  std::map<std::string, std::shared_ptr<PassedOn>> asking_;  // by name
  std::map<std::string, std::string> served_;                // the last list of each, as it was shown
  bool looking_ = false;
};

}  // namespace lockstep::kube
