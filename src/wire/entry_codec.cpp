// Log entries and snapshot chunks:
//
//   {"v":2,"at_us":…,"changes":[{"job":{…,"spec":0}},{"node":{…},"removed":true}],"events":[…],
//    "job_specs":[…],"step_specs":[…],"allocations":[…]}
//
// Specs and allocations are written once per entry and named by index, however many records share them; after reading
// the records share them again. What is long of them lies apart: {"@":"<id>"} (wire/long_values.h). In version 1
// nothing lay apart, and a user's own {"@":"x"} may stand there.
#include "model/job.h"
#include "wire/change_codec.h"
#include "wire/codec.h"
#include "wire/entry_stream.h"
#include "wire/fields.h"

namespace lockstep {

namespace wire {

namespace {

constexpr std::uint64_t kVersion = 2, kOldestVersion = 1, kFirstWithLongValues = 2;

std::string_view text_of_key(const json::object::const_iterator& at) { return {at->key().data(), at->key().size()}; }

}  // namespace

namespace {

template <std::size_t I = 0>
bool read_record(Reader& r, std::string_view key, const json::value& v, Record& out, bool& found) {
  if constexpr (I == std::variant_size_v<Record>) {
    return true;  // not a record: "seq", "removed", or a later version's
  } else {
    if (word(static_cast<Kind>(I)) != key)
      return read_record<I + 1>(r, key, v, out, found);
    using T = std::remove_const_t<typename std::variant_alternative_t<I, Record>::element_type>;
    auto fresh = std::make_shared<T>();
    if (!Codec<T>::read(r, v, *fresh))
      return false;
    out.emplace<I>(std::move(fresh));
    found = true;
    return true;
  }
}

}  // namespace

void Codec<Change>::write(Writer& w, const Change& change, const Change&) {
  (w.out += "{\"").append(word(kind_of(change.record))) += "\":";
  std::visit([&w]<class T>(const Ref<T>& ref) { Codec<T>::write(w, *ref, default_of<T>()); }, change.record);
  if (change.seq != meta_of(change.record).seq)
    append_number(w.out += ",\"seq\":", change.seq);
  if (change.removed)
    w.out += ",\"removed\":true";
  w.out += '}';
}

bool Codec<Change>::read(Reader& r, const json::value& v, Change& out) {
  const json::object* object = read_object(r, v);
  if (!object)
    return false;
  bool found = false;
  for (auto at = object->begin(); at != object->end() && !found; ++at)
    if (!read_record(r, text_of_key(at), at->value(), out.record, found))
      return r.under(text_of_key(at));
  if (!found)
    return r.fail("holds no record");
  out.seq = meta_of(out.record).seq;
  if (const json::value* seq = object->if_contains("seq"))
    if (!Codec<Seq>::read(r, *seq, out.seq))
      return r.under("seq");
  if (const json::value* removed = object->if_contains("removed"))
    if (!Codec<bool>::read(r, *removed, out.removed))
      return r.under("removed");
  return true;
}

template <class V>
constexpr void describe(V& v, const Event*) {
  v("at_us", &Event::at);
  v("kind", &Event::kind);
  v("about", &Event::about);
  v("job", &Event::job);
  v("what", &Event::what);
  v("message", &Event::message);
}

namespace {

// Appends the parts that came since `written` to `text`.
template <class T>
void write_new_parts(const SharedParts<T>& shared, LongValues* apart, std::size_t& written, std::string& text) {
  if (written == shared.parts.size())
    return;
  Writer w;  // a shared part holds no shared part
  w.out = std::move(text);
  w.apart = apart;
  for (; written < shared.parts.size(); ++written) {
    if (!w.out.empty())
      w.out += ',';
    const Ref<T>& part = shared.parts[written];
    const auto write = [&] { Codec<T>::write(w, *part, default_of<T>()); };
    // Specifications of jobs differ a little and have long lists in common: these lie apart, not the whole.
    if constexpr (std::is_same_v<T, JobSpec>)
      write();
    else
      write_long(w, *part, write, [&] { return std::make_shared<const Ref<T>>(part); });
  }
  text = std::move(w.out);
}

template <class T>
bool read_part(Reader& r, const json::value& v, Ref<T>& out) {
  if constexpr (!std::is_same_v<T, JobSpec>)
    if (const std::string_view id = id_apart(r, v); !id.empty())
      return read_long<Ref<T>, T>(r, id, out, [](T value) { return std::make_shared<const T>(std::move(value)); });
  auto fresh = std::make_shared<T>();
  if (!Codec<T>::read(r, v, *fresh))
    return false;
  out = std::move(fresh);
  return true;
}

template <class T>
bool read_shared(Reader& r, const json::object& entry, std::string_view key, SharedParts<T>& shared) {
  const json::value* v = entry.if_contains(json::string_view(key.data(), key.size()));
  if (!v)
    return true;
  const json::array* list = read_list(r, *v, sizeof(T));
  if (!list)
    return r.under(key);
  shared.parts.reserve(list->size());
  for (const json::value& item : *list) {
    Ref<T> part;
    if (!read_part(r, item, part))
      return r.under(shared.parts.size()), r.under(key);
    shared.parts.push_back(std::move(part));
  }
  return true;
}

template <class M>
bool read_member(Reader& r, const json::object& entry, std::string_view key, M& out) {
  const json::value* v = entry.if_contains(json::string_view(key.data(), key.size()));
  return !v || Codec<M>::read(r, *v, out) || r.under(key);
}

bool read_entry(Reader& r, const json::value& v, EntryBody& out) {
  const json::object* entry = read_object(r, v);
  if (!entry)
    return false;
  std::uint64_t version = 0;
  if (!read_member(r, *entry, "v", version))
    return false;
  if (version < kOldestVersion || version > kVersion)
    return r.fail(format("is {}; this program reads versions {} to {}", version, kOldestVersion, kVersion)),
           r.under("v");
  r.shared->names_apart = version >= kFirstWithLongValues;
  if (!read_shared(r, *entry, "job_specs", r.shared->job_specs))
    return false;
  if (r.shared->pool)
    for (auto& spec : r.shared->job_specs.parts) spec = r.shared->pool->share(std::move(spec));
  return read_shared(r, *entry, "step_specs", r.shared->step_specs) &&
         read_shared(r, *entry, "allocations", r.shared->allocations) && read_member(r, *entry, "at_us", out.at) &&
         read_member(r, *entry, "changes", out.changes) && read_member(r, *entry, "events", out.events);
}

}  // namespace

}  // namespace wire

struct EntryWriter::Inner {
  struct Parts {
    std::size_t written = 0;
    std::string text;
  };
  Instant at;
  wire::Shared shared;
  wire::Writer w;
  Parts job_specs, step_specs, allocations;
  std::size_t changes = 0;

