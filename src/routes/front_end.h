// What a front end mounts in the controller: rows, each answered by a page or by a handler, and readers of what is
// committed.
//
// A page is a pure function of the tables and the request (views/read_context.h). A handler gets a FrontVisit, which is
// all it has of the controller: it reads, proposes commands, and answers once, at once or later. Whose turn it is, who
// may ask, how much memory an answer may take and how slow a reader may be is the controller's business.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/command.h"
#include "model/container_ask.h"
#include "ports/http.h"
#include "routes/route.h"
#include "views/read_context.h"

namespace lockstep {

// What a streamed answer has to say next.
enum class Pulled : unsigned char {
  kMore,     // something was added, and there is more at once
  kNothing,  // nothing more for now: asked again when records have changed
  kEnd,      // that was all
};
// Adds the next piece behind `out`, a millisecond's work at most. Called on the I/O thread in the caller's turn.
using Pull = std::function<Pulled(std::string& out)>;

// One request for a handler, on the I/O thread, and only there. Answered exactly once, by one of the members from
// answer() on; dropped unanswered it is a 500.
class FrontVisit {
 public:
  virtual ~FrontVisit() = default;
  virtual const HttpRequest& request() const = 0;
  virtual const std::vector<std::string>& names() const = 0;  // what the path has under the stars
  virtual const Caller& caller() const = 0;
  // The cluster with every commit whose caller was answered. It moves on when the loop does: what is needed later is
  // held by Ref, or looked up again.
  virtual std::shared_ptr<const ReadContext> read() const = 0;

  // Bytes to be kept with the next commit, and the id by which its jobs name them (script, environment). Ids of what
  // others stored are refused.
  virtual BlobId store(std::string bytes) = 0;
  // Does these one after the other as one command of the caller's: all of them, or none. Errors name which
  // ("body.name", "also[0].name"); a single one's do not. At most kTogetherMax, and what the core lets together
  // (Command::also). What a caller may store and have waiting is counted as in the API's own submissions. The visit is
  // still to be answered.
  virtual void commit(std::vector<CommandBody> bodies, std::function<void(Result<Answer>)> then) {
    commit(std::move(bodies), {}, std::move(then));
  }
  // The same, refused with kConflict unless all is as it was read.
  virtual void commit(std::vector<CommandBody> bodies, Reading read, std::function<void(Result<Answer>)> then) = 0;
  // The same with the cluster's own rights instead of the caller's: on rows of Right::kJudged, where the front end has
  // judged what the caller may. So work may be of another user than the caller is.
  virtual void commit_judged(std::vector<CommandBody> bodies, Reading read,
                             std::function<void(Result<Answer>)> then) = 0;

  // Does the work beside the I/O thread, when it is its caller's turn there, then `then` here: for what takes long and
  // looks at nothing that changes meanwhile. Its time is charged to the caller. kExhausted: too many of the caller's
  // are waiting; neither is called then.
  virtual Result<void> aside(std::function<void()> work, std::function<void()> then) = 0;

  virtual void answer(HttpResponse response) = 0;
  virtual void refuse(const Error& why, int status = 0) = 0;  // 0: as the error's code says
  virtual void write(PageReply reply) = 0;                    // a long answer, piece by piece
  // A head at once, then what is pulled, for as long as the client listens, at most `longest`. A client that does not
  // read is cut off.
  virtual void stream(HttpResponse head, Pull pull, Duration longest) = 0;
  // A head at once, then what the front end writes, until it closes the stream: it minds itself how much the client has
  // not read. Null: the client is gone, or has been refused.
  virtual std::unique_ptr<Stream> open(HttpResponse head) = 0;
  // A stream to the container where it runs, or why there is none. Later, on the I/O thread; the visit is still to be
  // answered.
  virtual void reach(const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) = 0;
  // 101: the connection becomes the caller's own. Null: the client is gone, or has been refused.
  virtual std::unique_ptr<Stream> upgrade(const std::string& protocol,
                                          const std::map<std::string, std::string>& headers = {}) = 0;
};
using FrontHandler = std::function<void(std::shared_ptr<FrontVisit>)>;

// Bytes of a body that are read where the request is answered; longer ones are read aside.
inline constexpr std::size_t kReadAtOnce = 16 << 10;

// The body as `decode` reads it, aside where it is long; then `then` has it. A caller who has too many waiting is
// refused.
template <class Decode, class Then>
void decode_body(const std::shared_ptr<FrontVisit>& visit, Decode decode, Then then) {
  using Body = decltype(decode(visit->request().body));
  if (visit->request().body.size() <= kReadAtOnce)
    return then(decode(visit->request().body));
  const auto body = std::make_shared<std::optional<Body>>();
  if (const auto taken = visit->aside([visit, decode, body] { body->emplace(decode(visit->request().body)); },
                                      [body, then]() mutable { then(std::move(**body)); });
      !taken.ok())
    visit->refuse(taken.error());
}

struct FrontPage {
  PageKind kind = PageKind::kLive;
  Page page;
};

struct FrontRoute {
  Route route;  // of anybody's, users' or administrators' right: who owns what its path names, a front end judges
  std::variant<FrontPage, FrontHandler> work;
};

// The row of a page: for users, to be read.
inline FrontRoute page_row(std::string_view path, PageKind kind, Page page, std::string_view query = {},
                           Reach reach = Reach::kNothing) {
  return {{"GET", path, Right::kUser, Cost::kList, kNoBody, query, reach}, FrontPage{kind, std::move(page)}};
}

// What a front end may do by itself, when nobody asks: on the I/O thread, and with the cluster's own rights. Lives as
// long as the controller; what it has taken on is dropped with it.
class FrontHands {
 public:
  virtual ~FrontHands() = default;
  // The cluster as it is now. It moves on when the loop does.
  virtual const Tables& tables() const = 0;
  virtual Instant now() const = 0;
  virtual Duration wall_offset() const = 0;
  virtual void after(Duration delay, std::function<void()> task) = 0;
  // As a visit's.
  virtual void reach(const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) = 0;
  virtual void commit(std::vector<CommandBody> bodies, Reading read, std::function<void(Result<Answer>)> then) = 0;
};

// Follows what is committed, on the I/O thread, before anybody is answered who asked for it.
class FrontReader {
 public:
  virtual ~FrontReader() = default;
  virtual void begin(const Tables& tables) = 0;  // once, before all else
  // Once, when the controller can be asked for something.
  virtual void meet(const std::shared_ptr<FrontHands>& /*hands*/) {}
  // before: the tables as they were without this change.
  virtual void change(const Tables& before, const Change& change) = 0;
  // What it counts, in Prometheus' text format; part of the cluster's own page.
  virtual std::string metrics() const { return {}; }
  // A node has told what it measured; it stands in `live`.
  virtual void measured(const Tables& /*tables*/, const LiveUse& /*live*/, const Node& /*node*/) {}
};

}  // namespace lockstep
