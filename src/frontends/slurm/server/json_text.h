// Writes the JSON that squeue, sinfo and sacct print: appended to one string, commas by themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontends/slurm/server/job_facts.h"

namespace lockstep {

class JsonText {
 public:
  JsonText& open(char bracket);
  JsonText& close(char bracket);
  JsonText& key(std::string_view name);
  JsonText& text(std::string_view value);
  JsonText& number(std::int64_t value);
  JsonText& literal(std::string_view number);  // written already
  JsonText& boolean(bool value);
  JsonText& null();

  // Shapes that Slurm uses in many places.
  JsonText& set_number(bool set, std::int64_t value);  // {"set":true,"infinite":false,"number":5}
  JsonText& exit_code(std::int32_t code, std::int32_t signal);
  JsonText& tres(const JobCounts& counts);  // [{"type":"cpu","name":"","id":1,"count":8},…]
  JsonText& tail();                         // "meta", "errors" and "warnings" of the outermost object

  std::string take() { return std::move(out_); }

 private:
  void separate();
  std::string out_;
  bool fresh_ = true;  // nothing stands before in the innermost bracket
};

}  // namespace lockstep
