#include "container/image_reference.h"

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kHub = "docker.io";
constexpr std::string_view kSha256 = "sha256:";
constexpr std::size_t kTextMax = 4096, kTagMax = 128;

Error bad_image(std::string_view text, std::string_view why) {
  return invalid(format("--container-image={}: {}", text, why), "container_image");
}

bool only_of(std::string_view text, std::string_view letters) { return text.find_first_not_of(letters) == text.npos; }

constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz0123456789._-/";
constexpr std::string_view kAny = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

bool is_registry(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon), port = colon == text.npos ? "1" : text.substr(colon + 1);
  return !host.empty() && host[0] != '-' && only_of(host, kAny) && parse_uint(port) && *parse_uint(port) <= 65535;
}

bool is_repository(std::string_view text) {
  return !text.empty() && text[0] != '/' && text[0] != '-' && !text.ends_with('/') && only_of(text, kLower) &&
         text.find("//") == text.npos;
}

bool is_digest(std::string_view text) {
  return text.size() == kSha256.size() + 64 && text.starts_with(kSha256) &&
         only_of(text.substr(kSha256.size()), "0123456789abcdef");
}

// As Docker tells a registry from the beginning of a path.
bool looks_like_registry(std::string_view first) {
  return first.find_first_of(".:") != first.npos || first == "localhost";
}

void split_registry(std::string& rest, ImageReference& image) {
  if (const std::size_t hash = rest.find('#'); hash != rest.npos) {
    image.registry = rest.substr(0, hash);
    rest.erase(0, hash + 1);
  } else if (const std::size_t slash = rest.find('/');
             slash != rest.npos && looks_like_registry(std::string_view(rest).substr(0, slash))) {
    image.registry = rest.substr(0, slash);
    rest.erase(0, slash + 1);
  }
  if (image.registry.empty() || image.registry == "registry-1.docker.io")
    image.registry = kHub;
}

// "@sha256:…", or as enroot writes it too, ":sha256:…".
std::size_t start_of_digest(std::string_view text) {
  const std::size_t at = text.find('@');
  return at != text.npos ? at : text.find(format(":{}", kSha256));
}

Result<ImageReference> parse_registry_image(std::string_view text, std::string_view name) {
  ImageReference image;
  std::string rest(name);
  if (const std::size_t at = rest.find('@'); at != rest.npos && rest.compare(at + 1, kSha256.size(), kSha256) != 0) {
    image.user = rest.substr(0, at);
    rest.erase(0, at + 1);
  }
  if (rest.starts_with('#'))
    return bad_image(text, "there is no registry before \"#\"");
  split_registry(rest, image);
  std::string tag = "latest";
  if (const std::size_t at = start_of_digest(rest); at != rest.npos) {
    image.digest = rest.substr(at + 1);
    rest.resize(at);
    if (!is_digest(image.digest))
      return bad_image(text, "a digest is \"sha256:\" and 64 digits of 0-9a-f");
  }
  if (const std::size_t colon = rest.rfind(':'); colon != rest.npos) {
    tag = rest.substr(colon + 1);
    rest.resize(colon);
  }
  if (!is_registry(image.registry))
    return bad_image(text, format("\"{}\" is no registry", image.registry));
  if (!is_repository(rest))
    return bad_image(text, "write it as [USER@][REGISTRY#]IMAGE[:TAG], with an image in small letters");
  if (tag.empty() || tag.size() > kTagMax || !only_of(tag, kAny) || tag[0] == '-')
    return bad_image(text, format("\"{}\" is no tag", tag));
  image.repository = image.registry == kHub && rest.find('/') == rest.npos ? "library/" + rest : rest;
  image.transport = format("docker://{}/{}{}", image.registry, image.repository,
                           image.digest.empty() ? ":" + tag : "@" + image.digest);
  return image;
}

}  // namespace

Result<ImageReference> parse_image(std::string_view text) {
  if (text.empty() || text.size() > kTextMax)
    return bad_image(text.substr(0, 80), "it must have between 1 and 4096 characters");
  for (const char c : text)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f)
      return bad_image(text, "it may hold no blanks and no control characters");
  ImageReference image;
  if (text[0] == '/' || text[0] == '.') {
    image.source = ImageReference::Source::kFile;
    image.path = text;
    return image;
  }
  using Source = ImageReference::Source;
  constexpr std::pair<std::string_view, Source> kSchemes[] = {
      {"oci:", Source::kLayout}, {"oci-archive:", Source::kArchive}, {"docker-archive:", Source::kArchive}};
  for (const auto& [scheme, source] : kSchemes)
    if (text.starts_with(scheme) && text.substr(scheme.size()).starts_with('/')) {
      image.source = source;
      image.transport = text;
      image.path = text.substr(scheme.size());
      image.path.resize(std::min(image.path.size(), image.path.find(':')));
      return image;
    }
  for (const std::string_view scheme : {"dockerd://", "podman://", "docker-daemon:", "containers-storage:", "http"})
    if (text.starts_with(scheme) && text.find("://") != text.npos)
      return bad_image(text, "images are taken from a registry (docker://), a file or an OCI layout (oci:DIR:TAG)");
  return parse_registry_image(text, text.starts_with("docker://") ? text.substr(9) : text);
}

bool is_loopback_registry(std::string_view registry) {
  const std::string_view host = registry.substr(0, registry.find(':'));
  return host == "localhost" || (host.starts_with("127.") && only_of(host, "0123456789."));
}

}  // namespace lockstep
