#include "frontends/kube/server/spdy.h"

#include <zlib.h>

#include "base/check.h"
#include "base/text.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kHeadBytes = 8;
constexpr unsigned kVersion = 3, kLastFlag = 1;
constexpr unsigned kSynStream = 1, kSynReply = 2, kReset = 3, kPingFrame = 6, kGoAway = 7, kHeaders = 8;
constexpr std::uint32_t kStreamMask = 0x7fffffff, kCancel = 5;
constexpr std::size_t kSynStreamHead = 10, kPairsMax = 1000;

// What both ends know of headers beforehand: words, each behind its length, and a tail.
constexpr std::string_view kWords[] = {"options",
                                       "head",
                                       "post",
                                       "put",
                                       "delete",
                                       "trace",
                                       "accept",
                                       "accept-charset",
                                       "accept-encoding",
                                       "accept-language",
                                       "accept-ranges",
                                       "age",
                                       "allow",
                                       "authorization",
                                       "cache-control",
                                       "connection",
                                       "content-base",
                                       "content-encoding",
                                       "content-language",
                                       "content-length",
                                       "content-location",
                                       "content-md5",
                                       "content-range",
                                       "content-type",
                                       "date",
                                       "etag",
                                       "expect",
                                       "expires",
                                       "from",
                                       "host",
                                       "if-match",
                                       "if-modified-since",
                                       "if-none-match",
                                       "if-range",
                                       "if-unmodified-since",
                                       "last-modified",
                                       "location",
                                       "max-forwards",
                                       "pragma",
                                       "proxy-authenticate",
                                       "proxy-authorization",
                                       "range",
                                       "referer",
                                       "retry-after",
                                       "server",
                                       "te",
                                       "trailer",
                                       "transfer-encoding",
                                       "upgrade",
                                       "user-agent",
                                       "vary",
                                       "via",
                                       "warning",
                                       "www-authenticate",
                                       "method",
                                       "get",
                                       "status",
                                       "200 OK",
                                       "version",
                                       "HTTP/1.1",
                                       "url",
                                       "public",
                                       "set-cookie",
                                       "keep-alive",
                                       "origin"};
constexpr std::string_view kTail =
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Au"
    "thoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidd"
    "en404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr Ma"
    "y Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,imag"
    "e/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicpri"
    "vatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

void add_number(std::string& out, std::uint64_t number, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(number >> (8 * i) & 0xff);
}

std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t length = 4) {
  CHECK(at + length <= bytes.size());
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < length; ++i) out = out << 8 | static_cast<unsigned char>(bytes[at + i]);
  return out;
}

std::string control_frame(unsigned kind, unsigned flags, std::string_view body) {
  std::string out;
  add_number(out, 0x8000 | kVersion, 2);
  add_number(out, kind, 2);
  add_number(out, flags, 1);
  add_number(out, body.size(), 3);
  return out.append(body);
}

Error bad_spdy(std::string_view why) { return invalid(format("SPDY: {}", why)); }

Bytef* bytes_of(std::string_view text) {  // zlib only reads there
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

const std::string& spdy_dictionary() {
  static const std::string all = [] {
    std::string out;
    for (const std::string_view word : kWords) {
      add_number(out, word.size(), 4);
      out += word;
    }
    return out.append(kTail);
  }();
  return all;
}

struct SpdySession::Packing {
  z_stream in{}, out{};

  Packing() {
    CHECK(inflateInit(&in) == Z_OK && deflateInit(&out, Z_DEFAULT_COMPRESSION) == Z_OK);
    const std::string& words = spdy_dictionary();
    CHECK(deflateSetDictionary(&out, bytes_of(words), static_cast<uInt>(words.size())) == Z_OK);
  }
  ~Packing() {
    inflateEnd(&in);
    deflateEnd(&out);
  }
  Packing(const Packing&) = delete;
  Packing& operator=(const Packing&) = delete;

  // One block of a stream of blocks. Nothing: it is damaged, or longer than the bound.
  std::optional<std::string> unpack(std::string_view block) {
    std::string all(kSpdyHeadersMax, '\0');
    in.next_in = bytes_of(block);
    in.avail_in = static_cast<uInt>(block.size());
    in.next_out = bytes_of(all);
    in.avail_out = static_cast<uInt>(all.size());
    while (in.avail_in > 0) {
      int done = inflate(&in, Z_SYNC_FLUSH);
      const std::string& words = spdy_dictionary();
      if (done == Z_NEED_DICT)
        done = inflateSetDictionary(&in, bytes_of(words), static_cast<uInt>(words.size()));
      if (done != Z_OK || in.avail_out == 0)
        return std::nullopt;
    }
    all.resize(all.size() - in.avail_out);
    return all;
  }

  std::string pack(std::string_view plain) {
    std::string all(deflateBound(&out, static_cast<uLong>(plain.size())) + 64, '\0');
    out.next_in = bytes_of(plain);
    out.avail_in = static_cast<uInt>(plain.size());
    out.next_out = bytes_of(all);
    out.avail_out = static_cast<uInt>(all.size());
    CHECK(deflate(&out, Z_SYNC_FLUSH) == Z_OK && out.avail_in == 0 && out.avail_out > 0);
    all.resize(all.size() - out.avail_out);
    return all;
  }
};

SpdySession::SpdySession(Events events, std::function<void(std::string)> send)
    : events_(std::move(events)), send_(std::move(send)), packing_(std::make_unique<Packing>()) {}

SpdySession::~SpdySession() = default;

Result<SpdyHeaders> SpdySession::unpack(std::string_view block) {
  const auto plain = packing_->unpack(block);
  if (!plain)
    return bad_spdy("headers are damaged, or too long");
  std::size_t at = 0;
  const auto text = [&](std::string& out) {
    if (at + 4 > plain->size())
      return false;
    const std::size_t length = number_at(*plain, at);
    at += 4;
    if (length > plain->size() - at)
      return false;
    out = plain->substr(at, length);
    at += length;
    return true;
  };
  if (plain->size() < 4)
    return bad_spdy("headers are cut off");
  const std::size_t count = number_at(*plain, 0);
  at = 4;
  if (count > kPairsMax)
    return bad_spdy("a stream has too many headers");
  SpdyHeaders out;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name, value;
    if (!text(name) || !text(value))
      return bad_spdy("headers are cut off");
    out[lower(name)] = std::move(value);
  }
  return out;
}

