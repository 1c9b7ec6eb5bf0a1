// One campaign: a fresh controller, several strangers and nodes, and as many steps as asked for.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::hostile {

struct CampaignSettings {
  std::uint64_t seed = 1;
  std::uint64_t steps = 1500;
  std::uint64_t restart_every = 500;  // steps; the controller is opened again on its files
  bool tell = false;                  // print each request before it is sent
};
struct CampaignReport {
  std::string failure;  // "" = none
  std::uint64_t requests = 0, refused = 0, jobs = 0, upgrades = 0;
};
CampaignReport run_campaign(const CampaignSettings& settings);

}  // namespace lockstep::hostile
