#include "wire/container_ask_text.h"

#include "wire/fields.h"

namespace lockstep {

// Found by the type's namespace: nobody else writes it.
static wire::WordList words_of(ContainerAsk::What) {
  static constexpr std::string_view kWords[] = {"logs", "exec", "attach", "port", "look"};
  return kWords;
}

namespace wire {

template <>
inline constexpr std::size_t kUnwritten<ContainerAsk> = 3;  // where it ran and whose it was: the ticket says so

template <class V>
constexpr void describe(V& v, const ContainerAsk*) {
  v.always("what", &ContainerAsk::what);
  v("job", &ContainerAsk::job);
  v("group", &ContainerAsk::group);
  v("index", &ContainerAsk::index);
  v("container", &ContainerAsk::container, bounded::kName);
  v("previous", &ContainerAsk::previous);
  v("follow", &ContainerAsk::follow);
  v("times", &ContainerAsk::times);
  v("since_us", &ContainerAsk::since);
  v("tail", &ContainerAsk::tail);
  v("bytes_max", &ContainerAsk::bytes_max);
  v("argv", &ContainerAsk::argv, bounded::kArgv);
  v("input", &ContainerAsk::input);
  v("output", &ContainerAsk::output);
  v("error", &ContainerAsk::error);
  v("terminal", &ContainerAsk::terminal);
  v("port", &ContainerAsk::port);
}

template <class V>
constexpr void describe(V& v, const NodeContainerAsk*) {
  v.always("ask", &NodeContainerAsk::ask);
  v.always("work", &NodeContainerAsk::work, bounded::kName);
}

}  // namespace wire

std::string encode_container_ask(const NodeContainerAsk& ask) { return wire::encode_value(ask); }

Result<NodeContainerAsk> decode_container_ask(std::string_view text) {
  return wire::decode_value<NodeContainerAsk>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
