#include "frontends/kube/server/pod_files.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>

#include "base/text.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/kinds/pod_containers.h"
#include "frontends/kube/kinds/pod_env.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/account_tokens.h"
#include "frontends/kube/server/service_variables.h"
#include "frontends/kube/store/stored_object.h"
#include "model/bounds.h"
#include "model/job.h"
#include "wire/front_end_files.h"

namespace lockstep::kube {

namespace {

constexpr const char* kMaps = "configmaps";
constexpr const char* kSecrets = "secrets";
constexpr const char* kConfigError = "CreateContainerConfigError";
constexpr const char* kCreating = "ContainerCreating";
// Of one pod: what its node is sent with each answer, and what is read for it.
constexpr std::size_t kFileBytesMax = 16 << 20, kReadBytesMax = 64 << 20;
constexpr std::int64_t kReadable = 0644, kOwnersOnly = 0600, kTokenLife = 3600;
// As the node takes them (wire/front_end_files.h).
constexpr std::size_t kLoginsMax = 64, kLoginUserMax = 4 << 10, kLoginPasswordMax = 64 << 10;

// The values of a ConfigMap or a Secret, as base64.
using Values = std::map<std::string, std::string, std::less<>>;

class PodFiles {
 public:
  PodFiles(const Tables& tables, const Object& pod, const PodFilesTools& tools, Instant now)
      : tables_(tables),
        pod_(pod),
        tools_(tools),
        now_s_((now + (tables.cluster ? tables.cluster->wall_offset : Duration{})).us / 1'000'000),
        tree_(pod_as_shown(tables, pod)),
        records_(records_of_pod(tables, pod)) {
    if (records_.node)
      node_ = {.cores = std::int64_t{records_.node->cores},
               .memory_bytes = records_.node->memory_mb << 20,
               .disk_bytes = records_.node->tmp_disk_mb << 20};
  }

  json::object all() && {
    for (const json::value& volume : list_in(spec_of(tree_), "volumes")) add_volume(volume);
    for (const char* list : {"initContainers", "containers", "ephemeralContainers"})
      for (const json::value& container : containers_in(tree_, list)) {
        add_variables(container);
        check_user(container);
        check_image(container);
      }
    if (const json::value& shared = part(spec_of(tree_), "hostUsers"); shared.is_bool() && !shared.get_bool())
      wait("", kCreating, "hostUsers: false: nodes here have no user namespaces for pods");
    check_runtime();
    json::object out{
        {"volumes", std::move(volumes_)}, {"variables", std::move(variables_)}, {"waits", std::move(waits_)}};
    json::value changed = json::parse(encode_front_end_files(changes()));
    for (auto& [name, value] : changed.as_object())
      if (!out.contains(name))
        out[name] = std::move(value);
    return out;
  }

 private:
  const std::string& ns() const { return pod_.meta.ns; }

  void wait(std::string_view container, std::string_view reason, std::string_view message) {
    waits_.push_back({{"container", container}, {"reason", reason}, {"message", message}});
  }

  // Read once for the whole pod. Null: there is no such object, or the pod names more than it may.
  const Values* values_of(const char* type, const std::string& name) const {
    const auto [known, is_new] = read_.try_emplace({type, name});
    if (is_new)
      known->second = read_values(type, name);
    return known->second ? &*known->second : nullptr;
  }
  std::optional<Values> read_values(const char* type, const std::string& name) const {
    const auto at = tables_.objects.find({type, ns(), name});
    if (at == tables_.objects.end() || (read_bytes_ += at->second->body.size()) > kReadBytesMax)
      return std::nullopt;
    const json::value body = parse_own(at->second->body.get());
    Values out;
    if (const json::object* data = member_object(body, "data"))
      for (const auto& [key, value] : *data)
        out[std::string(key)] = type == kSecrets ? std::string(text_of(value)) : base64_text(text_of(value));
    if (const json::object* data = member_object(body, "binaryData"); data && type == kMaps)
      for (const auto& [key, value] : *data) out[std::string(key)] = text_of(value);
    return out;
  }

  // --- what runs it ---

  // Nodes have runc, which shows a container the GPUs of its pod as well. What asks for another asks to be kept apart
  // by it. Source: kubernetes.io/docs/concepts/containers/runtime-class.
  void check_runtime() {
    constexpr const char* kHandlers[] = {"runc", "nvidia"};
    const std::string name = text_in(spec_of(tree_), "runtimeClassName");
    if (name.empty())
      return;
    const auto at = tables_.objects.find({"runtimeclasses.node.k8s.io", "", name});
    if (at == tables_.objects.end())
      return wait("", kCreating, format("Failed to create pod sandbox: RuntimeClass \"{}\" not found", name));
    const std::string handler = text_in(parse_own(at->second->body.get()), "handler");
    if (std::ranges::find(kHandlers, handler) == std::end(kHandlers))
      wait("", kCreating,
           format("Failed to create pod sandbox: no runtime for \"{}\" is configured: nodes have {}", handler,
                  join(std::vector<std::string>(std::begin(kHandlers), std::end(kHandlers)), " and ")));
  }

