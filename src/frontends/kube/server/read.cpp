#include "frontends/kube/server/read.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <span>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/server/client_channels.h"
#include "frontends/kube/server/event_messages.h"
#include "frontends/kube/server/list_text.h"
#include "frontends/kube/server/selection.h"
#include "frontends/kube/server/shown.h"
#include "frontends/kube/server/shown_token.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kItemsOfPiece = 50, kLooksOfPull = 200;
constexpr std::size_t kItemsForPeople = 10;    // of a piece that is indented or YAML, which is more work
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

std::string continue_text(const Continue& next) {
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
  body["metadata"].as_object()["continue"] = continue_text(next);
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

ListForm form_of(const Request& request) {
  if (request.accepted.yaml)
    return ListForm::kYaml;
  return request.accepted.pretty || wants_indented(request.http()) ? ListForm::kIndented : ListForm::kPlain;
}

// A list, piece by piece: first which objects are in it, where that takes reading them, then they themselves.
class ListPages {
 public:
  ListPages(Asked request, Selection selection, Continue next, std::size_t most, std::shared_ptr<ShownTexts> texts)
      : request_(std::move(request)),
        selection_(std::move(selection)),
        next_(std::move(next)),
        most_(most),
        texts_(std::move(texts)),
        text_(form_of(*request_)) {}

  bool reads() const { return selection_.by_body != nullptr; }
  void begin(ObjectHistory::Page page) {
    objects_ = std::move(page.objects);
    last_ = std::move(page.last);
    left_ = selection_.all ? page.left : 0;
  }
  // The next piece; false: that was the last one.
  bool write(std::string& out) {
    if (reads() && !is_selected_)
      select();
    else if (!is_begun_)
      begin_list(out);
    else if (written_ < objects_.size())
      write_some(out);
    else
      return end_list(out);
    return true;
  }

 private:
  void select() {
    for (std::size_t i = 0; i < kItemsOfPiece && looked_ < objects_.size(); ++i, ++looked_) {
      if (!selection_.by_body(*objects_[looked_], nullptr))
        continue;
      if (kept_ == most_) {
        const Object& last = *objects_[kept_ - 1];
        last_ = ObjectKey{last.type, last.meta.ns, last.meta.name};
        looked_ = objects_.size();
        break;
      }
      std::swap(objects_[kept_++], objects_[looked_]);
    }
    if (looked_ < objects_.size())
      return;
    objects_.resize(kept_);
    is_selected_ = true;
  }
  void begin_list(std::string& out) {
    is_begun_ = true;
    std::string next;
    if (last_) {
      next_.after = *last_;
      next = continue_text(next_);
    }
    if (request_->accepted.protobuf)
      protobuf_.emplace(*request_, next_.at, next, left_);
    else
      text_.begin(out, list_head(*request_, next_.at, next, left_), list_end());
  }
  void write_some(std::string& out) {
    const std::size_t most = form_of(*request_) == ListForm::kPlain ? kItemsOfPiece : kItemsForPeople;
    for (std::size_t i = 0; i < most && written_ < objects_.size(); ++i, ++written_) {
      const Ref<Object> object = std::move(objects_[written_]);
      if (protobuf_) {
        protobuf_->add(*object);
        continue;
      }
      text_.item(out, [&](std::string& item) {
        const std::size_t from = item.size();
        texts_->append(item, *request_, *object);
        if (!says_kind_)
          drop_kind(item, from, *request_);
      });
    }
  }
  bool end_list(std::string& out) {
    if (protobuf_)
      out += std::move(*protobuf_).end();
    else
      text_.end(out, list_end());
    return false;
  }

  Asked request_;
  Selection selection_;
  Continue next_;
  std::size_t most_;
  const bool says_kind_ = items_say_kind(*request_);
  std::shared_ptr<ShownTexts> texts_;
  std::vector<Ref<Object>> objects_;  // those that may be in it, then those that are
  std::optional<ObjectKey> last_;     // there are more behind this one
  std::optional<ProtobufList> protobuf_;
  ListText text_;
  std::size_t left_ = 0, looked_ = 0, kept_ = 0, written_ = 0;
  bool is_selected_ = false, is_begun_ = false;
};

}  // namespace

