// Whole sites: the files of testdata/SITE, and what comes of them: cluster.yaml and report.txt beside them. With
// LOCKSTEP_UPDATE=1 in the environment these are written anew, and the difference is read like code.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "base/scenario.h"
#include "frontends/slurm/import/importer.h"

namespace lockstep::slurm {
namespace {

std::string folder() { return scenario_folder(LOCKSTEP_TESTDATA); }

class Site : public testing::TestWithParam<const char*> {
 protected:
  // Names in reports are as they stand in the site's folder.
  Result<std::string> read(const std::string& path) const {
    std::ifstream file(folder() + "/" + GetParam() + "/" + path);
    if (!file)
      return not_found(path + ": there is no such file");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  void expect_file(const std::string& name, const std::string& text) const {
    const std::string path = folder() + "/" + GetParam() + "/" + name;
    std::ifstream file(path);
    const std::string before(std::istreambuf_iterator<char>(file), {});
    if (::getenv("LOCKSTEP_UPDATE") == nullptr)
      EXPECT_EQ(text, before) << path << ": this came, and that was expected";
    else if (text != before)
      std::ofstream(path) << text;
  }
};

TEST_P(Site, BecomesAClusterFileAndAReport) {
  ImportPaths paths{.slurm_conf = "slurm.conf",
                    .gres_conf = "gres.conf",
                    .topology_conf = "topology.conf",
                    .accounts = {},
                    .qos = {}};
  if (read("accounts.dump"))
    paths.accounts = "accounts.dump";
  const auto imported = import_slurm(paths, [this](const std::string& path) { return read(path); });
  ASSERT_TRUE(imported) << imported.error().message;
  const std::string yaml = encode_cluster_file(imported->file);
  expect_file("cluster.yaml", yaml);
  expect_file("report.txt", report_text(imported->report, {}));
  const auto sound = check_cluster_file(imported->file);
  EXPECT_TRUE(sound) << sound.error().message;
  const auto again = decode_cluster_file(yaml);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(encode_cluster_file(*again), yaml);
}

// Every line that is no remark is in the report, by its number.
TEST_P(Site, EveryLineIsAccountedFor) {
  ImportPaths paths{.slurm_conf = "slurm.conf",
                    .gres_conf = "gres.conf",
                    .topology_conf = "topology.conf",
                    .accounts = {},
                    .qos = {}};
  const auto reader = [this](const std::string& path) { return read(path); };
  const auto imported = import_slurm(paths, reader);
  ASSERT_TRUE(imported) << imported.error().message;
  std::set<std::pair<std::string, std::size_t>> told;
  for (const ReportEntry& entry : imported->report.entries) told.emplace(entry.file, entry.line);
  for (const char* name : {"slurm.conf", "gres.conf"}) {
    const auto lines = read_conf(name, reader);
    for (const ConfLine& line : lines ? *lines : std::vector<ConfLine>())
      for (const ConfWord& word : line.words)
        EXPECT_TRUE(told.contains({line.file, word.line})) << line.file << ":" << word.line << " " << word.key;
  }
}

INSTANTIATE_TEST_SUITE_P(Sites, Site,
                         testing::Values("blocks", "campus", "cloud", "gpulab", "manual", "vega", "workstation"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lockstep::slurm
