// One registry, for one image, by way of skopeo: with the user's credentials, mirrors and certificates.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "container/image_reference.h"
#include "container/open_file.h"

namespace lockstep {

class RegistryClient {
 public:
  static Result<RegistryClient> make(const ImageReference& image);

  // As the registry has it, byte by byte. digest: "" = what the image's own name says.
  Result<std::string> manifest(const std::string& digest) const;
  Result<std::string> config(const std::string& digest) const;
  // Into an OCI layout, under the name "image". What the layout has of it is not fetched again, so one whose
  // connection stood still is tried again. look: called about once a second meanwhile.
  enum class Keep : unsigned char { kWhatCan, kDigests };  // kDigests: nothing is packed or written anew
  Result<void> copy(const std::string& digest, const std::string& layout, Keep keep,
                    const std::function<Result<void>()>& look) const;

 private:
  RegistryClient() = default;
  std::string name_of(const std::string& digest) const;
  std::vector<std::string> options(std::string_view prefix) const;

  std::string transport_, by_digest_;
  OpenFile credentials_;  // in memory
  bool plain_ = false;    // without TLS
};

}  // namespace lockstep
