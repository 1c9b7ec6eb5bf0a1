#include "controller/poison.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>

#include "base/plain_file.h"
#include "base/text.h"
#include "model/spec.h"

namespace lockstep {

namespace {

constexpr std::size_t kNameMost = 240;        // longer names end in a hash of all of it
constexpr std::size_t kNamesBytes = 1 << 20;  // of one batch; what is beyond is counted, not named
constexpr std::uint32_t kMagic = 0x3250534c;  // "LSP2"; another layout says nothing

// NameTexts one after the other, each with a newline.
struct NameTexts {
  std::uint32_t count, used;
  char text[kNamesBytes];

  void clear() { count = used = 0; }
  void add(const char* name, std::size_t size) {
    ++count;
    if (used + size + 1 > kNamesBytes)
      return;
    std::memcpy(text + used, name, size);
    text[used + size] = '\n';
    used += static_cast<std::uint32_t>(size + 1);
  }
  std::vector<std::string> all() const {
    std::vector<std::string> out;
    if (used > kNamesBytes)
      return out;
    for (std::size_t at = 0; at < used;) {
      const char* end = static_cast<const char*>(std::memchr(text + at, '\n', used - at));
      if (end == nullptr)
        break;
      out.emplace_back(text + at, end);
      at = static_cast<std::size_t>(end - text) + 1;
    }
    if (count > out.size())
      out.emplace_back();  // so that nobody seems to have been alone
    return out;
  }
};

struct Describe {
  std::string operator()(const SubmitJob& c) const {
    if (!c.spec)
      return "submit";
    const std::size_t arguments = c.spec->groups.empty() ? 0 : c.spec->groups[0].argv.size();
    return format("submit {} {} {}", c.spec->name, c.spec->script, arguments);
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
  std::string operator()(const CreateStep& c) const {
    return format("step {} {} {} {}", c.job.value, c.spec ? c.spec->name : "", c.spec ? c.spec->tasks : 0,
                  c.spec ? c.spec->argv.size() : 0);
  }
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
  std::string operator()(const PutNodeClass& c) const { return format("node_class {}", c.node_class.meta.name); }
  std::string operator()(const RemoveNodeClass& c) const { return format("remove node_class {}", c.name); }
  std::string operator()(const PutHealthCheck& c) const { return format("health_check {}", c.check.meta.name); }
  std::string operator()(const RemoveHealthCheck& c) const { return format("remove health_check {}", c.name); }
  std::string operator()(const RunHealthCheck& c) const {
    return format("run health_check {} {}", c.check, c.node.value);
  }
  std::string operator()(const PutPartition& c) const { return format("partition {}", c.partition.meta.name); }
  std::string operator()(const RemovePartition& c) const { return format("remove partition {}", c.name); }
  std::string operator()(const PutObject& c) const {
    return format("object {}/{}/{}", c.object.type, c.object.meta.ns, c.object.meta.name);
  }
  std::string operator()(const RemoveObject& c) const { return format("remove object {}/{}/{}", c.type, c.ns, c.name); }
  std::string operator()(const DisownJob& c) const { return format("disown {} {}", c.job.value, c.owner.value); }
  std::string operator()(const PutToken& c) const { return format("token {}", c.token.meta.name); }
  std::string operator()(const RenewCertificate& c) const { return format("renew the certificate of {}", c.node); }
  std::string operator()(const RedeemToken& c) const { return format("redeem {}", c.token); }
  std::string operator()(const UpdateNode& c) const {
    std::string text = format("update node {}", c.name);
    if (c.drain)
      text += *c.drain ? " drain" : " resume";
    if (c.reason)
      text += format(" reason \"{}\"", *c.reason);
    if (c.trust_administrators)
      text += *c.trust_administrators ? " trust" : " no trust";
    return text + (c.revoke ? " revoke" : "");
  }
  std::string operator()(const RemoveNode& c) const { return format("remove node {}", c.name); }
  std::string operator()(const NodeHello& c) const { return format("hello {} {}", c.facts.meta.name, c.facts.boot_id); }
  std::string operator()(const NodeAway& c) const { return format("away {}", c.node.value); }
  std::string operator()(const NodeLost& c) const { return format("lost {}", c.node.value); }
  std::string operator()(const GiveUpMember& c) const {
    return format("give up {} {} {}", c.node.value, c.job.value, c.attempt);
  }
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
  std::string operator()(const LearnAttempts& c) const { return format("learn {} attempts", c.attempts.size()); }
};

}  // namespace

// What the engine is at, and beside it what a thread that shows a batch was at when it stopped the process.
struct PoisonNote::Pages {
  std::uint32_t magic;
  std::uint32_t tripped;  // the thread that stopped the process was at `stage`
  std::uint32_t stage;
  std::uint32_t loads;          // lives in a row that got no further than kLoading
  std::uint32_t shown_tripped;  // it was at work for `shown`
  NameTexts batch, shown;
};

namespace {

// Signal handlers have no place for state but a global.
PoisonNote* volatile note_of_this_process = nullptr;
thread_local bool at_work_for_note = false;
thread_local const std::vector<std::string>* at_work_for = nullptr;
void (*volatile mark_death)() = nullptr;

void on_death(int signal) {
  if (const auto mark = mark_death)
    mark();
  ::raise(signal);  // and now by default
}

// Who has a handler of his own (a sanitizer) keeps it.
void watch_deaths() {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (signal != SIGABRT && before.sa_handler != SIG_DFL)
      continue;
    struct sigaction action {};
    action.sa_handler = on_death;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
    ::sigaction(signal, &action, nullptr);
  }
}

Result<void> write_lines(const std::string& path, const std::vector<std::string>& lines) {
  const std::string fresh = path + ".new";
  const std::string text = lines.empty() ? std::string() : join(lines, "\n") + "\n";
  ::unlink(fresh.c_str());  // of one that was interrupted, or whatever lies there
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int why = errno;
  if (fd >= 0)
    ::close(fd);
  if (!written)
    return Error{Errc::kIo, format("cannot write {}: {}", fresh, std::strerror(why)), {}};
  if (std::rename(fresh.c_str(), path.c_str()) != 0)
    return Error{Errc::kIo, format("cannot replace {}: {}", path, std::strerror(errno)), {}};
  return {};
}

}  // namespace

namespace {

std::string name_of(UserId caller, std::string_view what) {
  std::string text = format("u{} {}", caller.value, what);
  if (text.size() > kNameMost) {
    const std::size_t hash = std::hash<std::string>{}(text);
    text.resize(kNameMost - 20);
    text += format(" …{:016x}", hash);
  }
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      c = ' ';
  return text;
}

}  // namespace

std::string fingerprint(const Command& command) {
  std::string text = std::visit(Describe{}, command.body);
  if (text.empty())
    return text;
  for (const CommandBody& body : command.also) text += "; " + std::visit(Describe{}, body);
  return name_of(command.caller.user, text);
}

std::vector<std::string> fingerprints(const Command& command) {
  std::vector<std::string> out{name_of(command.caller.user, std::visit(Describe{}, command.body))};
  for (const CommandBody& body : command.also)
    out.push_back(name_of(command.caller.user, std::visit(Describe{}, body)));
  return out;
}

Result<std::unique_ptr<PoisonNote>> PoisonNote::open(const std::string& path) {
  std::unique_ptr<PoisonNote> self(new PoisonNote(path));
  const int fd = TRY(open_plain(path, O_RDWR | O_CREAT));
  if (::ftruncate(fd, sizeof(Pages)) != 0) {
    const int why = errno;
    ::close(fd);
    return Error{Errc::kIo, format("cannot size {}: {}", path, std::strerror(why)), {}};
  }
  void* memory = ::mmap(nullptr, sizeof(Pages), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int why = errno;
  ::close(fd);
  if (memory == MAP_FAILED)
    return Error{Errc::kIo, format("cannot map {}: {}", path, std::strerror(why)), {}};
  self->pages_ = static_cast<Pages*>(memory);
  Pages& pages = *self->pages_;
  self->last_death_ = self->read_death();
  pages.magic = kMagic;
  pages.loads = self->last_death_.loads;
  pages.shown_tripped = 0;
  self->done();
  note_of_this_process = self.get();
  mark_death = [] {
    PoisonNote* const note = note_of_this_process;
    if (note == nullptr)
      return;
    if (at_work_for != nullptr) {
      note->pages_->shown.clear();
      for (const std::string& name : *at_work_for) note->pages_->shown.add(name.data(), name.size());
      note->pages_->shown_tripped = 1;
    } else if (at_work_for_note) {
      note->pages_->tripped = 1;
    }
  };
  watch_deaths();
  return self;
}

PoisonNote::~PoisonNote() {
  if (note_of_this_process == this)
    note_of_this_process = nullptr;
  at_work_for_note = false;
  if (pages_ != nullptr)
    ::munmap(pages_, sizeof(Pages));
}

CrashNote::Death PoisonNote::read_death() const {
  const Pages& pages = *pages_;
  Death death;
  if (pages.magic != kMagic)
    return death;
  if (pages.shown_tripped == 1)
    return {CrashStage::kPublishing, pages.shown.all(), 0};
  const bool tripped = pages.tripped == 1 && pages.stage <= static_cast<std::uint32_t>(CrashStage::kPublishing);
  const auto stage = tripped ? static_cast<CrashStage>(pages.stage) : CrashStage::kNone;
  if (stage == CrashStage::kNone || stage == CrashStage::kLoading) {
    // Who refused to try, or was killed while it did, got no further either.
    death.loads = pages.loads + (stage == CrashStage::kLoading ? 1 : 0);
    death.stage = death.loads > 0 ? CrashStage::kLoading : CrashStage::kNone;
    return death;
  }
  death.stage = stage;
  death.commands = pages.batch.all();
  if (death.stage == CrashStage::kApplying && !death.commands.empty())
    death.commands = {death.commands.back()};
  return death;
}

void PoisonNote::loading() {
  pages_->batch.clear();
  pages_->stage = static_cast<std::uint32_t>(CrashStage::kLoading);
  at_work_for_note = true;
}

void PoisonNote::loaded() {
  pages_->loads = 0;
  done();
}

void PoisonNote::begin() {
  pages_->batch.clear();
  pages_->stage = static_cast<std::uint32_t>(CrashStage::kNone);
  at_work_for_note = true;
}

void PoisonNote::applying(std::string_view name) {
  pages_->batch.add(name.data(), name.size());
  pages_->stage = static_cast<std::uint32_t>(CrashStage::kApplying);
}

void PoisonNote::stage(CrashStage stage) { pages_->stage = static_cast<std::uint32_t>(stage); }

void PoisonNote::done() {
  pages_->stage = static_cast<std::uint32_t>(CrashStage::kNone);
  pages_->tripped = 0;
  at_work_for_note = false;
}

std::vector<std::string> PoisonNote::names(List list) {
  std::vector<std::string> out;
  const auto text = read_plain(path_ + (list == List::kQuarantined ? ".list" : ".suspects"));
  if (!text)
    return out;
  for (auto& line : split(*text, '\n'))
    if (!line.empty())
      out.push_back(std::move(line));
  return out;
}

Result<void> PoisonNote::keep(List list, const std::vector<std::string>& names) {
  return write_lines(path_ + (list == List::kQuarantined ? ".list" : ".suspects"), names);
}

AtWorkFor::AtWorkFor(const std::vector<std::string>& commands) { at_work_for = commands.empty() ? nullptr : &commands; }
AtWorkFor::~AtWorkFor() { at_work_for = nullptr; }

}  // namespace lockstep
