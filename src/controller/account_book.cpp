#include "controller/account_book.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/mutant.h"
#include "base/text.h"
#include "base/thread.h"

namespace lockstep {

namespace {

constexpr std::size_t kThreadsMax = 4;         // so that a question without an answer does not stop the others
constexpr std::size_t kQuestionsMax = 10'000;  // that wait for a thread
constexpr std::size_t kBufferMax = 1 << 20;    // of one entry of the database
constexpr std::uint32_t kMissingBelieved = 2;  // a database that restarts also knows nobody for a moment

std::vector<std::uint32_t> groups_of(const std::string& name, std::uint32_t gid) {
  std::vector<gid_t> groups(64);
  int count = static_cast<int>(groups.size());
  while (getgrouplist(name.c_str(), gid, groups.data(), &count) < 0) {
    if (count <= static_cast<int>(groups.size()))
      break;
    groups.resize(static_cast<std::size_t>(count));
  }
  groups.resize(static_cast<std::size_t>(std::clamp(count, 0, static_cast<int>(groups.size()))));
  std::vector<std::uint32_t> out(groups.begin(), groups.end());
  std::sort(out.begin(), out.end());
  return out;
}

bool same_account(const User& a, const User& b) {
  return a.meta.name == b.meta.name && a.gid == b.gid && a.groups == b.groups && a.home == b.home && a.shell == b.shell;
}

}  // namespace

Result<std::optional<User>> look_up_account(std::uint32_t uid) {
  std::vector<char> buffer(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  int failed = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  while (failed == ERANGE && buffer.size() < kBufferMax) {
    buffer.resize(buffer.size() * 2);
    failed = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  }
  if (failed != 0 && failed != ENOENT && failed != ESRCH)
    return Error{Errc::kUnavailable, format("the user database cannot say who uid {} is", uid), {}};
  if (!found)
    return std::optional<User>();
  User user;
  user.uid = uid;
  user.meta.name = found->pw_name;
  user.gid = found->pw_gid;
  user.home = found->pw_dir;
  user.shell = found->pw_shell && *found->pw_shell ? found->pw_shell : "/bin/sh";
  user.groups = groups_of(user.meta.name, user.gid);
  return std::optional<User>(std::move(user));
}

User made_up_account(std::uint32_t uid, std::uint32_t gid) {
  User user;
  user.uid = uid;
  user.gid = gid;
  user.groups = {gid};
  user.meta.name = format("uid{}", uid);
  user.home = "/";
  user.shell = "/bin/sh";
  return user;
}

struct AccountBook::Desk {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::uint32_t> questions;
  std::size_t threads = 0, idle = 0;
  AccountBook* book = nullptr;  // null once it is gone: answers are nobody's any more
  EventLoop* loop = nullptr;
  Lookup lookup;

  static void work(const std::shared_ptr<Desk>& desk) {
    std::unique_lock lock(desk->mutex);
    for (;;) {
      ++desk->idle;
      desk->wake.wait(lock, [&] { return !desk->book || !desk->questions.empty(); });
      --desk->idle;
      if (!desk->book)
        return;
      const std::uint32_t uid = desk->questions.front();
      desk->questions.pop_front();
      lock.unlock();
      auto answer = std::make_shared<Result<std::optional<User>>>(desk->lookup(uid));
      lock.lock();
      // Under the lock, so that the loop is still there; on the loop's thread, so that the book is.
      if (desk->book)
        desk->loop->post([desk, uid, answer] {
          if (desk->book)
            desk->book->answered(uid, std::move(*answer));
        });
    }
  }
};

AccountBook::AccountBook(World world) : world_(std::move(world)), desk_(std::make_shared<Desk>()) {
  desk_->book = this;
  desk_->loop = &world_.loop;
  desk_->lookup = world_.lookup;
}

AccountBook::~AccountBook() {
  for (auto& [uid, entry] : entries_)
    for (auto& [id, waiting] : entry.waiting) world_.loop.cancel(waiting.first);
  const std::lock_guard lock(desk_->mutex);
  desk_->book = nullptr;
  desk_->wake.notify_all();
}

bool AccountBook::is_due(std::uint32_t uid) const {
  const auto it = entries_.find(uid);
  if (it == entries_.end() || !it->second.tried)
    return true;
  return !mutant(Mutant::kStaleGroup) && it->second.tried + kAccountAge <= world_.now();
}

void AccountBook::question(std::uint32_t uid, Entry& entry) {
  if (entry.asked)
    return;
  const std::lock_guard lock(desk_->mutex);
  if (desk_->questions.size() >= kQuestionsMax)
    return;  // whoever waits goes on with the last answer
  entry.asked = true;
  desk_->questions.push_back(uid);
  // Threads are not joined: one that never hears from the database must not keep the controller from ending.
  if (desk_->idle < desk_->questions.size() && desk_->threads < kThreadsMax) {
    if (auto thread = start_thread([desk = desk_] { Desk::work(desk); })) {
      thread->detach();
      ++desk_->threads;
    } else if (desk_->threads == 0) {  // nobody would ever look
      desk_->questions.pop_back();
      return desk_->loop->post([desk = desk_, uid, why = thread.error()] {
        if (desk->book)
          desk->book->answered(uid, Error{Errc::kUnavailable, why.message, {}});
      });
    }
  }
  desk_->wake.notify_one();
}

void AccountBook::ask(std::uint32_t uid, std::uint32_t gid, Duration patience, Then then) {
  Entry& entry = entries_[uid];
  entry.gid = gid;
  const std::uint64_t id = next_++;
  const TimerId timer = world_.loop.after(patience, [this, uid, id] {
    Entry& asked = entries_.at(uid);
    const auto it = asked.waiting.find(id);
    const Then late = std::move(it->second.second);
    asked.waiting.erase(it);
    asked.tried = world_.now();
    if (world_.known(uid))
      return late({});
    late(Error{Errc::kUnavailable,
               format("the user database of the controller's machine does not say who uid {} is: try again later", uid),
               {}});
  });
  entry.waiting.emplace(id, std::pair(timer, std::move(then)));
  question(uid, entry);
}

void AccountBook::refresh(const std::vector<std::uint32_t>& uids) {
  for (const std::uint32_t uid : uids)
    if (is_due(uid))
      question(uid, entries_[uid]);
}

void AccountBook::answered(std::uint32_t uid, Result<std::optional<User>> answer) {
  Entry& entry = entries_.at(uid);
  entry.asked = false;
  entry.tried = world_.now();
  const User* known = world_.known(uid);
  if (!answer.ok())
    return settle(uid, known ? Result<void>{} : Result<void>(answer.error()));
  entry.missing = *answer ? 0 : entry.missing + 1;
  User fresh = *answer ? std::move(**answer) : known ? *known : made_up_account(uid, entry.gid);
  if (!*answer && known && entry.missing >= kMissingBelieved)
    fresh.groups = {known->gid};
  if (known && same_account(fresh, *known))
    return settle(uid, {});
  world_.put(std::move(fresh), [this, uid, alive = std::weak_ptr<Desk>(desk_)](const Result<void>& put) {
    if (!alive.expired())
      settle(uid, put);
  });
}

void AccountBook::settle(std::uint32_t uid, const Result<void>& result) {
  for (auto& [id, waiting] : std::exchange(entries_.at(uid).waiting, {})) {
    world_.loop.cancel(waiting.first);
    waiting.second(result);
  }
}

}  // namespace lockstep
