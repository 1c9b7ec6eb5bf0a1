// What a front end gives the node for a sandbox (Sandbox::front_end_files): files of its volumes, variables of its
// containers, what they still wait for, what is shown to registries, and what of the sandbox is to be otherwise than
// when it was made. The answer of GET /v1/front-end-files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/sandbox.h"

namespace lockstep {

// The type (SandboxVolume::path_type) of a folder of the node that outlives its sandboxes: made where it is missing,
// and given to the sandbox's group.
inline constexpr const char* kLastingVolume = "Lasting";

struct FrontEndFiles {
  struct File {
    std::string path;  // relative, within its volume
    std::uint32_t mode = 0644;
    std::optional<std::uint32_t> uid;
    std::string data;  // base64
    friend bool operator==(const File&, const File&) = default;
  };
  struct Volume {
    std::string name;
    std::vector<File> files;
    friend bool operator==(const Volume&, const Volume&) = default;
  };
  struct Variable {
    std::string container, name, value;
    friend bool operator==(const Variable&, const Variable&) = default;
  };
  // A container that cannot start yet; "" = none can.
  struct Wait {
    std::string container, reason, message;
    friend bool operator==(const Wait&, const Wait&) = default;
  };
  // Shown to a registry for the images whose names begin so: with its host, and path if it is for a part of it.
  struct Login {
    std::string images, user, password;
    friend bool operator==(const Login&, const Login&) = default;
  };
  // What a container is to have from now on; as SandboxContainer has it, and "" and 0 are values like others.
  struct Change {
    std::string container, image;
    std::uint32_t milli_cores = 0, cpu_weight = 0;
    std::uint64_t memory_bytes = 0;
    friend bool operator==(const Change&, const Change&) = default;
  };
  std::string version;  // to ask again with
  std::vector<Volume> volumes;
  std::vector<Variable> variables;
  std::vector<Wait> waits;
  std::vector<Login> logins;            // tried in this order, and then without any
  std::vector<SandboxContainer> added;  // of kind kAdded, in the order in which they came
  std::vector<Change> changes;          // of those that it was made with
  std::string log_folder;      // how the folder of its logs is called, as NAMESPACE_NAME_UID; "" = others need no logs
  std::int64_t memory_mb = 0;  // what its job was granted on the node; 0 = as much as there is
  friend bool operator==(const FrontEndFiles&, const FrontEndFiles&) = default;
};

inline constexpr std::size_t kFrontEndFilesMax = 16 << 20;  // bytes of the answer

// The logins alone, for who fetches an image.
std::string encode_logins(const std::vector<FrontEndFiles::Login>& logins);
Result<std::vector<FrontEndFiles::Login>> decode_logins(std::string_view text);

std::string encode_front_end_files(const FrontEndFiles& files);
Result<FrontEndFiles> decode_front_end_files(std::string_view text);

// Nothing: it is malformed.
std::optional<std::string> bytes_from_base64(std::string_view text);

}  // namespace lockstep
