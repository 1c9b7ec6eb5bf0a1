#include "simulate/kube/informer.h"

#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/json_tree.h"
#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

namespace json = boost::json;
using kube::part;
using kube::text_in;

constexpr int kGone = 410, kMissing = 404;

}  // namespace

Informer::Informer(World& world, SimApi& api, Ledger& ledger, Watched watched, std::uint64_t seed)
    : world_(world), api_(api), ledger_(ledger), watched_(std::move(watched)), dice_(seed) {
  cuts_ = dice_.chance(0.3) ? 0 : dice_.unit() * 0.2;
}

void Informer::start() { list(); }

std::string Informer::path() const {
  if (watched_.ns.empty())
    return watched_.path;
  const std::size_t slash = watched_.path.rfind('/');
  return format("{}/namespaces/{}{}", watched_.path.substr(0, slash), watched_.ns, watched_.path.substr(slash));
}

bool Informer::keeps(const Object& object) const {
  if (!watched_.ns.empty() && object.meta.ns != watched_.ns)
    return false;
  const std::size_t equals = watched_.label.find('=');
  return watched_.label.empty() ||
         kube::label_value(object, watched_.label.substr(0, equals)) == watched_.label.substr(equals + 1);
}

KubeAsk Informer::ask() const {
  KubeAsk out{"GET", path()};
  if (!watched_.label.empty())
    out.query["labelSelector"] = watched_.label;
  return out;
}

