// Small requests of the API, and lists of submissions.
#include "wire/api.h"
#include "wire/api_fields.h"

namespace lockstep {

namespace wire {

namespace {

// EndJob's body is flat.
struct EndBody {
  std::int32_t code = 0, signal = 0;
  bool oom = false, not_opened = false, client_lost = false;
  Duration ago = {};
};

struct TokenAnswer {
  std::string token;
};

template <class T>
Result<T> decode_body(std::string_view text) {
  return trim(text).empty() ? Result<T>(T{}) : decode_value<T>(text, Origin::kCaller);
}

}  // namespace

template <class V>
constexpr void describe(V& v, const EndBody*) {
  v("code", &EndBody::code, Between{0, 255});
  v("signal", &EndBody::signal, kSignal);
  v("oom", &EndBody::oom);
  v("not_opened", &EndBody::not_opened);
  v("client_lost", &EndBody::client_lost);
  v("ago_us", &EndBody::ago, kSpan);
}

template <class V>
constexpr void describe(V& v, const TokenAnswer*) {
  v.always("token", &TokenAnswer::token);
}

}  // namespace wire

using wire::decode_body;

Result<SubmitBody> decode_submit_body(std::string_view text) {
  // Each element is read by itself, so that one bad request in a list does not refuse the others.
  wire::Reader reader{wire::Origin::kCaller};
  SubmitBody body;
  TRY(wire::with_document(
      text, reader,
      [](wire::Reader& r, const wire::json::value& v, void* out) {
        auto& body = *static_cast<SubmitBody*>(out);
        const auto read_one = [&](const wire::json::value& item, const auto& locate) {
          SubmitRequest request;
          r.path.clear();
          r.message.clear();
          if (wire::Codec<SubmitRequest>::read(r, item, request)) {
            body.requests.emplace_back(std::move(request));
          } else {
            locate();
            body.requests.emplace_back(r.failure());
          }
        };
        if (const auto* list = v.if_array()) {
          body.is_list = true;
          for (std::size_t i = 0; i < list->size(); ++i) read_one((*list)[i], [&] { r.under(i); });
        } else {
          read_one(v, [] {});
        }
        return true;
      },
      &body));
  return body;
}

std::string encode(const std::vector<SubmitRequest>& requests) { return wire::encode_value(requests); }

std::string encode(const CancelJob& cancel) { return wire::encode_value(cancel); }
Result<CancelJob> decode_cancel(std::string_view text) { return decode_body<CancelJob>(text); }
std::string encode(const CancelMany& ask) { return wire::encode_value(ask); }
Result<CancelMany> decode_cancel_many(std::string_view text) { return decode_body<CancelMany>(text); }
std::string encode(const HoldJob& hold) { return wire::encode_value(hold); }
Result<HoldJob> decode_hold(std::string_view text) { return decode_body<HoldJob>(text); }
std::string encode(const RequeueJob& requeue) { return wire::encode_value(requeue); }
Result<RequeueJob> decode_requeue(std::string_view text) { return decode_body<RequeueJob>(text); }
std::string encode(const SignalStep& signal) { return wire::encode_value(signal); }
Result<SignalStep> decode_signal_step(std::string_view text) { return decode_body<SignalStep>(text); }

std::string encode(const EndJob& end) {
  return wire::encode_value(
      wire::EndBody{end.exit.code, end.exit.signal, end.exit.oom, end.exit.not_opened, end.client_lost, end.ago});
}
Result<EndJob> decode_end(std::string_view text) {
  const auto body = TRY(decode_body<wire::EndBody>(text));
  return EndJob{{}, {body.code, body.signal, body.oom, body.not_opened}, body.client_lost, body.ago};
}

Result<User> decode_user(std::string_view text) { return wire::decode_value<User>(text, wire::Origin::kCaller); }

std::string encode(const TokenRequest& request) { return wire::encode_value(request); }
Result<TokenRequest> decode_token_request(std::string_view text) { return decode_body<TokenRequest>(text); }
std::string encode_token_answer(std::string_view token) {
  return wire::encode_value(wire::TokenAnswer{std::string(token)});
}

std::string encode(const JoinRequest& request) { return wire::encode_value(request); }
Result<JoinRequest> decode_join_request(std::string_view text) {
  return wire::decode_value<JoinRequest>(text, wire::Origin::kCaller);
}
std::string encode(const RenewRequest& request) { return wire::encode_value(request); }
Result<RenewRequest> decode_renew_request(std::string_view text) {
  return wire::decode_value<RenewRequest>(text, wire::Origin::kCaller);
}
std::string encode(const JoinAnswer& answer) { return wire::encode_value(answer); }
Result<JoinAnswer> decode_join_answer(std::string_view text) {
  return wire::decode_value<JoinAnswer>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