void get_object(const Asked& request, const ReadTools& tools) {
  const auto object = find_object(*request);
  if (!object)
    return answer_status(*request, Status::not_found(request->resource(), request->target.name));
  convert_for(request, tools.conversion, {object}, [request, object](const std::optional<Status>& failed) {
    if (failed)
      return answer_status(*request, *failed);
    answer_shown(*request, *object);
  });
}

void list_objects(const Asked& request, const ReadTools& tools) {
  const ObjectHistory& history = *tools.history;
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
  const auto pages = std::make_shared<ListPages>(
      request, *selection, Continue{at, from && from->at > 0 ? from->since_s : now_s, {}}, most, tools.texts);
  auto page = history.page(read->tables, request->kind->type, request->target.ns, at, from ? &from->after : nullptr,
                           pages->reads() ? kEverything : most, selection->by_meta, selection->all);
  if (!page && from)
    return answer_expired(*request, *from);
  if (!page)
    return answer_status(*request, too_old(at));
  const auto objects = page->objects;
  convert_for(request, tools.conversion, objects,
              [request, pages, page = std::move(*page)](const std::optional<Status>& failed) mutable {
                if (failed)
                  return answer_status(*request, *failed);
                pages->begin(std::move(page));
                const std::string_view type = request->accepted.protobuf ? kProtobufType
                                              : request->accepted.yaml   ? kYamlType
                                                                         : kJsonType;
                PageReply reply{200, std::string(type), "", [pages](std::string& out) { return pages->write(out); }};
                request->visit->write(std::move(reply));
              });
}

// --- watches ---

namespace {

class Watch : public std::enable_shared_from_this<Watch> {
 public:
  Watch(Asked request, Selection selection, const ReadTools& tools, Seq at)
      : request_(std::move(request)),
        selection_(std::move(selection)),
        history_(tools.history),
        texts_(tools.texts),
        conversion_(tools.conversion),
        at_(at) {}

  // It cannot be: clients are told so by its first event, as they are when it cannot go on.
  void fail(const Status& why) { failed_ = why; }

  // Called when a webhook has answered.
  std::shared_ptr<std::function<void()>> wake = std::make_shared<std::function<void()>>();

  // What is there is told first; with `end` a bookmark says that this was all.
  void tell_first(std::vector<Ref<Object>> objects, bool end) {
    first_ = std::move(objects);
    ends_ = end;
  }