void Informer::again(bool from_list) {
  call_ = 0;
  next_.clear();
  world_.timeline.after(millis(dice_.between(1, dice_.chance(0.1) ? 20'000 : 800)),
                        [this, from_list, round = ++round_] {
                          if (round == round_)
                            from_list ? list() : watch();
                        });
}

// --- lists ---

void Informer::list() {
  if (watched_.streams_list) {
    first_ = true;
    copy_.clear();
    at_ = 0;
    return watch();
  }
  KubeAsk one = ask();
  if (watched_.page > 0)
    one.query["limit"] = format("{}", watched_.page);
  if (next_.empty()) {
    copy_.clear();
    floor_ = ledger_.told();
  } else {
    one.query["continue"] = next_;
  }
  api_.call(std::move(one), {[this, floor = floor_](int status, const std::string& body) {
              if (status == 200)
                return listed(body, floor);
              absent_ = status == kMissing;
              if (status != 0 && status != kGone && status != kMissing)
                world_.verdict.fail(format("a list of {} was answered with {}: {}", watched_.type, status, body));
              again(true);
            }});
}

void Informer::listed(const std::string& body, Seq floor) {
  absent_ = false;
  const json::object shown = json::parse(body).as_object();
  const json::value& metadata = part(shown, "metadata");
  const Seq at = version_told(shown);
  if (at < floor)
    return world_.verdict.fail(
        format("a list of {} shows version {}, and a client had been told of {} before it was asked for", watched_.type,
               at, floor));
  for (const json::value& item : part(shown, "items").as_array()) {
    const json::object& object = item.as_object();
    copy_[key_told(watched_.type, object)] = version_told(object);
    ledger_.check_told(watched_.type, object);
  }
  next_ = text_in(metadata, "continue");
  if (!next_.empty())
    return list();
  check_list(at);
  at_ = at;
  ledger_.tell(at);
  watch();
}

void Informer::check_list(Seq at) {
  const auto truth = ledger_.list_at(
      watched_.type, [this](const Object& one) { return keeps(one); }, at);
  if (copy_ == truth)
    return;
  for (const auto& [key, version] : truth)
    if (const auto known = copy_.find(key); known == copy_.end() || known->second != version)
      return world_.verdict.fail(format("a list of {} at {} shows {} in version {}, which was {} then", watched_.type,
                                        at, std::get<2>(key), known == copy_.end() ? 0 : known->second, version));
  for (const auto& [key, version] : copy_)
    if (!truth.contains(key))
      return world_.verdict.fail(
          format("a list of {} at {} shows {}, which was not there", watched_.type, at, std::get<2>(key)));
}

// --- watches ---

void Informer::watch() {
  KubeAsk one = ask();
  one.query["watch"] = "true";
  one.query["allowWatchBookmarks"] = "true";
  one.query["timeoutSeconds"] = format("{}", dice_.between(20, 600));
  if (first_) {
    one.query["sendInitialEvents"] = "true";
    one.query["resourceVersionMatch"] = "NotOlderThan";
    floor_ = ledger_.told();
  } else {
    one.query["resourceVersion"] = format("{}", at_);
  }
  const std::uint64_t round = ++round_;
  call_ = api_.call(std::move(one), {[this, round](int status, const std::string& body) {
                                       if (round != round_ || status == 200)
                                         return;
                                       absent_ = status == kMissing;
                                       if (status != 0 && status != kGone && status != kMissing)
                                         world_.verdict.fail(format("a watch of {} was answered with {}: {}",
                                                                    watched_.type, status, body));
                                       again(status != 0 || first_);
                                     },
                                     [this, round](std::string_view lines) {
                                       if (round == round_)
                                         heard(lines);
                                     },
                                     [this, round] {
                                       if (round == round_)
                                         again(first_);
                                     }});
  if (dice_.chance(cuts_ * 5))
    world_.timeline.after(millis(dice_.between(1, 60'000)), [this, call = call_] { api_.cut(call); });
}

void Informer::heard(std::string_view lines) {
  for (const std::string& line : split(lines, '\n')) {
    if (line.empty())
      continue;
    ++events_;
    event(json::parse(line).as_object());
    if (call_ == 0)
      return;  // it has begun anew
  }
  if (dice_.chance(cuts_ * 0.1))
    api_.cut(call_);
}

const Ledger::Entry* Informer::next_entry() const {
  const auto& entries = ledger_.of(watched_.type);
  auto at = std::ranges::upper_bound(entries, at_, {}, &Ledger::Entry::seq);
  for (; at != entries.end(); ++at)
    if ((at->before && keeps(*at->before)) || (at->after && keeps(*at->after)))
      return &*at;
  return nullptr;
}

void Informer::event(const json::object& event) {
  const std::string what = text_in(event, "type");
  const json::value* told = event.if_contains("object");
  if (!told || !told->is_object())
    return world_.verdict.fail("an event has no object");
  const json::object& object = told->get_object();
  const Seq version = version_told(object);
  if (what == "ERROR")
    return again(true);
  if (what == "BOOKMARK") {
    const json::value& notes = part(part(object, "metadata"), "annotations");
    return bookmark(version, text_in(notes, "k8s.io/initial-events-end") == "true");
  }
  const ObjectKey key = key_told(watched_.type, object);
  if (first_) {
    if (what != "ADDED")
      world_.verdict.fail(format("{} was told before all that is there was", what));
    copy_[key] = version;
    return ledger_.check_told(watched_.type, object);
  }
  const Ledger::Entry* next = next_entry();
  const auto words = [&] {
    return format("a watch of {} that knows everything up to {} was told {} {} in version {}", watched_.type, at_, what,
                  std::get<2>(key), version);
  };
  if (!next)
    return world_.verdict.fail(words() + "; nothing has happened");
  if (version <= at_)
    return world_.verdict.fail(words() + ", once more");
  if (next->seq != version)
    return world_.verdict.fail(
        format("{}; {} in version {} comes first", words(), next->object().meta.name, next->seq));
  const bool was = next->before && keeps(*next->before), is = next->after && keeps(*next->after);
  if (const char* right = !is ? "DELETED" : was ? "MODIFIED" : "ADDED"; what != right)
    return world_.verdict.fail(format("{}; it is {}", words(), right));
  if (is)
    copy_[key] = version;
  else
    copy_.erase(key);
  at_ = version;
  ledger_.tell(version);
  // What leaves the selection is told as it was before, in the version that took it away.
  if (is || !next->after)
    ledger_.check_told(watched_.type, object, !is);
}

void Informer::bookmark(Seq at, bool end_of_first) {
  if (end_of_first) {
    if (at < floor_)
      world_.verdict.fail(format("a streamed list of {} shows version {}, and a client had been told of {} before",
                                 watched_.type, at, floor_));
    check_list(at);
    first_ = false;
    at_ = at;
    ledger_.tell(at);
    return;
  }
  if (first_)
    return world_.verdict.fail("a bookmark came before all that is there was told");
  if (const Ledger::Entry* next = next_entry(); next && next->seq <= at)
    return world_.verdict.fail(format("a bookmark of {} says {}, and {} in version {} was not told", watched_.type, at,
                                      next->object().meta.name, next->seq));
  if (at < at_)
    return world_.verdict.fail(format("a bookmark of {} goes back from {} to {}", watched_.type, at_, at));
  at_ = at;
}

std::string Informer::behind() const {
  if (absent_)
    return {};
  if (const Ledger::Entry* next = next_entry(); next || first_)
    return format("a watch of {} at {} was never told of {}", watched_.type, at_,
                  next ? format("{} in version {}", next->object().meta.name, next->seq) : "the end of its list");
  const auto truth = ledger_.list_at(
      watched_.type, [this](const Object& one) { return keeps(one); }, ledger_.tables().seq);
  return copy_ == truth ? std::string() : format("the copy of {} differs from what is there", watched_.type);
}

}  // namespace lockstep::sim
