#include "wire/step_route.h"

#include "base/text.h"
#include "wire/fields.h"

namespace lockstep {

namespace wire {

template <class V>
constexpr void describe(V& v, const StepTicket*) {
  v.always("job", &StepTicket::job);
  v.always("attempt", &StepTicket::attempt);
  v.always("step", &StepTicket::step);
  v("node", &StepTicket::node);
  v("uid", &StepTicket::uid);
  v("verbs", &StepTicket::verbs);
  v("expires_us", &StepTicket::expires_us);
  v("mac", &StepTicket::mac);
}

template <class V>
constexpr void describe(V& v, const StepMember*) {
  v.always("node", &StepMember::node);
  v("address", &StepMember::address);
  v("port", &StepMember::port);
  v("certificate", &StepMember::certificate);
  v("ranks", &StepMember::ranks, Numbers{});
  v("ticket", &StepMember::ticket);
}

template <class V>
constexpr void describe(V& v, const StepOpen*) {
  v.always("ticket", &StepOpen::ticket);
  v("ranks", &StepOpen::ranks, Numbers{});
  v("below", &StepOpen::below);
  v("ask", &StepOpen::ask, Text{4 << 20, Characters::kAny});
}

template <class V>
constexpr void describe(V& v, const StepRoute*) {
  v.always("members", &StepRoute::members);
}

}  // namespace wire

Result<std::uint8_t> parse_step_verbs(std::string_view text) {
  std::uint8_t verbs = 0;
  for (const auto& word : split(text, ',')) {
    if (word == "output")
      verbs |= kStepOutput;
    else if (word == "input")
      verbs |= kStepInput;
    else if (word == "signal")
      verbs |= kStepSignal;
    else
      return Error{Errc::kInvalid, format("\"{}\" is none of output, input, signal", word), "verbs"};
  }
  if (verbs == 0)
    return Error{Errc::kInvalid, "names nothing: output, input and signal are meant", "verbs"};
  return verbs;
}

std::string signed_text(const StepTicket& t) {
  return format("lockstep-step-ticket/1\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n", t.job.value, t.attempt, t.step, t.node, t.uid,
                unsigned{t.verbs}, t.expires_us);
}

std::string encode(const StepOpen& open) { return wire::encode_value(open); }
Result<StepOpen> decode_step_open(std::string_view text) {
  return wire::decode_value<StepOpen>(text, wire::Origin::kStranger);
}

std::string encode(const StepRoute& route) { return wire::encode_value(route); }
Result<StepRoute> decode_step_route(std::string_view text) {
  return wire::decode_value<StepRoute>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
