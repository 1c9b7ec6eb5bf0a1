#include "sched/victims.h"

#include <algorithm>
#include <map>
#include <queue>

#include "base/check.h"
#include "model/job.h"
#include "model/plan.h"
#include "sched/place.h"

namespace lockstep {

namespace {

constexpr std::size_t kStepsMost = 256;  // of the exact search on one node
constexpr std::size_t kSeedsMost = 8;    // wide victims that are tried as the first
constexpr int kRepairsMost = 4;          // nodes that count right and do not fit

struct Amounts {
  std::int64_t devices = 0, cores = 0, memory_mb = 0;
  Amounts& operator+=(const Amounts& o) {
    devices += o.devices, cores += o.cores, memory_mb += o.memory_mb;
    return *this;
  }
  Amounts& operator-=(const Amounts& o) {
    devices -= o.devices, cores -= o.cores, memory_mb -= o.memory_mb;
    return *this;
  }
  bool covers(const FreeAmounts& need) const {
    return devices >= need.devices && cores >= need.cores && memory_mb >= need.memory_mb;
  }
};

struct Local {  // a candidate on one node
  std::uint32_t victim = 0;
  const Grant* grant = nullptr;
  Amounts gives;
};

struct Spot {  // a node the job could use
  NodeId node;
  const ClassNeed* need = nullptr;
  NodeLoad base;  // held by those who stay whatever happens
  Amounts free;   // beside the base
  std::vector<Local> locals;
  bool simple = true;  // counting amounts decides
  bool banned = false;
};

using Chosen = std::vector<bool>;  // by candidate

PreemptLoss priced(const PreemptLoss& loss, std::uint32_t share) {
  const auto part = [&](std::int64_t v) { return v * 1024 / share; };
  return {part(loss.work), part(loss.jobs), part(loss.spare_work), part(loss.spare_jobs)};
}

bool concerns(const Victim& victim, const Grant& grant) { return !victim.only || victim.only == grant.node; }

void add_victim(VictimChoice& choice, const Victim& victim) {
  choice.loss += victim.loss;
  if (!victim.only)
    choice.victims.push_back(victim.job->id);
  else if (!choice.shrinks.empty() && choice.shrinks.back().job == victim.job->id)
    choice.shrinks.back().nodes.push_back(victim.only);
  else
    choice.shrinks.push_back({victim.job->id, {victim.only}});
}

class ExactSearch {
 public:
  ExactSearch(PlannerView& view, const JobSpec& spec, const Way& way, const std::vector<Victim>& candidates)
      : view_(view), group_(spec.groups[0]), way_(way.groups[0]), candidates_(candidates) {}

  void gather(const std::vector<const Job*>& going, const Shadows& shadows, const Avoid& avoid);
  std::optional<VictimChoice> run();

 private:
  bool fits(const Spot& spot, const Chosen& gone) const;
  NodeLoad load_without(const Spot& spot, const Chosen& gone) const;
  bool fits_slowly(const Spot& spot, const Chosen& gone) const;
  // What has to go besides `gone` for the least price; nullopt: it never fits there. `gone` is the same afterwards.
  std::optional<std::vector<std::uint32_t>> cover(const Spot& spot, Chosen& gone,
                                                  const std::vector<PreemptLoss>& prices) const;
  std::optional<Chosen> greedy(const std::vector<PreemptLoss>& prices, Chosen gone) const;
  void leave_alone(Chosen& gone) const;
  std::optional<Chosen> try_all(const Chosen* bound) const;
  std::size_t fitting(const Chosen& gone) const;
  PreemptLoss loss_of(const Chosen& gone) const;
  std::optional<std::vector<Grant>> grants_of(const Chosen& gone);

