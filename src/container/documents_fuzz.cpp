// libFuzzer entry: any bytes as what others write about images and devices, and as what users name as an image.
#include <cstdint>
#include <string_view>

#include "container/cdi.h"
#include "container/credentials.h"
#include "container/image_config.h"
#include "container/image_reference.h"
#include "container/step_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto config = parse_image_config(text))
    (void)parse_enroot_config(enroot_environment(*config), enroot_rc(*config));
  (void)parse_enroot_config(text, text);
  (void)parse_bundle(text);
  if (const auto spec = parse_cdi(text))
    for (const auto& [name, edits] : spec->devices)
      (void)find_cdi({&*spec, 1}, spec->kind, std::vector<std::string>{name});
  (void)find_credentials(text, "nvcr.io", "", [](const char*) -> const char* { return nullptr; });
  (void)parse_image(text);
  (void)decode_state(text);
  return 0;
}
