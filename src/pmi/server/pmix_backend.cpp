#include "pmi/server/pmix_backend.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "pmi/bytes.h"
#include "pmi/server/pmix_info.h"
#include "pmi/server/pmix_library.h"

namespace lockstep {
namespace {

constexpr std::size_t kMappingMax = 1 << 20;
constexpr std::size_t kPendingMax = 1 << 16;
constexpr std::size_t kAbortWords = 300;
enum class Passed : std::uint8_t { kAsk = 1, kTell = 2 };  // what one node has of another's rank

// What the library's thread has for ours.
class PmixInbox {
 public:
  PmixInbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~PmixInbox() { ::close(event_); }
  PmixInbox(PmixInbox&&) = delete;
  int fd() const { return event_; }
  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    ::eventfd_write(event_, 1);
  }
  std::vector<std::function<void()>> take() {
    const std::lock_guard lock(mutex_);
    eventfd_t count = 0;
    ::eventfd_read(event_, &count);
    return std::exchange(work_, {});
  }

 private:
  int event_;
  std::mutex mutex_;
  std::vector<std::function<void()>> work_;
};

// For calls of the library that tell their end to a function.
class PmixCall {
 public:
  static void done(pmix_status_t status, void* self) {
    auto* call = static_cast<PmixCall*>(self);
    const std::lock_guard lock(call->mutex_);
    call->status_ = status;
    call->over_ = true;
    call->changed_.notify_all();
  }
  // begun: what the call itself returned.
  pmix_status_t wait(pmix_status_t begun) {
    if (begun == PMIX_OPERATION_SUCCEEDED)
      return PMIX_SUCCESS;
    if (begun != PMIX_SUCCESS)
      return begun;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  pmix_status_t status_ = PMIX_SUCCESS;
};

struct PmixAnswer {
  pmix_modex_cbfunc_t function = nullptr;
  void* data = nullptr;
  // The bytes are the library's until it says that it has done.
  void give(pmix_status_t status, std::string bytes) const {
    if (!function)
      return;
    auto* kept = new std::string(std::move(bytes));
    function(
        status, kept->data(), kept->size(), data, [](void* done) { delete static_cast<std::string*>(done); }, kept);
  }
};

class PmixBackend final : public PmiBackend {
 public:
  PmixBackend(PmiWorld world, Up up)
      : world_(std::move(world)), up_(std::move(up)), ranks_(world_.here().ranks.size()) {
    CHECK(!serving_, "a process serves one step");
    serving_ = this;
  }
  ~PmixBackend() override { serving_ = nullptr; }

  Result<PmiVariables> begin() override;
  void hear(PmiMessage message) override;
  void rank_ended(std::uint32_t local, const PmiEnd& end) override;
  void finish() override;
  int wake_fd() const override { return inbox_.fd(); }
  void wake() override {
    for (const auto& work : inbox_.take()) work();
  }

 private:
  struct Rank {
    bool joined = false, finalized = false, aborted = false, ended = false;
  };
  // The library calls these in its own thread.
  static pmix_status_t connected(const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t, pmix_op_cbfunc_t done,
                                 void* data);
  static pmix_status_t finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t done, void* data);
  static pmix_status_t aborted(const pmix_proc_t* proc, void*, int status, const char* words, pmix_proc_t*, std::size_t,
                               pmix_op_cbfunc_t done, void* data);
  static pmix_status_t fence(const pmix_proc_t* procs, std::size_t count, const pmix_info_t*, std::size_t, char* bytes,
                             std::size_t size, pmix_modex_cbfunc_t done, void* data);
  static pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t*, std::size_t, pmix_modex_cbfunc_t done,
                                    void* data);

  Error failed(const char* what, pmix_status_t status) const {
    return {Errc::kInternal, format("PMIx on {}: {}: {}", world_.here().name, what, library_.error_string(status)), {}};
  }
  pmix_proc_t proc(std::uint32_t rank) const;
  Result<void> make_folder();
  PmixInfo job_info() const;
  Result<std::vector<std::string>> variables_of(std::uint32_t rank) const;
  Rank* rank_of(std::uint32_t rank);
  void begin_fence(std::vector<std::uint32_t> ranks, std::string bytes, PmixAnswer answer);
  void ask(std::uint32_t rank, PmixAnswer answer);
  void take_passed(const PmiPassed& passed);

