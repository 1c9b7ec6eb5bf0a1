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
  std::int64_t devices = 0, milli = 0, memory_mb = 0;
  Amounts& operator+=(const Amounts& o) {
    devices += o.devices, milli += o.milli, memory_mb += o.memory_mb;
    return *this;
  }
  Amounts& operator-=(const Amounts& o) {
    devices -= o.devices, milli -= o.milli, memory_mb -= o.memory_mb;
    return *this;
  }
  bool covers(const FreeAmounts& need) const {
    return devices >= need.devices && milli >= need.milli && memory_mb >= need.memory_mb;
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

// A grant of a candidate, or of a job that goes anyway.
struct On {
  std::uint32_t victim;  // kGoes: see above
  const Grant* grant;
};
constexpr std::uint32_t kGoes = UINT32_MAX;

class ExactSearch {
 public:
  ExactSearch(PlannerView& view, const JobSpec& spec, const Way& way, const std::vector<Victim>& candidates)
      : view_(view), group_(spec.groups[0]), way_(way.groups[0]), candidates_(candidates) {}

  void gather(const std::vector<const Job*>& going, const Shadows& shadows, const Avoid& avoid);
  std::optional<VictimChoice> run();

 private:
  std::vector<std::vector<On>> holders_by_node(const std::vector<const Job*>& going) const;
  std::optional<Spot> spot_on(NodeId id, const ClassNeed& need, const std::vector<On>& on) const;
  void add_local(Spot& spot, const On& on, const AlikeNodes& cls) const;
  bool fits(const Spot& spot, const Chosen& gone) const;
  NodeLoad load_without(const Spot& spot, const Chosen& gone) const;
  bool fits_slowly(const Spot& spot, const Chosen& gone) const;
  // What has to go besides `gone` for the least price; nullopt: it never fits there. `gone` is the same afterwards.
  std::optional<std::vector<std::uint32_t>> cover(const Spot& spot, Chosen& gone,
                                                  const std::vector<PreemptLoss>& prices) const;
  std::optional<std::vector<std::uint32_t>> enough_of(const Spot& spot, Chosen& gone,
                                                      const std::vector<std::uint32_t>& left) const;
  struct Cheapest;
  std::optional<Chosen> cheapest() const;
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

std::vector<std::vector<On>> ExactSearch::holders_by_node(const std::vector<const Job*>& going) const {
  std::vector<std::vector<On>> on(view_.nodes().size());
  for (std::uint32_t v = 0; v < candidates_.size(); ++v)
    for (const Grant& grant : candidates_[v].job->allocation->grants)
      if (concerns(candidates_[v], grant))
        on[grant.node.value].push_back({v, &grant});
  for (const Job* job : going)
    for (const Grant& grant : job->allocation->grants) on[grant.node.value].push_back({kGoes, &grant});
  return on;
}

void ExactSearch::add_local(Spot& spot, const On& on, const AlikeNodes& cls) const {
  Local local{.victim = on.victim, .grant = on.grant, .gives = {}};
  local.gives.devices = (on.grant->devices & cls.healthy).count();
  local.gives.milli = on.grant->cores.count() * 1000 + on.grant->shared_milli;
  if (candidates_[on.victim].keeps_memory)
    spot.base.memory_mb += on.grant->memory_mb;
  else
    local.gives.memory_mb = on.grant->memory_mb;
  spot.simple = spot.simple && on.grant->parts.empty() && !on.grant->whole_node;
  spot.locals.push_back(local);
}

// The node as the job could use it; nullopt: it is too small even when all candidates there have gone.
std::optional<Spot> ExactSearch::spot_on(NodeId id, const ClassNeed& need, const std::vector<On>& on) const {
  const NodeSlot& slot = view_.nodes()[id.value];
  const AlikeNodes& cls = view_.classes()[slot.cls];
  Spot spot{.node = id, .need = &need, .base = {}, .free = {}, .locals = {}};
  spot.simple = need.counted && cls.one_device_type && group_.sharing != Sharing::kExclusive && !need.all_memory &&
                group_.contiguous_cores_min == 0;
  if (on.empty()) {
    if (!slot.free.covers(need.amounts))
      return std::nullopt;
    spot.base = slot.load;
  } else {
    for (const Holder& holder : slot.holders)
      if (std::none_of(on.begin(), on.end(), [&](const On& o) { return o.grant == holder.grant; }))
        add_grant(spot.base, *holder.grant);
  }
  for (const On& o : on)
    if (o.victim != kGoes)
      add_local(spot, o, cls);
  const FreeAmounts free = free_on(cls, *slot.node, spot.base);
  spot.free = {free.devices, free.milli, free.memory_mb};
  if (!spot.free.covers(need.amounts))
    return std::nullopt;
  return spot;
}

// Collects the nodes the job could use, with the candidates on each.
void ExactSearch::gather(const std::vector<const Job*>& going, const Shadows& shadows, const Avoid& avoid) {
  const std::vector<std::vector<On>> on = holders_by_node(going);
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
    auto spot = spot_on(NodeId{n}, *needs[slot.cls], on[n]);
    if (!spot)
      continue;
    for (const Local& local : spot->locals)
      if (auto& at = spots_of_[local.victim]; at.empty() || at.back() != spots_.size())
        at.push_back(static_cast<std::uint32_t>(spots_.size()));
    spots_.push_back(std::move(*spot));
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

// The first of `left` until the job fits, less those that can stay, the dearest first; nullopt: it never fits. `gone`
// is the same afterwards.
std::optional<std::vector<std::uint32_t>> ExactSearch::enough_of(const Spot& spot, Chosen& gone,
                                                                 const std::vector<std::uint32_t>& left) const {
  std::vector<std::uint32_t> out;
  bool enough = false;
  for (std::size_t i = 0; i < left.size() && !enough; ++i) {
    gone[left[i]] = true;
    out.push_back(left[i]);
    enough = fits(spot, gone);
  }
  for (std::size_t i = enough ? out.size() : 0; i-- > 0;) {
    gone[out[i]] = false;
    if (fits(spot, gone))
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
    else
      gone[out[i]] = true;
  }
  for (const std::uint32_t v : left) gone[v] = false;
  return enough ? std::optional(std::move(out)) : std::nullopt;
}

// Goes through every set of `left` in the order of prices, as far as the bound allows, for one that is cheaper.
struct ExactSearch::Cheapest {
  const ExactSearch& search;
  const Spot& spot;
  const std::vector<PreemptLoss>& prices;
  const std::vector<std::uint32_t>& left;
  Chosen& gone;
  std::vector<std::uint32_t> best;
  PreemptLoss least{};
  std::vector<std::uint32_t> taken{};
  std::size_t steps = 0;

  void walk(std::size_t i, const PreemptLoss& so_far) {
    if (++steps > kStepsMost || !(so_far < least))
      return;
    if (search.fits(spot, gone)) {
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
    walk(i + 1, with);
    taken.pop_back();
    gone[left[i]] = false;
    walk(i + 1, so_far);
  }
};

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
  auto best = enough_of(spot, gone, left);
  if (!best || (best->size() <= 1 && left.size() <= 1))
    return best;
  Cheapest search{*this, spot, prices, left, gone, std::move(*best)};
  for (const std::uint32_t v : search.best) search.least += prices[v];
  search.walk(0, {});
  return std::move(search.best);
}

// Takes the node that costs least until there are enough; nullopt: there are too few. What has to go from one node may
// make others cheaper.
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

// The cheapest set that several ways of looking find; nullopt: they find none.
std::optional<Chosen> ExactSearch::cheapest() const {
  const Chosen nobody(candidates_.size());
  if (fitting(nobody) >= way_.nodes)
    return nobody;
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
    if (least && !(candidates_[v].loss < *least))
      continue;
    Chosen seed = nobody;
    seed[v] = true;
    take(greedy(plain, seed));
  }
  take(try_all(best ? &*best : nullptr));
  return best;
}

std::optional<VictimChoice> ExactSearch::run() {
  const Chosen all(candidates_.size(), true);
  for (int repair = 0; repair < kRepairsMost; ++repair) {
    if (fitting(all) < way_.nodes)
      return std::nullopt;
    const std::optional<Chosen> best = cheapest();
    if (!best)
      return std::nullopt;
    auto grants = grants_of(*best);
    if (!grants)
      continue;  // a node that counts right and does not fit is out of the next look
    VictimChoice out;
    out.grants = std::move(*grants);
    for (std::uint32_t v = 0; v < best->size(); ++v)
      if ((*best)[v])
        add_victim(out, candidates_[v]);
    return out;
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
      for (const Grant& grant : job->allocation->grants) on_[grant.node].push_back({kGoes, &grant});
    only_.assign(view.nodes().size(), true);
  }

  std::optional<VictimChoice> run() {
    const std::vector<std::uint32_t> order = cheapest_first();
    std::size_t count = order.size();
    auto found = fewest(order, count);
    if (!found)
      return std::nullopt;
    Chosen gone = in_the_way_of(*found);
    for (std::size_t i = count; i < order.size(); ++i) gone[order[i]] = false;
    spare_dearest(gone, *found);
    VictimChoice out{.grants = std::move(*found), .victims = {}, .shrinks = {}, .loss = {}};
    for (std::uint32_t v = 0; v < gone.size(); ++v)
      if (gone[v])
        add_victim(out, candidates_[v]);
    return out;
  }

 private:
  std::vector<std::uint32_t> cheapest_first() const {
    std::vector<std::uint32_t> order(candidates_.size());
    for (std::uint32_t v = 0; v < order.size(); ++v) order[v] = v;
    std::vector<PreemptLoss> prices;
    for (const Victim& victim : candidates_) prices.push_back(priced(victim.loss, size_of(victim)));
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return std::tie(prices[a], a) < std::tie(prices[b], b); });
    return order;
  }

  // A place once the first of the order have gone, as few as it takes: `count` says how many.
  std::optional<std::vector<Grant>> fewest(const std::vector<std::uint32_t>& order, std::size_t& count) {
    const auto without_first = [&](std::size_t n) {
      Chosen gone(candidates_.size());
      for (std::size_t i = 0; i < n; ++i) gone[order[i]] = true;
      return place(gone);
    };
    auto found = without_first(order.size());
    std::size_t low = 0, high = order.size();
    while (found && low < high) {
      const std::size_t middle = (low + high) / 2;
      if (auto grants = without_first(middle)) {
        found = std::move(grants);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    count = high;
    return found;
  }

  // The candidates on the nodes of the place, to which the search keeps from now on.
  Chosen in_the_way_of(const std::vector<Grant>& place) {
    Chosen gone(candidates_.size());
    only_.assign(view_.nodes().size(), false);
    for (const Grant& grant : place) {
      only_[grant.node.value] = true;
      if (const auto it = on_.find(grant.node); it != on_.end())
        for (const On& o : it->second)
          if (o.victim != kGoes)
            gone[o.victim] = true;
    }
    return gone;
  }

  // Those without whose going there is a place too stay, the dearest first.
  void spare_dearest(Chosen& gone, std::vector<Grant>& found) {
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
        found = std::move(*grants);
      else
        gone[v] = true;
    }
  }

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
        const bool goes = o != on->second.end() && (o->victim == kGoes || gone[o->victim]);
        if (!goes)
          add_grant(it->second, *holder.grant);
        else if (o->victim != kGoes && candidates_[o->victim].keeps_memory)
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