  // --- images ---

  void check_image(const json::value& container) {
    const std::string image = text_in(container, "image");
    const std::size_t at = image.find('@');
    if (image.find('#') != image.npos || (at != image.npos && image.compare(at, 8, "@sha256:") != 0) ||
        image.find("//") != image.npos)
      wait(text_in(container, "name"), "InvalidImageName",
           format(
               "Failed to apply default image tag \"{0}\": couldn't parse image name \"{0}\": invalid reference format",
               image));
  }

  // Source: kubernetes.io/docs/concepts/containers/images ("Using a private registry").
  std::vector<FrontEndFiles::Login> logins() const {
    std::vector<FrontEndFiles::Login> out;
    for (const json::value& one : list_in(spec_of(tree_), "imagePullSecrets")) {
      const Values* const values = values_of(kSecrets, text_in(one, "name"));
      if (!values)
        continue;
      for (const char* key : {".dockerconfigjson", ".dockercfg"})
        if (const auto text = values->find(key); text != values->end())
          add_logins(out, bytes_of_base64(text->second).value_or(""));
    }
    // The longer a name, the closer it is.
    std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.images.size() > b.images.size(); });
    out.resize(std::min(out.size(), kLoginsMax));
    return out;
  }

  static void add_logins(std::vector<FrontEndFiles::Login>& out, const std::string& text) {
    boost::system::error_code failed;
    const json::value whole = json::parse(text, failed);
    if (failed || !whole.is_object())
      return;
    const json::value& auths = part(whole, "auths").is_object() ? part(whole, "auths") : whole;
    for (const auto& [images, login] : auths.get_object()) {
      FrontEndFiles::Login one{std::string(images), text_in(login, "username"), text_in(login, "password")};
      if (const auto both = bytes_of_base64(text_in(login, "auth")); both && both->find(':') != both->npos) {
        one.user = both->substr(0, both->find(':'));
        one.password = both->substr(both->find(':') + 1);
        while (one.password.ends_with('\0')) one.password.pop_back();
      }
      if (one.images.size() <= kNameBytesMax && one.user.size() <= kLoginUserMax &&
          one.password.size() <= kLoginPasswordMax && !(one.user.empty() && one.password.empty()))
        out.push_back(std::move(one));
    }
  }

  // --- what is otherwise than when its job was made ---

  FrontEndFiles changes() const {
    FrontEndFiles out;
    out.logins = logins();
    out.added = added_containers_of(tree_);
    constexpr std::size_t kFileNameMax = 255;
    if (std::string folder = format("{}_{}_{}", ns(), pod_.meta.name, uid_text(pod_.meta.uid));
        folder.size() <= kFileNameMax)
      out.log_folder = std::move(folder);
    if (!records_.job)
      return out;
    const GroupSpec& group = records_.job->spec->groups.front();
    const PodSize size = size_of_pod(tree_);
    out.memory_mb = std::max<std::int64_t>(0, group.per_task.memory_mb);
    // What its job has not been granted yet its containers do not get either.
    const bool granted = size == size_of(group.per_task);
    for (const SandboxContainer& one : containers_of_pod(tree_)) {
      const auto made = std::ranges::find(group.sandbox.containers, one.name, &SandboxContainer::name);
      if (made != group.sandbox.containers.end() && granted)
        out.changes.push_back({one.name, one.container.image, one.milli_cores, one.cpu_weight, one.memory_bytes});
    }
    return out;
  }

  // --- volumes ---

  struct Part {
    const json::value& source;
    std::string name;  // of the ConfigMap or the Secret
    std::string volume;
    std::int64_t mode = kReadable;
  };

  using Files = std::map<std::string, json::object, std::less<>>;  // by path

  // Of several sources that give the same path the last one counts.
  void put_file(Files& files, std::string path, std::int64_t mode, std::string data,
                std::optional<std::int64_t> uid = {}) {
    file_bytes_ += path.size() + data.size();
    if (file_bytes_ > kFileBytesMax)
      return;
    json::object file{{"path", path}, {"mode", mode}, {"data", std::move(data)}};
    if (uid)
      file["uid"] = *uid;
    files[std::move(path)] = std::move(file);
  }

