#include "container/sandbox_program.h"

#include <stdio.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/sandbox_bundle.h"
#include "container/sandbox_files.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

constexpr std::size_t kSpecMax = 8 << 20;

int print(const std::string& line) {
  ::printf("%s\n", line.c_str());
  return ::fflush(stdout) == 0 ? 0 : 1;
}

Result<Sandbox> read_spec(const std::string& folder) {
  return decode_sandbox(TRY(read_plain(format("{}/{}", folder, kSandboxSpecFile), Links::kRefused, kSpecMax)));
}

// From its input, where there are some.
std::vector<FrontEndFiles::Login> read_logins() {
  std::string text;
  char chunk[16 << 10];
  for (ssize_t n; (n = ::read(0, chunk, sizeof chunk)) > 0 && text.size() < kFrontEndFilesMax;)
    text.append(chunk, static_cast<std::size_t>(n));
  auto logins = decode_logins(text);
  return logins.ok() ? std::move(*logins) : std::vector<FrontEndFiles::Login>();
}

std::string unless_none(const std::string& word) { return word == "-" ? std::string() : word; }

}  // namespace

int run_bundle(const BundleWords& words) {
  auto sandbox = read_spec(words.life);
  const auto life = parse_uint(words.life.substr(words.life.rfind('/') + 1));
  ContainerWord told;
  if (!sandbox.ok() || sandbox->containers.size() != 1 || !life || *life > UINT32_MAX) {
    told.what = ContainerWord::What::kCannotYet;
    told.reason = "CreateContainerError";
    told.message = as_phrase(sandbox.ok() ? "what is to run cannot be read" : sandbox.error().message);
  } else {
    told = make_bundle({words.home, words.folder, std::move(*sandbox), static_cast<std::uint32_t>(*life),
                        unless_none(words.group), unless_none(words.process_space), read_logins()},
                       [](const ContainerWord& word) { print(encode_container_word(word)); });
  }
  return print(encode_container_word(told));
}

int run_front_end_files(const std::string& folder, const std::string& work, const std::string& version) {
  const auto sandbox = read_spec(folder);
  if (!sandbox.ok())
    return print("error " + as_phrase(sandbox.error().message));
  const auto brought = bring_front_end_files(*sandbox, folder, work, unless_none(version));
  if (!brought.ok())
    return print("error " + as_phrase(brought.error().message));
  return print(*brought ? encode_front_end_files(**brought) : "same");
}

}  // namespace lockstep
