// WireWorld: the ranks of one node of a step, served by PMI-1 and PMI-2. Each rank may speak either. Pure: bytes of
// ranks and messages of the client in, the same out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pmi/backend.h"
#include "pmi/key_values.h"
#include "pmi/wire_text.h"

namespace lockstep {

inline constexpr int kPmiTaskFd = 3;  // where a task finds its end of its socket pair

class WireWorld final : public PmiBackend {
 public:
  using ToRank = std::function<void(std::uint32_t local, std::string_view bytes)>;
  WireWorld(PmiWorld world, Up up, ToRank to_rank);

  Result<PmiVariables> begin() override;
  void hear(PmiMessage message) override;
  void rank_ended(std::uint32_t local, const PmiEnd& end) override;

  void rank_said(std::uint32_t local, std::string_view bytes);

 private:
  struct Rank {
    std::uint32_t rank = 0;
    PmiCutter cutter;
    bool joined = false, finalized = false, broken = false, ended = false;
    bool aborted = false;     // said so: its end is no news
    bool in_barrier = false;  // waits for all
    std::string barrier_thread;
    bool in_spawn = false;  // within the lines of a PMI-1 spawn
  };
  struct Waiting {  // for a value that another rank here is to tell
    std::uint32_t local = 0;
    PmiWords request;
  };
  using Act = void (WireWorld::*)(std::uint32_t local, const PmiWords& words);
  static const std::map<std::string_view, Act>& first_commands();
  static const std::map<std::string_view, Act>& second_commands();

  void act(std::uint32_t local, const PmiWords& words);
  void answer(std::uint32_t local, PmiWords words);
  // An answer of PMI-2, which names its command and thread.
  void answer2(std::uint32_t local, const PmiWords& request, std::vector<std::pair<std::string, std::string>> more);
  void give_up_on(std::uint32_t local, std::string_view why);
  void join(Rank& rank);
  void enter_barrier(std::uint32_t local, const PmiWords& words);
  void leave_barrier(std::string_view said);
  void abort(Rank& rank, std::int32_t code, std::string_view words);
  const std::string* job_value(const std::string& key);
  void ask_name(std::uint32_t local, const PmiWords& words, PmiName::Do what, std::string name, std::string value);
  void take_name(const PmiName& name);
  void tell_waiting(const std::string& key);

  void init(std::uint32_t local, const PmiWords& words);
  void get_maxes(std::uint32_t local, const PmiWords& words);
  void get_appnum(std::uint32_t local, const PmiWords& words);
  void get_kvsname(std::uint32_t local, const PmiWords& words);
  void create_kvs(std::uint32_t local, const PmiWords& words);
  void destroy_kvs(std::uint32_t local, const PmiWords& words);
  void get_universe_size(std::uint32_t local, const PmiWords& words);
  void put(std::uint32_t local, const PmiWords& words);
  void get(std::uint32_t local, const PmiWords& words);
  void get_by_index(std::uint32_t local, const PmiWords& words);
  void finalize(std::uint32_t local, const PmiWords& words);
  void abort1(std::uint32_t local, const PmiWords& words);
  void publish1(std::uint32_t local, const PmiWords& words);
  void withdraw1(std::uint32_t local, const PmiWords& words);
  void look_up1(std::uint32_t local, const PmiWords& words);
  void spawn1(std::uint32_t local, const PmiWords& words);

  void full_init(std::uint32_t local, const PmiWords& words);
  void finalize2(std::uint32_t local, const PmiWords& words);
  void abort2(std::uint32_t local, const PmiWords& words);
  void get_job_id(std::uint32_t local, const PmiWords& words);
  void put2(std::uint32_t local, const PmiWords& words);
  void get2(std::uint32_t local, const PmiWords& words);
  void put_node_value(std::uint32_t local, const PmiWords& words);
  void get_node_value(std::uint32_t local, const PmiWords& words);
  void get_job_value(std::uint32_t local, const PmiWords& words);
  void publish2(std::uint32_t local, const PmiWords& words);
  void withdraw2(std::uint32_t local, const PmiWords& words);
  void look_up2(std::uint32_t local, const PmiWords& words);
  void decline2(std::uint32_t local, const PmiWords& words);

  PmiWorld world_;
  Up up_;
  ToRank to_rank_;
  std::vector<Rank> ranks_;
  PmiKeyValues values_;
  std::map<std::string, std::string> job_values_;
  std::uint64_t barriers_ = 0;  // that are through
  std::size_t in_barrier_ = 0;
  std::vector<Waiting> waiting_;
  std::map<std::uint64_t, Waiting> names_asked_;
  std::uint64_t next_name_ = 1;
  bool joined_ = false;
};

}  // namespace lockstep