  PlannerView& view_;
  const GroupSpec& group_;
  const GroupWay& way_;
  const std::vector<Victim>& candidates_;
  std::vector<Spot> spots_;
  std::vector<std::vector<std::uint32_t>> spots_of_;  // by candidate
};

void ExactSearch::gather(const std::vector<const Job*>& going, const Shadows& shadows, const Avoid& avoid) {
  struct On {
    std::uint32_t victim;
    const Grant* grant;
  };
  constexpr std::uint32_t kGoes = UINT32_MAX;
  std::vector<std::vector<On>> on(view_.nodes().size());
  for (std::uint32_t v = 0; v < candidates_.size(); ++v)
    for (const Grant& grant : candidates_[v].job->allocation->grants)
      if (concerns(candidates_[v], grant))
        on[grant.node.value].push_back({v, &grant});
  for (const Job* job : going)
    for (const Grant& grant : job->allocation->grants) on[grant.node.value].push_back({kGoes, &grant});

  std::vector<const ClassNeed*> needs(view_.classes().size());
  for (const ClassNeed& need : way_.needs) needs[need.cls] = &need;
  const bool avoids = std::find(avoid.begin(), avoid.end(), true) != avoid.end();
  spots_of_.resize(candidates_.size());
  for (std::uint32_t n = 0; n < on.size(); ++n) {
    const NodeSlot& slot = view_.nodes()[n];
    if (!slot.node || slot.cls == kNoClass || !needs[slot.cls] || !node_usable(*slot.node))
      continue;
    if (avoids && slot.shaded && shadows.seen(NodeId{n}, slot.load, avoid) != slot.load)
      continue;
    const NodeClass& cls = view_.classes()[slot.cls];
    Spot spot{.node = NodeId{n}, .need = needs[slot.cls], .base = {}, .free = {}, .locals = {}};
    spot.simple = spot.need->counted && cls.one_device_type && group_.sharing != Sharing::kExclusive &&
                  !spot.need->all_memory && group_.contiguous_cores_min == 0;
    if (on[n].empty()) {
      if (!slot.free.covers(spot.need->amounts))
        continue;
      spot.base = slot.load;
    }
    if (!on[n].empty())
      for (const Holder& holder : slot.holders) {
        const auto is = [&](const On& o) { return o.grant == holder.grant; };
        if (std::none_of(on[n].begin(), on[n].end(), is))
          add_grant(spot.base, *holder.grant);
      }
    for (const On& o : on[n]) {
      if (o.victim == kGoes)
        continue;
      Local local{.victim = o.victim, .grant = o.grant, .gives = {}};
      local.gives.devices = (o.grant->devices & cls.healthy).count();
      local.gives.cores = o.grant->cores.count();
      if (candidates_[o.victim].keeps_memory)
        spot.base.memory_mb += o.grant->memory_mb;
      else
        local.gives.memory_mb = o.grant->memory_mb;
      spot.simple = spot.simple && o.grant->parts.empty() && !o.grant->whole_node;
      spot.locals.push_back(local);
    }
    const FreeAmounts free = free_on(cls, *slot.node, spot.base);
    spot.free = {free.devices, free.cores, free.memory_mb};
    if (!spot.free.covers(spot.need->amounts))
      continue;
    for (const Local& local : spot.locals)
      if (auto& at = spots_of_[local.victim]; at.empty() || at.back() != spots_.size())
        at.push_back(static_cast<std::uint32_t>(spots_.size()));
    spots_.push_back(std::move(spot));
  }
}

// What is left on the node when they have gone.
NodeLoad ExactSearch::load_without(const Spot& spot, const Chosen& gone) const {
  NodeLoad load = spot.base;
  for (const Local& local : spot.locals) {
    if (gone[local.victim])
      continue;
    if (candidates_[local.victim].keeps_memory)
      load.memory_mb -= local.grant->memory_mb;
    add_grant(load, *local.grant);
  }
  return load;
}

bool ExactSearch::fits_slowly(const Spot& spot, const Chosen& gone) const {
  const NodeLoad load = load_without(spot, gone);
  return choose_grant(*view_.nodes()[spot.node.value].node, load, group_, 0, way_.tasks_each, 0).has_value();
}

bool ExactSearch::fits(const Spot& spot, const Chosen& gone) const {
  if (spot.banned)
    return false;
  if (!spot.simple)
    return fits_slowly(spot, gone);
  Amounts free = spot.free;
  for (const Local& local : spot.locals)
    if (!gone[local.victim])
      free -= local.gives;
  return free.covers(spot.need->amounts);
}

std::optional<std::vector<std::uint32_t>> ExactSearch::cover(const Spot& spot, Chosen& gone,
                                                             const std::vector<PreemptLoss>& prices) const {
  if (fits(spot, gone))
    return std::vector<std::uint32_t>();
  std::vector<std::uint32_t> left;
  for (const Local& local : spot.locals)
    if (!gone[local.victim] && std::find(left.begin(), left.end(), local.victim) == left.end())
      left.push_back(local.victim);
  std::sort(left.begin(), left.end(),
            [&](std::uint32_t a, std::uint32_t b) { return std::tie(prices[a], a) < std::tie(prices[b], b); });
  std::vector<std::uint32_t> best;
  bool enough = false;
  for (const std::uint32_t v : left) {
    gone[v] = true;
    best.push_back(v);
    if ((enough = fits(spot, gone)))
      break;
  }
  const auto all_back = [&] {
    for (const std::uint32_t v : left) gone[v] = false;
  };
  if (!enough) {
    all_back();
    return std::nullopt;
  }
  // The dearest that can stay stays.
  for (std::size_t i = best.size(); i-- > 0;) {
    gone[best[i]] = false;
    if (fits(spot, gone))
      best.erase(best.begin() + static_cast<std::ptrdiff_t>(i));
    else
      gone[best[i]] = true;
  }
  all_back();
  if (best.size() <= 1 && left.size() <= 1)
    return best;
  PreemptLoss least;
  for (const std::uint32_t v : best) least += prices[v];
  // Every set in the order of prices, as far as the bound allows.
  std::size_t steps = 0;
  std::vector<std::uint32_t> taken;
  const auto walk = [&](const auto& self, std::size_t i, const PreemptLoss& so_far) -> void {
    if (++steps > kStepsMost || !(so_far < least))
      return;
    if (fits(spot, gone)) {
      least = so_far;
      best = taken;
      return;
    }
    if (i == left.size())
      return;
    PreemptLoss with = so_far;
    with += prices[left[i]];
    if (!(with < least))
      return;  // and neither is any that comes later
    gone[left[i]] = true;
    taken.push_back(left[i]);
    self(self, i + 1, with);
    taken.pop_back();
    gone[left[i]] = false;
    self(self, i + 1, so_far);
  };
  walk(walk, 0, {});
  return best;
}

std::optional<Chosen> ExactSearch::greedy(const std::vector<PreemptLoss>& prices, Chosen gone) const {
  struct Offer {
    PreemptLoss price;
    std::uint32_t weight = 0, spot = 0, version = 0;
    bool operator>(const Offer& o) const { return std::tie(price, weight, spot) > std::tie(o.price, o.weight, o.spot); }
  };
  std::vector<std::uint32_t> versions(spots_.size());
  std::vector<std::vector<std::uint32_t>> takes(spots_.size());
  std::vector<bool> used(spots_.size());
  std::priority_queue<Offer, std::vector<Offer>, std::greater<>> offers;
  const auto offer = [&](std::uint32_t s) {
    auto cost = cover(spots_[s], gone, prices);
    if (!cost)
      return;
    PreemptLoss price;
    for (const std::uint32_t v : *cost) price += prices[v];
    takes[s] = std::move(*cost);
    offers.push({price, view_.nodes()[spots_[s].node.value].node->weight, s, ++versions[s]});
  };
  for (std::uint32_t s = 0; s < spots_.size(); ++s) offer(s);
  for (std::uint32_t left = way_.nodes; left > 0;) {
    if (offers.empty())
      return std::nullopt;
    const Offer best = offers.top();
    offers.pop();
    if (best.version != versions[best.spot])
      continue;
    used[best.spot] = true;
    --left;
    for (const std::uint32_t v : takes[best.spot]) gone[v] = true;
    const std::vector<std::uint32_t> went = takes[best.spot];
    std::vector<std::uint32_t> cheaper;
    for (const std::uint32_t v : went)
      for (const std::uint32_t s : spots_of_[v])
        if (!used[s])
          cheaper.push_back(s);
    std::sort(cheaper.begin(), cheaper.end());
    cheaper.erase(std::unique(cheaper.begin(), cheaper.end()), cheaper.end());
    for (const std::uint32_t s : cheaper) offer(s);
  }
  return gone;
}

std::size_t ExactSearch::fitting(const Chosen& gone) const {
  return static_cast<std::size_t>(
      std::count_if(spots_.begin(), spots_.end(), [&](const Spot& s) { return fits(s, gone); }));
}

PreemptLoss ExactSearch::loss_of(const Chosen& gone) const {
  PreemptLoss out;
  for (std::size_t v = 0; v < gone.size(); ++v)
    if (gone[v])
      out += candidates_[v].loss;
  return out;
}

// Victims without which enough nodes are left stay, the dearest first.
void ExactSearch::leave_alone(Chosen& gone) const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t v = 0; v < gone.size(); ++v)
    if (gone[v])
      order.push_back(v);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(candidates_[b].loss, a) < std::tie(candidates_[a].loss, b);
  });
  std::size_t fit = fitting(gone);
  for (const std::uint32_t v : order) {
    const auto count = [&] {
      return std::count_if(spots_of_[v].begin(), spots_of_[v].end(),
                           [&](std::uint32_t s) { return fits(spots_[s], gone); });
    };
    const auto with = static_cast<std::size_t>(count());
    gone[v] = false;
    const auto without = static_cast<std::size_t>(count());
    if (fit - with + without >= way_.nodes)
      fit = fit - with + without;
    else
      gone[v] = true;
  }
}

