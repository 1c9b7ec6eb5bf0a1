// Requests of the API and its errors.
#include "wire/api_fields.h"
#include "wire/codec.h"

namespace lockstep {

namespace wire {

template struct StructCodec<SubmitRequest>;
template struct StructCodec<Error>;

namespace {
struct ErrorBody {
  Error error;
};
}  // namespace

template <class V>
constexpr void describe(V& v, const ErrorBody*) {
  v.always("error", &ErrorBody::error);
}

}  // namespace wire

std::string encode(const SubmitRequest& request) { return wire::encode_value(request); }
std::string encode(const StepRequest& request) { return wire::encode_value(request); }
std::string encode(const UpdateJob& update) { return wire::encode_value(update); }
std::string encode(const UpdateNode& update) { return wire::encode_value(update); }

Result<SubmitRequest> decode_submit(std::string_view text) {
  return wire::decode_value<SubmitRequest>(text, wire::Origin::kStranger);
}
Result<StepRequest> decode_step_request(std::string_view text) {
  return wire::decode_value<StepRequest>(text, wire::Origin::kCaller);
}
Result<UpdateJob> decode_update_job(std::string_view text) {
  return wire::decode_value<UpdateJob>(text, wire::Origin::kCaller);
}
Result<UpdateNode> decode_update_node(std::string_view text) {
  return wire::decode_value<UpdateNode>(text, wire::Origin::kCaller);
}

std::string encode_error(const Error& error) { return wire::encode_value(wire::ErrorBody{error}); }

int http_status_of(Errc code) {
  switch (code) {
    case Errc::kInvalid: return 400;
    case Errc::kImpossible: return 422;
    case Errc::kNotFound: return 404;
    case Errc::kConflict: return 409;
    case Errc::kDenied: return 403;
    case Errc::kUnavailable: return 503;
    case Errc::kExhausted: return 429;
    case Errc::kTimeout: return 504;
    case Errc::kUnsupported: return 501;
    case Errc::kIo:
    case Errc::kCorrupt:
    case Errc::kInternal: return 500;
  }
  return 500;
}

namespace {

// For answers that are not ours: a proxy's, or a peer of another version.
Errc code_of(int http_status) {
  switch (http_status) {
    case 400: return Errc::kInvalid;
    case 401:
    case 403: return Errc::kDenied;
    case 404: return Errc::kNotFound;
    case 409: return Errc::kConflict;
    case 413:
    case 429: return Errc::kExhausted;
    case 422: return Errc::kImpossible;
    case 501: return Errc::kUnsupported;
    case 408:
    case 504: return Errc::kTimeout;
    case 502:
    case 503: return Errc::kUnavailable;
    default: return Errc::kInternal;
  }
}

}  // namespace

Error decode_error(std::string_view text, int http_status) {
  auto body = wire::decode_value<wire::ErrorBody>(text, wire::Origin::kStranger);
  if (body.ok() && !body->error.message.empty())
    return std::move(body->error);
  constexpr std::size_t kShown = 200;
  const std::string_view shown = trim(text.substr(0, kShown));
  return {code_of(http_status),
          format("the controller answered {}{}{}", http_status, shown.empty() ? "" : ": ", shown),
          {}};
}

}  // namespace lockstep
