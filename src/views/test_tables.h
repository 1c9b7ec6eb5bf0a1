// For tests: a small cluster of two users, three nodes, two partitions.
#pragma once

#include "model/job.h"
#include "model/node.h"
#include "model/records.h"
#include "model/spec.h"
#include "model/tables.h"

namespace lockstep {

class TestTables {
 public:
  TestTables() {
    for (const auto& [id, name, uid] : {std::tuple{1u, "alice", 1000u}, {2u, "bob", 1001u}}) {
      User user;
      user.id = UserId(id);
      user.meta.name = name;
      user.uid = uid;
      user.account = id == 1 ? "physics" : "";
      put(user);
    }
    for (std::uint32_t i = 1; i <= 3; ++i) {
      Node node;
      node.id = NodeId(i);
      node.meta.name = "n" + std::to_string(i);
      node.cores = 8;
      node.memory_mb = 16'000;
      node.devices.resize(4);
      node.link = i == 3 ? NodeLink::kLost : NodeLink::kUp;
      put(node);
    }
    for (const char* name : {"main", "debug"}) {
      Partition partition;
      partition.meta.name = name;
      partition.is_default = partition.meta.name == "main";
      partition.nodes = {"ALL"};
      put(partition);
    }
  }

  template <class T>
  void put(T record) {
    record.meta.seq = tables.seq + 1;
    tables.apply({record.meta.seq, Ref<T>(std::make_shared<const T>(std::move(record))), false});
  }

  Job& draft(std::uint64_t id, std::uint32_t user = 1) {
    job_ = Job();
    spec_ = JobSpec();
    job_.id = JobId(id);
    spec_.user = UserId(user);
    spec_.groups.resize(1);
    return job_;
  }
  JobSpec& spec() { return spec_; }
  void save() {
    job_.spec = std::make_shared<const JobSpec>(spec_);
    put(job_);
  }

  static Ref<Allocation> allocation(const std::string& partition, const std::vector<std::uint32_t>& nodes,
                                    std::uint32_t first_core, std::uint32_t cores, std::uint32_t devices = 0) {
    auto out = std::make_shared<Allocation>();
    out->partition = partition;
    for (const std::uint32_t node : nodes) {
      Grant grant;
      grant.node = NodeId(node);
      for (std::uint32_t c = 0; c < cores; ++c) grant.cores.set(first_core + c);
      for (std::uint32_t d = 0; d < devices; ++d) grant.devices.set(d);
      grant.memory_mb = 1000;
      out->grants.push_back(grant);
    }
    return out;
  }

  Tables tables;

 private:
  Job job_;
  JobSpec spec_;
};

}  // namespace lockstep
