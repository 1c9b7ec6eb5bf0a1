// Values that many records have in common, or that most of them leave empty: 8 bytes each, and copies share the
// content. They behave like the value; who changes one gets content of his own first.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

template <class T>
class SharedValue {
 public:
  SharedValue() = default;  // T{}, which takes no memory
  SharedValue(T value) : block_(value == T{} ? nullptr : new Block{{1}, std::move(value)}) {}
  SharedValue(const SharedValue& other) : block_(other.block_) {
    if (block_)
      block_->uses.fetch_add(1, std::memory_order_relaxed);
  }
  SharedValue(SharedValue&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  SharedValue& operator=(SharedValue other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~SharedValue() {
    if (block_ && block_->uses.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete block_;
  }

  const T& get() const {
    static const T kNone{};
    return block_ ? block_->value : kNone;
  }
  operator const T&() const { return get(); }
  const T* operator->() const { return &get(); }

  T& edit() {
    if (!block_)
      block_ = new Block{{1}, T{}};
    else if (block_->uses.load(std::memory_order_acquire) != 1)
      *this = SharedValue(new Block{{1}, block_->value});
    return block_->value;
  }
  // Takes the other's content if it is equal.
  void share_with(const SharedValue& other) {
    if (block_ != other.block_ && *this == other)
      *this = other;
  }
  bool shares_with(const SharedValue& other) const { return block_ == other.block_; }

  friend bool operator==(const SharedValue& a, const SharedValue& b) {
    return a.block_ == b.block_ || a.get() == b.get();
  }

 private:
  struct Block {
    std::atomic<std::uint32_t> uses;
    T value;
  };
  explicit SharedValue(Block* block) : block_(block) {}
  Block* block_ = nullptr;  // null = T{}
};

class SharedText : public SharedValue<std::string> {
 public:
  SharedText() = default;
  SharedText(std::string text) : SharedValue(std::move(text)) {}
  SharedText(std::string_view text) : SharedValue(std::string(text)) {}
  SharedText(const char* text) : SharedValue(std::string(text)) {}

  operator std::string_view() const { return get(); }
  bool empty() const { return get().empty(); }
  std::size_t size() const { return get().size(); }
  const char* c_str() const { return get().c_str(); }
  char operator[](std::size_t i) const { return get()[i]; }
  char front() const { return get().front(); }
  char back() const { return get().back(); }
  bool starts_with(std::string_view text) const { return get().starts_with(text); }
  bool ends_with(std::string_view text) const { return get().ends_with(text); }
  template <class What>
  std::size_t find(What what, std::size_t from = 0) const {
    return get().find(what, from);
  }
  template <class What>
  std::size_t rfind(What what) const {
    return get().rfind(what);
  }
  std::string substr(std::size_t from, std::size_t count = std::string::npos) const {
    return get().substr(from, count);
  }
  void clear() { *this = SharedText(); }
  SharedText& operator+=(std::string_view text) {
    edit() += text;
    return *this;
  }

  friend bool operator==(const SharedText& a, const SharedText& b) {
    return static_cast<const SharedValue&>(a) == static_cast<const SharedValue&>(b);
  }
  friend bool operator==(const SharedText& a, const std::string& b) { return a.get() == b; }
  friend bool operator==(const SharedText& a, std::string_view b) { return a.get() == b; }
  friend bool operator==(const SharedText& a, const char* b) { return a.get() == b; }
  friend std::string operator+(const SharedText& a, std::string_view b) { return std::string(a.get()).append(b); }
  friend std::string operator+(std::string_view a, const SharedText& b) { return std::string(a).append(b.get()); }
};

template <class T>
class SharedList : public SharedValue<std::vector<T>> {
  using Base = SharedValue<std::vector<T>>;

 public:
  using value_type = T;
  SharedList() = default;
  SharedList(std::vector<T> items) : Base(std::move(items)) {}
  SharedList(std::initializer_list<T> items) : Base(std::vector<T>(items)) {}

  bool empty() const { return this->get().empty(); }
  std::size_t size() const { return this->get().size(); }
  auto begin() const { return this->get().begin(); }
  auto end() const { return this->get().end(); }
  const T& operator[](std::size_t i) const { return this->get()[i]; }
  const T& front() const { return this->get().front(); }
  const T& back() const { return this->get().back(); }

  // Each of these may copy the content first.
  auto begin() { return this->edit().begin(); }
  auto end() { return this->edit().end(); }
  T& operator[](std::size_t i) { return this->edit()[i]; }
  T& front() { return this->edit().front(); }
  T& back() { return this->edit().back(); }
  void resize(std::size_t count) { this->edit().resize(count); }
  void clear() { *this = SharedList(); }
  void push_back(T item) { this->edit().push_back(std::move(item)); }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    return this->edit().emplace_back(std::forward<Args>(args)...);
  }
};

}  // namespace lockstep
