// Front-end objects: stored, compared and set, and deleted together with what they control. Who may touch which object
// is for the front end that owns their meaning to say.
#include "base/text.h"
#include "core/directory.h"
#include "core/jobs.h"

namespace lockstep {

namespace {

const MetaExtra& extra_of(const Meta& meta) {
  static const MetaExtra empty;
  return meta.extra ? *meta.extra : empty;
}

// The object goes, and everything it controls: jobs are cancelled, objects removed in their turn.
void delete_object(Txn& txn, const Ref<Object>& object) {
  if (!extra_of(object->meta).finalizers.empty()) {
    if (extra_of(object->meta).deleting)
      return;
    Object marked = *object;
    auto extra = std::make_shared<MetaExtra>(extra_of(object->meta));
    extra->deleting = txn.now();
    marked.meta.extra = std::move(extra);
    txn.put(std::move(marked));
    return;
  }
  const Uid uid = object->meta.uid;
  txn.remove(object);
  if (const auto jobs = txn.inner().owned_jobs.find(uid); jobs != txn.inner().owned_jobs.end())
    for (JobId id : std::vector<JobId>(jobs->second.begin(), jobs->second.end()))
      cancel_whole(txn, id, txn.caller().user);
  if (const auto owned = txn.inner().owned_objects.find(uid); owned != txn.inner().owned_objects.end())
    for (const ObjectKey& key : std::vector<ObjectKey>(owned->second.begin(), owned->second.end()))
      if (const auto it = txn.tables().objects.find(key); it != txn.tables().objects.end())
        delete_object(txn, Ref<Object>(it->second));
}

Result<void> same_seq(const Meta& meta, Seq if_seq) {
  if (if_seq != 0 && meta.seq != if_seq)
    return conflict(format("{} has changed since version {}: read it again", meta.name, if_seq));
  return {};
}

}  // namespace

Result<Answer> put_object(Txn& txn, const PutObject& ask) {
  Object object = ask.object;
  if (object.type.empty() || object.meta.name.empty())
    return invalid("an object needs a type and a name", "name");
  const auto it = txn.tables().objects.find({object.type, object.meta.ns, object.meta.name});
  if (it == txn.tables().objects.end()) {
    if (ask.if_seq != 0)
      return conflict(format("{} {} is gone", object.type, object.meta.name));
    object.meta.generation = 1;
  } else {
    TRY(same_seq(it->second->meta, ask.if_seq));
    const Instant deleting = extra_of(it->second->meta).deleting;
    object.meta.generation = it->second->meta.generation + (object.body != it->second->body);
    if (deleting && !extra_of(object.meta).deleting) {  // a deletion cannot be taken back
      auto extra = std::make_shared<MetaExtra>(extra_of(object.meta));
      extra->deleting = deleting;
      object.meta.extra = std::move(extra);
    }
  }
  for (const OwnerRef& owner : extra_of(object.meta).owners)
    if (owner.uid == (it == txn.tables().objects.end() ? Uid{} : it->second->meta.uid) && owner.uid)
      return invalid(format("{} {} would own itself", object.type, object.meta.name), "owners");
  const Ref<Object> made = txn.put(std::move(object));
  const Answer answer{.seq = made->meta.seq};
  if (extra_of(made->meta).deleting && extra_of(made->meta).finalizers.empty())
    delete_object(txn, made);
  return answer;
}

Result<void> remove_object(Txn& txn, const RemoveObject& ask) {
  const auto it = txn.tables().objects.find({ask.type, ask.ns, ask.name});
  if (it == txn.tables().objects.end())
    return not_found(format("there is no {} {} in \"{}\"", ask.type, ask.name, ask.ns));
  TRY(same_seq(it->second->meta, ask.if_seq));
  delete_object(txn, Ref<Object>(it->second));
  return {};
}

}  // namespace lockstep
