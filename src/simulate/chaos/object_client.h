// ObjectClient: who keeps objects beside jobs: it makes sets of replicas, scales them and deletes them in every way. It
// acts in some runs only, with a stream of chance of its own, so that the others stay what they were.
#pragma once

#include <string>
#include <vector>

#include "base/rng.h"
#include "model/command.h"

namespace lockstep::sim {

struct World;

class ObjectClient {
 public:
  explicit ObjectClient(World& world);

  bool acts() const { return acts_; }
  void start();
  void settle();  // deletes everything, again and again until it is gone
  bool at_rest() const;

 private:
  void next();
  bool can_look() const;  // at the controller's tables
  PutObject scaled(const std::string& name, std::string count) const;
  void scale_together();
  void clear();
  void send(CommandBody body, std::vector<CommandBody> also = {});

  World& world_;
  Rng dice_;
  bool acts_ = false, on_ = false;
};

}  // namespace lockstep::sim
