// The envelope, and every record.
#include "model/job_fields.h"
#include "model/record_fields.h"
#include "wire/codec.h"
#include "wire/fields.h"

namespace lockstep {

namespace wire {

template struct StructCodec<Meta>;
template struct StructCodec<IssuedCertificate>;
template struct StructCodec<StepSpec>;
template struct StructCodec<ContainerStatus>;
#define KIND(type, name, word, table, count, seen) template struct StructCodec<type>;
#include "model/kinds.def"

}  // namespace wire

std::string encode_record(const VisibleRecord& record) { return encode_whole(record.record()); }

std::string encode_whole(const Record& record) {
  wire::Writer w;
  std::visit([&w]<class T>(const Ref<T>& ref) { wire::Codec<T>::write(w, *ref, wire::default_of<T>()); }, record);
  return std::move(w.out);
}

namespace {
template <class T>
Result<Record> decode_one(std::string_view text) {
  return Record(std::make_shared<const T>(TRY(wire::decode_value<T>(text, wire::Origin::kOurselves))));
}
}  // namespace

Result<Record> decode_record(Kind kind, std::string_view text) {
  static constexpr Result<Record> (*kDecoders[])(std::string_view) = {
#define KIND(type, name, word, table, count, seen) decode_one<type>,
#include "model/kinds.def"
  };
  const auto i = static_cast<std::size_t>(kind);
  return i < std::size(kDecoders) ? kDecoders[i](text) : invalid("no such kind of record");
}

std::string encode_partition(const Partition& partition) { return wire::encode_value(partition); }

Result<Partition> decode_partition(std::string_view text) {
  return wire::decode_value<Partition>(text, wire::Origin::kCaller);
}

Result<Topology> decode_topology(std::string_view text) {
  return wire::decode_value<Topology>(text, wire::Origin::kCaller);
}

Result<NodeClass> decode_node_class(std::string_view text) {
  return wire::decode_value<NodeClass>(text, wire::Origin::kCaller);
}
Result<HealthCheck> decode_health_check(std::string_view text) {
  return wire::decode_value<HealthCheck>(text, wire::Origin::kCaller);
}

}  // namespace lockstep
