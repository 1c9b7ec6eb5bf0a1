#include "frontends/kube/server/conversion.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/pass_on.h"
#include "frontends/kube/server/shown.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kObjectsOfReview = 500;
constexpr std::size_t kBytesOfReview = 2 << 20;
constexpr Duration kPatience = seconds(30);
constexpr std::size_t kWatchesMax = 4096;

std::string qualified_version(const Kind& kind, const std::string& version) {
  return group_version_text(kind.group, version);
}

Status conversion_failed(const Kind& kind, const std::string& from, const std::string& why) {
  Status status = Status::internal("");
  status.message =
      format("conversion webhook for {}, Kind={} failed: {}", qualified_version(kind, from), kind.kind, why);
  return status;
}

std::string review_version(const json::value& conversion) {
  const auto versions = texts_in(part(conversion, "webhook"), "conversionReviewVersions");
  for (const std::string& version : versions)
    if (version == "v1" || version == "v1beta1")
      return "apiextensions.k8s.io/" + version;
  return "apiextensions.k8s.io/v1";
}

// The webhook's objects, as many and in the same order as were sent. What they are called, and whose they are, is not
// its to say.
Answered<std::vector<json::object>> read_review(const Kind& kind, const std::string& from, const std::string& to,
                                                const std::string& body, const std::string& uid,
                                                const std::vector<json::object>& sent) {
  constexpr std::size_t kAround = 8;  // levels of the review around its objects
  const auto review = parse_given(body, kDepthMax + kAround);
  if (!review.ok())
    return conversion_failed(kind, from, "its answer is no JSON: " + review.error().message);
  const json::value& response = part(*review, "response");
  const auto wrong = [&](const std::string& why) {
    Status status = Status::internal("");
    status.message =
        format("conversion webhook for {}, Kind={} returned {}", qualified_version(kind, from), kind.kind, why);
    return status;
  };
  if (text_in(response, "uid") != uid)
    return conversion_failed(kind, from,
                             format("expected response.uid=\"{}\", got \"{}\"", uid, text_in(response, "uid")));
  const json::value& result = part(response, "result");
  if (text_in(result, "status") != "Success") {
    const std::string why = text_in(result, "message");
    return conversion_failed(kind, from, why.empty() ? "unspecified" : why);
  }
  const json::array& made = list_in(response, "convertedObjects");
  if (made.size() != sent.size())
    return wrong(format("{} objects, expected {}", made.size(), sent.size()));
  std::vector<json::object> out;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto invalid = [&](const std::string& why) {
      return wrong(format("invalid converted object at index {}: {}", i, why));
    };
    if (!made[i].is_object())
      return invalid("it is no object");
    json::object tree = made[i].get_object();
    if (text_in(tree, "apiVersion") != to)
      return invalid(format("invalid groupVersion (expected {}, received {})", to, text_in(tree, "apiVersion")));
    if (text_in(tree, "kind") != kind.kind)
      return invalid(format("invalid kind (expected {}, received {})", kind.kind, text_in(tree, "kind")));
    const json::value& was = part(sent[i], "metadata");
    const json::value& is = part(tree, "metadata");
    for (const char* fixed : {"name", "namespace", "uid"})
      if (text_in(was, fixed) != text_in(is, fixed))
        return invalid(format("metadata.{}: Invalid value: \"{}\": must not change", fixed, text_in(is, fixed)));
    json::object metadata = was.is_object() ? was.get_object() : json::object();
    for (const char* own : {"labels", "annotations"}) {
      if (const json::value* value = member(is, own))
        metadata[own] = *value;
      else
        metadata.erase(own);
    }
    tree["metadata"] = std::move(metadata);
    out.push_back(std::move(tree));
  }
  return out;
}