Result<void> SpdySession::control(std::string_view frame) {
  const unsigned version = number_at(frame, 0, 2) & 0x7fff, kind = number_at(frame, 2, 2),
                 flags = number_at(frame, 4, 1);
  const std::string_view body = frame.substr(kHeadBytes);
  if (version != kVersion)
    return bad_spdy(format("version {} is not spoken", version));
  if (kind == kSynStream) {
    if (body.size() < kSynStreamHead)
      return bad_spdy("a stream's first frame is cut off");
    const std::uint32_t stream = number_at(body, 0) & kStreamMask;
    const SpdyHeaders headers = TRY(unpack(body.substr(kSynStreamHead)));
    if (stream <= last_ || stream % 2 == 0)
      return bad_spdy(format("stream {} is opened out of order", stream));
    if (open_.size() >= kSpdyStreamsMax)
      return bad_spdy("too many streams are open");
    last_ = stream;
    const bool last = (flags & kLastFlag) != 0;
    open_[stream] = {};
    events_.opened(stream, headers, last);
    if (last)
      close_side(stream, &Open::reads);
  } else if (kind == kHeaders || kind == kSynReply) {
    if (body.size() < 4)
      return bad_spdy("headers are cut off");
    TRY(unpack(body.substr(4)));  // the blocks are one stream of bytes: each has to be read
  } else if (kind == kReset) {
    if (body.size() < 8)
      return bad_spdy("a reset is cut off");
    const std::uint32_t stream = number_at(body, 0) & kStreamMask;
    if (open_.erase(stream) > 0)
      events_.reset(stream);
  } else if (kind == kPingFrame) {
    send_(std::string(frame));
  } else if (kind == kGoAway) {
    events_.going();
  }
  return {};  // settings and windows change nothing here
}

Result<void> SpdySession::feed(std::string_view bytes) {
  in_.append(bytes);
  std::size_t used = 0;
  while (in_.size() - used >= kHeadBytes) {
    const std::string_view in = std::string_view(in_).substr(used);
    const std::size_t length = number_at(in, 5, 3);
    if (length > kSpdyFrameMax)
      return bad_spdy("a frame is longer than a megabyte");
    if (in.size() < kHeadBytes + length)
      break;
    const std::string frame(in.substr(0, kHeadBytes + length));
    used += frame.size();
    if ((static_cast<unsigned char>(frame[0]) & 0x80) != 0) {
      TRY(control(frame));
      continue;
    }
    const std::uint32_t stream = number_at(frame, 0) & kStreamMask;
    const bool last = (number_at(frame, 4, 1) & kLastFlag) != 0;
    const auto at = open_.find(stream);
    if (at == open_.end() || !at->second.reads)
      continue;  // it was reset or has ended here, which the client did not know yet
    events_.data(stream, std::string_view(frame).substr(kHeadBytes), last);
    if (last)
      close_side(stream, &Open::reads);
  }
  in_.erase(0, used);
  return {};
}

void SpdySession::close_side(std::uint32_t stream, bool Open::*side) {
  const auto at = open_.find(stream);
  if (at == open_.end())
    return;
  at->second.*side = false;
  if (!at->second.reads && !at->second.writes)
    open_.erase(at);
}

void SpdySession::reply(std::uint32_t stream) {
  std::string body, none;
  add_number(body, stream, 4);
  add_number(none, 0, 4);
  send_(control_frame(kSynReply, 0, body + packing_->pack(none)));
}

std::string spdy_data_frame(std::uint32_t stream, std::string_view bytes, bool last) {
  std::string out;
  add_number(out, stream & kStreamMask, 4);
  add_number(out, last ? kLastFlag : 0, 1);
  add_number(out, bytes.size(), 3);
  return out.append(bytes);
}

void SpdySession::data(std::uint32_t stream, std::string_view bytes, bool last) {
  constexpr std::size_t kPiece = 256 << 10;
  while (bytes.size() > kPiece) {
    send_(spdy_data_frame(stream, bytes.substr(0, kPiece), false));
    bytes.remove_prefix(kPiece);
  }
  if (!bytes.empty() || last)
    send_(spdy_data_frame(stream, bytes, last));
  if (last)
    close_side(stream, &Open::writes);
}

void SpdySession::reset(std::uint32_t stream) {
  open_.erase(stream);
  std::string body;
  add_number(body, stream, 4);
  add_number(body, kCancel, 4);
  send_(control_frame(kReset, 0, body));
}

}  // namespace lockstep::kube
