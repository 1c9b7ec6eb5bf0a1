#include "simulate/chaos/object_client.h"

#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

constexpr std::uint64_t kSets = 4, kReplicasMost = 5;
constexpr Duration kEvery = seconds(8);

bool ours(const std::string& type) { return type == kSetType || type == kReplicaType; }

}  // namespace

ObjectClient::ObjectClient(World& world) : world_(world), dice_(world.settings.seed ^ 0x6f62'6a73) {
  acts_ = dice_.chance(0.5);
}

void ObjectClient::start() {
  on_ = acts_;
  if (on_)
    world_.timeline.after(seconds(1), [this] { next(); });
}

void ObjectClient::send(CommandBody body) { world_.controller.call({{UserId{}, true}, std::move(body)}, nullptr); }

// Whoever changes an object hands back what else it holds: a finalizer that is left out is off.
void ObjectClient::scale(const std::string& name, std::string count) {
  if (!world_.controller.up() || world_.controller.engine().storing() || !world_.controller.engine().trusted())
    return;
  const auto& objects = world_.controller.state().tables().objects;
  const auto known = objects.find({kSetType, "", name});
  Object set = known == objects.end() ? Object() : *known->second;
  set.type = kSetType;
  set.meta.name = name;
  set.body = std::move(count);
  const Seq if_seq = set.meta.seq;
  send(PutObject{std::move(set), if_seq});
}

void ObjectClient::next() {
  if (!on_)
    return;
  const std::string name = format("set{}", dice_.below(kSets));
  if (dice_.chance(0.7)) {
    scale(name, format("{}", dice_.below(kReplicasMost + 1)));
  } else {
    const auto how = static_cast<RemoveObject::Dependents>(dice_.below(3));
    send(RemoveObject{kSetType, "", name, 0, how});
  }
  world_.timeline.after(micros(dice_.between(1, kEvery.us)), [this] { next(); });
}

void ObjectClient::settle() {
  on_ = false;
  clear();
}

// Orphans have nobody else who deletes them.
void ObjectClient::clear() {
  if (world_.controller.up() && world_.controller.engine().trusted() && !world_.controller.engine().storing())
    for (const auto& [key, object] : world_.controller.state().tables().objects)
      if (ours(object->type) && !(object->meta.extra && object->meta.extra->deleting))
        send(RemoveObject{object->type, object->meta.ns, object->meta.name, 0});
  if (!at_rest())
    world_.timeline.after(seconds(2), [this] { clear(); });
}

bool ObjectClient::at_rest() const {
  if (!world_.controller.up() || world_.controller.engine().storing())
    return false;
  for (const auto& [key, object] : world_.controller.state().tables().objects)
    if (ours(object->type))
      return false;
  return true;
}

}  // namespace lockstep::sim
