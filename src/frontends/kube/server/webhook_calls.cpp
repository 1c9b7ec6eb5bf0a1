#include "frontends/kube/server/webhook_calls.h"

#include "base/text.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/kinds/versions.h"
#include "frontends/kube/machinery/json_patch.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/admission.h"
#include "frontends/kube/server/conversion.h"
#include "model/container_ask.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

using Objects = std::pair<std::optional<json::object>, std::optional<json::object>>;

class RequestAsker final : public WebhookAsker {
 public:
  RequestAsker(Asked request, WebhookTools tools) : request_(std::move(request)), tools_(std::move(tools)) {}
  const Tables& tables() const override { return request_->visit->read()->tables; }
  AdmissionAttempt attempt(const json::object* tree, const json::object* old) const override {
    AdmissionAttempt out = attempt_of(*request_, tree, old);
    const Kind& own = *request_->kind;
    if (tools_.kinds && !is_connection(*request_))
      for (const Kinds::Ref& one : tools_.kinds->all())
        if (one->type == own.type && one->stored() && (one->group != own.group || one->version != own.version) &&
            (out.subresource.empty() || one->serves(out.subresource)))
          out.others.push_back({one->group, one->version, one->kind, one->plural});
    return out;
  }
  void convert(json::object tree, const ObjectForm& from, const ObjectForm& to,
               std::function<void(Answered<json::object>)> then) const override {
    const Kind& kind = *request_->kind;
    const auto with_names = [to, then = std::move(then)](Answered<json::object> made) {
      if (made.ok()) {
        (*made)["kind"] = to.kind;
        (*made)["apiVersion"] = group_version_text(to.group, to.version);
      }
      then(std::move(made));
    };
    if (kind.custom)
      return convert_tree(request_, {tools_.call, tools_.random_hex}, std::move(tree), from.version, to.version,
                          with_names);
    to_stored(kind.type, group_version_text(from.group, from.version), tree);
    from_stored(kind.type, group_version_text(to.group, to.version), tree);
    with_names(std::move(tree));
  }
  void reach(const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) const override {
    request_->visit->reach(ask, std::move(then));
  }
  bool dry_run() const override { return request_->dry_run; }
  void warn(std::string words) override { request_->warnings.push_back(std::move(words)); }

 private:
  Asked request_;
  WebhookTools tools_;
};

using Asker = std::shared_ptr<WebhookAsker>;

AdmissionAttempt attempt_on(const WebhookAsker& asker, const std::optional<json::object>& tree,
                            const std::optional<json::object>& old) {
  return asker.attempt(tree ? &*tree : nullptr, old ? &*old : nullptr);
}

// What a webhook is shown where its rules name the objects in another form than the request.
struct Converted {
  std::optional<json::object> tree, old;
  AdmissionAttempt attempt;
};
using ConvertedAnswer = Answered<std::shared_ptr<const Converted>>;

void convert_if_any(const Asker& asker, std::optional<json::object> tree, const ObjectForm& from, const ObjectForm& to,
                    std::function<void(Answered<std::optional<json::object>>)> then) {
  if (!tree)
    return then(std::optional<json::object>());
  asker->convert(std::move(*tree), from, to, [then = std::move(then)](Answered<json::object> made) {
    if (!made.ok())
      return then(made.error());
    then(std::optional(std::move(*made)));
  });
}

void convert_for_webhook(const Asker& asker, const AdmissionAttempt& attempt, const ObjectForm& to,
                         std::function<void(ConvertedAnswer)> then) {
  const auto copied = [](const json::object* one) { return one ? std::optional(*one) : std::nullopt; };
  const auto out = std::make_shared<Converted>();
  const AdmissionAttempt bare = attempt.in_form(to, nullptr, nullptr);
  convert_if_any(asker, copied(attempt.object), attempt.form(), to,
                 [asker, out, bare, to, from = attempt.form(), old = copied(attempt.old),
                  then = std::move(then)](Answered<std::optional<json::object>> tree) mutable {
                   if (!tree.ok())
                     return then(tree.error());
                   out->tree = std::move(*tree);
                   convert_if_any(asker, std::move(old), from, to,
                                  [out, bare, to, then = std::move(then)](Answered<std::optional<json::object>> was) {
                                    if (!was.ok())
                                      return then(was.error());
                                    out->old = std::move(*was);
                                    out->attempt = bare.in_form(to, out->tree ? &*out->tree : nullptr,
                                                                out->old ? &*out->old : nullptr);
                                    then(std::shared_ptr<const Converted>(out));
                                  });
                 });
}

