#include "frontends/slurm/client/query_call.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>

#include "base/nearest.h"
#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/say.h"

namespace lockstep {

Result<std::string> Query::get(std::string_view path, const std::map<std::string, std::string>& parameters,
                               std::optional<Duration> timeout) {
  std::string target(path);
  char separator = '?';
  for (const auto& [name, value] : parameters) {
    if (value.empty())
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

Rows::Rows(std::string body, std::size_t columns) : body_(std::move(body)), columns_(columns) {
  cells_.reserve((static_cast<std::size_t>(std::count(body_.begin(), body_.end(), '\n')) + 1) * columns_);
  // Escapes only shrink a cell, so it can be unescaped where it lies.
  char* at = body_.data();
  char* const end = at + body_.size();
  while (at < end) {
    std::size_t found = 0;
    for (bool line_ended = false; !line_ended;) {
      char* const start = at;
      while (at < end && *at != '\t' && *at != '\n' && *at != '\\') ++at;
      char* out = at;
      while (at < end && *at != '\t' && *at != '\n') {
        if (*at == '\\' && at + 1 < end) {
          ++at;
          *out++ = *at == 't' ? '\t' : *at == 'n' ? '\n' : *at;
          ++at;
        } else {
          *out++ = *at++;
        }
      }
      line_ended = at >= end || *at == '\n';
      if (at < end)
        ++at;
      if (found++ < columns_)
        cells_.push_back({static_cast<std::uint32_t>(start - body_.data()), static_cast<std::uint32_t>(out - start)});
    }
    for (; found < columns_; ++found) cells_.emplace_back();  // a short line is filled up, never read past
  }
}

void tell_what_was_meant(char** argv, const ::option* longs) {
  const std::string_view word = argv[std::max(1, optind - 1)];
  if (optopt != 0 || !word.starts_with("--"))
    return;
  std::vector<std::string_view> names;
  for (; longs->name; ++longs) names.emplace_back(longs->name);
  const auto meant = nearest(word.substr(2, word.find('=') - 2), names);
  if (!meant.empty() && !meant.starts_with(word.substr(2)))
    fprintf(stderr, "Did you mean --%s?\n", std::string(meant).c_str());
}

ParsedOptions parse_options(int argc, char** argv, const char* letters, const std::vector<LongOption>& longs,
                            const std::function<void(int, const char*)>& f) {
  ParsedOptions parsed;
  std::vector<option> table;
  for (const LongOption& one : longs) table.push_back({one.name, one.argument, nullptr, one.code});
  table.push_back({nullptr, 0, nullptr, 0});
  optind = 0;  // begin anew: several commands may run in one process (tests)
  for (int code; (code = getopt_long(argc, argv, letters, table.data(), nullptr)) != -1;) {
    if (code == '?') {
      tell_what_was_meant(argv, table.data());
      const std::string_view name(argv[0]);
      const auto slash = name.rfind('/');
      fprintf(stderr, "Try \"%s --help\" for more information\n",
              std::string(slash == std::string_view::npos ? name : name.substr(slash + 1)).c_str());
      return parsed;
    }
    f(code, optarg);
  }
  for (int i = optind; i < argc; ++i) parsed.words.emplace_back(argv[i]);
  parsed.ok = true;
  return parsed;
}

std::string variable_or(const char* name, std::string_view otherwise) {
  const char* const value = getenv(name);
  return value ? std::string(value) : std::string(otherwise);
}

int print_version() {
  say("slurm 24.11.5 (lockstep " LOCKSTEP_VERSION ")\n");
  return 0;
}

}  // namespace lockstep
