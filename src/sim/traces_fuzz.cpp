// libFuzzer entry over workload traces: CSV and SWF, plain or gzipped. Every job read is one that a simulator can run.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "sim/queue_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::sim;
  if (size == 0)
    return 0;
  const auto form = data[0] % 2 == 0 ? TraceForm::kCsv : TraceForm::kSwf;
  auto file = TraceFile::from_bytes("trace", std::string(reinterpret_cast<const char*>(data) + 1, size - 1), form);
  if (!file.ok())
    return 0;
  const auto trace = read_queue_trace(std::move(*file));
  if (!trace.ok())
    return 0;
  CHECK(!trace->jobs.empty());
  for (const TraceJob& job : trace->jobs) CHECK(job.size > 0 && job.run_s >= 0 && job.limit_s >= job.run_s);
  return 0;
}
