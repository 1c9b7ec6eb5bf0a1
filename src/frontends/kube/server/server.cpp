#include "frontends/kube/server/server.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/server/admission.h"
#include "frontends/kube/server/aggregated.h"
#include "frontends/kube/server/authenticate.h"
#include "frontends/kube/server/cluster_jobs.h"
#include "frontends/kube/server/custom_kinds.h"
#include "frontends/kube/server/discovery.h"
#include "frontends/kube/server/health.h"
#include "frontends/kube/server/indented.h"
#include "frontends/kube/server/kinds.h"
#include "frontends/kube/server/measures.h"
#include "frontends/kube/server/options.h"
#include "frontends/kube/server/pass_on.h"
#include "frontends/kube/server/pod_actions.h"
#include "frontends/kube/server/pod_desk.h"
#include "frontends/kube/server/pod_files_route.h"
#include "frontends/kube/server/pod_streams.h"
#include "frontends/kube/server/proxy.h"
#include "frontends/kube/server/read.h"
#include "frontends/kube/server/request_counts.h"
#include "frontends/kube/server/reviews.h"
#include "frontends/kube/server/role_book.h"
#include "frontends/kube/server/service_faults.h"
#include "frontends/kube/server/service_table.h"
#include "frontends/kube/server/use_board.h"
#include "frontends/kube/server/write.h"
#include "wire/lasting_volumes.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kBody = 3 << 20;  // an object has at most 1.5 MB; its text may be longer than what is kept of it

// Whether the request is of those that go on for as long as their client wants.
bool lasts(const Target& target) {
  constexpr std::string_view kLasting[] = {"attach", "exec", "proxy", "log", "portforward"};
  return target.verb == "watch" || std::ranges::find(kLasting, target.subresource) != std::end(kLasting);
}

// The object that a request is about. A list or a watch of one name is about that one: roles that name it allow it.
std::string name_of(const HttpRequest& http, const Target& target) {
  if (!target.name.empty() || (target.verb != "list" && target.verb != "watch"))
    return target.name;
  const auto fields = parse_field_selector(query_of(http, "fieldSelector"));
  if (fields.ok())
    for (const FieldTerm& term : fields->terms)
      if (term.field == "metadata.name" && term.equal && term.value.find_first_of("/%") == std::string::npos)
        return term.value;
  return "";
}

}  // namespace

struct KubeServer::Inner {
  KubePowers powers;
  std::string cluster_name;
  Kinds kinds;
  Discovery discovery{kinds};
  std::shared_ptr<ObjectHistory> history = std::make_shared<ObjectHistory>();
  std::shared_ptr<RoleBook> roles = std::make_shared<RoleBook>();
  std::shared_ptr<ServiceAddresses> services = std::make_shared<ServiceAddresses>();
  std::shared_ptr<ServiceTable> service_table;
  std::shared_ptr<ServiceVariables> service_variables = std::make_shared<ServiceVariables>();
  std::shared_ptr<CustomKinds> custom_kinds;
  std::shared_ptr<PolicyBook> policies = std::make_shared<PolicyBook>(policy_rights(roles));
  std::shared_ptr<StreamRoom> streams = std::make_shared<StreamRoom>();
  std::shared_ptr<UseBoard> uses = std::make_shared<UseBoard>();
  std::shared_ptr<AggregatedApis> aggregated;
  std::shared_ptr<WatchBell> bell = std::make_shared<WatchBell>();
  std::shared_ptr<ShownTexts> texts = std::make_shared<ShownTexts>();
  std::shared_ptr<RequestCounts> counts = std::make_shared<RequestCounts>();
  std::shared_ptr<PodDesk> pod_desk;  // null: nobody asks

