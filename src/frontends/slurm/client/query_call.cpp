#include "frontends/slurm/client/query_call.h"

#include <stdlib.h>

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/api.h"

namespace lockstep::slurm {

namespace {

// These filters let nothing through when they are given, and empty. Other parameters are not given then.
bool tells_when_empty(std::string_view name) { return name == "states" || name == "partition"; }

}  // namespace

Result<std::string> Query::get(std::string_view path, const std::map<std::string, std::string>& parameters,
                               std::optional<Duration> timeout) {
  std::string target(path);
  char separator = '?';
  for (const auto& [name, value] : parameters) {
    if (value.empty() && !tells_when_empty(name))
      continue;
    target += format("{}{}={}", separator, name, url_escaped(value));
    separator = '&';
  }
  return send("GET", target, {}, timeout);
}

Result<std::string> Query::send(std::string_view method, std::string_view target, std::string_view body,
                                std::optional<Duration> timeout) {
  return body_of(TRY(line_.call(method, target, body, timeout)));
}

Result<std::string> Query::set(std::string_view method, std::string_view target, std::string_view body) {
  return body_of(TRY(line_.call(method, target, body, {}, true)));
}

Result<std::string> Query::body_of(ApiClient::Reply reply) {
  if (reply.status < 400)
    return std::move(reply.body);
  if (reply.body.starts_with('{'))
    return decode_error(reply.body, reply.status);
  return Error{reply.status == 404   ? Errc::kNotFound
               : reply.status == 403 ? Errc::kDenied
                                     : Errc::kInvalid,
               reply.body,
               {}};
}

namespace {

// A cell between tabs, unescaped where it lies, since escapes only shrink it. `at` moves to what ends it.
std::string_view take_cell(char*& at, const char* end) {
  const auto is_end = [&] { return at >= end || *at == '\t' || *at == '\n'; };
  char* const start = at;
  while (!is_end() && *at != '\\') ++at;
  char* out = at;
  for (; !is_end(); ++at) {
    if (*at != '\\' || at + 1 == end) {
      *out++ = *at;
      continue;
    }
    ++at;
    *out++ = *at == 't' ? '\t' : *at == 'n' ? '\n' : *at;
  }
  return {start, static_cast<std::size_t>(out - start)};
}

}  // namespace

Rows::Rows(std::string body, std::size_t columns) : body_(std::move(body)), columns_(columns) {
  cells_.reserve((static_cast<std::size_t>(std::count(body_.begin(), body_.end(), '\n')) + 1) * columns_);
  char* at = body_.data();
  const char* const end = at + body_.size();
  while (at < end) {
    std::size_t found = 0;
    for (bool line_ended = false; !line_ended; ++found) {
      const std::string_view cell = take_cell(at, end);
      if (found < columns_)
        cells_.push_back(
            {static_cast<std::uint32_t>(cell.data() - body_.data()), static_cast<std::uint32_t>(cell.size())});
      line_ended = at >= end || *at == '\n';
      at += at < end;
    }
    for (; found < columns_; ++found) cells_.emplace_back();  // a short line is filled up, never read past
  }
}

Result<std::string> check_clusters(const ClientContext& context, const std::string& names) {
  if (names.empty())
    return std::string();
  Api api(context);
  return check_cluster_name(api, names);
}

std::string variable_or(const char* name, std::string_view otherwise) {
  const char* const value = getenv(name);
  return value ? std::string(value) : std::string(otherwise);
}

}  // namespace lockstep::slurm
