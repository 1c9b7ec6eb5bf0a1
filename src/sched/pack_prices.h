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

#include "sched/pack_mix.h"
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

class PackPrices {
 public:
  // `gpu_milli` and `cpu_milli` of the whole cluster give the scale of core prices; `kinds` device models.
  PackPrices(const PackPriceSettings& settings, std::size_t kinds, std::int64_t gpu_milli, std::int64_t cpu_milli);

  // Moves the prices one step towards those at which the rooms can serve the mix. Classes new to the mix join at their
  // own share.
  void step(const PackMix& mix, std::span<const PackRoom> rooms);

  // In milli-GPU of average demand. Never grows when something is taken.
  float value(const PackRoom& room) const;

  double price(std::size_t place) const { return classes_[place].price; }  // of a class of the mix
  double served() const { return served_; }                                // arrivals the last step found room for
  std::uint64_t steps() const { return steps_; }

 private:
  static constexpr int kGrid = 24;  // core prices
  static constexpr int kUnit = 10;  // of device milli in the tables
  static constexpr int kUnits = kPackDeviceMilli / kUnit;
  using Row = std::array<float, kGrid>;  // by core price

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

  void adopt(const PackMix& mix);
  void build_tables();
  void build_devices(std::size_t kind);
  void build_gangs(std::size_t kind);
  void sum_rows(const PackRoom& room, Row& sum) const;
  void answer(std::span<const PackRoom> rooms);  // the nodes' best fillings at these prices
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
  std::vector<Priced> classes_;  // as in the mix
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