  Inner(Instant when, LongValues* apart) : at(when) {
    shared.apart = apart;
    wire::append_number(w.out += "{\"v\":", wire::kVersion);
    wire::Codec<Instant>::write((w.out += ",\"at_us\":", w), at, {});
    w.out += ",\"changes\":[";
  }

  void add(const Change& change) {
    if (changes++ > 0)
      w.out += ',';
    w.shared = &shared;
    w.apart = shared.apart;
    wire::Codec<Change>::write(w, change, {});
    w.shared = nullptr;
    w.apart = nullptr;
    wire::write_new_parts(shared.job_specs, shared.apart, job_specs.written, job_specs.text);
    wire::write_new_parts(shared.step_specs, shared.apart, step_specs.written, step_specs.text);
    wire::write_new_parts(shared.allocations, shared.apart, allocations.written, allocations.text);
  }

  void add_parts(std::string_view key, const Parts& parts) {
    if (!parts.text.empty())
      ((((w.out += ",\"") += key) += "\":[") += parts.text) += ']';
  }

  std::string finish(const std::vector<Event>& events, std::size_t events_bytes_max) {
    w.out += ']';
    const std::size_t before = w.out.size();
    if (!events.empty())
      wire::Codec<std::vector<Event>>::write((w.out += ",\"events\":", w), events, {});
    if (w.out.size() - before > events_bytes_max)
      w.out.resize(before);
    add_parts("job_specs", job_specs);
    add_parts("step_specs", step_specs);
    add_parts("allocations", allocations);
    w.out += '}';
    return std::move(w.out);
  }
};

EntryWriter::EntryWriter(Instant at, LongValues* apart) : inner_(std::make_unique<Inner>(at, apart)) {}
EntryWriter::~EntryWriter() = default;

void EntryWriter::add(const Change& change) { inner_->add(change); }

std::size_t EntryWriter::bytes() const {
  return inner_->w.out.size() + inner_->job_specs.text.size() + inner_->step_specs.text.size() +
         inner_->allocations.text.size();
}

std::string EntryWriter::finish(const std::vector<Event>& events, std::size_t events_bytes_max) {
  std::string document = inner_->finish(events, events_bytes_max);
  inner_ = std::make_unique<Inner>(inner_->at, inner_->shared.apart);
  return document;
}

std::string encode_entry(const EntryBody& body) {
  EntryWriter writer(body.at);
  for (const Change& change : body.changes) writer.add(change);
  return writer.finish(body.events);
}

Result<EntryBody> decode_entry(std::string_view text, SpecPool* pool, LongValues* apart) {
  wire::Shared shared;
  shared.pool = pool;
  shared.apart = apart;
  wire::Reader r{wire::Origin::kOurselves, &shared};
  EntryBody body;
  const auto read = [](wire::Reader& r, const wire::json::value& v, void* out) {
    return wire::read_entry(r, v, *static_cast<EntryBody*>(out));
  };
  if (auto done = wire::with_document(text, r, read, &body); !done.ok())
    return Error{Errc::kCorrupt, "log entry: " + done.error().message, done.error().field};
  return body;
}

}  // namespace lockstep