  void handle(const std::shared_ptr<FrontVisit>& visit) {
    auto user = authenticate(*visit, *roles, powers.tokens);
    if (!user.ok())
      return answer_status(*visit, user.error());
    const auto target = target_of(visit->request());
    // What a request may take is not ours to shorten, but it has to be a time.
    if (const std::string timeout = query_of(visit->request(), "timeout");
        !timeout.empty() && !(target && lasts(*target)) && !parse_duration(timeout))
      return answer_status(*visit, Status::bad_request("invalid timeout specified in the request URL - time: invalid "
                                                       "duration " +
                                                       quoted(timeout)));
    if (const AggregatedApi* api = target ? aggregated->find(target->group, target->version) : nullptr)
      return pass_on_to(*api, visit, *target, *user);
    if (!target || target->resource.empty())
      return answer_path(visit, *user);
    const auto request = std::make_shared<Request>();
    request->visit = visit;
    request->target = *target;
    request->user = std::move(*user);
    request->kind = kinds.find(target->group, target->version, target->resource);
    const bool served = request->kind && (target->subresource.empty() || request->kind->serves(target->subresource)) &&
                        (request->kind->namespaced || target->ns.empty());
    request->dry_run = query_of(visit->request(), "dryRun") == "All";
    if (served)
      request->visit = counts->counted(*request);
    if (const Status refused = may(*request); refused.code != 200)
      return answer_status(*request, refused);
    if (!served)
      return answer_status(*visit, Status::no_such_path());
    request->api_version = request->kind->api_version();
    auto accepted = accepted_by(visit->request(), {.protobuf = request->kind->schema && !request->kind->custom &&
                                                               !is_cluster_jobs(*request->kind),
                                                   .watch = target->verb == "watch"});
    if (!accepted.ok())
      return answer_status(*request, accepted.error());
    request->accepted = *accepted;
    dispatch(request);
  }

  Status may(const Request& request) const { return may_of(request.http(), request.target, request.user); }

  Status may_of(const HttpRequest& http, const Target& target, const KubeUser& user) const {
    const Attempt attempt{target.verb,        target.group, target.version,        target.resource,
                          target.subresource, target.ns,    name_of(http, target), ""};
    if (roles->allows(user, attempt))
      return [] {
        Status fine;
        fine.code = 200;
        return fine;
      }();
    return refused(user, attempt);
  }

  // Who asks is judged here as for our own objects; the other server may judge once more.
  void pass_on_to(const AggregatedApi& api, const std::shared_ptr<FrontVisit>& visit, const Target& target,
                  const KubeUser& user) {
    Attempt attempt;
    attempt.verb = lower(visit->request().method);
    attempt.path = visit->request().path;
    if (target.resource.empty() && !roles->allows(user, attempt))
      return answer_status(*visit, refused(user, attempt));
    if (!target.resource.empty())
      if (const Status no = may_of(visit->request(), target, user); no.code != 200)
        return answer_status(*visit, no);
    const auto read = visit->read();
    auto place = AggregatedApis::place_of(read->tables, api);
    if (!api.available || !place.ok())
      return visit->answer({503, "text/plain; charset=utf-8", "service unavailable\n", {}});
    pass_on(visit, user, std::move(*place), api.anybody, powers.pass_on, streams);
  }

  ReadTools reads() const { return {history, {powers.call, powers.random_hex}, bell, texts, powers.sha1}; }
  WriteTools tools() const {
    return {powers.random_hex, services, roles, policies, powers.call, &kinds, streams, powers.own_addresses};
  }

  // What is not stored has no verb but "create", and that only where somebody answers it.
  static bool allowed(const Kind& kind, const std::string& sub, std::string_view verb) {
    if (!kind.stored())
      return false;
    return sub.empty() ? kind.has_verb(verb)
                       : std::ranges::find(kind.subresource(sub)->verbs, verb) != kind.subresource(sub)->verbs.end();
  }

  void dispatch(const Asked& request) {
    const std::string& verb = request->target.verb;
    const std::string& sub = request->target.subresource;
    if (is_cluster_jobs(*request->kind))
      return answer_cluster_jobs(request);
    if (verb == "create" && is_review(*request->kind))
      return create_review(request, *roles, powers.tokens);
    if (verb == "create" && request->kind->type == "serviceaccounts" && sub == "token")
      return create_token(request, powers.tokens, powers.random_hex(16));
    if (verb == "create" && request->kind->type == "bindings")
      return bind_pod(request);
    if (!request->target.name.empty() && is_proxy(*request))
      return admit_connection(request, tools(), [request, this] {
        proxy_request(request, {streams, powers.sha1, powers.over_tls});
      });
    if (is_measured(*request->kind))
      return answer_measured(request);
    if (!allowed(*request->kind, sub, verb))
      return answer_status(*request, Status::no_such_method());
    const bool named = !request->target.name.empty();
    if (const auto bad = options_refusal(*request))
      return answer_status(*request, *bad);
    if (named && is_connection(*request))
      return admit_connection(request, tools(), [this, request, sub] { answer_pod(request, sub); });
    if (request->kind->type == "pods" && named && answer_pod(request, sub))
      return;
    if (verb == "get" && named)
      return get_object(request, reads());
    if (verb == "list")
      return list_objects(request, reads());
    if (verb == "watch")
      return watch_objects(request, reads());
    if (verb == "create" && !named && (!request->kind->namespaced || !request->target.ns.empty()))
      return create_object(request, tools());
    if (verb == "update" && named)
      return update_object(request, tools());
    if (verb == "patch" && named)
      return patch_object(request, tools());
    if (verb == "delete" && request->target.subresource.empty())
      return delete_object(request, tools());
    if (verb == "deletecollection")
      return delete_objects(request, tools(), *history);
    answer_status(*request, Status::no_such_method());
  }

