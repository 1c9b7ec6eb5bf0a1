#include "controller/poison.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kNoteBytes = 4096;  // first 4: length of the text that follows, 0 = nothing is being applied
constexpr std::size_t kTrippedAt = kNoteBytes - 1;  // 1 = the process stopped itself (abort) while applying it

// A failed CHECK ends in abort(). A process that is killed, or loses its machine, in the middle of a command says
// nothing against the command. Signal handlers have no place for state but a global.
char* volatile note_of_this_process = nullptr;

void mark_tripped(int) {
  if (char* const note = note_of_this_process)
    note[kTrippedAt] = 1;
}

struct Describe {
  std::string operator()(const SubmitJob& c) const {
    return format("submit {} {}", c.spec ? c.spec->name : "", c.spec ? c.spec->script : "");
  }
  std::string operator()(const CancelJob& c) const { return format("cancel {} {}", c.target.job.value, c.signal); }
  std::string operator()(const HoldJob& c) const { return format("hold {}", c.target.job.value); }
  std::string operator()(const ReleaseJob& c) const { return format("release {}", c.target.job.value); }
  std::string operator()(const RequeueJob& c) const { return format("requeue {}", c.target.job.value); }
  std::string operator()(const UpdateJob& c) const { return format("update {}", c.target.job.value); }
  std::string operator()(const EndJob& c) const { return format("end {}", c.job.value); }
  std::string operator()(const SuspendJob& c) const { return format("suspend {}", c.target.job.value); }
  std::string operator()(const ResumeJob& c) const { return format("resume {}", c.target.job.value); }
  std::string operator()(const MarkCheckpoint& c) const { return format("checkpoint {}", c.job.value); }
  std::string operator()(const PutTopology& c) const { return format("topology {}", c.topology.leaves.size()); }
  std::string operator()(const CreateStep& c) const { return format("step {}", c.job.value); }
  std::string operator()(const SignalStep& c) const { return format("signal {}.{} {}", c.job.value, c.step, c.signal); }
  std::string operator()(const SetTaskCount& c) const {
    return format("scale {} {} {}", c.job.value, c.group, c.count);
  }
  std::string operator()(const PutUser& c) const { return format("user {}", c.user.meta.name); }
  std::string operator()(const PutAccount& c) const { return format("account {}", c.account.meta.name); }
  std::string operator()(const RemoveAccount& c) const { return format("remove account {}", c.name); }
  std::string operator()(const PutAssociation& c) const {
    return format("association {}/{}/{}", c.association.account, c.association.user, c.association.partition);
  }
  std::string operator()(const RemoveAssociation& c) const { return format("remove association {}", c.name); }
  std::string operator()(const PutQos& c) const { return format("qos {}", c.qos.meta.name); }
  std::string operator()(const RemoveQos& c) const { return format("remove qos {}", c.name); }
  std::string operator()(const PutLicence& c) const { return format("licence {}", c.licence.meta.name); }
  std::string operator()(const RemoveLicence& c) const { return format("remove licence {}", c.name); }
  std::string operator()(const PutReservation& c) const { return format("reservation {}", c.reservation.meta.name); }
  std::string operator()(const RemoveReservation& c) const { return format("remove reservation {}", c.name); }
  std::string operator()(const PutPolicy&) const { return "policy"; }
  std::string operator()(const ResetUsage& c) const { return format("reset usage {}/{}", c.account, c.user); }
  std::string operator()(const PutPartition& c) const { return format("partition {}", c.partition.meta.name); }
  std::string operator()(const RemovePartition& c) const { return format("remove partition {}", c.name); }
  std::string operator()(const PutObject& c) const {
    return format("object {}/{}/{}", c.object.type, c.object.meta.ns, c.object.meta.name);
  }
  std::string operator()(const RemoveObject& c) const { return format("remove object {}/{}/{}", c.type, c.ns, c.name); }
  std::string operator()(const PutToken& c) const { return format("token {}", c.token.meta.name); }
  std::string operator()(const RedeemToken& c) const { return format("redeem {}", c.token); }
  std::string operator()(const UpdateNode& c) const { return format("update node {}", c.name); }
  std::string operator()(const RemoveNode& c) const { return format("remove node {}", c.name); }
  std::string operator()(const NodeHello& c) const { return format("hello {} {}", c.facts.meta.name, c.facts.boot_id); }
  std::string operator()(const NodeLost& c) const { return format("lost {}", c.node.value); }
  std::string operator()(const NodeFenced& c) const { return format("fenced {} {}", c.node.value, c.boot_id); }
  std::string operator()(const AgentReport& c) const {
    return format("report {} {} {} {} {}", c.node.value, c.boot_id, c.job.value, c.attempt, c.body.index());
  }
  std::string operator()(const ApplyPlan& c) const {
    std::string text = "plan";
    for (const auto& start : c.starts) {
      text += format(" {}@{}", start.job.value, start.read);
      if (text.size() > 500)
        break;
    }
    for (const auto& p : c.preemptions)
      text += format(" preempt {}@{} {}+{}", p.job.value, p.read, p.victims.size(), p.shrinks.size());
    for (const auto& p : c.promises) text += format(" promise {}@{}", p.job.value, p.promise.at.us);
    for (const auto& g : c.growths) text += format(" grow {}@{}", g.job.value, g.read);
    for (const auto& p : c.packings) text += format(" packing@{}", p.read);
    for (const auto& r : c.resumes) text += format(" resume {}@{}", r.job.value, r.read);
    return text;
  }
  // These have no other form: refusing them would stop the cluster's clock, so they are never quarantined.
  std::string operator()(const Tick&) const { return {}; }
  std::string operator()(const SetWallOffset&) const { return {}; }
  std::string operator()(const StartEpoch&) const { return {}; }
};

}  // namespace

