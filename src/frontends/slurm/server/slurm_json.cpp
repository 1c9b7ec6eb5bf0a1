#include "frontends/slurm/server/slurm_json.h"

namespace lockstep::slurm {

SlurmJson& SlurmJson::open(char bracket) {
  bracket == '{' ? json_.object() : json_.array();
  return *this;
}
SlurmJson& SlurmJson::close(char) {
  json_.end();
  return *this;
}
SlurmJson& SlurmJson::key(std::string_view name) {
  json_.key(name);
  return *this;
}
SlurmJson& SlurmJson::text(std::string_view value) {
  json_.value(value);
  return *this;
}
SlurmJson& SlurmJson::number(std::int64_t value) {
  json_.value(value);
  return *this;
}
SlurmJson& SlurmJson::literal(std::string_view number) {
  json_.raw(number);
  return *this;
}
SlurmJson& SlurmJson::boolean(bool value) {
  json_.value(value);
  return *this;
}
SlurmJson& SlurmJson::null() { return literal("null"); }

SlurmJson& SlurmJson::set_number(bool set, std::int64_t value) {
  open('{').key("set").boolean(set).key("infinite").boolean(false).key("number").number(set ? value : 0);
  return close('}');
}

SlurmJson& SlurmJson::exit_code(std::int32_t code, std::int32_t signal) {
  open('{').key("status").open('[').text(signal ? "SIGNALED" : code ? "ERROR" : "SUCCESS").close(']');
  key("return_code").set_number(true, code);
  key("signal").open('{').key("id").set_number(signal != 0, signal);
  key("name").text("").close('}');
  return close('}');
}

SlurmJson& SlurmJson::tres(const JobCounts& counts, const Partition* partition) {
  const auto one = [&](std::string_view type, std::string_view name, int id, std::int64_t count) {
    open('{').key("type").text(type).key("name").text(name).key("id").number(id).key("count").number(count).close('}');
  };
  open('[');
  one("cpu", "", 1, counts.cpus);
  if (counts.memory_mb > 0)
    one("mem", "", 2, counts.memory_mb);
  one("node", "", 4, counts.nodes);
  one("billing", "", 5, billing_in(partition, counts));
  if (counts.gpus > 0)
    one("gres", "gpu", 1001, counts.gpus);
  if (counts.gpus > 0 && !counts.gpu_type.empty())
    one("gres", "gpu:" + counts.gpu_type, 1002, counts.gpus);
  return close(']');
}

SlurmJson& SlurmJson::tail() {
  key("meta").open('{').key("plugin").open('{').key("type").text("").close('}');
  key("slurm").open('{').key("version").open('{').key("major").text("24").key("minor").text("11").key("micro").text(
      "5");
  close('}').key("release").text("24.11.5").close('}').close('}');
  key("errors").open('[').close(']');
  return key("warnings").open('[').close(']');
}

}  // namespace lockstep::slurm
