// Grammar: requests as somebody would write them who wants to harm, made of the rows that the controller answers. Half
// of them are what a decent client sends, with one part replaced; the rest are drawn from the described types, of any
// size. A seed gives the same ones again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "controller/routes.h"

namespace lockstep::hostile {

// What only `uid` and administrators may ever read: it stands in arguments, environments and scripts.
std::string secret_of(std::uint32_t uid);

struct KubeResource {  // as discovery tells
  std::string root;    // "/api/v1", "/apis/apps/v1"
  std::string name;    // "pods", "pods/log"
  bool is_namespaced = false;
};

struct Known {  // what the attacker has seen so far
  std::uint64_t jobs = 0;
  std::map<std::uint32_t, std::vector<std::uint64_t>> owned;  // jobs by the uid that submitted them
  std::vector<std::string> nodes;
  const Routes* routes = nullptr;  // what the controller answers
  std::vector<KubeResource> kube;
};

class Grammar {
 public:
  Grammar(std::uint64_t seed, const Known& known) : rng_(seed), known_(known) {}

  HttpRequest request(std::uint32_t uid);
  // What decent clients send most: without it little is there to be harmed.
  HttpRequest everyday(std::uint32_t uid);
  std::string size_ladder();             // bytes: none, one, around common bounds, megabytes
  std::string spoilt(std::string json);  // with one value of it replaced by something else
  std::string name();
  Rng& rng() { return rng_; }

 private:
  std::string job_target();
  std::string fill(std::string_view path);
  const Route& any_row();
  std::string kube_rest(std::string_view root);
  std::string kube_object(std::uint32_t uid);
  std::string submit(std::uint32_t uid);
  std::string submissions(std::uint32_t uid);
  std::string changes();
  std::string step(std::uint32_t uid);
  std::string body_for(std::string_view method, std::string_view path, std::uint32_t uid);
  std::string random_body();
  void add_query(HttpRequest& request);
  std::string value_of(std::string_view kind);
  std::string fragment();

  Rng rng_;
  const Known& known_;
};

}  // namespace lockstep::hostile