  static inline PmixBackend* serving_ = nullptr;
  PmiWorld world_;
  Up up_;
  std::vector<Rank> ranks_;
  PmixLibrary library_;
  PmixInbox inbox_;
  std::string folder_;
  int folder_lock_ = -1;
  bool running_ = false, joined_ = false;
  std::map<std::string, std::uint64_t> fences_;  // so many of each set of ranks
  std::map<std::string, PmixAnswer> fencing_;
  std::map<std::uint64_t, PmixAnswer> asked_;
  std::uint64_t next_ask_ = 1;
};

pmix_proc_t PmixBackend::proc(std::uint32_t rank) const {
  pmix_proc_t out;
  ::memset(&out, 0, sizeof out);
  ::strncpy(out.nspace, format("slurm.pmix.{}", world_.job).c_str(), sizeof out.nspace - 1);
  out.rank = rank;
  return out;
}

// Open MPI's ranks wait for each other without sleeping. Where they have no processor each, they must give it up
// meanwhile; mpirun tells them by the same variable. 64 ranks on two processors: 3.2 s instead of 7.4.
constexpr const char* kOversubscribed = "OMPI_MCA_mpi_oversubscribe=1";
std::size_t processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::size_t>(CPU_COUNT(&set)) : SIZE_MAX;
}

// What an outer world told the step's client is not of this one.
void forget_outer_world() {
  std::vector<std::string> names;
  for (char** variable = ::environ; *variable; ++variable) {
    const std::string_view text(*variable);
    if (text.starts_with("PMIX_") && !text.starts_with("PMIX_MCA_"))
      names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const auto& name : names) ::unsetenv(name.c_str());
}

void remove_folder(const std::string& path) {
  ::nftw(
      path.c_str(), [](const char* name, const struct stat*, int, FTW*) { return ::remove(name), 0; }, 16,
      FTW_DEPTH | FTW_PHYS);
}

constexpr std::string_view kFolderPrefix = "lockstep-pmi-", kFolderLetters = "XXXXXX";

// Whether the folder is one of this user's whose server was killed: who serves from it holds its lock, and takes that
// within a moment of making it.
bool is_left_over(const std::string& path) {
  constexpr std::int64_t kLockedWithinS = 60;
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat found {};
  const bool is_left = fd >= 0 && ::fstat(fd, &found) == 0 && found.st_uid == ::geteuid() &&
                       found.st_mtime + kLockedWithinS < ::time(nullptr) && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (fd >= 0)
    ::close(fd);
  return is_left;
}

// Nobody else can: a server that was killed has no last word, and a folder of a user's is not root's to look for.
void remove_left_folders(const std::string& top) {
  constexpr std::size_t kEntriesMost = 100'000;  // in /tmp of everybody
  DIR* folder = ::opendir(top.c_str());
  std::size_t seen = 0;
  for (const dirent* entry = folder ? ::readdir(folder) : nullptr; entry && seen < kEntriesMost;
       entry = ::readdir(folder), ++seen) {
    const std::string_view name = entry->d_name;
    const std::string path = format("{}/{}", top, name);
    if (name.starts_with(kFolderPrefix) && name.size() == kFolderPrefix.size() + kFolderLetters.size() &&
        is_left_over(path))
      remove_folder(path);
  }
  if (folder)
    ::closedir(folder);
}

Result<void> PmixBackend::make_folder() {
  const char* place = ::getenv("TMPDIR");
  for (const std::string& top : {std::string(place && *place == '/' ? place : "/tmp"), std::string("/tmp")}) {
    remove_left_folders(top);
    std::string path = format("{}/{}{}", top, kFolderPrefix, kFolderLetters);
    if (!::mkdtemp(path.data()))
      continue;
    folder_ = path;
    // Kept until this process ends, however it does.
    folder_lock_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder_lock_ >= 0)
      (void)::flock(folder_lock_, LOCK_SH);
    return {};
  }
  return os_error("/tmp: a folder for PMIx");
}

