// Ordered maps and sets of ids that are handed out one after the other. Entries lie together in pages of 64 with one
// bit each for which are there, so an entry costs little more than its value, and going through all of them touches
// memory in order. Any ids are right; far apart they cost a page each.
//
// A change invalidates iterators and references into the page it concerns.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace lockstep {

template <class Key, class T>
class IdMap {
  struct Page {
    std::uint64_t present = 0;  // bit = id % 64
    std::vector<T> items;       // one per bit, ascending
  };
  using Pages = std::map<std::uint64_t, Page>;  // by id / 64. Invariant: no page is empty
  using Rep = decltype(Key::value);

  static std::uint64_t page_of(Key key) { return key.value / 64; }
  static unsigned bit_of(Key key) { return static_cast<unsigned>(key.value % 64); }
  static std::size_t rank(std::uint64_t present, unsigned bit) {
    return static_cast<std::size_t>(std::popcount(present & ((std::uint64_t{1} << bit) - 1)));
  }

 public:
  class const_iterator {
   public:
    using value_type = std::pair<const Key, const T&>;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;  // what it points to is made on the way
    using reference = value_type;
    struct pointer {
      value_type value;
      const value_type* operator->() const { return &value; }
    };

    const_iterator() = default;
    value_type operator*() const {
      return {Key(static_cast<Rep>(page_->first * 64 + static_cast<unsigned>(std::countr_zero(left_)))),
              page_->second.items[at_]};
    }
    pointer operator->() const { return {**this}; }
    const_iterator& operator++() {
      left_ &= left_ - 1;
      ++at_;
      if (left_ == 0)
        *this = const_iterator(std::next(page_), end_);
      return *this;
    }
    const_iterator operator++(int) {
      auto old = *this;
      ++*this;
      return old;
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.page_ == b.page_ && a.left_ == b.left_;
    }

   private:
    friend IdMap;
    using PageAt = typename Pages::const_iterator;
    const_iterator(PageAt page, PageAt end) : page_(page), end_(end), left_(page == end ? 0 : page->second.present) {}
    const_iterator(PageAt page, PageAt end, std::uint64_t left)
        : page_(page),
          end_(end),
          left_(left),
          at_(page->second.items.size() - static_cast<std::size_t>(std::popcount(left))) {}

    PageAt page_, end_;
    std::uint64_t left_ = 0;  // bits of the page from here on
    std::size_t at_ = 0;
  };
  using iterator = const_iterator;

  const_iterator begin() const { return {pages_.begin(), pages_.end()}; }
  const_iterator end() const { return {pages_.end(), pages_.end()}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() { *this = {}; }
  Key last_key() const {  // CHECKs non-empty
    CHECK(!pages_.empty());
    const auto& [number, page] = *pages_.rbegin();
    return Key(static_cast<Rep>(number * 64 + 63 - static_cast<unsigned>(std::countl_zero(page.present))));
  }

  // Null when absent.
  const T* get(Key key) const {
    const auto page = pages_.find(page_of(key));
    if (page == pages_.end() || (page->second.present >> bit_of(key) & 1) == 0)
      return nullptr;
    return &page->second.items[rank(page->second.present, bit_of(key))];
  }
  T* get(Key key) { return const_cast<T*>(std::as_const(*this).get(key)); }
  bool contains(Key key) const { return get(key) != nullptr; }
  const T& at(Key key) const {
    const T* found = get(key);
    CHECK(found, "the id is not in the map");
    return *found;
  }
  const_iterator find(Key key) const {
    const auto page = pages_.find(page_of(key));
    if (page == pages_.end() || (page->second.present >> bit_of(key) & 1) == 0)
      return end();
    return {page, pages_.end(), page->second.present & (~std::uint64_t{0} << bit_of(key))};
  }
  // The first entry with an id of at least key.
  const_iterator lower_bound(Key key) const {
    const auto page = pages_.lower_bound(page_of(key));
    if (page == pages_.end() || page->first != page_of(key))
      return {page, pages_.end()};
    const std::uint64_t left = page->second.present & (~std::uint64_t{0} << bit_of(key));
    return left ? const_iterator(page, pages_.end(), left) : const_iterator(std::next(page), pages_.end());
  }
  const_iterator upper_bound(Key key) const {
    auto at = lower_bound(key);
    if (at != end() && (*at).first == key)
      ++at;
    return at;
  }

  // Makes the entry if it is absent.
  T& operator[](Key key) {
    // Ids mostly come in order.
    const std::uint64_t number = page_of(key);
    Page& page =
        pages_
            .try_emplace(pages_.empty() || pages_.rbegin()->first < number ? pages_.end() : pages_.lower_bound(number),
                         number)
            ->second;
    const unsigned bit = bit_of(key);
    const auto at = page.items.begin() + static_cast<std::ptrdiff_t>(rank(page.present, bit));
    if (page.present >> bit & 1)
      return *at;
    const auto made = page.items.emplace(at);
    page.present |= std::uint64_t{1} << bit;
    ++size_;
    return *made;
  }
  // How many there were: 0 or 1.
  std::size_t erase(Key key) {
    const auto page = pages_.find(page_of(key));
    const std::uint64_t mark = std::uint64_t{1} << bit_of(key);
    if (page == pages_.end() || !(page->second.present & mark))
      return 0;
    auto& [present, items] = page->second;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(rank(present, bit_of(key))));
    present &= ~mark;
    --size_;
    if (present == 0)
      pages_.erase(page);
    else if (items.size() * 4 <= items.capacity())
      items.shrink_to_fit();
    return 1;
  }

 private:
  Pages pages_;
  std::size_t size_ = 0;
};

template <class Key>
class IdSet {
 public:
  void insert(Key key) {
    const auto at = find(key);
    if (at == words_.end() || at->first != key.value / 64)
      words_.insert(at, {key.value / 64, mark(key)});
    else
      at->second |= mark(key);
  }
  // How many there were: 0 or 1.
  std::size_t erase(Key key) {
    const auto at = find(key);
    if (at == words_.end() || at->first != key.value / 64 || !(at->second & mark(key)))
      return 0;
    at->second &= ~mark(key);
    if (at->second == 0)
      words_.erase(at);
    return 1;
  }
  bool contains(Key key) const {
    const auto at = const_cast<IdSet*>(this)->find(key);
    return at != words_.end() && at->first == key.value / 64 && (at->second & mark(key)) != 0;
  }
  bool empty() const { return words_.empty(); }
  Key front() const {  // the smallest; CHECKs non-empty
    CHECK(!words_.empty());
    return Key(static_cast<decltype(Key::value)>(words_.front().first * 64 +
                                                 static_cast<unsigned>(std::countr_zero(words_.front().second))));
  }
  friend bool operator==(const IdSet&, const IdSet&) = default;

 private:
  using Word = std::pair<std::uint64_t, std::uint64_t>;  // id / 64, and a bit for each id; none is empty
  static std::uint64_t mark(Key key) { return std::uint64_t{1} << (key.value % 64); }
  auto find(Key key) {
    return std::lower_bound(words_.begin(), words_.end(), key.value / 64,
                            [](const Word& word, std::uint64_t number) { return word.first < number; });
  }
  std::vector<Word> words_;  // ascending
};

}  // namespace lockstep
