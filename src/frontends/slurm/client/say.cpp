#include "frontends/slurm/client/say.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "views/shown_text.h"

namespace lockstep::slurm {

namespace {
int why_unsaid = 0;  // of the process, as its standard output is
std::string_view line_end = "\n";
}  // namespace

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno == EAGAIN) {  // somebody we share it with does not want to wait; we do
      ::pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
      continue;
    }
    if (n <= 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void say(std::string_view text) {
  if (!write_all(STDOUT_FILENO, text) && why_unsaid == 0)
    why_unsaid = errno;
}

void set_line_end(std::string_view end) { line_end = end; }

int unsaid() { return why_unsaid; }

int finish(std::string_view command, int code) {
  const bool flushed = ::fflush(stdout) == 0;
  if (why_unsaid == 0 && !flushed)
    why_unsaid = errno;
  if (why_unsaid == 0 && ::ferror(stdout))
    why_unsaid = EIO;  // an earlier write failed, and stdio has forgotten why
  if (why_unsaid == 0 || why_unsaid == EPIPE)
    return code;
  Voice(std::string(command)).error(format("standard output could not be written: {}", ::strerror(why_unsaid)));
  return code == 0 ? 1 : code;
}

void Voice::speak(std::string_view kind, std::string_view text) const {
  std::string out;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  for (const auto& line : split(text, '\n')) out += format("{}: {}{}{}", command_, kind, shown(line), line_end);
  write_all(STDERR_FILENO, out);
}

void Voice::error(std::string_view text) const { speak("error: ", text); }
void Voice::warning(std::string_view text) const {
  if (!quiet_)
    speak("warning: ", text);
}
void Voice::info(std::string_view text) const {
  if (!quiet_)
    speak("", text);
}
void Voice::verbose(std::string_view text) const {
  if (verbose_)
    speak("", text);
}

std::string_view slurm_sentence(const Error& error) {
  const auto about = [&](std::string_view word) { return error.field.find(word) != std::string::npos; };
  switch (error.code) {
    case Errc::kExhausted:
      if (about("account"))
        return "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
      return {};
    case Errc::kImpossible:
      if (about("licenses"))
        return "Invalid license specification";
      if (about("partition"))
        return "Requested partition configuration not available now";
      return "Requested node configuration is not available";
    case Errc::kInvalid:
    case Errc::kNotFound:
      if (about("partition"))
        return "Invalid partition name specified";
      if (about("account"))
        return "Invalid account or account/partition combination specified";
      if (about("qos"))
        return "Invalid qos specification";
      if (about("only_nodes") || about("exclude_nodes"))
        return "Invalid node name specified";
      if (about("dependenc"))
        return "Job dependency problem";
      if (about("array"))
        return "Invalid job array specification";
      if (about("constraint"))
        return "Invalid feature specification";
      if (about("reservation"))
        return "Requested reservation is invalid";
      if (about("licenses"))
        return "Invalid license specification";
      if (about("time"))
        return "Requested time limit is invalid (missing or exceeds some limit)";
      return {};
    case Errc::kDenied:
      return about("reservation") ? "Access denied to requested reservation" : "Access/permission denied";
    case Errc::kUnavailable:
      if (about("read-only"))  // it was reached
        return {};
      return "Unable to contact slurm controller (connect failure)";
    case Errc::kTimeout: return "Socket timed out on send/recv operation";
    default: return {};
  }
}

void say_refusal(const Voice& voice, std::string_view what, const Error& error) {
  const std::string_view sentence = slurm_sentence(error);
  if (sentence.empty()) {
    voice.error(format("{}: {}", what, error.message));
    return;
  }
  if (!error.message.empty())
    voice.error(error.message);
  voice.error(format("{}: {}", what, sentence));
}

}  // namespace lockstep::slurm