// Asks for trees of one version in another.
void ask_webhook(const Asked& request, const ConversionTools& tools, const std::string& from, const std::string& to,
                 std::vector<json::object> trees, std::function<void(Answered<std::vector<json::object>>)> then) {
  const std::shared_ptr<const Kind> kind = request->kind;
  const json::value& conversion = kind->custom->conversion;
  const auto fail = [kind, from, then](const std::string& why) { then(conversion_failed(*kind, from, why)); };
  const Webhook webhook{Webhook::Sort::kMutating, "", "",
                        json::value(json::object{{"clientConfig", part(part(conversion, "webhook"), "clientConfig")},
                                                 {"timeoutSeconds", kPatience.seconds()}})};
  const auto read = request->visit->read();
  const auto target = target_of(read->tables, webhook);
  if (!target.ok() || !tools.call)
    return fail(target.ok() ? "this server calls nobody" : target.error().message);
  const std::string wanted = qualified_version(*kind, to), uid = tools.random_hex(16);
  json::array objects;
  for (const json::object& tree : trees) objects.push_back(tree);
  const json::object review{
      {"kind", "ConversionReview"},
      {"apiVersion", review_version(conversion)},
      {"request", {{"uid", uid}, {"desiredAPIVersion", wanted}, {"objects", std::move(objects)}}}};
  CallOut out{target->address,         target->port, target->server_name, target->ca_pem, target->path,
              json::serialize(review), kPatience};
  const auto reach = [visit = request->visit](const ContainerAsk& ask,
                                              std::function<void(Result<std::unique_ptr<Stream>>)> done) {
    visit->reach(ask, std::move(done));
  };
  reach_target(read->tables, *target, reach,
               [tools, out = std::move(out), kind, from, wanted, uid, fail, then, url = target->url,
                sent = std::move(trees)](Result<std::shared_ptr<Stream>> through) mutable {
                 if (!through.ok())
                   return fail(format("Post \"{}\": {}", url, through.error().message));
                 out.through = std::move(*through);
                 tools.call(std::move(out), [kind, from, wanted, uid, fail, then, url,
                                             sent = std::move(sent)](Result<std::string> body) {
                   if (!body.ok())
                     return fail(format("Post \"{}\": {}", url, body.error().message));
                   then(read_review(*kind, from, wanted, *body, uid, sent));
                 });
               });
}

json::object with_version(json::object tree, const Kind& kind, const std::string& version) {
  json::object out{{"kind", kind.kind}, {"apiVersion", qualified_version(kind, version)}};
  for (auto& entry : tree)
    if (entry.key() != "kind" && entry.key() != "apiVersion" && entry.key() != kVersionNote)
      out[entry.key()] = std::move(entry.value());
  return out;
}

// Goes through what is to be converted, a review at a time, each of objects that are stored in the same version.
struct Converting : std::enable_shared_from_this<Converting> {
  Asked request;
  ConversionTools tools;
  std::vector<Ref<Object>> left;
  std::function<void(std::optional<Status>)> then;

  void next() {
    std::erase_if(left, [this](const Ref<Object>& one) { return !is_to_be_converted(*request, *one); });
    if (left.empty())
      return then(std::nullopt);
    const std::string from = stored_version(*request->kind, *left.front());
    std::vector<Ref<Object>> some;
    std::vector<json::object> trees;
    std::size_t bytes = 0;
    const auto read = request->visit->read();
    for (const Ref<Object>& one : left) {
      if (stored_version(*request->kind, *one) != from)
        continue;
      if (some.size() == kObjectsOfReview || (bytes > 0 && bytes + one->body.size() > kBytesOfReview))
        break;
      bytes += one->body.size();
      some.push_back(one);
      trees.push_back(with_version(tree_of(*one, request->shown_as(), read->wall_offset), *request->kind, from));
    }
    ask_webhook(request, tools, from, request->kind->version, std::move(trees),
                [self = shared_from_this(), some = std::move(some)](Answered<std::vector<json::object>> made) {
                  if (!made.ok())
                    return self->then(made.error());
                  for (std::size_t i = 0; i < some.size(); ++i)
                    self->request->converted[{some[i]->meta.uid, some[i]->meta.seq}] = std::move((*made)[i]);
                  self->next();
                });
  }
};

}  // namespace

std::string stored_version(const Kind& kind, const Object& object) {
  const std::string& storage = kind.custom->definition->storage().name;
  const auto at = object.body.rfind(format("\"{}\":\"", kVersionNote));
  if (at == std::string::npos)
    return storage;
  const json::value body = parse_own(object.body.get());
  const std::string noted = text_in(body, kVersionNote);
  return noted.empty() ? storage : noted;
}

