// What room is worth: prices for the classes of a workload, and from them the value of what is free on a node.
//
// Think of the free rooms as supply and of the mix as demand that goes on in its proportions until nothing fits any
// more. How far that can go is a linear programme over the ways to fill each node (Gilmore and Gomory's cutting stock,
// https://doi.org/10.1287/opre.9.6.849, with nodes for rolls and a host's cores beside its devices). Its dual gives
// each class a price: the GPU share it costs, waste and crowding included. A room's value is the best sum of prices
// that fits into it, and placing a request costs the value its node loses. Small requests that fill what others leave
// over are nearly free there, devices that some requests insist on are dear for all others, and cores are dear where
// they run out before the devices.
//
// Prices are kept by subgradient steps (each node answers the prices with its best filling; what is taken too often
// gets cheaper), so they follow the cluster as it fills, at a fraction of a millisecond a step. A node's cores are
// priced within its own value: value = min over a grid of core prices of cores * price + what the devices bring at that
// price.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "sched/pack_room.h"

namespace lockstep {

struct PackPriceSettings {
  double smoothing_milli = 10;  // choices that differ by less are taken nearly alike
  double step_first = 0.3;      // relative change of a price per unit of relative excess
  double step_last = 0.005;
  double step_decay = 30;  // steps after which step_first has halved
  double excess_max = 3;   // of a class in one step
  double price_max = 1.5;  // times a class's own GPU share
};

struct PackClass {
  PackShape shape;    // asks for devices; memory left out
  double weight = 0;  // how often it comes, in any unit
  double price = 0;   // milli-GPU; 0: not known yet, its own share
};

struct PackStock {
  PackRoom room;
  double count = 0;  // of nodes with it
};

struct PackCost {
  std::int64_t milli = 0;  // of GPU, in terms of average demand: less is better
  std::uint16_t from = 0;  // for shapes of one device: what is free on the one to take
};

class PackPrices {
 public:
  static constexpr int kGrid = 24;       // core prices
  using Row = std::array<float, kGrid>;  // by core price

  // `gpu_milli` and `cpu_milli` of the whole cluster give the scale of core prices; `kinds` device models; `steps` made
  // already.
  PackPrices(const PackPriceSettings& settings, std::size_t kinds, std::int64_t gpu_milli, std::int64_t cpu_milli,
             std::span<const PackClass> classes, std::uint64_t steps = 0);

  // Moves the prices so many steps towards those at which the rooms can serve the mix.
  void step(std::span<const PackStock> rooms, int steps = 1);

  // In milli-GPU of average demand. Never grows when something is taken.
  float value(const PackRoom& room) const { return least(sum_of(room)); }

  // What a request that fits costs the others in a room with this sum (see sum_of) and value.
  PackCost cost(const Row& sum, float value, const PackRoom& room, const PackShape& shape) const;
  Row sum_of(const PackRoom& room) const;  // over the grid of core prices
  static float least(const Row& sum);      // of it: the room's value

  double price(std::size_t place) const { return classes_[place].price; }
  double served() const { return served_; }  // arrivals the last step found room for
  std::uint64_t steps() const { return steps_; }

 private:
  static constexpr int kUnit = 10;  // of device milli in the tables
  static constexpr int kUnits = kPackDeviceMilli / kUnit;

  struct Priced {
    PackShape shape;
    double share = 0;  // of the arrivals
    double price = 0;  // milli
    float cores = 0;
    double used = 0;  // by the best fillings, this step
  };
  struct Size {  // single-device classes of one size
    int units = 0;
    std::vector<std::uint32_t> classes;
  };

  void build_tables();
  void build_devices(std::size_t kind);
  void build_gangs(std::size_t kind);
  void answer(std::span<const PackStock> rooms);  // the nodes' best fillings at these prices
  void answer_gangs(std::size_t kind, int grid);
  void answer_devices(std::size_t kind, int grid);
  void move_prices(double step);

  float worth(const Priced& c, int grid) const { return static_cast<float>(c.price) - core_price_[grid] * c.cores; }
  static bool offers(const Priced& c, std::size_t kind, int idle) {
    return c.shape.devices <= idle && c.shape.allows(static_cast<std::uint16_t>(kind));
  }
  const Row& device_row(std::size_t kind, int units) const { return devices_[kind * (kUnits + 1) + units]; }
  const Row& idle_row(std::size_t kind, int idle) const { return idle_[kind * (kPackDevicesMax + 1) + idle]; }

  PackPriceSettings settings_;
  std::size_t kinds_;
  Row core_price_{};
  std::vector<Priced> classes_;
  std::vector<Size> sizes_;
  std::vector<std::uint32_t> gangs_;
  std::vector<Row> best_;                         // [kind][size] the best class
  std::vector<Row> devices_;                      // [kind][units left] what a device in use can still bring
  std::vector<Row> idle_;                         // [kind][count] what idle devices can bring together
  std::vector<Row> device_weight_, idle_weight_;  // the same places: how many such rooms answer at that core price
  double served_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace lockstep
