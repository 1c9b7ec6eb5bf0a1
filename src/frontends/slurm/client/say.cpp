#include "frontends/slurm/client/say.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <span>

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
    why_unsaid =
        ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;  // an earlier write failed: so does this one, mostly
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
void Voice::fatal(std::string_view text) const { speak("fatal: ", text); }
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

namespace {

struct Sentence {
  std::string_view about;  // part of the field's name
  std::string_view text;
};
constexpr Sentence kOfLimits[] = {
    {"account", "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"}};
constexpr Sentence kOfTheImpossible[] = {{"licenses", "Invalid license specification"},
                                         {"partition", "Requested partition configuration not available now"},
                                         {"constraint", "Invalid feature specification"},
                                         {"only_nodes", "Requested nodes not in this partition"},
                                         {"nodes_max", "Node count specification invalid"},
                                         {"counted", "Invalid generic resource (gres) specification"},
                                         {"", "Requested node configuration is not available"}};
constexpr Sentence kOfTheInvalid[] = {{"partition", "Invalid partition name specified"},
                                      {"account", "Invalid account or account/partition combination specified"},
                                      {"qos", "Invalid qos specification"},
                                      {"only_nodes", "Invalid node name specified"},
                                      {"exclude_nodes", "Invalid node name specified"},
                                      {"dependenc", "Job dependency problem"},
                                      {"array", "Invalid job array specification"},
                                      {"constraint", "Invalid feature specification"},
                                      {"reservation", "Requested reservation is invalid"},
                                      {"licenses", "Invalid license specification"},
                                      {"time", "Requested time limit is invalid (missing or exceeds some limit)"}};
constexpr Sentence kOfTheDenied[] = {{"partitions", "Required partition not available (inactive or drain)"},
                                     {"reservation", "Access denied to requested reservation"},
                                     {"account", "Invalid account or account/partition combination specified"},
                                     {"qos", "Invalid qos specification"},
                                     {"nice", "Invalid --nice value"},
                                     {"", "Access/permission denied"}};
constexpr Sentence kOfTheUnavailable[] = {{"read-only", ""},  // it was reached
                                          {"", "Unable to contact slurm controller (connect failure)"}};
constexpr Sentence kOfTimeouts[] = {{"", "Socket timed out on send/recv operation"}};

std::span<const Sentence> sentences_of(Errc code) {
  switch (code) {
    case Errc::kExhausted: return kOfLimits;
    case Errc::kImpossible: return kOfTheImpossible;
    case Errc::kInvalid:
    case Errc::kNotFound: return kOfTheInvalid;
    case Errc::kDenied: return kOfTheDenied;
    case Errc::kUnavailable: return kOfTheUnavailable;
    case Errc::kTimeout: return kOfTimeouts;
    default: return {};
  }
}

}  // namespace

std::string_view slurm_sentence(const Error& error) {
  for (const Sentence& sentence : sentences_of(error.code))
    if (error.field.find(sentence.about) != std::string::npos)
      return sentence.text;
  return {};
}

bool say_unreached(const Voice& voice, std::string_view what, const Error& error) {
  const bool is_silent = error.code == Errc::kUnavailable || error.code == Errc::kTimeout;
  const std::string_view sentence = error.code == Errc::kIo ? "Unable to contact slurm controller (receive failure)"
                                    : is_silent             ? slurm_sentence(error)
                                                            : std::string_view{};
  if (sentence.empty())
    return false;
  write_all(STDERR_FILENO, format("{}: {}{}", what, sentence, line_end));
  if (!error.message.empty())
    voice.error(error.message);
  return true;
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
