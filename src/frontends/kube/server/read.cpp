#include "frontends/kube/server/read.h"

#include <boost/json/serialize.hpp>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/server/selection.h"
#include "frontends/kube/server/shown.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kItemsOfPiece = 50;
constexpr std::size_t kEventBytes = 64 << 10;  // written by one look at a watch
constexpr Duration kPageLife = minutes(5);     // how long a list may be gone on with
constexpr Duration kWatchLife = minutes(40);   // of a watch that names no end
constexpr Duration kBookmarkEvery = seconds(60);
constexpr std::size_t kEverything = SIZE_MAX;

// Where a list goes on: "VERSION.SECONDS.NAMESPACE/NAME", where VERSION 0 is "as it is then".
struct Continue {
  Seq at = 0;
  std::int64_t since_s = 0;
  ObjectKey after;
};

std::string text_of(const Continue& next) {
  return format("{}.{}.{}/{}", next.at, next.since_s, std::get<1>(next.after), std::get<2>(next.after));
}

std::optional<Continue> continue_of(const std::string& text, std::string_view type) {
  const auto dot = text.find('.'), second = text.find('.', dot + 1), slash = text.find('/', second + 1);
  if (dot == text.npos || second == text.npos || slash == text.npos)
    return std::nullopt;
  const auto at = parse_uint(text.substr(0, dot));
  const auto since = parse_int(text.substr(dot + 1, second - dot - 1));
  if (!at || !since)
    return std::nullopt;
  return Continue{
      *at, *since, {std::string(type), text.substr(second + 1, slash - second - 1), text.substr(slash + 1)}};
}

Status bad_continue() { return Status::bad_request("continue key is not valid"); }

void answer_expired(const Request& request, Continue next) {
  next.at = 0;
  json::object body =
      Status::expired(
          "The provided continue parameter is too old to display a consistent list result. You can start "
          "a new list without the continue parameter, or use the continue token in this response to "
          "retrieve the remainder of the results. Continuing with the provided token results in an "
          "inconsistent list - objects that were created, modified, or deleted between the time the "
          "first chunk was returned and now may show up in the list.")
          .body();
  body["metadata"].as_object()["continue"] = text_of(next);
  answer_tree(request, body, 410);
}

Status too_new(Seq asked, Seq now) {
  Status status = Status::timeout(format("Too large resource version: {}, current: {}", asked, now), 1);
  status.causes.push_back({"ResourceVersionTooLarge", "Too large resource version", ""});
  return status;
}

Status too_old(Seq asked) { return Status::expired(format("too old resource version: {}", asked)); }

Answered<Seq> version_asked(const Request& request) {
  const std::string text = query_of(request.http(), "resourceVersion");
  if (text.empty())
    return Seq{0};
  const auto number = parse_uint(text);
  if (!number)
    return Status::bad_request(format("Invalid value: \"{}\": resourceVersion is no version of ours", text));
  return *number;
}

void write_protobuf(const Asked& request, Seq at, const std::string& next, std::size_t left,
                    std::vector<Ref<Object>> objects) {
  PageReply reply{200, std::string(kProtobufType), "", {}};
  reply.more = [request, list = ProtobufList(*request, at, next, left), objects = std::move(objects),
                done = std::size_t{0}](std::string& out) mutable {
    for (std::size_t i = 0; i < kItemsOfPiece && done < objects.size(); ++i, ++done) {
      list.add(*objects[done]);
      objects[done] = nullptr;
    }
    if (done < objects.size())
      return true;
    out += std::move(list).end();
    return false;
  };
  request->visit->write(std::move(reply));
}

}  // namespace

void get_object(const Asked& request) {
  const auto object = find_object(*request);
  if (!object)
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  answer_shown(*request, *object);
}