PmixInfo PmixBackend::job_info() const {
  PmixInfo info;
  const std::uint32_t size = world_.size();
  const auto local_size = static_cast<std::uint32_t>(world_.here().ranks.size());
  std::string names, ranks_by_node, local_peers;
  for (const auto& node : world_.nodes) {
    names += (names.empty() ? "" : ",") + node.name;
    std::string ranks;
    for (const auto rank : node.ranks) ranks += format("{}{}", ranks.empty() ? "" : ",", rank);
    ranks_by_node += (ranks_by_node.empty() ? "" : ";") + ranks;
    if (&node == &world_.here())
      local_peers = ranks;
  }
  const auto regex = [&](auto* generate, const char* key, const std::string& input) {
    char* made = nullptr;
    if (generate(input.c_str(), &made) == PMIX_SUCCESS && made)
      info.text(key, made);
    ::free(made);
  };
  info.text(PMIX_JOBID, world_.job);
  info.number32(PMIX_UNIV_SIZE, size);
  info.number32(PMIX_JOB_SIZE, size);
  info.number32(PMIX_JOB_NUM_APPS, 1);
  info.number32(PMIX_APP_SIZE, size);
  info.number32(PMIX_MAX_PROCS, size);
  info.number32(PMIX_LOCAL_SIZE, local_size);
  info.number32(PMIX_NODE_SIZE, local_size);
  info.number32(PMIX_NUM_NODES, static_cast<std::uint32_t>(world_.nodes.size()));
  info.rank(PMIX_NPROC_OFFSET, 0);
  info.rank(PMIX_LOCALLDR, world_.here().ranks.front());
  info.text(PMIX_LOCAL_PEERS, local_peers);
  regex(library_.generate_regex, PMIX_NODE_MAP, names);
  regex(library_.generate_ppn, PMIX_PROC_MAP, ranks_by_node);
  if (std::string mapping = process_mapping(world_, kMappingMax); !mapping.empty())
    info.text(PMIX_ANL_MAP, std::move(mapping));
  info.text(PMIX_TMPDIR, folder_);
  info.text(PMIX_NSDIR, folder_);
  info.flag(PMIX_TDIR_RMCLEAN, true);
  for (std::uint32_t index = 0; index < world_.nodes.size(); ++index) {
    const auto& node = world_.nodes[index];
    for (std::size_t local = 0; local < node.ranks.size(); ++local) {
      PmixInfo one;
      one.rank(PMIX_RANK, node.ranks[local]);
      one.number32(PMIX_APPNUM, 0);
      one.rank(PMIX_APPLDR, 0);
      one.rank(PMIX_GLOBAL_RANK, node.ranks[local]);
      one.rank(PMIX_APP_RANK, node.ranks[local]);
      one.number16(PMIX_LOCAL_RANK, static_cast<std::uint16_t>(local));
      one.number16(PMIX_NODE_RANK, static_cast<std::uint16_t>(local));
      one.number32(PMIX_NODEID, index);
      one.text(PMIX_HOSTNAME, node.name);
      info.list(PMIX_PROC_DATA, std::move(one));
    }
  }
  return info;
}

Result<PmiVariables> PmixBackend::begin() {
  forget_outer_world();
  library_ = TRY(PmixLibrary::load());
  TRY(make_folder());
  PmixInfo settings;
  settings.text(PMIX_SERVER_TMPDIR, folder_);
  settings.text(PMIX_SYSTEM_TMPDIR, folder_);
  settings.text(PMIX_SERVER_NSPACE, format("lockstep.{}", world_.job));
  settings.rank(PMIX_SERVER_RANK, world_.node_index);
  settings.number32(PMIX_USERID, ::geteuid());
  settings.number32(PMIX_GRPID, ::getegid());
  settings.text(PMIX_HOSTNAME, world_.here().name);
  static pmix_server_module_t module;
  module.client_connected2 = connected;
  module.client_finalized = finalized;
  module.abort = aborted;
  module.fence_nb = fence;
  module.direct_modex = direct_modex;
  if (const auto status = library_.server_init(&module, settings.data(), settings.size()); status != PMIX_SUCCESS)
    return failed("its server does not start", status);
  running_ = true;
  PmixInfo info = job_info();
  PmixCall named;
  const pmix_proc_t all = proc(PMIX_RANK_WILDCARD);
  if (const auto status = named.wait(library_.register_nspace(all.nspace, static_cast<int>(ranks_.size()), info.data(),
                                                              info.size(), PmixCall::done, &named));
      status != PMIX_SUCCESS)
    return failed("the step could not be described", status);
  PmiVariables variables;
  variables.common = {"SLURM_PMIX_MAPPING_SERV=" + process_mapping(world_, kMappingMax)};
  if (world_.here().ranks.size() > processors())
    variables.common.emplace_back(kOversubscribed);
  for (const auto rank : world_.here().ranks) variables.by_local.push_back(TRY(variables_of(rank)));
  return variables;
}

