#include "wire/service_table.h"

#include <optional>

#include "base/text.h"
#include "wire/fields.h"

namespace lockstep {

namespace wire {

namespace {
constexpr std::size_t kPortsMax = 1 << 10, kEndsMax = 16 << 10;
}

template <class V>
constexpr void describe(V& v, const ServicePort*) {
  v("name", &ServicePort::name, bounded::kName);
  v("protocol", &ServicePort::protocol, bounded::kName);
  v("port", &ServicePort::port);
  v("node_port", &ServicePort::node_port);
}

template <class V>
constexpr void describe(V& v, const ServiceFact*) {
  v("space", &ServiceFact::space, bounded::kName);
  v("name", &ServiceFact::name, bounded::kName);
  v("order", &ServiceFact::order);
  v("address", &ServiceFact::address, bounded::kName);
  v("external", &ServiceFact::external, Items{kPortsMax});
  v("alias", &ServiceFact::alias, Text{1 << 10});
  v("headless", &ServiceFact::headless);
  v("ports", &ServiceFact::ports, Items{kPortsMax});
  v("affinity_s", &ServiceFact::affinity_s);
  v("local_inside", &ServiceFact::local_inside);
  v("local_outside", &ServiceFact::local_outside);
  v("health_port", &ServiceFact::health_port);
  v("is_controller", &ServiceFact::is_controller);
  v("answers_names", &ServiceFact::answers_names);
}

template <class V>
constexpr void describe(V& v, const ServiceEnd*) {
  v("address", &ServiceEnd::address, bounded::kName);
  v("node", &ServiceEnd::node, bounded::kName);
  v("host", &ServiceEnd::host, bounded::kName);
  v("ready", &ServiceEnd::ready);
  v("serving", &ServiceEnd::serving);
  v("going", &ServiceEnd::going);
}

template <class V>
constexpr void describe(V& v, const ServiceEnds*) {
  v("space", &ServiceEnds::space, bounded::kName);
  v("name", &ServiceEnds::name, bounded::kName);
  v("service", &ServiceEnds::service, bounded::kName);
  v("ports", &ServiceEnds::ports, Items{kPortsMax});
  v("ends", &ServiceEnds::ends, Items{kEndsMax});
}

template <class V>
constexpr void describe(V& v, const NodeFact*) {
  v("name", &NodeFact::name, bounded::kName);
  v("address", &NodeFact::address, bounded::kName);
  v("range", &NodeFact::range, bounded::kName);
}

template <class V>
constexpr void describe(V& v, const ServiceHead*) {
  v("zone", &ServiceHead::zone, bounded::kName);
  v("range", &ServiceHead::range, bounded::kName);
  v("anew", &ServiceHead::anew);
}

template <class V>
constexpr void describe(V& v, const ServiceGone*) {
  v("kind", &ServiceGone::kind, bounded::kName);
  v("space", &ServiceGone::space, bounded::kName);
  v("name", &ServiceGone::name, bounded::kName);
}

template <class V>
constexpr void describe(V& v, const ServiceMark*) {
  v("epoch", &ServiceMark::epoch, bounded::kName);
  v("version", &ServiceMark::version);
}

}  // namespace wire

namespace {

// One member is there: it says of which kind the line is.
struct ServiceLineForm {
  std::optional<ServiceHead> head;
  std::optional<ServiceFact> service;
  std::optional<ServiceEnds> ends;
  std::optional<NodeFact> node;
  std::optional<ServiceGone> gone;
  std::optional<ServiceMark> mark;
};

}  // namespace

namespace wire {

template <class V>
constexpr void describe(V& v, const ServiceLineForm*) {
  v("head", &ServiceLineForm::head);
  v("service", &ServiceLineForm::service);
  v("ends", &ServiceLineForm::ends);
  v("node", &ServiceLineForm::node);
  v("gone", &ServiceLineForm::gone);
  v("mark", &ServiceLineForm::mark);
}

}  // namespace wire

std::string encode_service_line(const ServiceLine& line) {
  struct Put {
    ServiceLineForm& form;
    void operator()(const ServiceHead& one) { form.head = one; }
    void operator()(const ServiceFact& one) { form.service = one; }
    void operator()(const ServiceEnds& one) { form.ends = one; }
    void operator()(const NodeFact& one) { form.node = one; }
    void operator()(const ServiceGone& one) { form.gone = one; }
    void operator()(const ServiceMark& one) { form.mark = one; }
  };
  ServiceLineForm form;
  std::visit(Put{form}, line);
  return wire::encode_value(form) + "\n";
}

Result<ServiceLine> decode_service_line(std::string_view text) {
  if (text.size() > kServiceLineMax)
    return invalid(format("a line of {} bytes; {} are allowed", text.size(), kServiceLineMax));
  ServiceLineForm form = TRY(wire::decode_value<ServiceLineForm>(text, wire::Origin::kStranger));
  if (form.head)
    return ServiceLine(std::move(*form.head));
  if (form.service)
    return ServiceLine(std::move(*form.service));
  if (form.ends)
    return ServiceLine(std::move(*form.ends));
  if (form.node)
    return ServiceLine(std::move(*form.node));
  if (form.gone)
    return ServiceLine(std::move(*form.gone));
  if (form.mark)
    return ServiceLine(std::move(*form.mark));
  return invalid("a line of the service table that says nothing known");
}

}  // namespace lockstep
