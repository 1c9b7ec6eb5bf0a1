// AccountBook: keeps the records of local users as the machine's user database has them, at most a minute old. The
// database may take seconds or never answer (LDAP), so threads of its own ask it, and who waits for it waits a bounded
// time: the last answer stands meanwhile.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "model/records.h"
#include "ports/loop.h"

namespace lockstep {

// What the machine's user database says of a uid: nothing when it has no such user; an error when it cannot say.
// Blocks.
Result<std::optional<User>> look_up_account(std::uint32_t uid);
// The record of a uid that no database knows. gid: what is proven of it.
User made_up_account(std::uint32_t uid, std::uint32_t gid);

class AccountBook {
 public:
  using Lookup = std::function<Result<std::optional<User>>(std::uint32_t uid)>;
  using Then = std::function<void(Result<void>)>;
  struct World {
    EventLoop& loop;
    Lookup lookup;  // on a thread of the book
    std::function<Instant()> now;
    std::function<const User*(std::uint32_t uid)> known;  // the record of a local user; null = there is none
    std::function<void(User, Then)> put;                  // by_database
  };
  explicit AccountBook(World world);
  ~AccountBook();
  AccountBook(const AccountBook&) = delete;
  AccountBook& operator=(const AccountBook&) = delete;

  // Whether the last answer is older than kAccountAge, or there is none.
  bool is_due(std::uint32_t uid) const;
  // Brings the record up to date, or makes it, then calls `then`: after `patience` at the latest, with an error only if
  // there is no record by then. gid: for the made-up record of a user that the database does not know.
  void ask(std::uint32_t uid, std::uint32_t gid, Duration patience, Then then);
  // The same for all of these that are due, without anybody waiting.
  void refresh(const std::vector<std::uint32_t>& uids);

 private:
  struct Desk;  // shared with the threads, which may outlive us in a question that is never answered
  struct Entry {
    Instant tried;              // when the last answer came, or was not waited for any longer; 0 = never
    std::uint32_t missing = 0;  // answers in a row that there is no such user
    bool asked = false;         // a question is under way
    std::uint32_t gid = 0;
    std::map<std::uint64_t, std::pair<TimerId, Then>> waiting;
  };
  void answered(std::uint32_t uid, Result<std::optional<User>> answer);
  void settle(std::uint32_t uid, const Result<void>& result);
  void question(std::uint32_t uid, Entry& entry);

  World world_;
  std::shared_ptr<Desk> desk_;
  std::map<std::uint32_t, Entry> entries_;
  std::uint64_t next_ = 1;
};

inline constexpr Duration kAccountAge = seconds(30);    // of an answer, before it is asked for again
inline constexpr Duration kAccountSweep = seconds(15);  // between two looks at whose work is there

}  // namespace lockstep
