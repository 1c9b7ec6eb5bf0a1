// Internal to wire: struct codecs from one list of fields,
//
//   template <class V> constexpr void describe(V& v, const Device*) { v("kind", &Device::kind); … }
//   template struct StructCodec<Device>;
//
// A third argument says how much a field may hold: Between{0, 64} (model/bounded.h). `v.always` writes a field even at
// its default, for the few that people look for. std::optional<Fault> unacceptable(const T&) looks at a whole value.
// Bounds hold for what strangers say. The lists of records and commands are in model/*_fields.h: the core asks them
// too.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

#include "model/bounded.h"
#include "wire/codec.h"
#include "wire/forms.h"
#include "wire/json.h"

namespace lockstep::wire {

using namespace bounded;  // the words of the lists of fields

// A field that the list forgets would be lost without a word, so the compiler counts: T can be made from as many values
// as it has fields, and not from more.
template <class T>
inline constexpr std::size_t kUnwritten = 0;  // fields left out on purpose

class FieldCount {
 public:
  template <class... Any>
  constexpr void operator()(const Any&...) {
    ++count_;
  }
  template <class... Any>
  constexpr void always(const Any&...) {
    ++count_;
  }
  constexpr std::size_t count() const { return count_; }

 private:
  std::size_t count_ = 0;
};

struct AnyValue {
  template <class U>
  operator U() const;
};
template <class T, std::size_t... I>
constexpr bool made_from(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), std::declval<AnyValue>())...}; };
}
template <class T>
constexpr std::size_t listed() {
  FieldCount fields;
  describe(fields, static_cast<const T*>(nullptr));
  return fields.count() + kUnwritten<T>;
}
template <class T, std::size_t kFields>
constexpr bool has_fields() {
  if constexpr (kFields == 0)
    return std::is_empty_v<T>;
  else
    return made_from<T>(std::make_index_sequence<kFields>{}) && !made_from<T>(std::make_index_sequence<kFields + 1>{});
}
// A struct with bases names them (T::Bases), and its list goes on with theirs. Each base is made from one value.
template <class T, class... Bases>
constexpr bool lists_every_field_beside(std::type_identity<std::tuple<Bases...>>) {
  return (has_fields<Bases, listed<Bases>()>() && ...) &&
         has_fields<T, listed<T>() + sizeof...(Bases) - (listed<Bases>() + ... + 0)>();
}
template <class T>
constexpr bool lists_every_field() {
  if constexpr (requires { typename T::Bases; })
    return lists_every_field_beside<T>(std::type_identity<typename T::Bases>{});
  else
    return has_fields<T, listed<T>()>();
}

template <class T>
class FieldWriter {
 public:
  FieldWriter(Writer& w, const T& v, const T& base) : w_(w), v_(v), base_(base) { w_.out += '{'; }
  ~FieldWriter() { w_.out += '}'; }

  template <class Of, class M, class How = Plain>
  void operator()(std::string_view key, M Of::*member, const How& how = {}) {
    if (!Codec<M>::same(v_.*member, base_.*member))
      always(key, member, how);
  }
  template <class Of, class M, class How = Plain>
  void always(std::string_view key, M Of::*member, const How& = {}) {
    if (!first_)
      w_.out += ',';
    first_ = false;
    ((w_.out += '"') += key) += "\":";
    Form<How, M>::write(w_, v_.*member, base_.*member);
  }

 private:
  Writer& w_;
  const T& v_;
  const T& base_;
  bool first_ = true;
};

template <class T>
class FieldSame {
 public:
  FieldSame(const T& a, const T& b) : a_(a), b_(b) {}
  template <class Of, class M, class How = Plain>
  void operator()(std::string_view, M Of::*member, const How& = {}) {
    same_ = same_ && Codec<M>::same(a_.*member, b_.*member);
  }
  template <class Of, class M, class How = Plain>
  void always(std::string_view key, M Of::*member, const How& = {}) {
    (*this)(key, member);
  }
  bool result() const { return same_; }

 private:
  const T& a_;
  const T& b_;
  bool same_ = true;
};

// Whether the object's names are all known and in our order, as they are when we wrote it: then the fields can be read
// in one sweep without looking names up.
template <class T>
class FieldOrder {
 public:
  explicit FieldOrder(const json::object& object) : at_(object.begin()), end_(object.end()) {}
  template <class Of, class M, class How = Plain>
  void operator()(std::string_view key, M Of::*, const How& = {}) {
    if (at_ != end_ && key == std::string_view(at_->key().data(), at_->key().size()))
      ++at_;
  }
  template <class Of, class M, class How = Plain>
  void always(std::string_view key, M Of::*member, const How& = {}) {
    (*this)(key, member);
  }
  bool ours() const { return at_ == end_; }

