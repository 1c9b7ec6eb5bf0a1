// Test support: a small cluster in tables, built record by record.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "frontends/slurm/server/pages.h"
#include "model/job.h"
#include "model/spec.h"
#include "model/tables.h"
#include "views/plan_notes.h"

namespace lockstep::slurm {

struct TestCluster {
  Tables tables;
  PlanNotes notes;

  template <class T>
  void put(T record) {
    record.meta.seq = tables.seq + 1;
    tables.apply({tables.seq + 1, std::make_shared<const T>(std::move(record)), false});
  }

  // Nodes n1 … n<count> with the same cores and GPUs, one user (alice, id 1, uid 1000), one default partition.
  TestCluster(std::uint32_t count, std::uint32_t cores, std::uint32_t gpus) {
    Cluster cluster;
    cluster.name = "home";
    put(cluster);
    User user;
    user.meta.name = "alice";
    user.id = UserId(1);
    user.uid = 1000;
    user.gid = 100;
    put(user);
    Partition partition;
    partition.meta.name = "main";
    partition.nodes = {"ALL"};
    partition.is_default = true;
    put(partition);
    for (std::uint32_t i = 1; i <= count; ++i) {
      Node node;
      node.meta.name = format("n{}", i);
      node.id = NodeId(i);
      node.address = format("10.0.0.{}", i);
      node.hostname = node.meta.name;
      node.cores = cores;
      node.memory_mb = 64000;
      node.link = NodeLink::kUp;
      for (std::uint32_t g = 0; g < gpus; ++g) {
        Device device;
        device.type = "h100";
        device.minor = g;
        node.devices.push_back(device);
      }
      put(node);
    }
  }

  static JobSpec spec(std::string name) {
    JobSpec spec;
    spec.name = std::move(name);
    spec.front_end = "slurm";
    spec.user = UserId(1);
    spec.work_dir = "/home/alice/run";
    spec.submit_host = "login";
    spec.groups.resize(1);
    spec.groups[0].launch = Launch::kScript;
    return spec;
  }

  static Job pending(std::uint64_t id, JobSpec spec) {
    Job job;
    job.id = JobId(id);
    job.spec = std::make_shared<const JobSpec>(std::move(spec));
    job.submitted = job.eligible = Instant{1'700'000'000'000'000};
    job.priority = 100;
    return job;
  }

  // Running on nodes first … first+nodes-1 with the same share of each.
  struct Share {
    std::uint32_t first = 1, nodes = 1, tasks = 1, cores = 1, gpus = 0;
    std::uint16_t group = 0;
  };
  static Job running(std::uint64_t id, JobSpec spec, const std::vector<Share>& shares) {
    Job job = pending(id, std::move(spec));
    auto allocation = std::make_shared<Allocation>();
    allocation->attempt = job.attempt = 1;
    allocation->partition = "main";
    for (const Share& share : shares)
      for (std::uint32_t i = 0; i < share.nodes; ++i) {
        Grant grant;
        grant.node = NodeId(share.first + i);
        grant.group = share.group;
        grant.tasks = share.tasks;
        grant.cores = CoreSet::first_n(share.cores);
        grant.devices = DeviceSet::first_n(share.gpus);
        grant.memory_mb = 1000;
        allocation->grants.push_back(grant);
      }
    job.members.assign(allocation->grants.size(), MemberState::kRunning);
    job.allocation = allocation;
    job.state = JobState::kRunning;
    job.started = Instant{1'700'000'100'000'000};
    job.limit_end = job.started + hours(1);
    return job;
  }
};

inline ReadContext context_of(const TestCluster& cluster) {
  return ReadContext{.tables = cluster.tables,
                     .notes = cluster.notes,
                     .now = Instant{1'700'000'160'000'000},
                     .caller = cluster.tables.user(UserId(1)),
                     .cluster_name = "home"};
}

}  // namespace lockstep::slurm
