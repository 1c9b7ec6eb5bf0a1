#include "model/kinds.h"

#include <algorithm>

#include "model/faults.h"
#include "model/job_fields.h"
#include "model/record_fields.h"

namespace lockstep {

namespace {

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kKinds); ++i)
    if (kKinds[i].kind != static_cast<Kind>(i))
      return false;
  return true;
}
static_assert(in_order() && std::size(kKinds) == std::variant_size_v<Record>, "kinds.def lists every kind in order");

// What a field holds: of lists, references and the like what is in them.
template <class M>
struct Held {
  using Type = M;
  static constexpr bool kIsList = false;
};
template <class T>
struct Held<std::vector<T>> : Held<T> {
  static constexpr bool kIsList = true;
};
template <class T>
struct Held<SharedList<T>> : Held<T> {
  static constexpr bool kIsList = true;
};
template <class T>
struct Held<std::optional<T>> : Held<T> {};
template <class T>
struct Held<Ref<T>> : Held<T> {};

// Structs whose list says of each field who may see it.
template <class T>
concept ToldByField = Described<T> && !requires {
  told_whole(static_cast<const T*>(nullptr));
};

template <class How>
concept SaysWho = requires {
  How::kToldTo;
};
// Of a field that is everybody's, single parts may not be. Whoever sees another one sees all of what it holds.
template <class How>
inline constexpr bool kIsOpen = false;
template <class How>
inline constexpr bool kIsOpen<Told<How, Visibility::kEveryone>> = true;

// Whom one has to be to see all of a T.
template <class T>
constexpr Visibility sees_all();

class MostPrivate {
 public:
  template <class Of, class M, class How = bounded::Plain>
  constexpr void operator()(std::string_view, M Of::*, const How& = {}) {
    static_assert(SaysWho<How>, "the list of fields says of each who may see it: to_all(), to_owner(), … (told_to.h)");
    if constexpr (SaysWho<How>)
      most_ = std::max(most_, How::kToldTo);
    if constexpr (kIsOpen<How>)
      most_ = std::max(most_, sees_all<typename Held<M>::Type>());
  }
  template <class Of, class M, class How = bounded::Plain>
  constexpr void always(std::string_view key, M Of::*member, const How& how = {}) {
    (*this)(key, member, how);
  }
  constexpr Visibility most() const { return most_; }

 private:
  Visibility most_ = Visibility::kEveryone;
};

template <class T>
constexpr Visibility sees_all() {
  MostPrivate fields;
  if constexpr (ToldByField<T>)
    describe(fields, static_cast<const T*>(nullptr));
  return fields.most();
}
template <class M>
constexpr bool holds_private() {
  return sees_all<typename Held<M>::Type>() > Visibility::kEveryone;
}
template <class How, class M>
inline constexpr bool kIsWalked = false;
template <class How, class M>
inline constexpr bool kIsWalked<Told<How, Visibility::kEveryone>, M> = holds_private<M>();

template <class T>
void take_away(T& value, Visibility viewer);

template <class T>
void take_away_within(T& value, Visibility viewer) {
  take_away(value, viewer);
}
template <class T>
void take_away_within(std::vector<T>& list, Visibility viewer) {
  for (T& item : list) take_away_within(item, viewer);
}
template <class T>
void take_away_within(SharedList<T>& list, Visibility viewer) {
  if (!list.empty())
    take_away_within(list.edit(), viewer);
}
template <class T>
void take_away_within(std::optional<T>& value, Visibility viewer) {
  if (value)
    take_away_within(*value, viewer);
}
template <class T>
void take_away_within(Ref<T>& ref, Visibility viewer) {
  if (!ref)
    return;
  T shown = *ref;
  take_away(shown, viewer);
  ref = std::make_shared<const T>(std::move(shown));
}

template <class T>
class Taker {
 public:
  Taker(T& shown, Visibility viewer) : shown_(shown), viewer_(viewer) {}
  template <class Of, class M, class How>
  void operator()(std::string_view, M Of::*member, const How& how) {
    static const T kNone{};
    if (viewer_ < How::kToldTo)
      shown_.*member = left_of(shown_.*member, kNone.*member, how);
    else if constexpr (kIsWalked<How, M>)
      take_away_within(shown_.*member, viewer_);
  }
  template <class Of, class M, class How>
  void always(std::string_view key, M Of::*member, const How& how) {
    (*this)(key, member, how);
  }

 private:
  template <class M, class How>
  static M left_of(const M&, const M& none, const How&) {
    return none;
  }
  template <class How>
  static SharedText left_of(const SharedText& text, const SharedText&, const ToldByWord<How>&) {
    return text.substr(0, text.find(' '));
  }

  T& shown_;
  const Visibility viewer_;
};

template <class T>
void take_away(T& value, Visibility viewer) {
  Taker<T> fields(value, viewer);
  describe(fields, static_cast<const T*>(nullptr));
}

class PrivateNames {
 public:
  PrivateNames(std::vector<PrivateField>& out, std::string prefix) : out_(out), prefix_(std::move(prefix)) {}
  template <class Of, class M, class How>
  void operator()(std::string_view key, M Of::*, const How&) {
    using Inner = typename Held<M>::Type;
    std::string path = prefix_ + std::string(key);
    if (How::kToldTo > Visibility::kEveryone) {
      out_.push_back({std::move(path), How::kToldTo});
    } else if constexpr (kIsWalked<How, M>) {
      PrivateNames inner(out_, path + (Held<M>::kIsList ? "[]." : "."));
      describe(inner, static_cast<const Inner*>(nullptr));
    }
  }
  template <class Of, class M, class How>
  void always(std::string_view key, M Of::*member, const How& how) {
    (*this)(key, member, how);
  }

 private:
  std::vector<PrivateField>& out_;
  std::string prefix_;
};

template <class T>
std::vector<PrivateField> private_fields_of() {
  std::vector<PrivateField> out;
  if constexpr (ToldByField<T>) {
    PrivateNames fields(out, "");
    describe(fields, static_cast<const T*>(nullptr));
  }
  return out;
}

}  // namespace

std::vector<PrivateField> private_fields(Kind kind) {
  static constexpr std::vector<PrivateField> (*kOf[])() = {
#define KIND(type, name, word, table, count, seen) private_fields_of<type>,
#include "model/kinds.def"
  };
  return kOf[static_cast<std::size_t>(kind)]();
}

UserId owner_of(const Record& record) {
  if (const auto* job = std::get_if<Ref<Job>>(&record))
    return (*job)->spec ? (*job)->spec->user : UserId{};
  if (const auto* step = std::get_if<Ref<Step>>(&record))
    return (*step)->user;
  if (const auto* task = std::get_if<Ref<Task>>(&record))
    return (*task)->user;
  if (const auto* user = std::get_if<Ref<User>>(&record))
    return (*user)->id;
  if (const auto* usage = std::get_if<Ref<Usage>>(&record))
    return (*usage)->user;
  return {};
}

VisibleRecord as_seen_by(const Record& record, Visibility viewer) {
  return std::visit(
      [&]<class T>(const Ref<T>& ref) {
        if constexpr (holds_private<T>())
          if (viewer < sees_all<T>()) {
            T shown = *ref;
            take_away(shown, viewer);
            return VisibleRecord(Record(std::make_shared<const T>(std::move(shown))));
          }
        return VisibleRecord(record);
      },
      record);
}

}  // namespace lockstep
