#include "container/saved_image.h"

#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "container/open_file.h"
#include "container/tool.h"

namespace lockstep {
namespace {

struct Saving {
  std::string from, to;
};

Result<void> write_squashfs(void* context) {
  const Saving& saving = *static_cast<Saving*>(context);
  ToolRun run{{"mksquashfs", saving.from, saving.to, "-noappend", "-no-progress", "-quiet", "-all-root", "-no-xattrs",
               "-comp", "zstd", "-Xcompression-level", "3"}};
  TRY(run_tool(run));
  return {};
}

}  // namespace

Result<void> write_image(const BoxPlan& layers, const std::string& path) {
  Saving saving{layers.at, format("{}.part-{}", path, ::getpid())};
  const auto saved = with_layers(layers, write_squashfs, &saving);
  if (saved.ok() && ::rename(saving.to.c_str(), path.c_str()) == 0)
    return {};
  const Error error = saved.ok() ? os_error(path) : saved.error();
  ::unlink(saving.to.c_str());
  return Error{error.code, format("cannot save the container at {}: {}", path, error.message), {}};
}

}  // namespace lockstep
