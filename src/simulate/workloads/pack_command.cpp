// lockstep-sim pack: how much of a cluster's GPUs a policy gets into use, on the openb traces.
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "simulate/command.h"
#include "simulate/workloads/pack_run.h"

namespace lockstep::sim {
namespace {

constexpr int kAllocAt[] = {80, 100, 130}, kFragAt[] = {50};
constexpr std::uint64_t kSeedsMax = 1000;

struct PackOptions {
  PackTrace trace;
  PackRule rule = PackRule::kDefaultOnline;
  SeedRange seeds;
  bool json = false;
};

Result<PackRule> rule_of(std::string_view policy, std::string_view mix) {
  if (mix != "known" && mix != "online")
    return invalid(format("--mix is known or online, not {}", mix), "--mix");
  if (policy == "default")
    return mix == "known" ? PackRule::kDefaultKnown : PackRule::kDefaultOnline;
  if (policy == "fgd")
    return PackRule::kFgd;
  if (policy == "bestfit")
    return PackRule::kBestFit;
  if (policy == "dotprod")
    return PackRule::kDotProduct;
  if (policy == "random")
    return PackRule::kRandom;
  return invalid(format("--policy is default, fgd, bestfit, dotprod or random, not {}", policy), "--policy");
}

Result<PackOptions> read_request(std::span<char*> words) {
  const Options options = TRY(Options::parse(words, {"--nodes", "--pods", "--policy", "--mix", "--seeds"}, {"--json"}));
  PackOptions request;
  request.rule = TRY(rule_of(options.text_or("--policy", "default"), options.text_or("--mix", "online")));
  request.seeds = TRY(options.seeds_or("--seeds", {42, 51}));
  if (request.seeds.to - request.seeds.from >= kSeedsMax)
    return invalid(format("--seeds: at most {} at a time", kSeedsMax), "--seeds");
  request.json = options.has("--json");
  const std::string nodes = TRY(options.text("--nodes")), pods = TRY(options.text("--pods"));
  request.trace = TRY(read_pack_trace(nodes, pods));
  return request;
}

std::string points(const std::array<double, kDemandPercent + 1>& curve, std::span<const int> at) {
  std::vector<std::string> parts;
  for (const int percent : at)
    parts.push_back(format("\"{}\":{:.4f}", percent, curve[static_cast<std::size_t>(percent)]));
  return "{" + join(parts, ",") + "}";
}

std::string object(const PackCurve& curve) {
  return format("\"alloc_pct\":{},\"frag_pct\":{}", points(curve.alloc_pct, kAllocAt), points(curve.frag_pct, kFragAt));
}

void print_row(std::string_view name, const PackCurve& curve) {
  std::printf("%s\n", format("{:>6}  {:>7.2f} {:>7.2f} {:>7.2f}  {:>7.2f}  {:>8.1f}", name, curve.alloc_pct[80],
                             curve.alloc_pct[100], curve.alloc_pct[130], curve.frag_pct[50], curve.us_a_pod)
                          .c_str());
}

PackCurve mean_of(std::span<const PackCurve> curves) {
  PackCurve mean;
  const auto count = static_cast<double>(curves.size());
  for (const PackCurve& curve : curves) {
    for (std::size_t i = 0; i <= kDemandPercent; ++i) {
      mean.alloc_pct[i] += curve.alloc_pct[i] / count;
      mean.frag_pct[i] += curve.frag_pct[i] / count;
    }
    mean.us_a_pod += curve.us_a_pod / count;
  }
  return mean;
}

int run_pack_command(std::span<char*> words) {
  const Result<PackOptions> request = read_request(words);
  if (!request)
    return usage_error(kPackCommand, request.error());
  const Fragmentation fragmentation(request->trace);
  std::vector<PackCurve> curves;
  double told = wall_seconds();
  for (std::uint64_t seed = request->seeds.from; seed <= request->seeds.to; ++seed) {
    curves.push_back(run_pack(request->trace, request->rule, seed, &fragmentation));
    if (const double now = wall_seconds(); now - told >= 2) {
      told = now;
      std::fprintf(stderr, "%s\n",
                   format("{} of {} seeds", curves.size(), request->seeds.to - request->seeds.from + 1).c_str());
    }
  }
  const PackCurve mean = mean_of(curves);
  if (request->json) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < curves.size(); ++i)
      parts.push_back(format("{{\"seed\":{},{}}}", request->seeds.from + i, object(curves[i])));
    std::printf("%s\n", format("{{\"seeds\":[{}],\"mean\":{{{}}}}}", join(parts, ","), object(mean)).c_str());
    return 0;
  }
  std::printf("        GPUs allocated, %% of the cluster   fragmented\n");
  std::printf("  seed   at 80%%    100%%    130%% asked   at 50%%    us/pod\n");
  for (std::size_t i = 0; i < curves.size(); ++i) print_row(format("{}", request->seeds.from + i), curves[i]);
  print_row("mean", mean);
  return 0;
}

}  // namespace

const SimCommand kPackCommand{
    "pack",
    "lockstep-sim pack --nodes FILE --pods FILE [--policy default|fgd|bestfit|dotprod|random] [--mix online|known]\n"
    "                  [--seeds A-B] [--json]\n"
    "    pods arrive in random order up to 130 % of the GPUs and never leave: how many GPUs get allocated\n",
    run_pack_command};

}  // namespace lockstep::sim
