#include "cli/cluster_files.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "wire/api.h"
#include "wire/yaml.h"

namespace lockstep {

namespace {

// "line 12: why" -> "cluster.yaml:12: why"; and the same of a place without a why.
std::string with_file(const std::string& path, const std::string& message) {
  constexpr std::string_view kLine = "line ";
  return message.starts_with(kLine) ? format("{}:{}", path, message.substr(kLine.size()))
                                    : format("{}: {}", path, message);
}

template <class T>
void append(std::vector<T>& into, std::vector<T>&& from) {
  into.insert(into.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

Result<void> merge(ClusterFile& into, ClusterFile&& from, const std::string& path) {
  for (auto& [words, place] : from.places) {
    const std::string here = with_file(path, place);
    if (const auto [at, fresh] = into.places.emplace(words, here); !fresh)
      return invalid(format("{}: {} stands in {} already", here, words, at->second));
  }
  append(into.node_classes, std::move(from.node_classes));
  append(into.partitions, std::move(from.partitions));
  append(into.qos, std::move(from.qos));
  append(into.accounts, std::move(from.accounts));
  append(into.associations, std::move(from.associations));
  append(into.licences, std::move(from.licences));
  append(into.reservations, std::move(from.reservations));
  append(into.health_checks, std::move(from.health_checks));
  if (from.policy)
    into.policy = std::move(from.policy);
  if (from.topology)
    into.topology = std::move(from.topology);
  if (from.administrators && into.administrators)
    return invalid(format("{}: administrators stand in another file already", path));
  if (from.administrators)
    into.administrators = std::move(from.administrators);
  into.sections.merge(from.sections);
  into.implied_defaults.merge(from.implied_defaults);
  return {};
}

// What each file implied by itself does not hold where another one names an account of the user too.
void settle_implied_defaults(ClusterFile& all) {
  std::map<std::string, std::set<std::string>> accounts;  // by user
  for (const Association& one : all.associations) accounts[one.user].insert(one.account);
  for (Association& one : all.associations)
    if (accounts[one.user].size() > 1 && all.implied_defaults.erase(one.meta.name) > 0)
      one.is_default = false;
}

Result<std::string> get(ApiClient& client, const std::string& target) {
  const auto reply = TRY(client.call("GET", target, "", seconds(60)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return reply.body;
}

template <class T>
Result<void> read_records(ApiClient& client, const std::string& target, Kind kind, std::vector<T>& out) {
  const std::string body = TRY(get(client, target));
  for (const Record& record : TRY(decode_records(kind, body)))
    if (const auto* one = std::get_if<Ref<T>>(&record))
      out.push_back(**one);
  return {};
}

template <class T>
Result<void> read_single(ApiClient& client, const std::string& target, Kind kind, std::optional<T>& out) {
  const auto body = get(client, target);
  if (!body)
    return body.error().code == Errc::kNotFound ? Result<void>() : body.error();
  const Record record = TRY(decode_record(kind, *body));
  if (const auto* one = std::get_if<Ref<T>>(&record))
    out = **one;
  return {};
}

template <class T>
void sort_by_name(std::vector<T>& records) {
  std::sort(records.begin(), records.end(), [](const T& a, const T& b) { return a.meta.name < b.meta.name; });
}

}  // namespace

Result<std::string> read_cluster_text(FILE* file, const std::string& path) {
  std::string text;
  char chunk[1 << 14];
  while (const std::size_t got = fread(chunk, 1, sizeof chunk, file)) {
    text.append(chunk, got);
    if (text.size() > kYamlBytesMax)
      return invalid(format("{} is larger than {} MiB", path, kYamlBytesMax >> 20));
  }
  if (ferror(file))
    return Error{Errc::kIo, format("cannot read {}: {}", path, strerror(errno)), {}};
  return text;
}

Result<std::string> read_cluster_text(const std::string& path) {
  if (path == "-")
    return read_cluster_text(stdin, "standard input");
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return not_found(format("cannot open {}: {}", path, strerror(errno)));
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode) && !S_ISCHR(info.st_mode))
    return invalid(format("{} is {}", path, S_ISDIR(info.st_mode) ? "a directory, not a file" : "no file"));
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rbe"), &fclose);
  if (!file)
    return Error{Errc::kIo, format("cannot open {}: {}", path, strerror(errno)), {}};
  return read_cluster_text(file.get(), path);
}

Result<ClusterFile> read_cluster_files(const std::vector<std::string>& paths) {
  ClusterFile all;
  for (const std::string& path : paths) {
    const std::string text = TRY(read_cluster_text(path));
    const std::string shown = path == "-" ? "standard input" : path;
    auto one = decode_cluster_file(text);
    if (!one)
      return invalid(with_file(shown, one.error().message), one.error().field);
    TRY(merge(all, std::move(one).value(), shown));
  }
  if (paths.size() > 1) {
    settle_implied_defaults(all);
    TRY(check_cluster_file(all));
  }
  return all;
}

Result<LiveCluster> read_live_cluster(ApiClient& client) {
  LiveCluster live;
  ClusterFile& file = live.file;
  TRY(read_records(client, "/v1/node_classes", Kind::kNodeClass, file.node_classes));
  TRY(read_records(client, "/v1/partitions", Kind::kPartition, file.partitions));
  TRY(read_records(client, "/v1/qos", Kind::kQos, file.qos));
  TRY(read_records(client, "/v1/accounts", Kind::kAccount, file.accounts));
  TRY(read_records(client, "/v1/associations", Kind::kAssociation, file.associations));
  TRY(read_records(client, "/v1/licences", Kind::kLicence, file.licences));
  TRY(read_records(client, "/v1/reservations", Kind::kReservation, file.reservations));
  TRY(read_records(client, "/v1/health_checks", Kind::kHealthCheck, file.health_checks));
  TRY(read_single(client, "/v1/policy", Kind::kPolicy, file.policy));
  TRY(read_single(client, "/v1/topology", Kind::kTopology, file.topology));
  TRY(read_records(client, "/v1/users", Kind::kUser, live.users));
  TRY(read_records(client, "/v1/nodes", Kind::kNode, live.nodes));
  return live;
}

ClusterFile file_of(const LiveCluster& live) {
  ClusterFile out = live.file;
  if (out.policy && out.policy->meta.seq == 0)
    out.policy.reset();  // nobody has set one
  for (Reservation& r : out.reservations)
    if (r.node_count > 0 || r.tres.cpu > 0 || r.tres.gpus > 0)
      r.nodes.clear();
  std::vector<std::string> administrators;
  for (const User& user : live.users)
    if (user.admin)
      administrators.push_back(user.meta.name);
  std::sort(administrators.begin(), administrators.end());
  if (!administrators.empty())
    out.administrators = std::move(administrators);
  sort_by_name(out.node_classes);
  sort_by_name(out.partitions);
  sort_by_name(out.qos);
  sort_by_name(out.accounts);
  sort_by_name(out.associations);
  sort_by_name(out.licences);
  sort_by_name(out.reservations);
  sort_by_name(out.health_checks);
  return out;
}

}  // namespace lockstep
