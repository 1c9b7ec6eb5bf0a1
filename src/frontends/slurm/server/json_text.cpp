#include "frontends/slurm/server/json_text.h"

#include "base/text.h"

namespace lockstep {

void JsonText::separate() {
  if (!fresh_)
    out_ += ',';
  fresh_ = false;
}

JsonText& JsonText::open(char bracket) {
  separate();
  out_ += bracket;
  fresh_ = true;
  return *this;
}
JsonText& JsonText::close(char bracket) {
  out_ += bracket;
  fresh_ = false;
  return *this;
}
JsonText& JsonText::key(std::string_view name) {
  separate();
  out_ += '"';
  out_ += name;
  out_ += "\":";
  fresh_ = true;  // the value follows without a comma
  return *this;
}
JsonText& JsonText::text(std::string_view value) {
  separate();
  out_ += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\')
      (out_ += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out_ += format("\\u{:04x}", c);
    else
      out_ += c;
  }
  out_ += '"';
  return *this;
}
JsonText& JsonText::number(std::int64_t value) {
  separate();
  out_ += std::to_string(value);
  return *this;
}
JsonText& JsonText::literal(std::string_view number) {
  separate();
  out_ += number;
  return *this;
}
JsonText& JsonText::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}
JsonText& JsonText::null() {
  separate();
  out_ += "null";
  return *this;
}

JsonText& JsonText::set_number(bool set, std::int64_t value) {
  open('{').key("set").boolean(set).key("infinite").boolean(false).key("number").number(set ? value : 0);
  return close('}');
}

JsonText& JsonText::exit_code(std::int32_t code, std::int32_t signal) {
  open('{').key("status").open('[').text(signal ? "SIGNALED" : code ? "ERROR" : "SUCCESS").close(']');
  key("return_code").set_number(true, code);
  key("signal").open('{').key("id").set_number(signal != 0, signal);
  key("name").text("").close('}');
  return close('}');
}

JsonText& JsonText::tres(const JobCounts& counts) {
  const auto one = [&](std::string_view type, std::string_view name, int id, std::int64_t count) {
    open('{').key("type").text(type).key("name").text(name).key("id").number(id).key("count").number(count).close('}');
  };
  open('[');
  one("cpu", "", 1, counts.cpus);
  if (counts.memory_mb > 0)
    one("mem", "", 2, counts.memory_mb);
  one("node", "", 4, counts.nodes);
  one("billing", "", 5, counts.cpus);
  if (counts.gpus > 0)
    one("gres", "gpu", 1001, counts.gpus);
  if (counts.gpus > 0 && !counts.gpu_type.empty())
    one("gres", "gpu:" + counts.gpu_type, 1002, counts.gpus);
  return close(']');
}

JsonText& JsonText::tail() {
  key("meta").open('{').key("plugin").open('{').key("type").text("").close('}');
  key("slurm").open('{').key("version").open('{').key("major").text("24").key("minor").text("11").key("micro").text(
      "5");
  close('}').key("release").text("24.11.5").close('}').close('}');
  key("errors").open('[').close(']');
  return key("warnings").open('[').close(']');
}

}  // namespace lockstep
