#include "frontends/kube/server/write.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/kinds/node_change.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/rules.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/json_patch.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/managed_fields.h"
#include "frontends/kube/machinery/merge_patch.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/strategic_patch.h"
#include "frontends/kube/machinery/typed.h"
#include "frontends/kube/server/address_claims.h"
#include "frontends/kube/server/body.h"
#include "frontends/kube/server/conversion.h"
#include "frontends/kube/server/draft.h"
#include "frontends/kube/server/escalation.h"
#include "frontends/kube/server/pods.h"
#include "frontends/kube/server/quota_admission.h"
#include "frontends/kube/server/shown.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kStoredBytesMax = 1'500'000;  // as a server on etcd has it
constexpr int kWriteTries = 8;                      // of a change that asks for no version, when another one came first
constexpr std::size_t kLongStored = 32 << 10;       // bytes of an object that is changed; a longer one is handled aside

// A job that runs otherwise than one task on one node, or whose node is away, stays as large as it is.
bool asks_in_vain(const Error& why) { return why.code == Errc::kUnsupported || why.code == Errc::kUnavailable; }

std::string name_end(const WriteTools& tools) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";  // no words, and nothing that looks alike
  std::string out;
  for (const char c : tools.random_hex(10).substr(0, 10))
    out += kLetters[static_cast<unsigned char>(c) * 31 % kLetters.size()];
  return out.substr(0, 5);
}

Answered<json::object> body_for(const Request& request, const std::string& body_text) {
  json::object tree = TRY(read_body(request, body_text));
  json::object& metadata = metadata_of(tree);
  const std::string ns = text_in(metadata, "namespace");
  if (request.kind->namespaced && !ns.empty() && ns != request.target.ns)
    return Status::bad_request("the namespace of the provided object does not match the namespace sent on the request");
  if (request.kind->namespaced)
    metadata["namespace"] = request.target.ns;
  else
    metadata.erase("namespace");
  return tree;
}

bool names_version(const json::object& tree) {
  const json::value* metadata = tree.if_contains("metadata");
  const std::string version =
      metadata && metadata->is_object() ? text_in(metadata->get_object(), "resourceVersion") : "";
  return !version.empty() && version != "0";
}

// The object with the number that a Scale says, and with its version as a condition where it names one.
json::object scaled(const Request& request, const Object& before, const json::object& old, json::object& scale) {
  json::object tree = old;
  put_scale(tree, scale, scale_paths(request));
  const std::string version = text_in(metadata_of(scale), "resourceVersion");
  metadata_of(tree)["resourceVersion"] = version.empty() ? std::to_string(before.meta.seq) : version;
  return tree;
}

bool is_same_version(const json::object& a, const json::object& b) {
  const auto version = [](const json::object& tree) { return text_in(part(tree, "metadata"), "resourceVersion"); };
  return version(a) == version(b);
}

Answered<json::object> patched(const Request& request, json::object tree, const json::value& patch) {
  const std::string type = header_of(request.http(), "content-type");
  const std::string kind(trim(type.substr(0, type.find(';'))));
  const Schema* schema = is_scale(request) ? request.kind->subresource("scale")->schema : request.kind->schema;
  json::value out;
  if (kind == "application/json-patch+json")
    out = TRY(apply_json_patch(std::move(tree), patch));
  else if (kind == "application/merge-patch+json")
    out = apply_merge_patch(std::move(tree), patch);
  else if (kind == "application/strategic-merge-patch+json" && schema && !request.kind->custom)
    out = TRY(apply_strategic_patch(std::move(tree), patch, *schema));
  else
    return Status::unsupported_media_type({"application/json-patch+json", "application/merge-patch+json",
                                           "application/strategic-merge-patch+json", "application/apply-patch+yaml"});
  if (!out.is_object())
    return Status::bad_request("the patch leaves no object");
  json::object& made = out.get_object();
  if (const json::value* metadata = made.if_contains("metadata"); metadata && !metadata->is_object())
    return bad_patch("metadata is no object");
  std::string api_version;
  const std::string asked(sent_kind(request, api_version).kind), kind_now = text_in(made, "kind");
  if (!kind_now.empty() && kind_now != asked)
    return bad_patch(
        format("no kind {} is registered for {} here: it is {}", quoted(kind_now), text_in(made, "apiVersion"), asked));
  if (const std::string ns = text_in(metadata_of(made), "namespace");
      request.kind->namespaced && !ns.empty() && ns != request.target.ns)
    return Status::bad_request("the namespace of the provided object does not match the namespace sent on the request");
  return std::move(made);
}

