// sshare: shares and past use of accounts and users, and what fair share makes of them.
#include "base/text.h"
#include "frontends/slurm/client/query_call.h"
#include "frontends/slurm/client/sacct_fields.h"
#include "frontends/slurm/client/say.h"

namespace lockstep {

namespace {

constexpr std::string_view kHelp = R"(Usage: sshare [OPTIONS]
  -a, --all              every user
  -A, --accounts=LIST    only these accounts
  -l, --long             more columns
  -m, --partition        with partitions
  -n, --noheader         no header line
  -o, --format=LIST      Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,...
  -p, -P                 fields between bars
  -u, --users=LIST       only these users
  -U, --Users            users only
      --json             everything, as JSON
)";

constexpr SacctField kFields[] = {
    {"Account", -20, "account"},        {"User", 10, "user"},
    {"Partition", 12, "partition"},     {"RawShares", 10, "rawshares"},
    {"NormShares", 11, "normshares"},   {"RawUsage", 11, "rawusage"},
    {"NormUsage", 11, "normusage"},     {"EffectvUsage", 13, "effectvusage"},
    {"FairShare", 10, "fairshare"},     {"LevelFS", 10, "levelfs"},
    {"GrpTRESMins", 30, "grptresmins"}, {"TRESRunMins", 30, "tresrunmins"},
};

}  // namespace

int sshare_main(const ClientContext& context, int argc, char** argv) {
  const Voice voice("sshare");
  std::map<std::string, std::string> parameters;
  std::string wanted;
  SacctLook look;
  bool long_list = false, partitions = false, users_only = false, json = false;
  std::optional<int> exit_code;
  static const std::vector<LongOption> kLongs = {
      {"accounts", 1, 'A'},  {"all", 0, 'a'},       {"cluster", 1, 'M'}, {"clusters", 1, 'M'}, {"format", 1, 'o'},
      {"help", 0, 'h'},      {"json", 2, 256},      {"long", 0, 'l'},    {"noheader", 0, 'n'}, {"parsable", 0, 'p'},
      {"partition", 0, 'm'}, {"parsable2", 0, 'P'}, {"users", 1, 'u'},   {"Users", 0, 'U'},    {"usage", 0, 'h'},
      {"verbose", 0, 'v'},   {"version", 0, 'V'},   {"yaml", 2, 257}};
  const auto take = [&](int code, const char* value) {
    switch (code) {
      case 'A': parameters["accounts"] = value; break;
      case 'a': parameters["all"] = "1"; break;
      case 'l': long_list = true; break;
      case 'm': partitions = true; break;
      case 'n': look.header = false; break;
      case 'o': wanted = value; break;
      case 'p': look.parsable = look.trailing = true; break;
      case 'P': look.parsable = true, look.trailing = false; break;
      case 'u': parameters["users"] = value; break;
      case 'U': users_only = true; break;
      case 'h': say(kHelp), exit_code = 0; break;
      case 'V': exit_code = print_version(); break;
      case 256: json = true; break;
      case 257: voice.error("--yaml is not supported; use --json"), exit_code = 1; break;
      default: break;
    }
  };
  const ParsedOptions parsed = parse_options(argc, argv, "A:ahlM:mno:pPu:UvV", kLongs, take);
  if (!parsed.ok)
    return 1;
  if (exit_code)
    return *exit_code;
  if (wanted.empty())
    wanted = format("Account,User,{}RawShares,NormShares,RawUsage,{}EffectvUsage,FairShare{}",
                    partitions ? "Partition," : "", long_list ? "NormUsage," : "",
                    long_list ? ",LevelFS,GrpTRESMins,TRESRunMins" : "");
  const auto run = [&]() -> Result<void> {
    Query query(context);
    if (users_only)
      parameters["users_only"] = "1";
    if (json) {
      say(TRY(query.get("/slurm/v1/sshare.json", parameters)) + "\n");
      return {};
    }
    const auto columns = TRY(parse_sacct_format(wanted, kFields));
    const SacctAsk ask = sacct_ask(columns);
    parameters["columns"] = join(ask.names, ",");
    const Rows rows(TRY(query.get("/slurm/v1/sshare", parameters)), ask.names.size());
    say(write_sacct(columns, rows, look, ask.cell_of));
    return {};
  };
  const auto done = run();
  if (!done)
    voice.error(done.error().message);
  return done ? 0 : 1;
}

}  // namespace lockstep