bool is_converted_by_webhook(const Kind& kind) { return kind.custom && kind.custom->conversion.is_object(); }

bool is_to_be_converted(const Request& request, const Object& object) {
  return is_converted_by_webhook(*request.kind) && !request.converted.contains({object.meta.uid, object.meta.seq}) &&
         stored_version(*request.kind, object) != request.kind->version;
}

void convert_for(const Asked& request, const ConversionTools& tools, std::vector<Ref<Object>> objects,
                 std::function<void(std::optional<Status>)> then) {
  if (!is_converted_by_webhook(*request->kind))
    return then(std::nullopt);
  const auto work = std::make_shared<Converting>();
  work->request = request;
  work->tools = tools;
  work->left = std::move(objects);
  work->then = std::move(then);
  work->next();
}

void convert_to_stored(const Asked& request, const ConversionTools& tools, json::object tree,
                       std::function<void(Answered<json::object>)> then) {
  convert_tree(request, tools, std::move(tree), request->kind->version,
               request->kind->custom->definition->storage().name, std::move(then));
}

void convert_tree(const Asked& request, const ConversionTools& tools, json::object tree, const std::string& from,
                  const std::string& to, std::function<void(Answered<json::object>)> then) {
  if (!is_converted_by_webhook(*request->kind)) {
    tree.erase("kind");
    tree.erase("apiVersion");
    return then(std::move(tree));
  }
  std::vector<json::object> one;
  one.push_back(with_version(std::move(tree), *request->kind, from));
  ask_webhook(request, tools, from, to, std::move(one),
              [then = std::move(then)](Answered<std::vector<json::object>> made) {
                if (!made.ok())
                  return then(made.error());
                json::object tree = std::move(made->front());
                tree.erase("kind");
                tree.erase("apiVersion");
                then(std::move(tree));
              });
}

// --- watches ---

struct WatchBell::Follower {
  std::unique_ptr<Stream> stream;
  Pull pull;
  std::shared_ptr<std::function<void()>> wake;  // by which the watch calls us; lives as long
  bool over = false;
};

void WatchBell::follow(const std::shared_ptr<FrontVisit>& visit, const Opens& opens, Pull pull, Duration longest,
                       const std::shared_ptr<std::function<void()>>& wake) {
  if (!hands_ || all_.size() >= kWatchesMax)
    return answer_status(*visit, Status::too_many_requests("too many watches are open", 1));
  auto one = std::make_shared<Follower>();
  one->stream = opens(*visit);
  if (!one->stream)
    return;
  one->pull = std::move(pull);
  one->wake = wake;
  all_.push_back(one);
  const auto on = [weak = weak_from_this(), follower = std::weak_ptr(one)](bool ends) {
    const auto self = weak.lock();
    const auto known = follower.lock();
    if (!self || !known)
      return;
    known->over = known->over || ends;
    self->ring_soon();
  };
  *wake = [on] { on(false); };
  one->stream->on_close([on] { on(true); });
  one->stream->on_drained([on] { on(false); });
  hands_->after(longest, [on] { on(true); });
  ring_soon();
}

void WatchBell::change(const Tables&, const Change&) {
  if (!all_.empty())
    ring_soon();
}

// The view moves on behind the change that we are told of, and streams may be calling us.
void WatchBell::ring_soon() {
  if (!hands_ || std::exchange(ringing_, true))
    return;
  hands_->after(Duration{}, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self)
      return;
    self->ringing_ = false;
    for (const auto& one : std::vector(self->all_)) self->look(one);
    std::erase_if(self->all_, [](const auto& one) { return one->over; });
  });
}

void WatchBell::look(const std::shared_ptr<Follower>& one) {
  while (!one->over && one->stream->unsent() < kStreamHighWater) {
    std::string piece;
    const Pulled pulled = one->pull(piece);
    if (!piece.empty())
      one->stream->write(std::move(piece));
    if (pulled == Pulled::kEnd)
      one->over = true;
    if (pulled == Pulled::kNothing)
      return;
  }
  if (one->over)
    one->stream->close();
}

}  // namespace lockstep::kube