  void not_mounted(const std::string& volume, const std::string& why) {
    wait("", kCreating, format("MountVolume.SetUp failed for volume \"{}\" : {}", volume, why));
  }

  void add_values(Files& files, const Part& part_of, const char* type) {
    const bool optional = flag_in(part_of.source, "optional");
    const Values* const values = values_of(type, part_of.name);
    const char* const word = type == kSecrets ? "secret" : "configmap";
    if (!values && !optional)
      return not_mounted(part_of.volume, format("{} \"{}\" not found", word, part_of.name));
    if (!values)
      return;
    const json::array& items = list_in(part_of.source, "items");
    if (items.empty()) {
      for (const auto& [key, data] : *values) put_file(files, key, part_of.mode, data);
      return;
    }
    for (const json::value& item : items) {
      const std::string key = text_in(item, "key");
      const auto value = values->find(key);
      if (value != values->end())
        put_file(files, text_in(item, "path"), integer_in(item, "mode").value_or(part_of.mode), value->second);
      else if (!optional)
        not_mounted(part_of.volume,
                    format("references non-existent {} key: {}", type == kSecrets ? "secret" : "config", key));
    }
  }

  void add_fields(Files& files, const json::value& source, std::int64_t mode) {
    for (const json::value& item : list_in(source, "items")) {
      std::optional<std::string> text;
      if (const json::value& field = part(item, "fieldRef"); field.is_object()) {
        text = field_of_pod(tree_, text_in(field, "fieldPath"));
      } else if (const json::value& resource = part(item, "resourceFieldRef"); resource.is_object()) {
        const json::value* container = container_named(tree_, text_in(resource, "containerName"));
        text = resource_of_container(container ? *container : json::value(), resource, node_);
      }
      put_file(files, text_in(item, "path"), integer_in(item, "mode").value_or(mode), base64_text(text.value_or("")));
    }
  }

  // The user that all containers run as, where they agree: only it is to read the token.
  std::optional<std::int64_t> common_user() const {
    const auto all = integer_in(part(spec_of(tree_), "securityContext"), "runAsUser");
    std::optional<std::int64_t> out;
    for (const char* list : {"initContainers", "containers"})
      for (const json::value& one : containers_in(tree_, list)) {
        const auto own = integer_in(part(one, "securityContext"), "runAsUser");
        const auto user = own ? own : all;
        if (!user || (out && *out != *user))
          return std::nullopt;
        out = user;
      }
    return out;
  }

  void add_token(Files& files, const json::value& source, const std::string& volume, std::int64_t mode) {
    const std::string account = text_in(spec_of(tree_), "serviceAccountName");
    const auto at = tables_.objects.find({"serviceaccounts", ns(), account});
    if (at == tables_.objects.end())
      return not_mounted(volume, format("serviceaccount \"{}\" not found", account));
    const std::int64_t life = std::max<std::int64_t>(600, integer_in(source, "expirationSeconds").value_or(kTokenLife));
    // Whoever asks within the same part of its life is given the same token.
    const std::int64_t step = life * 4 / 5, issued = now_s_ - now_s_ % step;
    std::string audience = text_in(source, "audience");
    if (audience.empty())
      audience = kIssuer;
    json::object ours{{"namespace", ns()},
                      {"pod", {{"name", pod_.meta.name}, {"uid", uid_text(pod_.meta.uid)}}},
                      {"serviceaccount", {{"name", account}, {"uid", uid_text(at->second->meta.uid)}}}};
    if (records_.node)
      if (const auto node = tables_.objects.find({"nodes", "", records_.node->meta.name});
          node != tables_.objects.end())
        ours["node"] = {{"name", records_.node->meta.name}, {"uid", uid_text(node->second->meta.uid)}};
    const json::object claims{{"aud", json::array{json::string_view(audience)}},
                              {"exp", issued + life},
                              {"iat", issued},
                              {"iss", kIssuer},
                              {"jti", token_id(volume + audience, issued)},
                              {"kubernetes.io", std::move(ours)},
                              {"nbf", issued},
                              {"sub", format("{}{}:{}", kAccountUser, ns(), account)}};
    const auto user = common_user();
    const bool of_group = integer_in(part(spec_of(tree_), "securityContext"), "fsGroup").has_value();
    put_file(files, text_in(source, "path"), user || of_group ? kOwnersOnly : mode,
             base64_text(tools_.sign(json::serialize(claims))), user);
  }

