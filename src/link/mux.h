// Mux: byte streams over one framed connection, each with its own credit, so that one slow reader does not stop the
// others; and in turn by owner, so that one user's flood does not delay another's few bytes. The two ends share the
// numbers of streams between them: even ones belong to one side, odd ones to the other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/fair_queue.h"
#include "ports/loop.h"
#include "wire/frame.h"

namespace lockstep {

class MuxStream;

class Mux : public std::enable_shared_from_this<Mux> {
 public:
  static constexpr std::size_t kStreamsMax = 20'000;
  static constexpr std::string_view kEnded = "the other side closed the connection";  // without a fault of its own

  struct Handlers {
    std::function<void(Frame)> frame;  // every frame that does not belong to a stream, and ends of others
    std::function<void(const std::string& why)> closing{};  // once, before its streams are told of their end
    std::function<void(std::string why)> closed;            // once, not from the destructor
  };
  static std::shared_ptr<Mux> start(std::unique_ptr<Stream> connection, Handlers handlers);
  // In two steps, for one whose handlers use the mux: nothing is read before begin().
  static std::shared_ptr<Mux> make(std::unique_ptr<Stream> connection, Handlers handlers);
  void begin();
  ~Mux();

  // At once, before what waits in streams. A payload that no peer would take ends the connection.
  void send(LinkFrame type, std::uint64_t id, std::string_view payload);
  // Our end of a stream, which may outlive the connection; closed and dropped, what was written still leaves.
  // owner: whose turn it takes, a user id.
  std::unique_ptr<Stream> stream(std::uint64_t id, std::uint64_t owner = 0);
  void keep(std::uint64_t id, std::shared_ptr<void> until_it_ends);  // of a stream we have
  bool has(std::uint64_t id) const { return streams_.contains(id); }
  std::size_t streams() const { return streams_.size(); }
  std::size_t unsent() const { return connection_->unsent(); }
  std::uint64_t frames() const { return frames_; }  // received so far: grows while the peer is alive
  bool closed() const { return closed_; }
  void pause(bool paused) { connection_->pause(paused); }  // what the peer sends is left unread
  void close(std::string why);                             // as if the peer had: every stream ends
  void silence() { handlers_ = {}; }

 private:
  friend class MuxStream;
  Mux(std::unique_ptr<Stream> connection, Handlers handlers);
  void receive(std::string_view bytes);
  void take(Frame frame);
  void pump();
  std::shared_ptr<MuxStream> find(std::uint64_t id) const;

  std::unique_ptr<Stream> connection_;
  Handlers handlers_;
  FrameReader reader_{link_frame_bound};
  bool closed_ = false, pumping_ = false;
  std::uint64_t frames_ = 0;
  std::map<std::uint64_t, std::shared_ptr<MuxStream>> streams_;
  FairQueue<std::uint64_t, std::uint64_t> turns_;  // streams with something to send and credit for it, by owner
};

}  // namespace lockstep
