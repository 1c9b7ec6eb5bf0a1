// ShownTexts: how objects were shown last. A hundred watches tell the same event, and a list is asked for again and
// again: a text that is asked for a second time is kept for as long as nothing it rests on has changed.
#pragma once

#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/kube/server/pods.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

class ShownTexts {
 public:
  // bytes_most: of all texts together. A new one takes the place of what was asked for least, and keeps it when it is
  // asked for again: so a list that is longer than all of this does not push out what it finds. Source: Qureshi et al.,
  // "Adaptive Insertion Policies for High Performance Caching", ISCA 2007.
  explicit ShownTexts(std::size_t bytes_most = 32u << 20) : bytes_most_(bytes_most) {}

  // As append_shown() and append_item() write it.
  void append(std::string& out, const Request& request, const Object& object, Seq seq = 0,
              const PodRecords* then = nullptr);

  std::size_t made() const { return made_; }  // since the start: what tests of costs count
  std::size_t bytes() const { return bytes_; }

 private:
  // What a text rests on. Records are held, so that an address names one version only.
  struct Basis {
    Seq version = 0, shown_as = 0;
    PodNow pod;     // of a pod; of a node its record
    Instant heard;  // of a node and its lease: its last beat
    Duration wall_offset;
    friend bool operator==(const Basis&, const Basis&) = default;
  };
  static constexpr std::size_t kOverhead = 320;  // of a text in the list and the index
  // A pod's text is mostly its stored body, which is in memory anyway.
  struct Text {
    const std::string* key = nullptr;
    Basis basis;
    std::string head, tail;
    SharedText body;  // between them stand so many bytes of it
    std::size_t from = 0, size = 0;
    std::size_t bytes() const { return head.capacity() + tail.capacity() + kOverhead; }
  };
  static void split(Text& into, std::string text, const Object& object);
  bool asked_before(const std::string& key, const Basis& basis);
  void make_room(const Text& kept);

  // What has been asked for once, by its hash: most texts are asked for by one watch alone and are not worth keeping.
  // Source: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM ToS 2017 (doorkeeper).
  // Each hash has two places, so that few of a long list push each other out again and again.
  static constexpr std::size_t kDoorPlaces = 1 << 18;
  std::vector<std::uint32_t> door_ = std::vector<std::uint32_t>(kDoorPlaces);
  std::size_t bytes_most_, bytes_ = 0, made_ = 0;
  std::list<Text> texts_;  // what goes first, first
  std::unordered_map<std::string, std::list<Text>::iterator> by_key_;
};

}  // namespace lockstep::kube