Result<std::vector<std::string>> PmixBackend::variables_of(std::uint32_t rank) const {
  const pmix_proc_t who = proc(rank);
  PmixCall registered;
  if (const auto status = registered.wait(
          library_.register_client(&who, ::geteuid(), ::getegid(), nullptr, PmixCall::done, &registered));
      status != PMIX_SUCCESS)
    return failed("a task could not be described", status);
  char** environment = nullptr;
  if (const auto status = library_.setup_fork(&who, &environment); status != PMIX_SUCCESS)
    return failed("no variables for a task", status);
  std::vector<std::string> variables;
  for (char** one = environment; one && *one; ++one) {
    variables.emplace_back(*one);
    ::free(*one);
  }
  ::free(environment);
  return variables;
}

PmixBackend::Rank* PmixBackend::rank_of(std::uint32_t rank) {
  const auto local = world_.local_of(rank);
  return local ? &ranks_[*local] : nullptr;
}

pmix_status_t PmixBackend::connected(const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t, pmix_op_cbfunc_t done,
                                     void* data) {
  serving_->inbox_.put([self = serving_, rank = proc->rank] {
    if (Rank* known = self->rank_of(rank)) {
      known->joined = true;
      known->finalized = false;
      if (!std::exchange(self->joined_, true))
        self->up_(PmiJoined{});
    }
  });
  if (done)
    done(PMIX_SUCCESS, data);
  return PMIX_SUCCESS;
}

pmix_status_t PmixBackend::finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t done, void* data) {
  serving_->inbox_.put([self = serving_, rank = proc->rank] {
    if (Rank* known = self->rank_of(rank))
      known->finalized = true;
  });
  if (done)
    done(PMIX_SUCCESS, data);
  return PMIX_SUCCESS;
}

pmix_status_t PmixBackend::aborted(const pmix_proc_t* proc, void*, int status, const char* words, pmix_proc_t*,
                                   std::size_t, pmix_op_cbfunc_t done, void* data) {
  std::string said = words && std::string_view(words) != "N/A" ? std::string(words).substr(0, kAbortWords) : "";
  serving_->inbox_.put([self = serving_, rank = proc->rank, status, said = std::move(said)] {
    Rank* known = self->rank_of(rank);
    if (!known || std::exchange(known->aborted, true))
      return;
    self->up_(PmiAbort{status, format("task {} on {} called MPI_Abort (exit code {}){}{}", rank,
                                      self->world_.here().name, status, said.empty() ? "" : ": ", said)});
  });
  if (done)
    done(PMIX_SUCCESS, data);
  return PMIX_SUCCESS;
}

pmix_status_t PmixBackend::fence(const pmix_proc_t* procs, std::size_t count, const pmix_info_t*, std::size_t,
                                 char* bytes, std::size_t size, pmix_modex_cbfunc_t done, void* data) {
  std::vector<std::uint32_t> ranks;  // none: all
  bool all = count == 0;
  for (std::size_t i = 0; i < count; ++i) {
    all = all || procs[i].rank == PMIX_RANK_WILDCARD;
    ranks.push_back(procs[i].rank);
  }
  if (all)
    ranks.clear();
  serving_->inbox_.put(
      [self = serving_, ranks = std::move(ranks), text = std::string(bytes ? bytes : "", bytes ? size : 0),
       answer = PmixAnswer{done, data}]() mutable { self->begin_fence(std::move(ranks), std::move(text), answer); });
  return PMIX_SUCCESS;
}

pmix_status_t PmixBackend::direct_modex(const pmix_proc_t* proc, const pmix_info_t*, std::size_t,
                                        pmix_modex_cbfunc_t done, void* data) {
  serving_->inbox_.put(
      [self = serving_, rank = proc->rank, answer = PmixAnswer{done, data}] { self->ask(rank, answer); });
  return PMIX_SUCCESS;
}