 private:
  json::object::const_iterator at_, end_;
};

class FieldNames {
 public:
  template <class... Any>
  void operator()(std::string_view key, const Any&...) {
    names_.push_back(key);
  }
  template <class... Any>
  void always(std::string_view key, const Any&...) {
    names_.push_back(key);
  }
  std::span<const std::string_view> names() const { return names_; }

 private:
  std::vector<std::string_view> names_;
};

template <class T>
class FieldReader {
 public:
  FieldReader(Reader& r, const json::object& object, T& out, bool in_order)
      : r_(r), object_(object), at_(object.begin()), out_(out), in_order_(in_order) {}

  template <class Of, class M, class How = Plain>
  void operator()(std::string_view key, M Of::*member, const How& how = {}) {
    if (!ok_)
      return;
    const json::value* value = nullptr;
    if (!in_order_) {
      value = object_.if_contains(json::string_view(key.data(), key.size()));
    } else if (at_ != object_.end() && key == std::string_view(at_->key().data(), at_->key().size())) {
      value = &at_->value();
      ++at_;
    }
    if (value && !read(*value, out_.*member, how))
      ok_ = r_.under(key);
  }
  template <class Of, class M, class How = Plain>
  void always(std::string_view key, M Of::*member, const How& how = {}) {
    (*this)(key, member, how);
  }
  bool ok() const { return ok_; }

 private:
  template <class M, class How>
  bool read(const json::value& value, M& out, const How& how) {
    if (r_.strict() && how.entries_max < entries_of(value))
      return refuse(r_, too_many(entries_of(value), how.entries_max));
    if (!Form<How, M>::read(r_, value, out))
      return false;
    if (!r_.strict())
      return true;
    auto fault = how.refuses(out);
    return !fault || refuse(r_, std::move(*fault));
  }

  Reader& r_;
  const json::object& object_;
  json::object::const_iterator at_;
  T& out_;
  bool in_order_, ok_ = true;
};

template <class T>
void StructCodec<T>::write(Writer& w, const T& v, const T& base) {
  static_assert(lists_every_field<T>(), "describe() forgets a field, or kUnwritten is wrong");
  FieldWriter<T> fields(w, v, base);
  describe(fields, static_cast<const T*>(nullptr));
}

template <class T>
bool StructCodec<T>::read(Reader& r, const json::value& v, T& out) {
  const json::object* object = read_object(r, v);
  if (!object)
    return false;
  FieldOrder<T> order(*object);
  describe(order, static_cast<const T*>(nullptr));
  FieldReader<T> fields(r, *object, out, order.ours());
  describe(fields, static_cast<const T*>(nullptr));
  if (!fields.ok())
    return false;
  if (r.origin == Origin::kCaller && !order.ours()) {
    FieldNames known;
    describe(known, static_cast<const T*>(nullptr));
    if (!only_known(r, *object, known.names()))
      return false;
  }
  if constexpr (requires { unacceptable(static_cast<const T&>(out)); })
    if (r.strict())
      if (auto fault = unacceptable(static_cast<const T&>(out)))
        return refuse(r, std::move(*fault));
  return true;
}

template <class T>
bool StructCodec<T>::same(const T& a, const T& b) {
  FieldSame<T> fields(a, b);
  describe(fields, static_cast<const T*>(nullptr));
  return fields.result();
}

// Described in one codec file, used by others.
#define KIND(type, name, word, table, count, seen) extern template struct StructCodec<type>;
#include "model/kinds.def"
extern template struct StructCodec<SubmitRequest>;
extern template struct StructCodec<Error>;
extern template struct StructCodec<DeviceAsk>;
extern template struct StructCodec<Counted>;
extern template struct StructCodec<DevicePart>;
extern template struct StructCodec<Container>;
extern template struct StructCodec<Dependency>;
extern template struct StructCodec<ExitStatus>;
extern template struct StructCodec<WorkUse>;
extern template struct StructCodec<JobSpec>;
extern template struct StructCodec<Sandbox>;
extern template struct StructCodec<ContainerStatus>;
extern template struct StructCodec<Allocation>;
extern template struct StructCodec<Meta>;
extern template struct StructCodec<IssuedCertificate>;
extern template struct StructCodec<StepSpec>;
extern template struct StructCodec<NamedCount>;
extern template struct StructCodec<Tres>;
extern template struct StructCodec<TresLimit>;
extern template struct StructCodec<TresWeight>;
extern template struct StructCodec<Limits>;
extern template struct StructCodec<Quota>;

}  // namespace lockstep::wire