// One write on its way: what was sent is read, becomes a draft, which is settled, completed with what other objects
// say, changed by webhooks, validated, judged, converted and committed; then it is answered. Steps that look at the
// object alone are done beside the I/O thread where it is long, so nobody but its sender waits for them.
class Write : public std::enable_shared_from_this<Write> {
 public:
  enum class Sort : unsigned char { kCreate, kUpdate, kPatch, kApply };
  Write(Asked request, const WriteTools& tools, Sort sort)
      : request_(std::move(request)), tools_(tools), sort_(sort), has_long_body_(has_long_body(*request_)) {}

  void begin() { beside(&Write::read, &Write::attempt); }

 private:
  using Work = std::optional<Status> (Write::*)();
  using Next = void (Write::*)();

  void refuse(const Status& why) { answer_status(*request_, why); }

  bool is_long() const { return has_long_body_ || (before_ && before_->body.size() > kLongStored); }
  // `work` looks at the object alone.
  void beside(Work work, Next next) {
    if (!is_long()) {
      if (const auto refused = (this->*work)())
        return refuse(*refused);
      return (this->*next)();
    }
    const auto refused = std::make_shared<std::optional<Status>>();
    const auto taken =
        request_->visit->aside([self = shared_from_this(), work, refused] { *refused = (self.get()->*work)(); },
                               [self = shared_from_this(), next, refused] {
                                 if (*refused)
                                   return self->refuse(**refused);
                                 (self.get()->*next)();
                               });
    if (!taken.ok())
      refuse(Status::too_many_requests(taken.error().message, 1));
  }

  // --- read ---

  std::optional<Status> read() {
    if (sort_ == Sort::kPatch) {
      auto patch = read_patch(*request_);
      if (!patch.ok())
        return patch.error();
      patch_ = std::move(*patch);
      return std::nullopt;
    }
    auto tree = sort_ == Sort::kApply ? read_body(*request_, request_->http().body)
                                      : body_for(*request_, request_->http().body);
    if (!tree.ok())
      return tree.error();
    sent_ = std::move(*tree);
    return std::nullopt;
  }

  // --- draft: what is to be, from what was sent and what is there ---

  void attempt() {
    const auto read = request_->visit->read();
    request_->now = WallTime{(read->now + read->wall_offset).us};
    wall_offset_ = wall_offset_of(*read);
    may_try_again_ = tries_ > 0;
    switch (sort_) {
      case Sort::kCreate: return create();
      case Sort::kUpdate: return update();
      case Sort::kPatch: return patch();
      case Sort::kApply: return apply();
    }
  }

  // Another one came first, and the client asked for no version.
  void try_again() {
    --tries_;
    before_ = nullptr;
    draft_ = {};
    reading_ = {};
    if (sort_ == Sort::kPatch)
      attempt();
    else
      beside(&Write::read, &Write::attempt);
  }

  void create() {
    // A namespace that ends takes nothing, whatever else is wrong with it.
    if (auto room = room_for(*request_, text_in(metadata_of(sent_), "name")); !room.ok())
      return refuse(room.error());
    draft_ = begin_new(*request_, std::move(sent_), name_end(tools_));
    draft_.is_sent = true;
    beside(&Write::settle, &Write::complete);
  }

  // False: it was answered, or `attempt` is called again when a webhook has told how the object looks in the version of
  // the request.
  bool find_before() {
    before_ = find_object(*request_);
    if (!before_) {
      refuse(Status::not_found(request_->resource(), request_->target.name));
      return false;
    }
    return in_its_version(before_);
  }