void list_objects(const Asked& request, const ObjectHistory& history) {
  const auto selection = selection_of(*request);
  if (!selection.ok())
    return answer_status(*request, selection.error());
  const auto read = request->visit->read();
  const auto asked = version_asked(*request);
  if (!asked.ok())
    return answer_status(*request, asked.error());
  Seq at = read->tables.seq - mutant(Mutant::kListOlderThanTold);
  if (*asked > at)
    return answer_status(*request, too_new(*asked, at));
  const std::string match = query_of(request->http(), "resourceVersionMatch");
  if (match == "Exact" && *asked > 0)
    at = *asked;
  const std::int64_t now_s = read->now.us / 1'000'000;
  std::optional<Continue> from;
  if (const std::string text = query_of(request->http(), "continue"); !text.empty()) {
    from = continue_of(text, request->kind->type);
    if (!from || from->at > at)
      return answer_status(*request, bad_continue());
    if (from->at > 0 && now_s - from->since_s > kPageLife.us / 1'000'000)
      return answer_expired(*request, *from);
    if (from->at > 0 && !mutant(Mutant::kPageOfNow))
      at = from->at;
  }
  std::size_t most = parse_uint(query_of(request->http(), "limit")).value_or(0);
  if (most == 0)
    most = kEverything;
  const auto page = history.page(read->tables, request->kind->type, request->target.ns, at,
                                 from ? &from->after : nullptr, most, selection->keeps, selection->all);
  if (!page && from)
    return answer_expired(*request, *from);
  if (!page)
    return answer_status(*request, too_old(at));
  const std::string next =
      page->last ? text_of({at, from && from->at > 0 ? from->since_s : now_s, *page->last}) : std::string();
  const std::size_t left = selection->all ? page->left : 0;
  if (request->accepted.protobuf)
    return write_protobuf(request, at, next, left, std::move(page->objects));
  PageReply reply{200, "application/json", list_head(*request, at, next, left), {}};
  reply.more = [request, objects = std::move(page->objects), done = std::size_t{0}](std::string& out) mutable {
    for (std::size_t i = 0; i < kItemsOfPiece && done < objects.size(); ++i, ++done) {
      if (done > 0)
        out += ',';
      append_item(out, *request, *objects[done]);
      objects[done] = nullptr;
    }
    if (done < objects.size())
      return true;
    out += list_end();
    return false;
  };
  request->visit->write(std::move(reply));
}

// --- watches ---

namespace {

class Watch {
 public:
  Watch(Asked request, Selection selection, std::shared_ptr<const ObjectHistory> history, Seq at)
      : request_(std::move(request)), selection_(std::move(selection)), history_(std::move(history)), at_(at) {}

  // What is there is told first; with `end` a bookmark says that this was all.
  void tell_first(std::vector<Ref<Object>> objects, bool end) {
    first_ = std::move(objects);
    ends_ = end;
  }

  Pulled pull(std::string& out) {
    const std::size_t begin = out.size();
    while (told_ < first_.size()) {
      if (out.size() - begin > kEventBytes)
        return Pulled::kMore;
      event(out, "ADDED", *first_[told_]);
      first_[told_++] = nullptr;
    }
    const auto read = request_->visit->read();
    if (std::exchange(ends_, false))
      bookmark(out, true);
    const auto since = history_->since(request_->kind->type, at_);
    if (!since) {
      other_event(out, "ERROR", too_old(at_).body());
      return Pulled::kEnd;
    }
    const bool leave_out = mutant(Mutant::kWatchEventLost) && since->entries->size() - since->from > 1;
    for (std::size_t i = since->from + leave_out; i < since->entries->size(); ++i) {
      if (out.size() - begin > kEventBytes)
        return Pulled::kMore;
      tell(out, (*since->entries)[i]);
      at_ = (*since->entries)[i].seq;
    }
    if (!mutant(Mutant::kWatchEventTwice) || out.size() == begin)
      at_ = std::max(at_, read->tables.seq);
    else
      --at_;
    if (out.size() > begin)
      quiet_since_ = read->now;
    else if (wants_bookmarks() && read->now - quiet_since_ > kBookmarkEvery) {
      bookmark(out, false);
      quiet_since_ = read->now;
    }
    return Pulled::kNothing;
  }

 private:
  bool wants_bookmarks() const { return query_flag(request_->http(), "allowWatchBookmarks"); }

  bool keeps(const Ref<Object>& object) const {
    return object && (request_->target.ns.empty() || object->meta.ns == request_->target.ns) &&
           selection_.keeps(*object);
  }

