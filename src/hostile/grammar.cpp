#include "hostile/grammar.h"

#include <array>
#include <iterator>

#include "base/text.h"
#include "controller/routes.h"
#include "routes/query_values.h"
#include "wire/api.h"
#include "wire/random_value.h"

namespace lockstep::hostile {

namespace {

constexpr std::string_view kQueryWords[] = {
    "id",    "user",    "state",        "partition", "name",    "for",      "since",  "timeout_s",  "from",
    "limit", "columns", "verbs",        "wait",      "direct",  "presence", "steps",  "onlooker",   "from_us",
    "to_us", "account", "history_days", "job",       "oneline", "detail",   "format", "duplicates", "if_seq",
    "array", "jobs",    "nodes",        "all",       "weights", "sort",     "users",  "states",     "partitions",
    "qos",   "long",    "start",        "r",         "w"};

constexpr std::string_view kOddWords[] = {"",
                                          "0",
                                          "-1",
                                          "1",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "4294967295",
                                          "1e9",
                                          "0-4294967295",
                                          "0-999999999",
                                          "1_[0-999999999]",
                                          "1,2,3_4,5_[1-9]",
                                          "*",
                                          "%",
                                          "../../../../etc/shadow",
                                          "all",
                                          "pending",
                                          "running,pending",
                                          "started",
                                          "root",
                                          "n[1-4]",
                                          "n[1-999999999]",
                                          "h[0-9][0-9][0-9][0-9]",
                                          "' OR 1=1 --",
                                          "\x1b[2J",
                                          "a\nb",
                                          "\xff\xfe",
                                          "jobid,state,user,name",
                                          "%i|%j|%u|%T|%R",
                                          "output,input,signal"};

template <std::size_t N>
std::string pick(Rng& rng, const std::string_view (&words)[N]) {
  return std::string(words[rng.below(N)]);
}

// Where a value of a JSON text begins and ends; the text is ours, or nearly so.
struct Span {
  std::size_t from = 0, to = 0;
};
// The place of the quote that ends the string which begins at `at`, or the end of the text.
std::size_t end_of_string(const std::string& json, std::size_t at) {
  for (++at; at < json.size() && json[at] != '"';) at += json[at] == '\\' ? 2 : 1;
  return at;
}

bool begins_scalar(char c) {
  return (c >= '0' && c <= '9') || std::string_view("-tfn").find(c) != std::string_view::npos;
}

// The last character of the number or word that begins at `at`.
std::size_t end_of_scalar(const std::string& json, std::size_t at) {
  while (at + 1 < json.size() && std::string_view(",]}").find(json[at + 1]) == std::string_view::npos) ++at;
  return at;
}

std::vector<Span> values_of(const std::string& json) {
  std::vector<Span> out;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < json.size() && out.size() < 4096; ++i) {
    const char c = json[i];
    const std::size_t from = i;
    if (c == '"') {
      i = end_of_string(json, i);
      const bool is_name = i + 1 < json.size() && json[i + 1] == ':';
      if (!is_name)
        out.push_back({from, std::min(i + 1, json.size())});
    } else if (c == '{' || c == '[') {
      open.push_back(i);
    } else if ((c == '}' || c == ']') && !open.empty()) {
      out.push_back({open.back(), i + 1});
      open.pop_back();
    } else if (begins_scalar(c)) {
      i = end_of_scalar(json, i);
      out.push_back({from, i + 1});
    }
  }
  return out;
}

template <class T>
std::string encoded(Rng& rng) {
  return encode(wire::random_value<T>(rng));
}
template <class T>
std::string encoded_record(Rng& rng) {
  return encode_whole(std::make_shared<const T>(wire::random_value<T>(rng)));
}

std::string quoted(std::string_view text) {
  std::string out;
  wire::append_string(out, text);
  return out;
}

}  // namespace

std::string secret_of(std::uint32_t uid) { return format("s3cr3t-of-{}-", uid); }