std::string fingerprint(const Command& command) {
  std::string text = std::visit(Describe{}, command.body);
  if (text.size() > kNoteBytes - 64)
    text.resize(kNoteBytes - 64);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20)
      c = ' ';
  return text.empty() ? text : format("u{} {}", command.caller.user.value, text);
}

Result<std::unique_ptr<PoisonNote>> PoisonNote::open(const std::string& path) {
  std::unique_ptr<PoisonNote> self(new PoisonNote);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return Error{Errc::kIo, format("cannot open {}: {}", path, std::strerror(errno)), {}};
  if (::ftruncate(fd, kNoteBytes) != 0) {
    const int why = errno;
    ::close(fd);
    return Error{Errc::kIo, format("cannot size {}: {}", path, std::strerror(why)), {}};
  }
  void* memory = ::mmap(nullptr, kNoteBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int why = errno;
  ::close(fd);
  if (memory == MAP_FAILED)
    return Error{Errc::kIo, format("cannot map {}: {}", path, std::strerror(why)), {}};
  self->note_ = static_cast<char*>(memory);

  const std::string list = path + ".list";
  std::ifstream old(list);
  for (std::string line; std::getline(old, line);)
    if (!line.empty())
      self->quarantined_.insert(line);
  std::uint32_t size = 0;
  std::memcpy(&size, self->note_, sizeof size);
  if (self->note_[kTrippedAt] == 1 && size > 0 && size < kTrippedAt - sizeof size) {
    const std::string text(self->note_ + sizeof size, size);
    if (self->quarantined_.insert(text).second) {
      std::ofstream out(list, std::ios::app);
      out << text << '\n';
    }
  }
  self->note_[kTrippedAt] = 0;
  self->done();
  note_of_this_process = self->note_;
  std::signal(SIGABRT, mark_tripped);  // abort() goes on to end the process when this returns
  return self;
}

PoisonNote::~PoisonNote() {
  if (note_of_this_process == note_)
    note_of_this_process = nullptr;
  if (note_)
    ::munmap(note_, kNoteBytes);
}

void PoisonNote::applying(std::string_view text) {
  const auto size = static_cast<std::uint32_t>(std::min(text.size(), kNoteBytes - 64));
  std::memcpy(note_ + sizeof size, text.data(), size);
  std::memcpy(note_, &size, sizeof size);
}

void PoisonNote::done() {
  const std::uint32_t none = 0;
  std::memcpy(note_, &none, sizeof none);
}

}  // namespace lockstep