  bool in_its_version(const Ref<Object>& object) {
    if (!object || !is_to_be_converted(*request_, *object))
      return true;
    convert_for(request_, {tools_.call, tools_.random_hex}, {object},
                [self = shared_from_this()](const std::optional<Status>& failed) {
                  if (failed)
                    return self->refuse(*failed);
                  self->attempt();
                });
    return false;
  }

  void update() {
    if (const std::string name = text_in(metadata_of(sent_), "name");
        is_scale(*request_) && name != request_->target.name)
      return refuse(Status::bad_request(
          format("the name of the object ({}) does not match the name on the URL ({})", name, request_->target.name)));
    if (find_before())
      replace();
  }

  void patch() {
    if (find_before())
      replace();
  }

  void apply() {
    json::object& metadata = metadata_of(sent_);
    if (text_in(metadata, "name").empty())
      metadata["name"] = request_->target.name;
    if (text_in(metadata, "name") != request_->target.name)
      return refuse(Status::bad_request(format("the name of the object ({}) does not match the name on the URL ({})",
                                               text_in(metadata, "name"), request_->target.name)));
    if (request_->kind->namespaced)
      metadata["namespace"] = request_->target.ns;
    before_ = find_object(*request_);
    if (!before_ && !request_->target.subresource.empty())
      return refuse(Status::not_found(request_->resource(), request_->target.name));
    if (!in_its_version(before_))
      return;
    if (before_)
      return replace();
    beside(&Write::make_applied, &Write::applied);
  }

  std::optional<Status> make_applied() {
    auto made = applied_to(json::value());
    if (!made.ok())
      return made.error();
    sent_ = std::move(*made);
    return std::nullopt;
  }

  void applied() {
    draft_ = begin_new(*request_, std::move(sent_), name_end(tools_));
    draft_.managers = Draft::Managers::kKnown;
    beside(&Write::settle, &Write::complete);
  }

  Answered<json::object> applied_to(const json::value& live) {
    const FieldSet ignored = ignored_by(*request_);
    auto made = apply_configuration(live, json::value(std::move(sent_)), *request_->kind->schema,
                                    manager_of(*request_, ignored),
                                    query_flag(request_->http(), "force") ? Force::kYes : Force::kNo);
    if (!made.ok())
      return made.error();
    return std::move(made->as_object());
  }

  void replace() {
    old_.reset();
    if (shows_records(*before_))
      old_ = shown_tree(*request_, *before_);
    beside(&Write::make_update, &Write::mutate);
  }

  std::optional<Status> make_update() {
    json::object old = old_ ? std::move(*old_) : plain_tree(*request_, *before_, request_->now, wall_offset_);
    auto tree = changed_tree(old);
    if (!tree.ok())
      return tree.error();
    auto draft = begin_update(*request_, before_, std::move(old), std::move(*tree));
    if (!draft.ok())
      return draft.error();
    draft_ = std::move(*draft);
    draft_.is_sent = sort_ != Sort::kApply;
    if (sort_ == Sort::kApply)
      draft_.managers = Draft::Managers::kKnown;
    return settle();
  }

  Answered<json::object> changed_tree(const json::object& old) {
    if (sort_ == Sort::kApply)
      return applied_to(json::value(old));
    if (sort_ == Sort::kPatch)
      return patched_tree(old);
    may_try_again_ = may_try_again_ && !names_version(sent_);
    return is_scale(*request_) ? scaled(*request_, *before_, old, sent_) : std::move(sent_);
  }

  Answered<json::object> patched_tree(const json::object& old) {
    const json::object from = is_scale(*request_) ? scale_of(old, scale_paths(*request_)) : old;
    json::object tree = TRY(patched(*request_, from, patch_));
    // A version that the patch itself names is a condition; the one that was there is none.
    const bool conditional = names_version(tree) && !is_same_version(tree, from);
    may_try_again_ = may_try_again_ && !conditional;
    if (!is_scale(*request_))
      return tree;
    if (const auto settled = lockstep::kube::settle(tree, *builtin_kind_schema("autoscaling", "v1", "Scale"));
        !settled.ok())
      return bad_patch(settled.error().message);
    if (!conditional)
      metadata_of(tree).erase("resourceVersion");
    return scaled(*request_, *before_, old, tree);
  }

