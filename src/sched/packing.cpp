// Counting arrivals, and how far prices move for one record.
#include "sched/packing.h"

#include <algorithm>
#include <cmath>

#include "rules/packing.h"

namespace lockstep {

namespace {

PackRequest request_of(const PackingClass& c) { return {c.cpu_milli, c.devices, c.milli, c.models}; }

// A bit for each of the models that there is.
std::uint64_t kinds_of(const PackingClass& c, const PackGround& ground) {
  if (c.models.empty())
    return ~std::uint64_t{0};
  std::uint64_t kinds = 0;
  for (const std::string& model : c.models)
    if (const auto at = std::lower_bound(ground.models.begin(), ground.models.end(), model);
        at != ground.models.end() && *at == model)
      kinds |= std::uint64_t{1} << (at - ground.models.begin());
  return kinds;
}

// Those that can be served at all, and where each stands in the record.
std::vector<PackClass> classes_of(const Packing& record, const PackGround& ground, std::vector<std::size_t>* places) {
  std::vector<PackClass> out;
  for (std::size_t i = 0; i < record.classes.size(); ++i) {
    const PackingClass& c = record.classes[i];
    const std::uint64_t kinds = kinds_of(c, ground);
    if (c.weight <= 0 || kinds == 0)
      continue;
    out.push_back({.shape = {.cpu_milli = c.cpu_milli, .devices = c.devices, .milli = c.milli, .kinds = kinds},
                   .weight = static_cast<double>(c.weight) / kPackOne,
                   .price = static_cast<double>(c.price) / kPackOne});
    if (places)
      places->push_back(i);
  }
  return out;
}

// A mix is followed closely while it is still vague.
std::int64_t steps_wanted(const PackSettings& settings, std::uint64_t arrivals) {
  const auto n = static_cast<double>(arrivals);
  const double settled = 1 - std::exp(-n / settings.settle_arrivals);
  return static_cast<std::int64_t>(settled * settings.settle_steps + n / settings.arrivals_per_step);
}

// What a step looks up, about.
std::int64_t work_of_step(std::span<const PackClass> classes, std::size_t kinds, std::size_t rooms) {
  std::int64_t gangs = 0;
  std::vector<std::uint16_t> sizes;
  for (const PackClass& c : classes) {
    gangs += c.shape.devices > 1;
    if (c.shape.devices == 1 && std::find(sizes.begin(), sizes.end(), c.shape.milli) == sizes.end())
      sizes.push_back(c.shape.milli);
  }
  const auto n = static_cast<std::int64_t>(sizes.size());
  return static_cast<std::int64_t>(rooms) * 128 + static_cast<std::int64_t>(kinds) * (n * 1200 + gangs * 400);
}

void count(Packing& record, const PackSettings& settings, const PackArrivals& arrivals) {
  std::int64_t came = 0;
  for (const auto& [request, times] : arrivals) came += times;
  for (PackingClass& c : record.classes)
    c.weight -= c.weight / settings.fade * std::min<std::int64_t>(came, settings.fade);
  std::map<PackRequest, std::size_t> place;
  for (std::size_t i = 0; i < record.classes.size(); ++i) place[request_of(record.classes[i])] = i;
  for (const auto& [request, times] : arrivals) {
    auto at = place.find(request);
    if (at == place.end()) {
      std::size_t i = record.classes.size();
      if (i < kPackClassesMax) {
        record.classes.emplace_back();
      } else {  // the lightest makes room
        i = static_cast<std::size_t>(
            std::min_element(record.classes.begin(), record.classes.end(),
                             [](const auto& a, const auto& b) { return a.weight < b.weight; }) -
            record.classes.begin());
        place.erase(request_of(record.classes[i]));
      }
      record.classes[i] = {request.cpu_milli, request.devices, request.milli, request.models, 0, 0};
      at = place.emplace(request, i).first;
    }
    std::int64_t& weight = record.classes[at->second].weight;
    weight = std::min(weight + std::min(times, kPackWeightMax / kPackOne) * kPackOne, kPackWeightMax);
  }
  record.arrivals += static_cast<std::uint64_t>(came);
}

}  // namespace

std::size_t jobs_for_record(const Packing* last) {
  if (!last)
    return 1;
  if (last->classes.size() < 2)
    return std::clamp<std::size_t>(last->arrivals / 8, 16, 256);
  return std::clamp<std::size_t>(last->arrivals / 8, 1, std::max<std::size_t>(16, last->classes.size() / 8));
}

Packing next_packing(const PackSettings& settings, const Packing* last, JobId through, const PackArrivals& arrivals,
                     const PackGround& ground, std::span<const PackStock> rooms) {
  Packing next = last ? *last : Packing();
  next.meta.name = "packing";
  next.through = through;
  count(next, settings, arrivals);
  std::vector<std::size_t> places;
  const std::vector<PackClass> classes = classes_of(next, ground, &places);
  const std::int64_t due = steps_wanted(settings, next.arrivals) - static_cast<std::int64_t>(next.steps);
  if (classes.empty() || rooms.empty() || due <= 0)
    return next;
  const std::int64_t can = settings.work_max / work_of_step(classes, ground.models.size(), rooms.size());
  const auto steps =
      static_cast<int>(std::clamp<std::int64_t>(can, 1, std::min<std::int64_t>(due, settings.steps_max)));
  PackPrices prices(settings.prices, ground.models.size(), ground.gpu_milli, ground.cpu_milli, classes, next.steps);
  prices.step(rooms, steps);
  for (std::size_t i = 0; i < places.size(); ++i)
    next.classes[places[i]].price =
        std::clamp<std::int64_t>(std::llround(prices.price(i) * kPackOne), 1, kPackPriceMax);
  next.steps = prices.steps();
  return next;
}

PackPrices make_prices(const PackSettings& settings, const Packing& record, const PackGround& ground) {
  return PackPrices(settings.prices, ground.models.size(), ground.gpu_milli, ground.cpu_milli,
                    classes_of(record, ground, nullptr), record.steps);
}

}  // namespace lockstep