// Of few candidates the best set of all; nullopt: too many of them, or none is better than the bound.
std::optional<Chosen> ExactSearch::try_all(const Chosen* bound) const {
  std::vector<std::uint32_t> some;  // whose going changes anything
  std::vector<std::uint32_t> touched;
  for (std::uint32_t v = 0; v < candidates_.size(); ++v)
    if (!spots_of_[v].empty()) {
      some.push_back(v);
      touched.insert(touched.end(), spots_of_[v].begin(), spots_of_[v].end());
    }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  if (some.size() > kTryAll || touched.size() > 64)
    return std::nullopt;
  Chosen gone(candidates_.size());
  std::size_t fixed = fitting(gone);
  for (const std::uint32_t s : touched) fixed -= fits(spots_[s], gone);
  std::optional<Chosen> best;
  std::optional<PreemptLoss> least;
  if (bound)
    least = loss_of(*bound);
  for (std::uint32_t set = 0; set < 1u << some.size(); ++set) {
    for (std::size_t i = 0; i < some.size(); ++i) gone[some[i]] = (set >> i & 1) != 0;
    const PreemptLoss loss = loss_of(gone);
    if (least && !(loss < *least))
      continue;
    std::size_t fit = fixed;
    for (const std::uint32_t s : touched) fit += fits(spots_[s], gone);
    if (fit < way_.nodes)
      continue;
    least = loss;
    best = gone;
  }
  return best;
}

