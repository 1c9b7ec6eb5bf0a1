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

void ObjectClient::send(CommandBody body, std::vector<CommandBody> also) {
  world_.controller.call({{UserId{}, true}, std::move(body), {}, {}, std::move(also)}, nullptr);
}

bool ObjectClient::can_look() const {
  return world_.controller.up() && !world_.controller.engine().storing() && world_.controller.engine().trusted();
}

// Whoever changes an object hands back what else it holds: a finalizer that is left out is off.
PutObject ObjectClient::scaled(const std::string& name, std::string count) const {
  const auto& objects = world_.controller.state().tables().objects;
  const auto known = objects.find({kSetType, "", name});
  Object set = known == objects.end() ? Object() : *known->second;
  set.type = kSetType;
  set.meta.name = name;
  set.body = std::move(count);
  const Seq if_seq = set.meta.seq;
  return {std::move(set), if_seq};
}

// All of these or none: now and then one among them cannot be.
void ObjectClient::scale_together() {
  std::vector<CommandBody> also;
  for (std::uint64_t set = 1; set < kSets; ++set)
    also.push_back(scaled(format("set{}", set), format("{}", dice_.below(kReplicasMost + 1))));
  if (dice_.chance(0.4))
    also.insert(also.begin() + static_cast<std::ptrdiff_t>(dice_.below(also.size() + 1)),
                RemoveObject{kSetType, "", "never-was", 0});
  send(scaled("set0", format("{}", dice_.below(kReplicasMost + 1))), std::move(also));
}

void ObjectClient::next() {
  if (!on_)
    return;
  const std::string name = format("set{}", dice_.below(kSets));
  if (dice_.chance(0.7)) {
    if (can_look() && dice_.chance(0.2))
      scale_together();
    else if (can_look())
      send(scaled(name, format("{}", dice_.below(kReplicasMost + 1))));
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
