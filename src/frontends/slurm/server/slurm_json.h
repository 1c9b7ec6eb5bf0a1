// Writes the JSON that squeue, sinfo and sacct print: brackets by hand, and the shapes that Slurm uses in many places.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontends/slurm/server/job_facts.h"
#include "wire/json_text.h"

namespace lockstep::slurm {

class SlurmJson {
 public:
  SlurmJson& open(char bracket);
  SlurmJson& close(char bracket);
  SlurmJson& key(std::string_view name);
  SlurmJson& text(std::string_view value);
  SlurmJson& number(std::int64_t value);
  SlurmJson& literal(std::string_view number);  // written already
  SlurmJson& boolean(bool value);
  SlurmJson& null();

  SlurmJson& set_number(bool set, std::int64_t value);  // {"set":true,"infinite":false,"number":5}
  SlurmJson& exit_code(std::int32_t code, std::int32_t signal);
  // [{"type":"cpu","name":"","id":1,"count":8},…]
  SlurmJson& tres(const JobCounts& counts, const Partition* partition);
  SlurmJson& tail();  // "meta", "errors" and "warnings" of the outermost object

  std::string take() { return json_.take(); }

 private:
  JsonText json_;
};

}  // namespace lockstep::slurm