  Pulled pull(std::string& out) {
    const std::size_t begin = out.size();
    if (failed_) {
      other_event(out, "ERROR", failed_->body());
      return Pulled::kEnd;
    }
    for (std::size_t looked = 0; told_ < first_.size(); ++looked) {
      if (out.size() - begin > kEventBytes || looked == kLooksOfPull)
        return Pulled::kMore;
      if (awaits({first_.begin() + static_cast<std::ptrdiff_t>(told_), first_.end()}))
        return Pulled::kNothing;
      if (keeps(first_[told_]))
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
      if (awaits_entries(*since->entries, i))
        return Pulled::kNothing;
      const ObjectHistory::Entry& entry = (*since->entries)[i];
      tell(out, entry);
      for (const Ref<Object>* version : {&entry.before, &entry.after})
        if (*version)
          request_->converted.erase({(*version)->meta.uid, (*version)->meta.seq});
      at_ = entry.seq;
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
  // Whether a webhook is asked for the first ones of these, or some of those behind them: they are told when it has
  // answered.
  bool awaits(std::span<const Ref<Object>> objects, std::size_t first = 1) {
    if (!is_converted_by_webhook(*request_->kind) ||
        std::ranges::none_of(objects.first(first),
                             [&](const Ref<Object>& one) { return is_to_be_converted(*request_, *one); }))
      return false;
    if (std::exchange(asks_, true))
      return true;
    std::vector<Ref<Object>> some(
        objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(std::min(objects.size(), kItemsOfPiece)));
    convert_for(request_, conversion_, std::move(some),
                [self = shared_from_this()](const std::optional<Status>& failed) {
                  self->asks_ = false;
                  self->failed_ = failed;
                  if (*self->wake)
                    (*self->wake)();
                });
    return asks_;  // it may have answered at once
  }

  template <class Entries>
  bool awaits_entries(const Entries& entries, std::size_t from) {
    if (!is_converted_by_webhook(*request_->kind))
      return false;
    std::vector<Ref<Object>> objects;
    std::size_t first = 0;
    for (std::size_t i = from; i < entries.size() && objects.size() < kItemsOfPiece; ++i) {
      // Fields are those of the version that was asked for, before and after; else what is told is enough.
      const bool is = concerns(entries[i].after), was = concerns(entries[i].before);
      if (is)
        objects.push_back(entries[i].after);
      if (was && (!is || selection_.by_body))
        objects.push_back(entries[i].before);
      if (i == from)
        first = objects.size();
      if (first == 0)
        return false;  // nothing is told of the next one
    }
    return awaits(objects, first);
  }

  bool wants_bookmarks() const { return query_flag(request_->http(), "allowWatchBookmarks"); }

  bool concerns(const Ref<Object>& object) const {
    return object && (request_->target.ns.empty() || object->meta.ns == request_->target.ns) &&
           selection_.by_meta(*object);
  }
  bool keeps(const Ref<Object>& object, const ShownRecords* then = nullptr) const {
    return concerns(object) && (!selection_.by_body || selection_.by_body(*object, then));
  }

  // It shows what lists show.
  bool is_latest(const Ref<Object>& object) const {
    if (!object)
      return false;
    const auto& objects = request_->visit->read()->tables.objects;
    const auto at = objects.find({object->type, object->meta.ns, object->meta.name});
    return at != objects.end() && at->second == object;
  }

  void tell(std::string& out, const ObjectHistory::Entry& entry) {
    const ShownRecords* then = is_latest(entry.after) ? nullptr : &entry.after_shows;
    const bool was = keeps(entry.before, &entry.before_shows), is = keeps(entry.after, then);
    if (is)
      event(out, was ? "MODIFIED" : "ADDED", *entry.after, 0, then);
    else if (was && !(entry.after && mutant(Mutant::kWatchFarewellLost)))
      event(out, "DELETED", *entry.before, entry.seq, &entry.before_shows);
  }

  // What is no object of the resource: a Status, a bookmark.
  void other_event(std::string& out, std::string_view type, const json::object& tree) {
    if (!request_->accepted.protobuf) {
      out += format(R"({{"type":"{}","object":)", type) + json::serialize(tree) + "}\n";
    } else if (const auto body = encode_protobuf(tree); body.ok()) {
      out += watch_frame(type, *body);
    }
  }

  void event(std::string& out, std::string_view type, const Object& object, Seq seq = 0,
             const ShownRecords* then = nullptr) {
    write_event(out, type, object, seq, then);
    request_->converted.erase({object.meta.uid, object.meta.seq});
  }

  void write_event(std::string& out, std::string_view type, const Object& object, Seq seq, const ShownRecords* then) {
    if (request_->accepted.protobuf) {
      std::string body;
      texts_->append(body, *request_, object, seq, then);
      out += watch_frame(type, body);
      return;
    }
    out += format(R"({{"type":"{}","object":)", type);
    if (request_->accepted.form == Accepted::Form::kTable) {
      out += table_head(seq ? seq : object.meta.seq);
      append_item(out, *request_, object, then);
      out += list_end();
    } else {
      texts_->append(out, *request_, object, seq, then);
    }
    out += "}\n";
  }

  void bookmark(std::string& out, bool end_of_first) {
    json::object metadata{{"resourceVersion", std::to_string(at_)}};
    if (end_of_first)
      metadata["annotations"] = {{"k8s.io/initial-events-end", "true"}};
    using enum Accepted::Form;
    json::object mark{{"kind", request_->kind->kind}, {"apiVersion", request_->api_version}};
    if (request_->accepted.form != kWhole)
      mark = {{"kind", "PartialObjectMetadata"}, {"apiVersion", "meta.k8s.io/" + request_->accepted.version}};
    mark["metadata"] = std::move(metadata);
    if (request_->accepted.form != kTable)
      return other_event(out, "BOOKMARK", mark);
    out += R"({"type":"BOOKMARK","object":)" + table_head(at_) +
           json::serialize(json::object{{"cells", json::array()}, {"object", std::move(mark)}}) + list_end() + "}\n";
  }

  std::string table_head(Seq seq) {
    return list_head(*request_, seq, "", 0, std::exchange(names_columns_, false) ? Columns::kNamed : Columns::kNot);
  }

  Asked request_;
  Selection selection_;
  std::shared_ptr<const ObjectHistory> history_;
  std::shared_ptr<ShownTexts> texts_;
  ConversionTools conversion_;
  bool asks_ = false;  // a webhook, which has not answered
  std::optional<Status> failed_;
  Seq at_;
  std::vector<Ref<Object>> first_;
  std::size_t told_ = 0;
  bool ends_ = false;
  bool names_columns_ = true;  // of a table: nothing was told yet
  Instant quiet_since_;
};

// The protocol has no meaning; who names some has to be answered one of them.
std::unique_ptr<Stream> messages_to(const Request& request, FrontVisit& visit,
                                    const std::function<std::string(std::string_view)>& sha1) {
  const std::string offered = offered_protocols(request.http());
  auto client = visit.upgrade(
      "websocket", web_socket_answer(request.http(), sha1, std::string(trim(offered.substr(0, offered.find(','))))));
  return client ? event_messages(std::move(client), request.accepted.protobuf ? EventForm::kFrames : EventForm::kLines)
                : nullptr;
}

}  // namespace

void watch_objects(const Asked& request, const ReadTools& tools) {
  const auto& history = tools.history;
  auto selection = selection_of(*request);
  if (!selection.ok())
    return answer_status(*request, selection.error());
  const auto asked = version_asked(*request);
  if (!asked.ok())
    return answer_status(*request, asked.error());
  const auto read = request->visit->read();
  const Seq now = read->tables.seq;
  const std::string initial = lower(query_of(request->http(), "sendInitialEvents"));
  const bool from_the_start = initial == "true" || (initial.empty() && *asked == 0);
  if (initial == "true" && query_of(request->http(), "resourceVersionMatch") != "NotOlderThan")
    return answer_status(
        *request,
        Status::invalid({"meta.k8s.io", "ListOptions"}, "",
                        {{"FieldValueForbidden",
                          "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                          "sendInitialEvents"}}));
  const auto watch = std::make_shared<Watch>(request, *selection, tools, from_the_start || *asked == 0 ? now : *asked);
  if (*asked > now) {
    watch->fail(too_new(*asked, now));
  } else if (from_the_start) {
    auto page = history->page(read->tables, request->kind->type, request->target.ns, now, nullptr, kEverything,
                              selection->by_meta, false);
    watch->tell_first(std::move(page->objects), initial == "true");
  }
  const auto limit = parse_uint(query_of(request->http(), "timeoutSeconds"));
  const Duration longest =
      limit && *limit > 0
          ? std::min(kWatchLife, seconds(static_cast<std::int64_t>(std::min<std::uint64_t>(*limit, 86'400))))
          : kWatchLife;
  const Pull pull = [watch](std::string& out) { return watch->pull(out); };
  if (asks_for(request->http(), "websocket"))
    return tools.bell->follow(
        request->visit, [request, &tools](FrontVisit& visit) { return messages_to(*request, visit, tools.sha1); }, pull,
        longest, watch->wake);
  HttpResponse head{200, std::string(kJsonType), "", {{"Cache-Control", "no-cache, private"}}};
  if (request->accepted.protobuf)
    head.content_type = format("{};stream=watch", kProtobufType);
  if (is_converted_by_webhook(*request->kind))
    return tools.bell->follow(
        request->visit, [&head](FrontVisit& visit) { return visit.open(std::move(head)); }, pull, longest, watch->wake);
  request->visit->stream(std::move(head), pull, longest);
}

}  // namespace lockstep::kube
