#include "frontends/slurm/client/step_pids.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/signal_desk.h"
#include "frontends/slurm/client/step_output.h"
#include "wire/frame.h"

namespace lockstep::slurm {

Result<StepPids> pids_of(const ClientContext& context, const Step& step, Duration patience) {
  StepPids told;
  std::map<std::uint32_t, std::uint64_t>& pids = told.pids;
  std::set<std::uint32_t>& awaited = told.unanswered;
  for (const StepPlace& place : step.places) awaited.insert(place.ranks.begin(), place.ranks.end());
  auto client = TRY(context.connect());
  const int fd =
      TRY(client->upgrade(format("/v1/steps/{}.{}/io?onlooker=1", step.job.value, step.number), "lockstep-stepio/1"));
  const std::string hello = encode_frame(static_cast<std::uint8_t>(IoFrame::kAttach), kAllRanks,
                                         StepOutput({}, [](std::uint32_t, int, std::string_view) {}).have_json(true));
  bool open = ::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size());
  FrameReader reader;
  const auto take = [&](const Frame& frame) {
    const auto type = static_cast<IoFrame>(frame.type);
    const auto rank = static_cast<std::uint32_t>(frame.stream);
    if (const auto pid = read_frame_number(frame.payload, 0, 4); type == IoFrame::kStarted && pid)
      pids[rank] = *pid;
    if (type == IoFrame::kExited)
      pids.erase(rank);
    if (type == IoFrame::kNodeGone)  // the first rank of those there stands for all
      for (const StepPlace& place : step.places)
        if (std::find(place.ranks.begin(), place.ranks.end(), rank) != place.ranks.end())
          for (const std::uint32_t lost : place.ranks) awaited.erase(lost);
    if (type == IoFrame::kStarted || type == IoFrame::kExited || type == IoFrame::kFailed)
      awaited.erase(rank);
  };
  const std::int64_t until_ms = monotonic_ms() + patience.millis();
  for (std::int64_t left; open && !awaited.empty() && (left = until_ms - monotonic_ms()) > 0;) {
    ::pollfd waits{fd, POLLIN, 0};
    if (::poll(&waits, 1, static_cast<int>(left)) <= 0)
      continue;
    char chunk[64 << 10];
    const ssize_t n = ::recv(fd, chunk, sizeof chunk, 0);
    open = n > 0 && reader.feed({chunk, static_cast<std::size_t>(n)}, take).ok();
  }
  ::close(fd);
  return told;
}

}  // namespace lockstep::slurm
