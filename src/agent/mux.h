// Mux: byte streams over one framed connection, each with its own credit, so that one slow reader does not stop the
// others. The two ends share the numbers of streams between them: even ones belong to one side, odd ones to the other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ports/loop.h"
#include "wire/frame.h"

namespace lockstep {

class MuxStream;

class Mux : public std::enable_shared_from_this<Mux> {
 public:
  static constexpr std::size_t kStreamsMax = 20'000;

  struct Handlers {
    std::function<void(Frame)> frame;             // every frame that does not belong to a stream we have
    std::function<void(std::string why)> closed;  // once, not from the destructor
  };
  static std::shared_ptr<Mux> start(std::unique_ptr<Stream> connection, Handlers handlers);
  ~Mux();

  void send(LinkFrame type, std::uint64_t id, std::string_view payload);
  std::unique_ptr<Stream> stream(std::uint64_t id);  // our end of it, which may outlive the connection
  bool has(std::uint64_t id) const { return streams_.contains(id); }
  std::size_t streams() const { return streams_.size(); }
  std::uint64_t frames() const { return frames_; }  // received so far: grows while the peer is alive
  bool closed() const { return closed_; }
  void close(std::string why);  // as if the peer had: every stream ends
  void silence() { handlers_ = {}; }

 private:
  friend class MuxStream;
  Mux(std::unique_ptr<Stream> connection, Handlers handlers);
  void receive(std::string_view bytes);
  void take(Frame frame);

  std::unique_ptr<Stream> connection_;
  Handlers handlers_;
  FrameReader reader_;
  bool closed_ = false;
  std::uint64_t frames_ = 0;
  std::map<std::uint64_t, MuxStream*> streams_;
};

}  // namespace lockstep
