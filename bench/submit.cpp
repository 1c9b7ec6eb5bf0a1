// Load for the API: submits N no-op batch jobs over C kept-alive connections with up to W requests under way on each,
// as a client library would, and prints the rate. Each job is a request of its own. With --acked FILE the id of every
// acknowledged job is written there, one a line, as soon as its answer is here.
//
// With --distinct every job has a name of its own, so that none shares its description with another.
//
// usage: bench-submit SOCKET N CONNECTIONS WINDOW [--acked FILE] [--hold] [--time-limit S] [--distinct]
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "wire/codec.h"

namespace {

using namespace lockstep;

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Connection {
  int fd = -1;
  std::string out, in;
  std::vector<double> sent_at;  // oldest first
  bool broken = false;
};

int dial(const char* path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fprintf(stderr, "bench-submit: %s: %s\n", path, strerror(errno));
    exit(1);
  }
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

// Takes one whole answer off the front; -1 = not yet there. Returns the status and sets body.
int take_answer(std::string& in, std::string& body) {
  const auto end = in.find("\r\n\r\n");
  if (end == std::string::npos)
    return -1;
  std::size_t length = 0;
  const std::string head = lower(std::string_view(in).substr(0, end));
  if (const auto at = head.find("content-length:"); at != std::string::npos)
    length = strtoul(head.c_str() + at + 15, nullptr, 10);
  if (in.size() < end + 4 + length)
    return -1;
  const int status = atoi(in.c_str() + 9);
  body = in.substr(end + 4, length);
  in.erase(0, end + 4 + length);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    fprintf(stderr,
            "usage: bench-submit SOCKET N CONNECTIONS WINDOW [--acked FILE] [--hold] [--time-limit S] [--distinct]\n");
    return 2;
  }
  const long jobs = atol(argv[2]);
  const int connections = atoi(argv[3]), window = atoi(argv[4]);
  FILE* acked = nullptr;
  bool distinct = false;
  SubmitRequest request;
  request.script = "#!/bin/sh\n/bin/true\n";
  request.environment = std::string("PATH=/usr/bin:/bin\0HOME=/tmp\0", 28);
  request.spec.name = "noop";
  request.spec.front_end = "slurm";
  request.spec.work_dir = "/tmp";
  request.spec.std_out = request.spec.std_in = "/dev/null";
  request.spec.time_limit = minutes(10);
  GroupSpec group;
  group.launch = Launch::kScript;
  group.per_task.cores = 1;
  for (int i = 5; i < argc; ++i) {
    if (strcmp(argv[i], "--acked") == 0 && i + 1 < argc)
      acked = fopen(argv[++i], "w");
    if (strcmp(argv[i], "--hold") == 0)
      request.spec.hold = true;
    if (strcmp(argv[i], "--distinct") == 0)
      distinct = true;
    if (strcmp(argv[i], "--time-limit") == 0 && i + 1 < argc)
      request.spec.time_limit = seconds(atol(argv[++i]));
  }
  request.spec.groups = {group};
  const auto message_of = [](const SubmitRequest& one) {
    const std::string body = encode(one);
    return format(
        "POST /v1/jobs HTTP/1.1\r\nHost: lockstep\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        body.size(), body);
  };
  std::string message = message_of(request);

  std::vector<Connection> all(static_cast<std::size_t>(connections));
  for (auto& c : all) c.fd = dial(argv[1]);
  long sent = 0, answered = 0, failed = 0;
  std::vector<double> latency_s;
  const double start = now_s();
  std::string answer;
  while (answered < jobs) {
    std::vector<pollfd> polled;
    for (auto& c : all) {
      while (!c.broken && sent < jobs && c.sent_at.size() < static_cast<std::size_t>(window)) {
        if (distinct) {
          request.spec.name = format("noop-{}", sent);
          message = message_of(request);
        }
        c.out += message;
        c.sent_at.push_back(now_s());
        ++sent;
      }
      while (!c.out.empty()) {
        const ssize_t n = send(c.fd, c.out.data(), c.out.size(), MSG_NOSIGNAL);
        if (n <= 0)
          break;
        c.out.erase(0, static_cast<std::size_t>(n));
      }
      polled.push_back({c.broken ? -1 : c.fd, static_cast<short>(POLLIN | (c.out.empty() ? 0 : POLLOUT)), 0});
    }
    if (std::all_of(all.begin(), all.end(), [](const Connection& c) { return c.broken; }))
      break;
    poll(polled.data(), polled.size(), 1000);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Connection& c = all[i];
      if (!(polled[i].revents & (POLLIN | POLLHUP | POLLERR)))
        continue;
      char buffer[65536];
      for (ssize_t n; (n = recv(c.fd, buffer, sizeof buffer, 0)) != 0;) {
        if (n < 0) {
          c.broken = errno != EAGAIN && errno != EINTR;
          break;
        }
        c.in.append(buffer, static_cast<std::size_t>(n));
        polled[i].revents = 0;
        if (static_cast<std::size_t>(n) < sizeof buffer)
          break;
      }
      if (polled[i].revents & POLLHUP)
        c.broken = true;
      for (int status; (status = take_answer(c.in, answer)) >= 0;) {
        ++answered;
        latency_s.push_back(now_s() - c.sent_at.front());
        c.sent_at.erase(c.sent_at.begin());
        if (status >= 300) {
          if (failed++ == 0)
            fprintf(stderr, "bench-submit: status %d: %s\n", status, answer.c_str());
        } else if (acked) {
          fprintf(acked, "%ld\n", strtol(answer.c_str() + answer.find(':') + 1, nullptr, 10));
        }
      }
      if (acked)
        fflush(acked);
    }
  }
  const double took = now_s() - start;
  std::sort(latency_s.begin(), latency_s.end());
  const auto at = [&](double q) {
    return latency_s.empty() ? 0.0
                             : latency_s[static_cast<std::size_t>(q * static_cast<double>(latency_s.size() - 1))] * 1e6;
  };
  printf("n=%ld fail=%ld total %.3f s  %.0f jobs/s  lat us p50 %.0f p99 %.0f max %.0f\n", answered, failed, took,
         static_cast<double>(answered - failed) / took, at(0.5), at(0.99), at(1));
  return answered == jobs && failed == 0 ? 0 : 1;
}