  // --- settle, complete ---

  std::optional<Status> settle() { return settle_draft(*request_, draft_); }

  void complete() {
    if (auto refused = complete_draft(*request_, draft_))
      return refuse(*refused);
    const json::object& metadata = metadata_of(draft_.tree);
    const std::string name = text_in(metadata, "name");
    auto reading = room_for(*request_, name);
    if (!reading.ok())
      return refuse(reading.error());
    reading_ = std::move(*reading);
    const ObjectKey key{request_->kind->type, request_->kind->namespaced ? request_->target.ns : "", name};
    reading_.records.push_back({key, 0});
    const bool is_generated = sort_ == Sort::kCreate && !text_in(metadata, "generateName").empty();
    if (is_generated && may_try_again_ && request_->visit->read()->tables.objects.contains(key))
      return try_again();
    mutate();
  }

  // --- mutate, validate, judge: in the order of Kubernetes' admission ---

  void mutate() {
    if (!has_webhooks(request_->visit->read()->tables))
      return validate();
    review_uid_ = tools_.random_hex(16);
    ask_mutating(request_, webhooks(), review_uid_, draft_.tree, old_of_draft(),
                 [self = shared_from_this()](Answered<Admitted> admitted) {
                   if (!admitted.ok())
                     return self->refuse(admitted.error());
                   if (!admitted->changed)
                     return self->validate();
                   self->changed_ = std::move(admitted->tree);
                   self->beside(&Write::settle_what_changed, &Write::complete_changed);
                 });
  }

  WebhookTools webhooks() const { return {tools_.call, tools_.random_hex, tools_.kinds}; }
  std::optional<json::object> old_of_draft() const { return draft_.before ? std::optional(draft_.old) : std::nullopt; }

  std::optional<Status> settle_what_changed() { return settle_changed(*request_, draft_, std::move(changed_)); }

  void complete_changed() {
    if (auto refused = complete_draft(*request_, draft_))
      return refuse(*refused);
    validate();
  }

  void validate() { beside(&Write::validate_alone, &Write::judge); }
  std::optional<Status> validate_alone() { return validate_draft(*request_, draft_); }

  void judge() {
    if (auto refused = lockstep::kube::judge(*request_, *tools_.kinds, *tools_.policies, &draft_.tree,
                                             draft_.before ? &draft_.old : nullptr))
      return refuse(*refused);
    if (review_uid_.empty())
      return admit();
    ask_validating(request_, webhooks(), review_uid_, draft_.tree, old_of_draft(),
                   [self = shared_from_this()](std::optional<Status> refused) {
                     if (refused)
                       return self->refuse(*refused);
                     self->admit();
                   });
  }

  // --- admit: what nothing refuses any more but the cluster itself ---

  void admit() {
    if (auto refused = check_escalation(*request_, draft_.tree, *tools_.roles))
      return refuse(*refused);
    if (auto refused =
            check_address_claims(*request_, draft_.tree, draft_.before ? &draft_.old : nullptr, *tools_.roles,
                                 tools_.own_addresses ? tools_.own_addresses() : std::vector<std::string>()))
      return refuse(*refused);
    // Whether there is one of that name already is nobody's business whom admission refuses.
    if (!draft_.before && request_->target.verb == "create")
      if (const std::string name = text_in(metadata_of(draft_.tree), "name");
          request_->visit->read()->tables.objects.contains(
              {request_->kind->type, request_->kind->namespaced ? request_->target.ns : "", name}))
        return refuse(Status::already_exists(request_->resource(), name));
    if (!draft_.before && !text_in(metadata_of(draft_.tree), "resourceVersion").empty())
      return refuse(Status::bad_request("resourceVersion should not be set on objects to be created"));
    convert();
  }