std::string Grammar::size_ladder() {
  constexpr std::size_t kSizes[] = {0, 1, 63, 64, 255, 256, 257, 1023, 4096, 65'535, 65'537};
  constexpr std::size_t kLarge[] = {1 << 20, (1 << 20) + 1, 2 << 20, 4 << 20, (4 << 20) + 1, 9 << 20};
  return std::string(rng_.chance(0.03) ? kLarge[rng_.below(std::size(kLarge))] : kSizes[rng_.below(std::size(kSizes))],
                     static_cast<char>(rng_.chance(0.9) ? 'a' + rng_.below(26) : rng_.below(256)));
}

// A JSON value that should not be where it is put: odd, or too large, too many, too deep.
std::string Grammar::fragment() {
  constexpr std::string_view kFragments[] = {"null",
                                             "true",
                                             "0",
                                             "-1",
                                             "1",
                                             "1.5",
                                             "1e308",
                                             "18446744073709551615",
                                             "9223372036854775807",
                                             "-9223372036854775808",
                                             "4294967295",
                                             "4294967296",
                                             "100000000",
                                             "2592000000000",
                                             "\"never\"",
                                             "{}",
                                             "[]",
                                             "[[]]",
                                             "\"\"",
                                             R"("0-4294967295")",
                                             R"("0-999999999")",
                                             R"({"min":0,"max":4294967295})",
                                             R"({"min":5,"max":1})",
                                             R"("\u0000")",
                                             R"("\u001b]0;x\u0007")",
                                             R"("a\nb")",
                                             R"("/dev/zero")",
                                             R"("../../etc/passwd")",
                                             R"("\uef80\uefff")",
                                             R"("root")"};
  switch (rng_.below(8)) {
    case 0: return quoted(size_ladder());
    case 1: {  // many small things
      constexpr std::size_t kCounts[] = {2, 17, 1025, 5000, 65'537, 400'000};
      const std::size_t count = kCounts[rng_.below(rng_.chance(0.05) ? std::size(kCounts) : 4)];
      const std::string one(kFragments[rng_.below(std::size(kFragments))]);
      std::string out = "[";
      for (std::size_t i = 0; i < count; ++i) (out += i ? "," : "") += one;
      return out + "]";
    }
    case 2: {
      const std::size_t depth = rng_.chance(0.5) ? 20 : 2000;
      return std::string(depth, '[') + std::string(depth, ']');
    }
    case 3: return quoted(pick(rng_, kOddWords));
    default: return std::string(kFragments[rng_.below(std::size(kFragments))]);
  }
}

std::string Grammar::spoilt(std::string json) {
  const auto values = values_of(json);
  if (values.empty())
    return fragment();
  const Span at = values[rng_.below(values.size())];
  return json.replace(at.from, at.to - at.from, fragment());
}

std::string Grammar::name() {
  constexpr std::string_view kNames[] = {"default", "batch", "physics", "chemistry", "high",
                                         "low",     "a",     "b",       "root",      "u1"};
  return rng_.chance(0.8) ? pick(rng_, kNames) : rng_.chance(0.5) ? pick(rng_, kOddWords) : size_ladder();
}

std::string Grammar::job_target() {
  const std::uint64_t id = rng_.chance(0.9) ? 1 + rng_.below(known_.jobs + 1) : rng_.next();
  switch (rng_.below(12)) {
    case 0: return format("{}_{}", id, rng_.below(40));
    case 1: return format("{}_[0-{}]", id, rng_.chance(0.5) ? 4294967295u : 12u);
    case 2: return pick(rng_, kOddWords);
    case 3: return format("{}+{}", id, rng_.below(3));
    default: return format("{}", id);
  }
}