// What one webhook says: a reply that asks for nothing where it is not to be asked, or failed and may.
void ask_one(const Asker& asker, const CallsOut& call, const std::string& uid, const Webhook& webhook,
             const AdmissionAttempt& attempt, std::function<void(Answered<WebhookReply>)> then) {
  const auto holds = conditions_hold(webhook, attempt);
  if (!holds.ok())
    return then(holds.error());
  if (!*holds)
    return then(WebhookReply());
  if (asker->dry_run() && !webhook.is_safe_to_try())
    return then(Status::bad_request(format("admission webhook \"{}\" does not support dry run", webhook.name)));
  const auto fail = [webhook, then](const std::string& url, const std::string& why) {
    if (!webhook.fails_closed())
      return then(WebhookReply());
    then(call_failed(webhook, url, why));
  };
  const Tables& tables = asker->tables();
  const auto target = target_of(tables, webhook);
  if (!target.ok())
    return fail("", target.error().message);
  if (!call)
    return fail(target->url, "this server calls nobody");
  CallOut out{target->address,
              target->port,
              target->server_name,
              target->ca_pem,
              target->path,
              review_text(attempt, uid),
              seconds(webhook.timeout_s())};
  auto told = [webhook, uid, url = target->url, then, fail](Result<std::string> body) {
    if (!body.ok())
      return fail(url, body.error().message);
    auto reply = read_reply(webhook, *body, uid);
    if (!reply.ok())
      return fail("", reply.error().message);
    then(std::move(*reply));
  };
  if (target->pod.empty())
    return call(std::move(out), std::move(told));
  const auto pod = tables.objects.find({std::string(kPods), target->pod_ns, target->pod});
  const PodRecords records = pod == tables.objects.end() ? PodRecords() : records_of_pod(tables, *pod->second);
  if (!records.job)
    return fail(target->url, format("pod {} does not have a host assigned", target->pod));
  ContainerAsk ask;
  ask.what = ContainerAsk::What::kPort;
  ask.job = records.job->id;
  ask.port = target->port;
  asker->reach(ask, [call, out = std::move(out), told = std::move(told), fail,
                     url = target->url](Result<std::unique_ptr<Stream>> stream) mutable {
    if (!stream.ok())
      return fail(url, stream.error().message);
    out.through = std::move(*stream);
    call(std::move(out), std::move(told));
  });
}

// Goes through the mutating webhooks; lives as long as a call is out.
class Mutation : public std::enable_shared_from_this<Mutation> {
 public:
  Mutation(Asker asker, CallsOut call, std::string uid, Objects objects, std::function<void(Answered<Admitted>)> then)
      : asker_(std::move(asker)),
        call_(std::move(call)),
        uid_(std::move(uid)),
        tree_(std::move(objects.first)),
        old_(std::move(objects.second)),
        then_(std::move(then)) {}

  void begin() {
    webhooks_ = webhooks_for(asker_->tables(), Webhook::Sort::kMutating, attempt_on(*asker_, tree_, old_));
    next();
  }

 private:
  void next() {
    while (at_ < webhooks_.size() && again_ && !(webhooks_[at_].asks_again() && at_ + 1 < changed_last_)) ++at_;
    if (at_ >= webhooks_.size()) {
      if (!again_ && changed_last_ > 0) {
        again_ = true;
        at_ = 0;
        return next();
      }
      return then_(Admitted{tree_ ? std::move(*tree_) : json::object(), changed_last_ > 0});
    }
    const AdmissionAttempt attempt = attempt_on(*asker_, tree_, old_);
    const ObjectForm& form = webhooks_[at_].form;
    if (form == attempt.form())
      return ask_one(asker_, call_, uid_, webhooks_[at_], attempt,
                     [self = shared_from_this()](Answered<WebhookReply> reply) { self->take(std::move(reply), {}); });
    convert_for_webhook(asker_, attempt, form, [self = shared_from_this()](ConvertedAnswer shown) {
      if (!shown.ok())
        return self->then_(shown.error());
      ask_one(self->asker_, self->call_, self->uid_, self->webhooks_[self->at_], (*shown)->attempt,
              [self, shown = *shown](Answered<WebhookReply> reply) { self->take(std::move(reply), shown); });
    });
  }

