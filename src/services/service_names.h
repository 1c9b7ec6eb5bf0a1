// What names of the cluster's zone stand for: services, what is behind them, tasks by their address. Pure.
// Source: github.com/kubernetes/dns, docs/specification.md.
#pragma once

#include "services/dns_message.h"
#include "services/service_view.h"

namespace lockstep {

struct NamesAnswer {
  // kElsewhere: the name is none of the cluster's. kAlias: `answer` begins with an alias, and what `target` stands for,
  // elsewhere, belongs behind it.
  enum class How : unsigned char { kHere, kElsewhere, kAlias } how = How::kHere;
  DnsAnswer answer;
  DnsName target;
};

// turn: any number that differs from query to query: which of several addresses comes first.
NamesAnswer answer_of_names(const ServiceView& view, const DnsQuery& query, std::uint64_t turn);

}  // namespace lockstep
