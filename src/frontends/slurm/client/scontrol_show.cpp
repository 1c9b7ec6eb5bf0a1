// scontrol show, ping, write and the verbs on jobs: one request each.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/api.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/scontrol_verbs.h"
#include "views/shown_text.h"

namespace lockstep::slurm {

namespace {

// "1,2_[3,4],5" at the commas outside brackets.
Words job_names(const Words& words) {
  Words out;
  for (const std::string& word : words) {
    std::string part;
    int depth = 0;
    for (const char c : word + ",") {
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (c == ',' && depth <= 0) {
        if (!part.empty())
          out.push_back(std::move(part));
        part.clear();
      } else {
        part += c;
      }
    }
  }
  return out;
}

bool plausible_job(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789_[]-,%+") == std::string_view::npos && name[0] >= '0' &&
         name[0] <= '9';
}

std::string sentence(const Error& error) {
  if (error.code == Errc::kNotFound)
    return "Invalid job id specified";
  if (error.code == Errc::kDenied)
    return "Access/permission denied";
  return error.message;
}

Result<void> act_on_job(Query& query, const std::string& verb, const std::string& name) {
  const std::string path = "/v1/jobs/" + url_escaped(name.substr(0, name.find('+')));
  if (verb == "hold") {
    // An administrator's hold; an owner may only place his own.
    const auto held = query.send("POST", path + "/hold", R"({"by_admin":true})");
    if (held.ok() || held.error().code != Errc::kDenied)
      return held.ok() ? Result<void>() : Result<void>(held.error());
  }
  if (verb == "hold" || verb == "uhold")
    TRY(query.send("POST", path + "/hold", R"({"by_admin":false})"));
  else if (verb == "suspend" || verb == "resume")
    TRY(query.send("POST", path + "/" + verb, "{}"));
  else if (verb == "release")
    TRY(query.send("POST", path + "/release", "{}"));
  else
    TRY(query.send("POST", path + "/requeue", verb == "requeuehold" ? R"({"hold":true})" : R"({"hold":false})"));
  return {};
}

// Orders to pause and to go on are carried out by the nodes; this says what is still to come, after a moment for it.
void tell_what_is_asked(const ScontrolSession& session, Query& query, const std::string& verb,
                        const std::string& name) {
  constexpr Duration kMoment = seconds(2), kLook = millis(50);
  const std::string_view unfinished = verb == "suspend" ? "SI\n" : "S\n";
  for (Duration waited;; waited = waited + kLook) {
    const auto states = query.get("/slurm/v1/squeue", {{"jobs", name}, {"states", "all"}, {"columns", "statecompact"}});
    if (!states.ok() || ("\n" + *states).find("\n" + std::string(unfinished)) == std::string::npos)
      return;
    if (verb == "resume" || waited >= kMoment)
      break;
    ::usleep(static_cast<useconds_t>(kLook.us));
  }
  session.voice.info(verb == "suspend"
                         ? format("job {} is asked to stop, and not every node has answered: squeue shows "
                                  "SIGNALING until they have",
                                  name)
                         : format("job {} goes on as soon as there is room: others use what it gave up", name));
}

int say_not_waited(const ScontrolSession& session, const Error& error) {
  if (!say_unreached(session.voice, "slurm_load_jobs error", error))
    session.voice.error(sentence(error));
  return 1;
}

// Polls until the job has its nodes or has ended; 0 only in the first case.
int wait_job(const ScontrolSession& session, const std::string& name) {
  Query query(session.context);
  for (;;) {
    const auto reply = plausible_job(name) ? query.get("/slurm/v1/squeue",
                                                       {{"jobs", name}, {"states", "all"}, {"columns", "statecompact"}})
                                           : Result<std::string>(not_found(name));
    if (!reply)
      return say_not_waited(session, reply.error());
    if (*reply != "PD\n")
      return *reply == "R\n" || *reply == "CF\n" || *reply == "S\n" || *reply == "SI\n" ? 0 : 1;
    // Answers when it has started, or after half a minute.
    if (const auto waited = query.get(format("/v1/jobs/{}/wait", url_escaped(name)), {{"for", "started"}}, seconds(90));
        !waited)
      return say_not_waited(session, waited.error());
  }
}

struct Entity {
  const char* name;
  std::size_t shortest;
  std::string_view path;
  std::string_view not_loaded;  // Slurm's words where the controller does not answer
};
constexpr Entity kEntities[] = {{"jobs", 1, "job", "slurm_load_jobs error"},
                                {"jobid", 1, "job", "slurm_load_jobs error"},
                                {"steps", 2, "step", "slurm_get_job_steps error"},
                                {"nodes", 1, "node", "slurm_load_node error"},
                                {"partitions", 2, "partition", "slurm_load_partitions error"},
                                {"reservations", 3, "reservation", "slurm_load_reservations error"},
                                {"licenses", 3, "license", "slurm_load_license error"},
                                {"topology", 1, "topology", "slurm_load_topo error"},
                                {"config", 2, "config", "slurm_load_ctl_conf error"}};

const Entity* find_entity(std::string_view word) {
  const Entity* found = nullptr;
  for (const Entity& entity : kEntities)
    if (abbreviates(word, entity.name, entity.shortest))
      found = &entity;
  return found;
}

struct Subject {
  std::string entity, name;
};
// "show node=n1" and "show job=12" are the same as two words.
Subject subject_of(const Words& words) {
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"jobid", "job"}, {"nodename", "node"}, {"partitionname", "partition"}, {"reservationname", "reservation"}};
  auto pair = key_value(words[0]);
  if (!pair)
    return {lower(words[0]), words.size() > 1 ? words[1] : ""};
  for (const auto& [key, entity] : kKeys)
    if (pair->first == key)
      return {std::string(entity), std::move(pair->second)};
  return {std::move(pair->first), std::move(pair->second)};
}