  void tell(std::string& out, const ObjectHistory::Entry& entry) {
    const bool was = keeps(entry.before), is = keeps(entry.after);
    if (is)
      event(out, was ? "MODIFIED" : "ADDED", *entry.after);
    else if (was && !(entry.after && mutant(Mutant::kWatchFarewellLost)))
      event(out, "DELETED", *entry.before, entry.seq);
  }

  // What is no object of the resource: a Status, a bookmark.
  void other_event(std::string& out, std::string_view type, const json::object& tree) {
    if (!request_->accepted.protobuf) {
      out += format(R"({{"type":"{}","object":)", type) + json::serialize(tree) + "}\n";
    } else if (const auto body = encode_protobuf(tree); body.ok()) {
      out += watch_frame(type, *body);
    }
  }

  void event(std::string& out, std::string_view type, const Object& object, Seq seq = 0) {
    if (request_->accepted.protobuf) {
      std::string body;
      append_shown(body, *request_, object, seq);
      out += watch_frame(type, body);
      return;
    }
    out += format(R"({{"type":"{}","object":)", type);
    if (request_->accepted.form == Accepted::Form::kTable) {
      out += list_head(*request_, seq ? seq : object.meta.seq, "", 0);
      append_item(out, *request_, object);
      out += list_end();
    } else {
      append_shown(out, *request_, object, seq);
    }
    out += "}\n";
  }

  void bookmark(std::string& out, bool end_of_first) {
    json::object metadata{{"resourceVersion", std::to_string(at_)}};
    if (end_of_first)
      metadata["annotations"] = {{"k8s.io/initial-events-end", "true"}};
    other_event(
        out, "BOOKMARK",
        {{"kind", request_->kind->kind}, {"apiVersion", request_->api_version}, {"metadata", std::move(metadata)}});
  }

  Asked request_;
  Selection selection_;
  std::shared_ptr<const ObjectHistory> history_;
  Seq at_;
  std::vector<Ref<Object>> first_;
  std::size_t told_ = 0;
  bool ends_ = false;
  Instant quiet_since_;
};

}  // namespace

void watch_objects(const Asked& request, std::shared_ptr<const ObjectHistory> history) {
  auto selection = selection_of(*request);
  if (!selection.ok())
    return answer_status(*request, selection.error());
  const auto asked = version_asked(*request);
  if (!asked.ok())
    return answer_status(*request, asked.error());
  const auto read = request->visit->read();
  const Seq now = read->tables.seq;
  if (*asked > now)
    return answer_status(*request, too_new(*asked, now));
  const std::string initial = lower(query_of(request->http(), "sendInitialEvents"));
  const bool from_the_start = initial == "true" || (initial.empty() && *asked == 0);
  if (initial == "true" && query_of(request->http(), "resourceVersionMatch") != "NotOlderThan")
    return answer_status(
        *request,
        Status::invalid({"meta.k8s.io", "ListOptions"}, "",
                        {{"FieldValueForbidden",
                          "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                          "sendInitialEvents"}}));
  const auto watch =
      std::make_shared<Watch>(request, *selection, history, from_the_start || *asked == 0 ? now : *asked);
  if (!from_the_start && *asked > 0 && !history->since(request->kind->type, *asked))
    return answer_status(*request, too_old(*asked));
  if (from_the_start) {
    auto page = history->page(read->tables, request->kind->type, request->target.ns, now, nullptr, kEverything,
                              selection->keeps, false);
    watch->tell_first(std::move(page->objects), initial == "true");
  }
  const auto limit = parse_uint(query_of(request->http(), "timeoutSeconds"));
  const Duration longest =
      limit && *limit > 0
          ? std::min(kWatchLife, seconds(static_cast<std::int64_t>(std::min<std::uint64_t>(*limit, 86'400))))
          : kWatchLife;
  HttpResponse head{200, std::string(kJsonType), "", {{"Cache-Control", "no-cache, private"}}};
  if (request->accepted.protobuf)
    head.content_type = format("{};stream=watch", kProtobufType);
  request->visit->stream(
      std::move(head), [watch](std::string& out) { return watch->pull(out); }, longest);
}

}  // namespace lockstep::kube