// A row's path with names for its stars, such as stand there.
std::string Grammar::fill(std::string_view path) {
  std::string out;
  for (; !path.empty(); path.remove_prefix(1)) {
    if (path.front() != '*')
      out += path.front();
    else if (path == "**")
      return out + kube_rest(out);
    else if (out.ends_with("/v1/jobs/"))
      out += rng_.chance(0.9) ? job_target() : format("pods:{}:{}", name(), name());
    else if (out.ends_with("/v1/steps/"))
      out += format("{}.{}", job_target(), rng_.chance(0.8) ? static_cast<std::int64_t>(rng_.below(3)) : -2);
    else if (out.ends_with("/v1/nodes/"))
      out += known_.nodes.empty() || rng_.chance(0.1) ? name() : known_.nodes[rng_.below(known_.nodes.size())];
    else
      out += name();
  }
  return out;
}

// Behind "/api/" or "/apis/": mostly a resource that the cluster says it has, of a namespace and a name.
std::string Grammar::kube_rest(std::string_view root) {
  std::vector<const KubeResource*> there;
  for (const KubeResource& one : known_.kube)
    if (one.root.starts_with(root))
      there.push_back(&one);
  if (there.empty() || rng_.chance(0.05))
    return name();
  const KubeResource& one = *there[rng_.below(there.size())];
  std::string out = one.root.substr(root.size());
  if (one.is_namespaced && rng_.chance(0.85))
    out += "/namespaces/" + (rng_.chance(0.7) ? std::string("default") : name());
  const std::string kind = one.name.substr(0, one.name.find('/'));
  out += "/" + kind;
  if (kind != one.name)
    return out + "/" + name() + one.name.substr(kind.size());
  return rng_.chance(0.5) ? out + "/" + name() : out;
}

// What a decent client of Kubernetes sends, of the kinds that make work or keep secrets.
std::string Grammar::kube_object(std::uint32_t uid) {
  const std::string secret = secret_of(uid), meta = format(R"("metadata":{{"name":{}}})", quoted(name()));
  const std::string containers = format(
      R"("containers":[{{"name":"main","image":"{0}image","command":["{0}"],"env":[{{"name":"A","value":"{0}"}}]}}])",
      secret);
  switch (rng_.below(6)) {
    case 0: return format(R"({{"apiVersion":"v1","kind":"Pod",{},"spec":{{{}}}}})", meta, containers);
    case 1: return format(R"({{"apiVersion":"v1","kind":"Secret",{},"stringData":{{"a":"{}"}}}})", meta, secret);
    case 2: return format(R"({{"apiVersion":"v1","kind":"ConfigMap",{},"data":{{"a":"{}"}}}})", meta, secret);
    case 3: return format(R"({{"apiVersion":"v1","kind":"Service",{},"spec":{{"ports":[{{"port":80}}]}}}})", meta);
    case 4:
      return format(
          R"({{"apiVersion":"batch/v1","kind":"Job",{},"spec":{{"template":{{"spec":{{"restartPolicy":"Never",{}}}}}}}}})",
          meta, containers);
    default: return random_body();
  }
}