void PmixBackend::begin_fence(std::vector<std::uint32_t> ranks, std::string bytes, PmixAnswer answer) {
  std::sort(ranks.begin(), ranks.end());
  std::set<std::uint32_t> nodes;
  std::string set;
  for (const auto rank : ranks) {
    const auto node = world_.node_of(rank);
    if (!node)
      return answer.give(PMIX_ERR_BAD_PARAM, {});
    nodes.insert(*node);
    set += format(" {}", rank);
  }
  if ((ranks.empty() && world_.nodes.size() == 1) || (nodes.size() == 1 && nodes.contains(world_.node_index)))
    return answer.give(PMIX_SUCCESS, std::move(bytes));
  std::string key = format("fence {}{}", fences_[set]++, set);
  if (fencing_.size() >= kPendingMax || !fencing_.emplace(key, answer).second)
    return answer.give(PMIX_ERR_BAD_PARAM, {});
  up_(PmiGather{std::move(key), {nodes.begin(), nodes.end()}, std::move(bytes)});
}

void PmixBackend::ask(std::uint32_t rank, PmixAnswer answer) {
  const auto node = world_.node_of(rank);
  if (!node || *node == world_.node_index || asked_.size() >= kPendingMax)
    return answer.give(PMIX_ERR_NOT_FOUND, {});
  asked_[next_ask_] = answer;
  PmiWriter out;
  out.number(static_cast<std::uint8_t>(Passed::kAsk), 1).number(next_ask_++, 8).number(rank, 4);
  up_(PmiPassed{*node, out.take()});
}

void PmixBackend::take_passed(const PmiPassed& passed) {
  PmiReader in(passed.data);
  const auto kind = static_cast<Passed>(in.number(1));
  const std::uint64_t number = in.number(8);
  if (kind == Passed::kAsk) {
    const auto rank = static_cast<std::uint32_t>(in.number(4));
    struct Question {
      std::uint32_t node;
      std::uint64_t number;
    };
    const pmix_proc_t who = proc(rank);
    auto* question = new Question{passed.node, number};
    const auto tell = [](pmix_status_t status, char* data, std::size_t size, void* asked) {
      const std::unique_ptr<Question> mine(static_cast<Question*>(asked));
      PmiWriter out;
      out.number(static_cast<std::uint8_t>(Passed::kTell), 1).number(mine->number, 8);
      out.number(static_cast<std::uint32_t>(status), 4).rest({data ? data : "", data ? size : 0});
      serving_->inbox_.put([self = serving_, message = PmiPassed{mine->node, out.take()}] { self->up_(message); });
    };
    if (!in.at_end() || !world_.local_of(rank))
      tell(PMIX_ERR_NOT_FOUND, nullptr, 0, question);
    else if (const auto status = library_.dmodex_request(&who, tell, question); status != PMIX_SUCCESS)
      tell(status, nullptr, 0, question);
  } else if (const auto at = asked_.find(number); kind == Passed::kTell && at != asked_.end()) {
    const auto status = static_cast<std::int32_t>(in.number(4));
    const PmixAnswer answer = at->second;
    asked_.erase(at);
    answer.give(status, in.rest());
  }
}

void PmixBackend::hear(PmiMessage message) {
  if (auto* gathered = std::get_if<PmiGathered>(&message)) {
    const auto at = fencing_.find(gathered->key);
    if (at == fencing_.end())
      return;
    const PmixAnswer answer = at->second;
    fencing_.erase(at);
    answer.give(PMIX_SUCCESS, std::move(gathered->data));
  } else if (const auto* passed = std::get_if<PmiPassed>(&message)) {
    if (running_ && passed->node < world_.nodes.size())
      take_passed(*passed);
  }
}

void PmixBackend::rank_ended(std::uint32_t local, const PmiEnd& end) {
  wake();  // what it said before counts
  if (local >= ranks_.size() || std::exchange(ranks_[local].ended, true) || ranks_[local].aborted)
    return;
  const std::uint32_t rank = world_.here().ranks[local];
  if (!ranks_[local].joined)
    up_(PmiLeft{end.client_code(),
                words_of_end(world_, rank, end, "ended before it called MPI_Init, which the others wait for")});
  else if (!ranks_[local].finalized)
    up_(PmiAbort{end.client_code(), words_of_end(world_, rank, end, "ended without MPI_Finalize")});
}

void PmixBackend::finish() {
  if (running_)
    library_.server_finalize();
  running_ = false;
  if (!folder_.empty())
    remove_folder(folder_);
}

}  // namespace

std::unique_ptr<PmiBackend> make_pmix_backend(PmiWorld world, PmiBackend::Up up) {
  return std::make_unique<PmixBackend>(std::move(world), std::move(up));
}

}  // namespace lockstep
