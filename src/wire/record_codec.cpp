// The envelope, and every record but the job.
#include "wire/codec.h"
#include "wire/record_fields.h"

namespace lockstep {

namespace wire {

template struct StructCodec<Meta>;
template struct StructCodec<Cluster>;
template struct StructCodec<User>;
template struct StructCodec<Partition>;
template struct StructCodec<Topology>;
template struct StructCodec<Packing>;
template struct StructCodec<Node>;
template struct StructCodec<JoinToken>;
template struct StructCodec<StepSpec>;
template struct StructCodec<Step>;
template struct StructCodec<Task>;
template struct StructCodec<Object>;

}  // namespace wire

std::string encode_record(const Record& record) {
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
  switch (kind) {
    case Kind::kCluster: return decode_one<Cluster>(text);
    case Kind::kUser: return decode_one<User>(text);
    case Kind::kAccount: return decode_one<Account>(text);
    case Kind::kPartition: return decode_one<Partition>(text);
    case Kind::kNode: return decode_one<Node>(text);
    case Kind::kToken: return decode_one<JoinToken>(text);
    case Kind::kJob: return decode_one<Job>(text);
    case Kind::kStep: return decode_one<Step>(text);
    case Kind::kTask: return decode_one<Task>(text);
    case Kind::kObject: return decode_one<Object>(text);
    case Kind::kAssociation: return decode_one<Association>(text);
    case Kind::kQos: return decode_one<Qos>(text);
    case Kind::kUsage: return decode_one<Usage>(text);
    case Kind::kLicence: return decode_one<Licence>(text);
    case Kind::kReservation: return decode_one<Reservation>(text);
    case Kind::kPolicy: return decode_one<Policy>(text);
    case Kind::kTopology: return decode_one<Topology>(text);
    case Kind::kPacking: return decode_one<Packing>(text);
  }
  return invalid("no such kind of record");
}

std::string encode_partition(const Partition& partition) { return wire::encode_value(partition); }

Result<Partition> decode_partition(std::string_view text) {
  return wire::decode_value<Partition>(text, wire::Origin::kStranger);
}

Result<Topology> decode_topology(std::string_view text) {
  return wire::decode_value<Topology>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