  std::string token_id(const std::string& what, std::int64_t issued) const {
    const std::string hash = tools_.sha256_hex(format("{}/{}/{}", pod_.meta.uid.value, what, issued));
    return format("{}-{}-4{}-8{}-{}", hash.substr(0, 8), hash.substr(8, 4), hash.substr(12, 3), hash.substr(15, 3),
                  hash.substr(18, 12));
  }

  void add_source(Files& files, const json::value& source, const std::string& volume, std::int64_t mode) {
    if (const json::value& map = part(source, "configMap"); map.is_object())
      add_values(files, {map, text_in(map, "name"), volume, mode}, kMaps);
    if (const json::value& secret = part(source, "secret"); secret.is_object())
      add_values(files, {secret, text_in(secret, "name"), volume, mode}, kSecrets);
    if (const json::value& fields = part(source, "downwardAPI"); fields.is_object())
      add_fields(files, fields, mode);
    if (const json::value& token = part(source, "serviceAccountToken"); token.is_object())
      add_token(files, token, volume, mode);
    if (const json::value& bundle = part(source, "clusterTrustBundle");
        bundle.is_object() && !flag_in(bundle, "optional"))
      not_mounted(volume, "cluster trust bundles are not served");
  }

  void add_volume(const json::value& volume) {
    const std::string name = text_in(volume, "name");
    constexpr const char* kOthers[] = {"emptyDir", "hostPath", "persistentVolumeClaim", "nfs", "image", "ephemeral"};
    Files files;
    const auto mode_of = [](const json::value& source) {
      return integer_in(source, "defaultMode").value_or(kReadable);
    };
    if (const json::value& map = part(volume, "configMap"); map.is_object())
      add_values(files, {map, text_in(map, "name"), name, mode_of(map)}, kMaps);
    else if (const json::value& secret = part(volume, "secret"); secret.is_object())
      add_values(files, {secret, text_in(secret, "secretName"), name, mode_of(secret)}, kSecrets);
    else if (const json::value& fields = part(volume, "downwardAPI"); fields.is_object())
      add_fields(files, fields, mode_of(fields));
    else if (const json::value& projected = part(volume, "projected"); projected.is_object())
      for (const json::value& source : list_in(projected, "sources"))
        add_source(files, source, name, mode_of(projected));
    else if (std::ranges::any_of(kOthers, [&](const char* kind) { return part(volume, kind).is_object(); }))
      return;
    else
      return not_mounted(name,
                         "volumes of this kind are not there: emptyDir, hostPath, nfs, image, configMap, secret, "
                         "downwardAPI, projected, and claims of local and NFS volumes are");
    if (file_bytes_ > kFileBytesMax)
      return not_mounted(name, format("the files of the pod's volumes take more than {} MiB", kFileBytesMax >> 20));
    json::array listed;
    for (auto& [path, file] : files) listed.push_back(std::move(file));
    volumes_.push_back({{"name", name}, {"files", std::move(listed)}});
  }

  // --- variables ---

  // Nothing: there is none, and it may be so, or the container waits for it.
  std::optional<std::string> value_from(const json::value& container, const json::value& source) {
    if (const json::value& field = part(source, "fieldRef"); field.is_object())
      return field_of_pod(tree_, text_in(field, "fieldPath"));
    if (const json::value& resource = part(source, "resourceFieldRef"); resource.is_object()) {
      const std::string other = text_in(resource, "containerName");
      const json::value* of = other.empty() ? &container : container_named(tree_, other);
      return of ? resource_of_container(*of, resource, node_) : std::nullopt;
    }
    const bool secret = part(source, "secretKeyRef").is_object();
    const json::value& reference = part(source, secret ? "secretKeyRef" : "configMapKeyRef");
    if (!reference.is_object())
      return std::nullopt;
    const std::string name = text_in(reference, "name"), key = text_in(reference, "key");
    const Values* const values = values_of(secret ? kSecrets : kMaps, name);
    const auto value = values ? values->find(key) : Values::const_iterator();
    if (values && value != values->end())
      return bytes_of_base64(value->second);
    if (!flag_in(reference, "optional")) {
      const std::string who = text_in(container, "name");
      if (!values)
        wait(who, kConfigError, format("{} \"{}\" not found", secret ? "secret" : "configmap", name));
      else
        wait(who, kConfigError,
             format("couldn't find key {} in {} {}/{}", key, secret ? "Secret" : "ConfigMap", ns(), name));
    }
    return std::nullopt;
  }