  // shown: what the webhook saw, where that was no tree of the request's own form.
  void take(Answered<WebhookReply> reply, const std::shared_ptr<const Converted>& shown) {
    if (!reply.ok())
      return then_(reply.error());
    for (std::string& warning : reply->warnings) asker_->warn(std::move(warning));
    if (reply->refused)
      return then_(*reply->refused);
    if (!reply->patch || !tree_)
      return go_on();
    const json::value seen(shown ? *shown->tree : *tree_);
    auto patched = apply_json_patch(seen, *reply->patch);
    if (!patched.ok() || !patched->is_object())
      return then_(
          call_failed(webhooks_[at_], "", patched.ok() ? "its patch leaves no object" : patched.error().message));
    if (same_json(seen, *patched))
      return go_on();
    if (!again_)
      changed_last_ = at_ + 1;
    if (!shown) {
      tree_ = std::move(patched->get_object());
      return go_on();
    }
    asker_->convert(std::move(patched->get_object()), shown->attempt.form(), *shown->attempt.requested,
                    [self = shared_from_this()](Answered<json::object> made) {
                      if (!made.ok())
                        return self->then_(made.error());
                      self->tree_ = std::move(*made);
                      self->go_on();
                    });
  }

  void go_on() {
    ++at_;
    next();
  }

  Asker asker_;
  CallsOut call_;
  std::string uid_;
  std::optional<json::object> tree_, old_;
  std::function<void(Answered<Admitted>)> then_;
  std::vector<Webhook> webhooks_;
  std::size_t at_ = 0;
  std::size_t changed_last_ = 0;  // behind the last one that changed the object in the first round; 0 = none did
  bool again_ = false;            // the second round
};

struct Round {
  std::size_t left = 0;
  bool told = false;
  std::function<void(std::optional<Status>)> then;
};

}  // namespace

void ask_mutating(std::shared_ptr<WebhookAsker> asker, const CallsOut& call, const std::string& uid,
                  std::optional<json::object> tree, std::optional<json::object> old,
                  std::function<void(Answered<Admitted>)> then) {
  std::make_shared<Mutation>(std::move(asker), call, uid, Objects(std::move(tree), std::move(old)), std::move(then))
      ->begin();
}

void ask_mutating(const Asked& request, const WebhookTools& tools, const std::string& uid,
                  std::optional<json::object> tree, std::optional<json::object> old,
                  std::function<void(Answered<Admitted>)> then) {
  ask_mutating(std::make_shared<RequestAsker>(request, tools), tools.call, uid, std::move(tree), std::move(old),
               std::move(then));
}

void ask_validating(const Asked& request, const WebhookTools& tools, const std::string& uid,
                    std::optional<json::object> tree, std::optional<json::object> old,
                    std::function<void(std::optional<Status>)> then) {
  ask_validating(std::make_shared<RequestAsker>(request, tools), tools.call, uid, std::move(tree), std::move(old),
                 std::move(then));
}

void ask_validating(const std::shared_ptr<WebhookAsker>& asker, const CallsOut& call, const std::string& uid,
                    std::optional<json::object> tree, std::optional<json::object> old,
                    std::function<void(std::optional<Status>)> then) {
  const auto objects = std::make_shared<const Objects>(std::move(tree), std::move(old));
  const AdmissionAttempt attempt = attempt_on(*asker, objects->first, objects->second);
  const std::vector<Webhook> webhooks = webhooks_for(asker->tables(), Webhook::Sort::kValidating, attempt);
  if (webhooks.empty())
    return then(std::nullopt);
  const auto round = std::make_shared<Round>(Round{webhooks.size(), false, std::move(then)});
  const auto take = [asker, objects, round](Answered<WebhookReply> reply) {
    --round->left;
    if (round->told)
      return;
    if (reply.ok())
      for (std::string& warning : reply->warnings) asker->warn(std::move(warning));
    const std::optional<Status> refused = reply.ok() ? reply->refused : std::optional(reply.error());
    if (!refused && round->left > 0)
      return;
    round->told = true;
    round->then(refused);
  };
  for (const Webhook& webhook : webhooks) {
    if (webhook.form == attempt.form()) {
      ask_one(asker, call, uid, webhook, attempt, take);
      continue;
    }
    convert_for_webhook(asker, attempt, webhook.form, [asker, call, uid, webhook, take](ConvertedAnswer shown) {
      if (!shown.ok())
        return take(shown.error());
      ask_one(asker, call, uid, webhook, (*shown)->attempt,
              [shown = *shown, take](Answered<WebhookReply> reply) { take(std::move(reply)); });
    });
  }
}

}  // namespace lockstep::kube