// Of the nodes that fit those near each other, else those with the least left.
std::optional<std::vector<Grant>> ExactSearch::grants_of(const Chosen& gone) {
  std::vector<std::uint32_t> fit;
  std::map<std::vector<std::string>, std::uint32_t> domains;
  for (std::uint32_t s = 0; s < spots_.size(); ++s)
    if (fits(spots_[s], gone)) {
      fit.push_back(s);
      ++domains[view_.nodes()[spots_[s].node.value].node->domains];
    }
  if (fit.size() < way_.nodes)
    return std::nullopt;
  const auto rank = [&](std::uint32_t s) {
    const NodeSlot& slot = view_.nodes()[spots_[s].node.value];
    const std::uint32_t near = domains.size() > 1 ? UINT32_MAX - domains.at(slot.node->domains) : 0;
    return std::tuple{near, slot.node->weight, spots_[s].free.devices, s};
  };
  std::sort(fit.begin(), fit.end(), [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
  std::vector<Grant> out;
  for (std::size_t i = 0; i < way_.nodes; ++i) {
    Spot& spot = spots_[fit[i]];
    NodeLoad load = load_without(spot, gone);
    auto grant = choose_grant(*view_.nodes()[spot.node.value].node, load, group_, 0, way_.tasks_each, 0);
    if (!grant) {
      spot.banned = true;  // it counts right, but not device by device
      return std::nullopt;
    }
    out.push_back(std::move(*grant));
  }
  return out;
}

std::optional<VictimChoice> ExactSearch::run() {
  for (int repair = 0; repair < kRepairsMost; ++repair) {
    const Chosen nobody(candidates_.size());
    Chosen all(candidates_.size(), true);
    const std::size_t spots = fitting(all);
    if (spots < way_.nodes)
      return std::nullopt;
    std::optional<Chosen> best;
    std::optional<PreemptLoss> least;
    const auto take = [&](std::optional<Chosen> found) {
      if (!found)
        return;
      leave_alone(*found);
      const PreemptLoss loss = loss_of(*found);
      if (least && !(loss < *least))
        return;
      least = loss;
      best = std::move(found);
    };
    if (fitting(nobody) >= way_.nodes) {
      best = nobody;
    } else {
      std::vector<PreemptLoss> plain, shared;
      std::vector<std::uint32_t> wide;
      for (std::uint32_t v = 0; v < candidates_.size(); ++v) {
        const auto span = static_cast<std::uint32_t>(std::min<std::size_t>(spots_of_[v].size(), way_.nodes));
        plain.push_back(priced(candidates_[v].loss, 1));
        shared.push_back(priced(candidates_[v].loss, std::max(1u, span)));
        if (span > 1)
          wide.push_back(v);
      }
      take(greedy(plain, nobody));
      if (!wide.empty())
        take(greedy(shared, nobody));
      std::sort(wide.begin(), wide.end(),
                [&](std::uint32_t a, std::uint32_t b) { return std::tie(shared[a], a) < std::tie(shared[b], b); });
      if (wide.size() > kSeedsMost)
        wide.resize(kSeedsMost);
      for (const std::uint32_t v : wide) {
        Chosen seed = nobody;
        seed[v] = true;
        if (least && !(candidates_[v].loss < *least))
          continue;
        take(greedy(plain, seed));
      }
      take(try_all(best ? &*best : nullptr));
    }
    if (!best)
      return std::nullopt;
    VictimChoice out;
    if (auto grants = grants_of(*best)) {
      out.grants = std::move(*grants);
      for (std::uint32_t v = 0; v < best->size(); ++v)
        if ((*best)[v])
          add_victim(out, candidates_[v]);
      return out;
    }
  }
  return std::nullopt;
}

// --- any other shape ---

class GeneralSearch {
 public:
  GeneralSearch(PlannerView& view, const JobSpec& spec, const Way& way, const std::vector<Victim>& candidates,
                const std::vector<const Job*>& going, const Shadows& shadows, const Avoid& avoid)
      : view_(view), spec_(spec), way_(way), candidates_(candidates), shadows_(shadows), avoid_(avoid) {
    for (std::uint32_t v = 0; v < candidates.size(); ++v)
      for (const Grant& grant : candidates[v].job->allocation->grants)
        if (concerns(candidates[v], grant))
          on_[grant.node].push_back({v, &grant});
    for (const Job* job : going)
      for (const Grant& grant : job->allocation->grants) on_[grant.node].push_back({UINT32_MAX, &grant});
    only_.assign(view.nodes().size(), true);
  }

  std::optional<VictimChoice> run() {
    std::vector<std::uint32_t> order(candidates_.size());
    for (std::uint32_t v = 0; v < order.size(); ++v) order[v] = v;
    std::vector<PreemptLoss> prices;
    for (const Victim& victim : candidates_) prices.push_back(priced(victim.loss, size_of(victim)));
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return std::tie(prices[a], a) < std::tie(prices[b], b); });
    const auto first = [&](std::size_t count) {
      Chosen gone(candidates_.size());
      for (std::size_t i = 0; i < count; ++i) gone[order[i]] = true;
      return gone;
    };
    auto found = place(first(order.size()));
    if (!found)
      return std::nullopt;
    std::size_t low = 0, high = order.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (auto grants = place(first(middle))) {
        found = std::move(grants);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    // Nobody needs to go who is not in the way there.
    Chosen gone(candidates_.size());
    only_.assign(view_.nodes().size(), false);
    for (const Grant& grant : *found) {
      only_[grant.node.value] = true;
      if (const auto it = on_.find(grant.node); it != on_.end())
        for (const On& o : it->second)
          if (o.victim != UINT32_MAX)
            gone[o.victim] = true;
    }
    for (std::size_t i = high; i < order.size(); ++i) gone[order[i]] = false;
    std::vector<std::uint32_t> dearest;
    for (std::uint32_t v = 0; v < gone.size(); ++v)
      if (gone[v])
        dearest.push_back(v);
    std::sort(dearest.begin(), dearest.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tie(candidates_[b].loss, a) < std::tie(candidates_[a].loss, b);
    });
    for (const std::uint32_t v : dearest) {
      gone[v] = false;
      if (auto grants = place(gone))
        found = std::move(grants);
      else
        gone[v] = true;
    }
    VictimChoice out{.grants = std::move(*found), .victims = {}, .shrinks = {}, .loss = {}};
    for (std::uint32_t v = 0; v < gone.size(); ++v)
      if (gone[v])
        add_victim(out, candidates_[v]);
    return out;
  }

 private:
  struct On {
    std::uint32_t victim;
    const Grant* grant;
  };

  static std::uint32_t size_of(const Victim& victim) {
    std::uint32_t devices = 0;
    for (const Grant& grant : victim.job->allocation->grants)
      devices += concerns(victim, grant) ? grant.visible().count() : 0;
    return std::max(1u, devices);
  }

  std::optional<std::vector<Grant>> place(const Chosen& gone) {
    std::map<NodeId, NodeLoad> loads;
    const auto load = [&](NodeId id) -> const NodeLoad* {
      const NodeSlot& slot = view_.nodes()[id.value];
      if (!only_[id.value] || !node_usable(*slot.node))
        return nullptr;
      if (slot.shaded && shadows_.seen(id, slot.load, avoid_) != slot.load)
        return nullptr;
      const auto on = on_.find(id);
      if (on == on_.end())
        return &slot.load;
      const auto [it, fresh] = loads.try_emplace(id);
      if (!fresh)
        return &it->second;
      for (const Holder& holder : slot.holders) {
        const auto o = std::find_if(on->second.begin(), on->second.end(),
                                    [&](const On& other) { return other.grant == holder.grant; });
        const bool goes = o != on->second.end() && (o->victim == UINT32_MAX || gone[o->victim]);
        if (!goes)
          add_grant(it->second, *holder.grant);
        else if (o->victim != UINT32_MAX && candidates_[o->victim].keeps_memory)
          it->second.memory_mb += holder.grant->memory_mb;
      }
      return &it->second;
    };
    return place_where(view_, spec_, way_, load);
  }

  PlannerView& view_;
  const JobSpec& spec_;
  const Way& way_;
  const std::vector<Victim>& candidates_;
  const Shadows& shadows_;
  const Avoid& avoid_;
  std::map<NodeId, std::vector<On>> on_;
  std::vector<bool> only_;
};

}  // namespace

std::optional<VictimChoice> choose_victims(PlannerView& view, const JobSpec& spec, const Way& way,
                                           const std::vector<Victim>& candidates, const std::vector<const Job*>& going,
                                           const Shadows& shadows, const Avoid& avoid) {
  if (way.groups.size() == 1 && way.groups[0].exact && !way.groups[0].bound) {
    ExactSearch search(view, spec, way, candidates);
    search.gather(going, shadows, avoid);
    return search.run();
  }
  return GeneralSearch(view, spec, way, candidates, going, shadows, avoid).run();
}

}  // namespace lockstep