  void add_all_of(Variables& known, const json::value& container, const json::value& from) {
    const bool secret = part(from, "secretRef").is_object();
    const json::value& reference = part(from, secret ? "secretRef" : "configMapRef");
    if (!reference.is_object())
      return;
    const Values* const values = values_of(secret ? kSecrets : kMaps, text_in(reference, "name"));
    if (!values && !flag_in(reference, "optional"))
      wait(text_in(container, "name"), kConfigError,
           format("{} \"{}\" not found", secret ? "secret" : "configmap", text_in(reference, "name")));
    if (!values)
      return;
    for (const auto& [key, value] : *values)
      if (key.find('=') == key.npos)
        known[text_in(from, "prefix") + key] = bytes_of_base64(value).value_or("");
  }

  void add_variables(const json::value& container) {
    const std::string who = text_in(container, "name");
    if (has_service_links() && tools_.services.are_too_long(ns()))
      return wait(
          who, kConfigError,
          format("the variables of the Services of namespace {} take more than {} KiB: enableServiceLinks: false "
                 "does without them",
                 ns(), ServiceVariables::kOfSpaceMax >> 10));
    Variables own;
    for (const json::value& from : list_in(container, "envFrom")) add_all_of(own, container, from);
    Variables known = services();
    for (const auto& [name, value] : own) known[name] = value;
    bool fits = true;
    for (const json::value& one : list_in(container, "env")) {
      const json::value& source = part(one, "valueFrom");
      auto value = source.is_null() ? expanded(text_in(one, "value"), known) : value_from(container, source);
      fits = fits && (value || !source.is_null());
      if (!value)
        continue;
      known[text_in(one, "name")] = *value;
      own[text_in(one, "name")] = std::move(*value);
    }
    check_paths(container, own);
    std::size_t bytes = 0;
    for (const auto& [name, value] : known) bytes += name.size() + value.size();
    if (!fits || bytes > kVariablesOfPodMax)
      return wait(who, kConfigError,
                  format("its variables are too long: at most {} KiB each and {} KiB together", kVariableBytesMax >> 10,
                         kVariablesOfPodMax >> 10));
    for (const auto& [name, value] : known)
      variables_.push_back({{"container", who}, {"name", name}, {"value", value}});
  }

  const Variables& services() {
    if (!services_)
      services_ =
          tools_.services.of(ns(), has_service_links(), flag_in(spec_of(tree_), "hostNetwork") ? tools_.address : "");
    return *services_;
  }
  bool has_service_links() const {
    const json::value& links = part(spec_of(tree_), "enableServiceLinks");
    return !links.is_bool() || links.get_bool();
  }

  // Part of a volume, by the values of variables.
  void check_paths(const json::value& container, const Variables& known) {
    for (const json::value& mount : list_in(container, "volumeMounts")) {
      const std::string pattern = text_in(mount, "subPathExpr");
      if (pattern.empty())
        continue;
      const std::string path = expanded(pattern, known).value_or("..");
      const auto names = split(path, '/');
      if (path.starts_with('/') || std::ranges::find(names, "..") != names.end())
        wait(
            text_in(container, "name"), kConfigError,
            format("subPathExpr of volume {} is \"{}\": it must stay within the volume", text_in(mount, "name"), path));
    }
  }

  // Where the pod names the user; what an image says is the node's to see.
  void check_user(const json::value& container) {
    const json::value &own = part(container, "securityContext"), &all = part(spec_of(tree_), "securityContext");
    const json::value& demand =
        part(own, "runAsNonRoot").is_bool() ? part(own, "runAsNonRoot") : part(all, "runAsNonRoot");
    const auto user = integer_in(own, "runAsUser") ? integer_in(own, "runAsUser") : integer_in(all, "runAsUser");
    if (demand.is_bool() && demand.get_bool() && user && *user == 0)
      wait(text_in(container, "name"), kConfigError,
           format("container's runAsUser breaks non-root policy (pod: \"{}_{}({})\", container: {})", pod_.meta.name,
                  ns(), uid_text(pod_.meta.uid), text_in(container, "name")));
  }

  const Tables& tables_;
  const Object& pod_;
  const PodFilesTools& tools_;
  const std::int64_t now_s_;
  const json::object tree_;
  const PodRecords records_;
  NodeAmounts node_;
  std::optional<Variables> services_;
  mutable std::map<std::pair<std::string, std::string>, std::optional<Values>> read_;  // by type and name
  mutable std::size_t read_bytes_ = 0;
  std::size_t file_bytes_ = 0;
  json::array volumes_, variables_, waits_;
};

}  // namespace

json::object files_of_pod(const Tables& tables, const Object& pod, const PodFilesTools& tools, Instant now) {
  return PodFiles(tables, pod, tools, now).all();
}

}  // namespace lockstep::kube