std::string Grammar::submit(std::uint32_t uid) {
  const std::string secret = secret_of(uid);
  const char* launch = rng_.chance(0.5) ? "script" : rng_.chance(0.5) ? "nothing" : "tasks";
  std::string spec = format(
      R"("name":{},"work_dir":"/tmp","time_limit_us":{},"groups":[{{"launch":"{}","nodes":{},"tasks":{},"argv":["x","{}"],"per_task":{{"cores":{}}}}}])",
      quoted(rng_.chance(0.9) ? "job" : name()), rng_.chance(0.5) ? 60'000'000 : 5'000'000, launch, 1 + rng_.below(3),
      1 + rng_.below(6), secret, 1 + rng_.below(2));
  if (rng_.chance(0.3))
    spec += format(R"(,"dependencies":[{{"type":"after_ok","job":{}}}])", 1 + rng_.below(known_.jobs + 1));
  if (rng_.chance(0.1))
    spec += R"(,"hold":true)";
  if (rng_.chance(0.2))
    spec += R"(,"interactive":true)";
  std::string out =
      format(R"({{"spec":{{{}}},"script":"#!/bin/sh\n# {}\n","environment":"A={}\u0000")", spec, secret, secret);
  if (rng_.chance(0.2))
    out += format(R"(,"array":{{"indices":"0-{}","throttle":{}}})", rng_.chance(0.5) ? 9u : 99'999u, rng_.below(4));
  if (launch == std::string_view("nothing") && rng_.chance(0.6))
    out += format(R"(,"first_step":{{"argv":["y","{}"],"tasks":{}}})", secret, 1 + rng_.below(4));
  if (rng_.chance(0.05))
    out += R"(,"test_only":true)";
  return out + "}";
}

std::string Grammar::step(std::uint32_t uid) {
  // An administrator's step in somebody's job is that owner's to see.
  const std::string secret = uid == 0 ? "plain" : secret_of(uid);
  return format(R"({{"spec":{{"name":"s","argv":["z","{}"],"tasks":{},"nodes":{}}},"environment":"B={}\u0000"}})",
                secret, 1 + rng_.below(5), 1 + rng_.below(2), secret);
}

// A body that no decent client sends: of any kind, with any values.
std::string Grammar::random_body() {
  struct Row {
    std::string (*make)(Rng&) = nullptr;
    std::string_view spoil;  // where nothing is made: a body, of which one value is replaced
  };
  constexpr Row kRows[] = {
      {encoded<SubmitRequest>, ""},
      {encoded<StepRequest>, ""},
      {encoded<UpdateJob>, ""},
      {encoded<UpdateNode>, ""},
      {[](Rng& rng) { return encode_partition(wire::random_value<Partition>(rng)); }, ""},
      {nullptr, R"({"signal":9,"reach":"everything"})"},
      {nullptr, R"({"targets":["1","2_[0-4294967295]"],"users":["root"],"states":["pending"],"nodes":"n[1-4]"})"},
      {nullptr, R"({"code":256,"signal":-1,"client_lost":true})"},
      {nullptr, R"({"signal":65})"},
      {nullptr, R"({"role":"broker","realm":"local","node":"","ttl_s":-1})"},
      {nullptr, R"({"token":"1.2.3","node":"n1","csr":"csr"})"},
      {encoded_record<Account>, ""},
      {encoded_record<Association>, ""},
      {encoded_record<Qos>, ""},
      {encoded_record<Licence>, ""},
      {encoded_record<Reservation>, ""},
      {encoded_record<Policy>, ""},
      {encoded_record<Topology>, ""},
      {encoded_record<User>, ""},
      {encoded_record<NodeClass>, ""},
      {encoded_record<HealthCheck>, ""},
  };
  const std::uint64_t what = rng_.below(20);
  if (what >= std::size(kRows))
    return fragment();
  const Row& row = kRows[what];
  return row.make ? row.make(rng_) : spoilt(std::string(row.spoil));
}

std::string Grammar::submissions(std::uint32_t uid) {
  if (!rng_.chance(0.05))
    return submit(uid);
  std::string list = "[";
  for (std::uint64_t n = 1 + rng_.below(200); n > 0; --n) (list += submit(uid)) += n > 1 ? "," : "]";
  return list;
}

// Of POST /v1/changes: some that are good, of the same few names, and now and then one that is none.
std::string Grammar::changes() {
  constexpr std::string_view kGood[] = {
      R"({"account":{},"name":"a1"})",
      R"({"account":{"parent":"a1"},"name":"a2"})",
      R"({"association":{"account":"a1","user":"uid1001"}})",
      R"({"qos":{"priority":2},"name":"q1"})",
      R"({"licence":{"total":3},"name":"l1"})",
      R"({"partition":{"nodes":["ALL"]},"name":"p1"})",
      R"({"node_class":{"nodes":["n1","n2"],"features":["fast"],"weight":3},"name":"c1"})",
      R"({"node_class":{"nodes":["n2"]},"name":"c2"})",
      R"({"health_check":{"user":"alice","script":"true","nodes":["ALL"]},"name":"h1"})",
      R"({"remove":"health_check","name":"h1"})",
      R"({"remove":"node_class","name":"c1"})",
      R"({"remove":"qos","name":"q1"})",
      R"({"remove":"association","name":"a1/uid1001"})",
      R"({"remove":"account","name":"a2"})",
      R"({"remove":"partition","name":"p1"})",
      R"({"remove":"topology"})",
  };
  std::string list;
  for (std::uint64_t n = 1 + rng_.below(rng_.chance(0.02) ? 400 : 8); n > 0; --n) {
    std::string one(kGood[rng_.below(std::size(kGood))]);
    (list += list.empty() ? "" : ",") += rng_.chance(0.05) ? spoilt(std::move(one)) : one;
  }
  return R"({"changes":[)" + list + "]}";
}

// The body that a decent client sends there; of paths that it does not know, a random one.
std::string Grammar::body_for(std::string_view method, std::string_view path, std::uint32_t uid) {
  if (method == "GET" || method == "DELETE")
    return rng_.chance(0.02) ? size_ladder() : std::string();
  if (path == "/v1/jobs")
    return submissions(uid);
  if (path == "/v1/changes")
    return changes();
  if (path.ends_with("/steps"))
    return step(uid);
  if (path.starts_with("/api"))
    return kube_object(uid);
  struct Row {
    std::string_view path;
    bool whole;  // else what it begins with
    std::string_view body;
  };
  constexpr Row kRows[] = {
      {"/v1/accounts", false, R"({"parent":"root","shares":3,"limits":{"jobs_max":1000}})"},
      {"/v1/partitions", false, R"({"nodes":"n[1-3]","default":true,"time_max_us":3600000000})"},
      {"/v1/qos", false, R"({"priority":5,"limits":{"jobs_max":1000}})"},
      {"/v1/licences", false, R"({"total":8})"},
      {"/v1/whatif", true, R"({"changes":[{"drain":"n1"}]})"},
      {"/v1/jobs/cancel", true, R"({"states":["pending"],"names":["job"]})"},
      {"/v1/tokens", true, R"({"role":"compute","node":"n7","ttl_s":60})"},
  };
  for (const Row& row : kRows)
    if (row.whole ? path == row.path : path.starts_with(row.path))
      return std::string(row.body);
  if (path.starts_with("/v1/jobs") || path.starts_with("/v1/steps"))
    return rng_.chance(0.5) ? "{}" : R"({"signal":9,"reach":"everything","hold":true,"name":"renamed","priority":7})";
  return random_body();
}

// One that is meant.
std::string Grammar::value_of(std::string_view kind) {
  constexpr std::string_view kNumbers[] = {
      "0", "1", "2", "20", "300", "4096", "1000000", "4294967295", "18446744073709551615"};
  if (kind == "number")
    return std::string(pick(rng_, kNumbers));
  if (kind == "integer")
    return rng_.chance(0.2) ? "-7" : std::to_string(rng_.below(100'000));
  if (kind == "flag")
    return rng_.chance(0.8) ? "1" : "0";
  if (kind.empty())
    return rng_.chance(0.6) ? job_target() : std::string(pick(rng_, kOddWords));
  const auto words = split(kind, '|');
  return std::string(words[rng_.below(words.size())]);
}

// Mostly what the row or the page lists, so that questions are answered and not only refused.
void Grammar::add_query(HttpRequest& request) {
  if (rng_.chance(0.7)) {
    std::vector<std::string> stars;
    const Route* row = known_.routes ? known_.routes->find(request.method, request.path, stars).route : nullptr;
    const std::string_view listed = row ? row->query : "";
    each_query_name(listed, [&](std::string_view name, std::string_view kind) {
      if (name != "wait" && name != "timeout_s" && rng_.chance(0.4))
        request.query[std::string(name)] = value_of(kind);
    });
    return;
  }
  for (std::uint64_t n = rng_.below(4); n > 0; --n)
    request.query[pick(rng_, kQueryWords)] = rng_.chance(0.7)   ? pick(rng_, kOddWords)
                                             : rng_.chance(0.6) ? job_target()
                                                                : size_ladder().substr(0, 60'000);
}

HttpRequest Grammar::everyday(std::uint32_t uid) {
  HttpRequest out;
  out.method = "POST";
  const auto own = known_.owned.find(uid);
  const std::uint64_t job =
      own == known_.owned.end() || rng_.chance(0.2)
          ? 1 + rng_.below(known_.jobs + 1)
          : own->second[own->second.size() - 1 - rng_.below(std::min<std::size_t>(own->second.size(), 8))];
  switch (rng_.below(6)) {
    case 0:
    case 1:
      out.path = "/v1/jobs";
      out.body = submit(uid);
      break;
    case 2:
      out.path = format("/v1/jobs/{}/steps", job);
      out.body = step(uid);
      break;
    case 3:
    case 4:
      out.method = "GET";
      out.path = format("/v1/steps/{}.{}/io", job, rng_.below(3));
      out.headers = {{"upgrade", "lockstep-stepio/1"}, {"connection", "Upgrade"}};
      break;
    default:
      out.path = format("/v1/jobs/{}/cancel", job);
      out.body = R"({"signal":0})";
      break;
  }
  if (!out.body.empty() && rng_.chance(0.1))
    out.body = spoilt(std::move(out.body));
  return out;
}

// Any row that the controller answers; without jobs little else bites, so those that make some come more often.
const Route& Grammar::any_row() {
  const auto rows = known_.routes->rows();
  std::vector<const Route*> some;
  const std::uint64_t kind = rng_.below(12);
  for (const Route* row : rows) {
    const bool of_kube = row->right == Right::kJudged;
    const bool makes_work = row->method == "POST" && (row->path == "/v1/jobs" || row->path.ends_with("/steps"));
    if (kind == 0 ? makes_work : kind < 4 ? of_kube : !of_kube)
      some.push_back(row);
  }
  return *some[rng_.below(some.size())];
}

HttpRequest Grammar::request(std::uint32_t uid) {
  HttpRequest out;
  const Route& row = any_row();
  out.method = rng_.chance(0.98) ? std::string(row.method) : "PATCH";
  out.path = fill(row.path);
  out.body = body_for(row.method, row.path, uid);
  if (!out.body.empty() && rng_.chance(0.35))
    out.body = spoilt(std::move(out.body));
  else if (!out.body.empty() && rng_.chance(0.15))
    out.body = random_body();
  if (row.method == "GET" || rng_.chance(0.4))
    add_query(out);
  if (row.right == Right::kJudged) {
    constexpr std::string_view kTypes[] = {"application/json",
                                           "application/apply-patch+yaml",
                                           "application/merge-patch+json",
                                           "application/strategic-merge-patch+json",
                                           "application/json-patch+json",
                                           "application/yaml"};
    out.headers["content-type"] = pick(rng_, kTypes);
    if (rng_.chance(0.1))
      out.query["watch"] = "1";
  }
  if (row.cost == Cost::kWait && row.path != "/v1/link")
    out.query["timeout_s"] = "0";
  if (row.path.ends_with("/io") || row.path == "/v1/link") {
    if (rng_.chance(0.9))
      out.headers["upgrade"] = row.path == "/v1/link" ? "lockstep-link/1" : "lockstep-stepio/1";
    if (rng_.chance(0.8))
      out.headers["connection"] = "Upgrade";
  }
  return out;
}

}  // namespace lockstep::hostile