  void convert() {
    if (!is_converted_by_webhook(*request_->kind))
      return encode();
    request_->written = draft_.tree;
    if (request_->kind->custom->definition->storage().name == request_->kind->version)
      return encode();
    convert_to_stored(request_, {tools_.call, tools_.random_hex}, draft_.tree,
                      [self = shared_from_this()](Answered<json::object> made) {
                        if (!made.ok())
                          return self->refuse(made.error());
                        self->draft_.stored = std::move(*made);
                        self->encode();
                      });
  }

  // What follows rests on the cluster as it is now, so it ends in a commit without another step between, unless the
  // object is long: then the commit finds what has changed meanwhile.
  void encode() {
    more_.clear();
    given_ = {};
    if (request_->kind->type == kServices) {
      auto given = give_addresses(*request_, draft_.tree, draft_.before ? &draft_.old : nullptr, *tools_.services,
                                  std::hash<std::string>()(tools_.random_hex(16)));
      if (!given.ok())
        return refuse(given.error());
      more_ = std::move(given->commands);
      given_ = std::move(given->read);
    }
    if (request_->kind->type == kPods && draft_.before && is_status(request_->target.subresource)) {
      const PodRecords records = records_of_pod(request_->visit->read()->tables, *draft_.before);
      object_ = object_to_store(*request_, draft_, &records);
      is_unchanged_ = changes_nothing(draft_, object_);
      return commit();
    }
    beside(&Write::encode_alone, &Write::commit);
  }

  std::optional<Status> encode_alone() {
    object_ = object_to_store(*request_, draft_, nullptr);
    is_unchanged_ = changes_nothing(draft_, object_);
    return std::nullopt;
  }

  // --- commit, answer ---

  void commit() {
    if (object_.body.size() > kStoredBytesMax)
      return refuse(Status::too_large(kStoredBytesMax));
    const Ref<Object> before = draft_.before;
    auto counted = count_in_quotas(*request_, draft_.tree, before ? &draft_.old : nullptr);
    if (!counted.ok())
      return refuse(counted.error());
    // What the record says is not what was stored: it may change where the stored object does not.
    std::optional<UpdateNode> node_work;
    if (object_.type == kNodes)
      if (const Node* node = request_->visit->read()->tables.node(object_.meta.name))
        node_work = node_change(*node, before ? &draft_.old : nullptr, draft_.tree, request_->user.name);
    if (before && !node_work && is_unchanged_)
      return answer_shown(*request_, *before, 200);
    if (request_->dry_run)
      return answer_tried();
    std::vector<CommandBody> bodies;
    // Without its job a new pod waits, and what there is no room for is asked for again by the pods' controller.
    bool may_leave_job = false;
    const bool makes_pod = object_.type == kPods && !before;
    if (makes_pod) {
      auto made = new_pod(*request_, draft_.tree, draft_.refusal);
      if (!made.ok())
        return refuse(made.error());
      bodies.push_back(std::move(*made));
      may_leave_job = draft_.refusal.empty();
    } else {
      bodies.emplace_back(PutObject{object_, before && !mutant(Mutant::kUpdateLost) ? before->meta.seq : 0});
    }
    if (object_.type == kPods && before) {
      const Sizes sizes = draft_.refusal.empty() ? Sizes::kChange : Sizes::kStay;
      for (CommandBody& body : changes_of_job(request_->visit->read()->tables, *before, draft_.tree, draft_.old, sizes))
        bodies.push_back(std::move(body));
      may_leave_job = sizes == Sizes::kChange && bodies.size() > 1;
    }
    if (node_work)
      more_.emplace_back(std::move(*node_work));
    for (auto* others : {&more_, &*counted})
      for (CommandBody& body : *others) bodies.push_back(std::move(body));
    Reading read = reading_;
    read.records.insert(read.records.end(), given_.records.begin(), given_.records.end());
    commit_for(*request_, std::move(bodies), std::move(read),
               [self = shared_from_this(), may_leave_job](const Result<Answer>& done) {
                 if (done.ok())
                   return self->answer(done->seq);
                 self->committed_not(done.error(), may_leave_job);
               });
  }

