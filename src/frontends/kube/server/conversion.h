// Custom resources whose definitions name a webhook that turns objects of one version into another: who asks it, and
// when. What it made is kept for the request that it was asked for.
// Source: kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning.
#pragma once

#include <functional>
#include <vector>

#include "frontends/kube/server/request.h"
#include "frontends/kube/server/stream_room.h"
#include "frontends/kube/server/webhook_calls.h"

namespace lockstep::kube {

// Where an object of several versions notes which one it is in. No client sees it, and none can set it.
inline constexpr const char* kVersionNote = "$version";

// Of an object of the kind as it lies in its record.
std::string stored_version(const Kind& kind, const Object& object);
// Whether objects of the kind are to be converted before this request can show or change them, where they are stored in
// another version. "None" changes nothing but the apiVersion.
bool is_converted_by_webhook(const Kind& kind);

struct ConversionTools {
  CallsOut call;
  std::function<std::string(std::size_t)> random_hex;
};

// Goes on when shown_tree() has all of these in the request's version; else it tells why not. At once where nothing is
// to be asked.
void convert_for(const Asked& request, const ConversionTools& tools, std::vector<Ref<Object>> objects,
                 std::function<void(std::optional<Status>)> then);
// Whether convert_for() would ask.
bool is_to_be_converted(const Request& request, const Object& object);

// A tree of one version of a custom resource in another, without kind and apiVersion.
void convert_tree(const Asked& request, const ConversionTools& tools, json::object tree, const std::string& from,
                  const std::string& to, std::function<void(Answered<json::object>)> then);
// From the request's version to the one that is stored.
void convert_to_stored(const Asked& request, const ConversionTools& tools, json::object tree,
                       std::function<void(Answered<json::object>)> then);

// Watches of such kinds: what they have to say waits for a webhook, so they are woken by more than changes. And watches
// whose client takes them as messages.
class WatchBell final : public FrontReader, public std::enable_shared_from_this<WatchBell> {
 public:
  using Opens = std::function<std::unique_ptr<Stream>(FrontVisit&)>;  // null: the client is gone
  // Writes what is pulled: now, with each change of the cluster, and when `wake` is called.
  void follow(const std::shared_ptr<FrontVisit>& visit, const Opens& opens, Pull pull, Duration longest,
              const std::shared_ptr<std::function<void()>>& wake);

  void begin(const Tables&) override {}
  void change(const Tables&, const Change&) override;
  void meet(const std::shared_ptr<FrontHands>& hands) override { hands_ = hands; }

 private:
  struct Follower;
  void ring_soon();
  void look(const std::shared_ptr<Follower>& one);

  std::shared_ptr<FrontHands> hands_;
  std::vector<std::shared_ptr<Follower>> all_;
  bool ringing_ = false;
};

}  // namespace lockstep::kube