  // What pods have of their own. False: it is like with other objects.
  bool answer_pod(const Asked& request, const std::string& sub) const {
    const StreamTools tools{streams, powers.sha1, powers.over_tls};
    if (sub == "log")
      log_of_pod(request, tools);
    else if (sub == "exec" || sub == "attach")
      exec_in_pod(request, tools);
    else if (sub == "portforward")
      forward_ports(request, tools);
    else if (sub == "binding")
      bind_pod(request);
    else if (sub == "eviction")
      evict_pod(request);
    else
      return false;
    return true;
  }

  // Paths that are of no resource.
  void answer_path(const std::shared_ptr<FrontVisit>& visit, const KubeUser& user) {
    const HttpRequest& http = visit->request();
    Attempt attempt;
    attempt.verb = lower(http.method);
    attempt.path = http.path;
    if (!roles->allows(user, attempt))
      return answer_status(*visit, refused(user, attempt));
    if (http.method != "GET" && http.method != "HEAD")
      return answer_status(*visit, Status::no_such_method());
    if (auto found = health_answer(http))
      return visit->answer(std::move(*found));
    if (auto found = discovery.answer(http))
      return visit->answer(as_accepted(http, std::move(*found)));
    if (auto found = answer_issuer(http.path, powers.tokens))
      return visit->answer(std::move(*found));
    answer_status(*visit, Status::no_such_path());
  }

  // A kubeconfig for a caller whom the kernel names.
  void answer_config(const std::shared_ptr<FrontVisit>& visit) {
    if (visit->request().peer.how != Peer::How::kUnixSocket)
      return visit->refuse(denied("ask on the controller's own machine: the socket there knows who you are"));
    const auto read = visit->read();
    if (!read->caller)
      return visit->refuse(denied("the cluster does not know you yet: try again"));
    auto issued = powers.issue(read->caller->meta.name);
    if (!issued.ok())
      return visit->refuse(issued.error());
    const std::string context = format("{}@{}", read->caller->meta.name, cluster_name);
    visit->answer(
        {200,
         "application/yaml",
         format("apiVersion: v1\nkind: Config\nclusters:\n- name: {0}\n  cluster:\n    server: {1}\n"
                "    certificate-authority-data: {2}\nusers:\n- name: {3}\n  user:\n    client-certificate-data: {4}\n"
                "    client-key-data: {5}\ncontexts:\n- name: {3}\n  context:\n    cluster: {0}\n    user: {3}\n"
                "current-context: {3}\n",
                json::serialize(json::string_view(cluster_name)), json::serialize(json::string_view(powers.address())),
                base64_text(powers.ca_pem), json::serialize(json::string_view(context)),
                base64_text(issued->certificate_pem), base64_text(issued->key_pem)),
         {}});
  }
};

KubeServer::KubeServer(KubePowers powers, std::string cluster_name) : inner_(std::make_shared<Inner>()) {
  inner_->powers = std::move(powers);
  inner_->cluster_name = std::move(cluster_name);
  for (Kind& kind : built_in_kinds()) inner_->kinds.put(std::move(kind));
  inner_->service_table = std::make_shared<ServiceTable>(inner_->powers.random_hex(8), inner_->powers.own_addresses);
  inner_->kinds.put(cluster_jobs_kind());
  for (Kind& kind : measured_kinds()) inner_->kinds.put(std::move(kind));
  inner_->aggregated = std::make_shared<AggregatedApis>(inner_->kinds, inner_->powers.pass_on);
  if (inner_->powers.post)
    inner_->pod_desk = std::make_shared<PodDesk>(inner_->powers.call, inner_->powers.random_hex, inner_->powers.post);
  inner_->custom_kinds = std::make_shared<CustomKinds>(inner_->kinds, inner_->powers.sha256_hex);
}