void say_not_shown(const ScontrolSession& session, const Entity& entity, const Error& error) {
  if (session.quiet && error.code == Errc::kNotFound)
    return;
  if (say_unreached(session.voice, entity.not_loaded, error))
    return;
  if (error.code == Errc::kUnavailable)
    session.voice.error(error.message);
  else if (entity.path == "job" || entity.path == "step")
    write_all(STDERR_FILENO, format("slurm_load_jobs error: {}\n", error.message));
  else
    say(shown_lines(error.message + "\n"));
}

}  // namespace

int scontrol_show(const ScontrolSession& session, const Words& words) {
  const Subject subject = subject_of(words);
  const Entity* const entity = find_entity(subject.entity);
  if (!entity) {
    write_all(STDERR_FILENO, format("invalid entity:{} for keyword:show \n", words[0]));
    return 1;
  }
  Query query(session.context);
  const auto text = query.get(format("/slurm/v1/show/{}", entity->path), {{"name", subject.name},
                                                                          {"oneline", session.one_line ? "1" : ""},
                                                                          {"detail", session.detail ? "1" : ""},
                                                                          {"times", "marked"}});
  if (!text) {
    say_not_shown(session, *entity, text.error());
    return 1;
  }
  say(shown_lines(with_times(*text, variable_or("SLURM_TIME_FORMAT"), time(nullptr))));
  return 0;
}

namespace {

// "jobid=12" is the same as "12".
Words without_key(Words words) {
  for (std::string& word : words)
    if (auto pair = key_value(word); pair && abbreviates(pair->first, "jobid", 3))
      word = std::move(pair->second);
  return words;
}

}  // namespace

int scontrol_job_verb(const ScontrolSession& session, const std::string& verb, const Words& words) {
  const Words names = job_names(without_key(words));
  if (names.empty()) {
    session.voice.error(format("too few arguments for keyword:{}", verb));
    return 1;
  }
  if (verb == "wait_job")
    return wait_job(session, names[0]);
  Query query(session.context);
  int exit_code = 0;
  for (const std::string& name : names) {
    if (verb == "requeuehold" && key_value(name))  // State=SpecialExit: the hold is what counts
      continue;
    const auto done = plausible_job(name) ? act_on_job(query, verb, name) : Result<void>(not_found(name));
    if (done && (verb == "suspend" || verb == "resume"))
      tell_what_is_asked(session, query, verb, name);
    if (done)
      continue;
    exit_code = 1;
    if (say_unreached(session.voice, format("{} {}", verb, name), done.error()))
      continue;
    std::string why = sentence(done.error());
    if (why.ends_with(": " + name))  // the job is named behind it anyway
      why.resize(why.size() - name.size() - 2);
    if (!session.quiet)
      write_all(STDERR_FILENO, format("{} for job {}\n", why, name));
  }
  return exit_code;
}

int scontrol_ping(const ScontrolSession& session) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  Query query(session.context, Bearing::kAtOnce);  // how it is now is what is asked
  const auto answer = query.get("/v1/ping", {});
  say(format("Slurmctld(primary) at {} is {}\n", host, answer ? "UP" : "DOWN"));
  if (!answer)
    session.voice.error(answer.error().message);
  return answer ? 0 : 1;
}

int scontrol_write(const ScontrolSession& session, const Words& words) {
  if (words.size() < 2 || !abbreviates(words[0], "batch_script", 1)) {
    session.voice.error(words.empty() ? "too few arguments for keyword:write"
                                      : format("invalid entity:{} for keyword:write", words[0]));
    return 1;
  }
  if (!plausible_job(words[1])) {
    session.voice.error("Invalid job id specified");
    return 1;
  }
  Query query(session.context);
  const auto script = query.get(format("/v1/jobs/{}/script", url_escaped(words[1])), {});
  if (!script) {
    if (!say_unreached(session.voice, "scontrol: error: job script retrieval failed", script.error()))
      session.voice.error(format("job script retrieval failed: {}", sentence(script.error())));
    return 1;
  }
  const std::string file = words.size() > 2 ? words[2] : format("slurm-{}.sh", words[1]);
  if (file == "-") {
    say(*script);
    return 0;
  }
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  const bool written = fd >= 0 && write_all(fd, *script);
  if (fd >= 0)
    close(fd);
  if (!written) {
    session.voice.error(format("failed to write {}", file));
    return 1;
  }
  if (!session.quiet)
    say(format("batch script for job {} written to {}\n", words[1], file));
  return 0;
}

}  // namespace lockstep::slurm