  void committed_not(const Error& why, bool may_leave_job) {
    if (why.code == Errc::kConflict && may_try_again_)
      return try_again();
    if (may_leave_job && (waits_for(why) || (draft_.before && asks_in_vain(why)))) {
      draft_.refusal = why.message;
      return admit();
    }
    refuse(status_of(why, request_->resource(), object_.meta.name));
  }

  void answer_tried() {
    if (draft_.before) {
      object_.meta.uid = draft_.before->meta.uid;
      object_.meta.seq = draft_.before->meta.seq;
    }
    answer_shown(*request_, object_, draft_.before ? 200 : 201);
  }

  void answer(Seq seq) {
    const int status = draft_.before ? 200 : 201;
    const auto reading = request_->visit->read();
    const auto now = reading->tables.objects.find({object_.type, object_.meta.ns, object_.meta.name});
    if (now != reading->tables.objects.end()) {
      if (draft_.before && object_.type == kPods)
        tell_node(*request_, tools_.streams, *now->second);
      return answer_shown(*request_, *now->second, status);
    }
    if (draft_.before)  // it has gone with its last finalizer
      object_.meta.uid = draft_.before->meta.uid;
    object_.meta.seq = seq;
    answer_shown(*request_, object_, status);
  }

  const Asked request_;
  const WriteTools tools_;
  const Sort sort_;
  const bool has_long_body_;
  int tries_ = kWriteTries;
  bool may_try_again_ = false;
  Duration wall_offset_;  // when it was last tried
  json::object sent_;     // as it was sent, or as an apply made it
  json::value patch_;
  Ref<Object> before_;               // null: it is new
  std::optional<json::object> old_;  // its tree, where that shows other records; else it is made when it is needed
  Draft draft_;
  std::string review_uid_;  // of what webhooks are asked; "": there are none
  json::object changed_;    // by webhooks
  Reading reading_, given_;
  std::vector<CommandBody> more_;  // that go with it
  Object object_;
  bool is_unchanged_ = false;
};

void begin_write(const Asked& request, const WriteTools& tools, Write::Sort sort) {
  std::make_shared<Write>(request, tools, sort)->begin();
}

}  // namespace

void admit_connection(const Asked& request, const WriteTools& tools, std::function<void()> then) {
  json::object options = connection_options(*request);
  if (auto refused = judge(*request, *tools.kinds, *tools.policies, &options, nullptr))
    return answer_status(*request, *refused);
  if (!has_webhooks(request->visit->read()->tables))
    return then();
  ask_validating(request, {tools.call, tools.random_hex, tools.kinds}, tools.random_hex(16), std::move(options),
                 std::nullopt, [request, then = std::move(then)](std::optional<Status> refused) {
                   if (refused)
                     return answer_status(*request, *refused);
                   then();
                 });
}

void create_object(const Asked& request, const WriteTools& tools) { begin_write(request, tools, Write::Sort::kCreate); }
void update_object(const Asked& request, const WriteTools& tools) { begin_write(request, tools, Write::Sort::kUpdate); }

void patch_object(const Asked& request, const WriteTools& tools) {
  if (is_apply(*request) && request->kind->schema) {
    if (query_of(request->http(), "fieldManager").empty())
      return answer_status(
          *request,
          Status::invalid({"meta.k8s.io", "PatchOptions"}, "",
                          {{"FieldValueRequired", "Required value: is required for apply patch", "fieldManager"}}));
    return begin_write(request, tools, Write::Sort::kApply);
  }
  if (!find_object(*request))
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  begin_write(request, tools, Write::Sort::kPatch);
}

void commit_for(const Request& request, std::vector<CommandBody> bodies, Reading read,
                std::function<void(Result<Answer>)> then) {
  if (request.kind->type == kPods || request.kind->type == kNodes)
    return request.visit->commit_judged(std::move(bodies), std::move(read), std::move(then));
  request.visit->commit(std::move(bodies), std::move(read), std::move(then));
}

}  // namespace lockstep::kube