KubeServer::~KubeServer() = default;

std::vector<FrontRoute> KubeServer::routes() const {
  std::vector<FrontRoute> out;
  const FrontHandler handle = [inner = inner_](std::shared_ptr<FrontVisit> visit) { inner->handle(visit); };
  const auto mount = [&](std::string_view method, std::string_view path, Cost cost, std::size_t body) {
    out.push_back({{method, path, Right::kJudged, cost, body, "*", Reach::kEach}, handle});
  };
  for (const std::string_view path : {"/api", "/api/**", "/apis", "/apis/**"}) {
    mount("GET", path, Cost::kRead, kNoBody);
    mount("POST", path, Cost::kChange, kBody);
    mount("PUT", path, Cost::kChange, kBody);
    mount("PATCH", path, Cost::kChange, kBody);
    mount("DELETE", path, Cost::kEnd, kBody);
    for (const char* method : {"HEAD", "OPTIONS"})  // for what stands behind a proxy
      mount(method, path, Cost::kRead, kNoBody);
  }
  for (const std::string_view path :
       {"/", "/index.html", "/version", "/version/**", "/healthz", "/healthz/**", "/livez", "/livez/**", "/readyz",
        "/readyz/**", "/openapi/**", "/.well-known/openid-configuration", "/.well-known/openid-configuration/**",
        "/openid/**"})
    for (const char* method : {"GET", "HEAD"}) mount(method, path, Cost::kRead, kNoBody);
  out.push_back({{"GET", "/v1/kubeconfig", Right::kUser, Cost::kChange, kNoBody},
                 FrontHandler([inner = inner_](std::shared_ptr<FrontVisit> visit) { inner->answer_config(visit); })});
  out.push_back({{"GET", "/v1/front-end-files", Right::kUser, Cost::kRead, kNoBody,
                  "job=number,group=number,task=number,version", Reach::kEach},
                 FrontHandler([inner = inner_](std::shared_ptr<FrontVisit> visit) {
                   answer_pod_files(*visit, {inner->powers.tokens.sign, inner->powers.sha256_hex,
                                             inner->powers.address(), *inner->service_variables});
                 })});
  out.push_back({{"GET", kLastingPath, Right::kJudged, Cost::kRead, kNoBody, "names"},
                 FrontHandler([](std::shared_ptr<FrontVisit> visit) { answer_lasting(*visit); })});
  // Root of a node asks, and is nobody to the cluster while it has no work there: what these tell is judged by them.
  out.push_back({{"GET", kServiceTablePath, Right::kJudged, Cost::kRead, kNoBody, "epoch,version=number"},
                 FrontHandler([inner = inner_](std::shared_ptr<FrontVisit> visit) {
                   answer_service_table(*visit, *inner->service_table);
                 })});
  out.push_back({{"POST", kServiceFaultsPath, Right::kJudged, Cost::kChange, kNoBody, "space,name,what=refused|beyond"},
                 FrontHandler([inner = inner_](const std::shared_ptr<FrontVisit>& visit) {
                   answer_service_fault(visit, inner->powers.sha256_hex);
                 })});
  return out;
}

std::vector<std::shared_ptr<FrontReader>> KubeServer::readers() const {
  std::vector<std::shared_ptr<FrontReader>> out{
      inner_->history,          inner_->roles, inner_->services,   inner_->service_table, inner_->custom_kinds,
      inner_->streams,          inner_->uses,  inner_->aggregated, inner_->bell,          inner_->counts,
      inner_->service_variables};
  if (inner_->pod_desk)
    out.push_back(inner_->pod_desk);
  return out;
}

std::shared_ptr<PodAdmission> KubeServer::pod_admission() const { return inner_->pod_desk; }

UseSource KubeServer::uses() const {
  return [uses = inner_->uses](NodeId node, JobId job) { return uses->of(node, job); };
}

}  // namespace lockstep::kube
