#include "frontends/slurm/client/script.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "frontends/slurm/client/options.h"
#include "frontends/slurm/client/test_scripts.h"

namespace lockstep::slurm {
namespace {

std::vector<std::string> words(std::string_view line) {
  auto out = split_directive(line, 1);
  return out ? *out : std::vector<std::string>{"error: " + out.error().message};
}
using W = std::vector<std::string>;

TEST(Directive, WordsQuotesAndComments) {
  EXPECT_EQ(words(" --nodes=4"), (W{"--nodes=4"}));
  EXPECT_EQ(words("\t-N 1 -c 16  "), (W{"-N", "1", "-c", "16"}));
  EXPECT_EQ(words(" --nodes=1# one"), (W{"--nodes=1"}));
  EXPECT_EQ(words(" --time=1:00:00  # an hour"), (W{"--time=1:00:00"}));
  EXPECT_EQ(words(" --comment='two words' -J \"a b\""), (W{"--comment=two words", "-J", "a b"}));
  EXPECT_EQ(words(" --container-image=ghcr.io\\#user/img"), (W{"--container-image=ghcr.io#user/img"}));
  EXPECT_EQ(words(" -J 'it#s'"), (W{"-J", "it#s"}));
  EXPECT_EQ(words(" -J \"\""), (W{"-J", ""}));
  EXPECT_EQ(words(""), W{});
  EXPECT_EQ(words("   # nothing"), W{});
}

TEST(Directive, Refusals) {
  EXPECT_EQ(words(" --comment='open"), (W{"error: script line 1: Unmatched `'` in [ --comment='open]"}));
  EXPECT_EQ(words(" : -N 1"), (W{"error: script line 1: Unexpected `:` in [ : -N 1]"}));
}

TEST(Script, ScanStopsAtTheFirstCommand) {
  const auto read = read_directives(
      "#!/bin/bash\n#SBATCH -N 2\n\n   # a comment\n##SBATCH -N 3\n# SBATCH -N 4\n#SBAtCH -N 5\n #SBATCH -N 6\n"
      "#SBATCH\n#SBATCH -c 8\necho hello\n#SBATCH -N 7\n");
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->components.size(), 1u);
  ASSERT_EQ(read->components[0].size(), 2u);
  EXPECT_EQ(read->components[0][0].words, (W{"-N", "2"}));
  EXPECT_EQ(read->components[0][0].line, 2u);
  EXPECT_EQ(read->components[0][1].line, 10u);
}

TEST(Script, OldPrefixIsAcceptedWithOneWarning) {
  const auto read = read_directives("#!/bin/sh\n#SLURM -N 2\n#SLURM -n 4\n");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->components[0].size(), 2u);
  EXPECT_EQ(read->notes.size(), 1u);
}

TEST(Script, HetjobLinesSeparateComponents) {
  const auto read = read_directives("#!/bin/sh\n#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 2\n#SBATCH packjob\n");
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->components.size(), 3u);
  EXPECT_EQ(read->components[1][0].words, (W{"-N", "2"}));
  EXPECT_TRUE(read->components[2].empty());
}

TEST(Script, WhatIsNoBatchScript) {
  const auto why = [](std::string_view text) {
    const auto checked = check_script(text);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(why("#!/bin/sh\ntrue\n"), "");
  EXPECT_EQ(why(""), "Batch script is empty!");
  EXPECT_EQ(why(" \n\t\n"), "Batch script contains only whitespace!");
  EXPECT_EQ(why("echo hello\n"),
            "This does not look like a batch script.  The first\n"
            "line must start with #! followed by the path to an interpreter.\nFor instance: #!/bin/sh");
  EXPECT_EQ(why("#!/bin/sh\r\ntrue\r\n"),
            "Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n).");
  EXPECT_NE(why(std::string_view("#!/bin/sh\n\0\n", 12)).find("NULL character"), std::string::npos);
  EXPECT_NE(why("\x7f"
                "ELF\x02\x01")
                .find("does not look like"),
            std::string::npos);
  EXPECT_EQ(why("#!/bin/sh\n" + std::string(kScriptMax - 10, '#')), "");
  EXPECT_NE(why("#!/bin/sh\n" + std::string(kScriptMax, '#')).find("exceeds size limit"), std::string::npos);
}

TEST(Script, RealScriptsAreRead) {
  for (const auto& script : kTestScripts) {
    EXPECT_TRUE(check_script(script.text).ok()) << script.name;
    const auto read = read_directives(script.text);
    ASSERT_TRUE(read.ok()) << script.name << ": " << read.error().message;
    std::size_t directives = 0;
    for (const auto& component : read->components) directives += component.size();
    EXPECT_EQ(directives, script.directives) << script.name;
  }
}

// Whatever the bytes, a script is read or refused with a message; every option of it likewise.
TEST(Script, MutatedScriptsNeverCrash) {
  Rng rng(20);
  const std::string_view spice[] = {
      "#SBATCH ", "hetjob", "'",        "\"",   "\\",   "#",           ":",
      "\n",       "--mem=", "-N",       "=",    "\r\n", "--gres=gpu:", "99999999999999999999",
      "%",        "-",      "--array=", "\x01", "\xff"};
  std::size_t accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text(kTestScripts[rng.below(std::size(kTestScripts))].text);
    for (std::uint64_t edits = 1 + rng.below(6); edits > 0 && !text.empty(); --edits) {
      const std::size_t at = rng.below(text.size());
      switch (rng.below(4)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, rng.below(20)); break;
        case 2: text.insert(at, spice[rng.below(std::size(spice))]); break;
        default: text.insert(at, text.substr(rng.below(text.size()), rng.below(30)));
      }
    }
    const auto read = read_directives(text);
    if (!read) {
      EXPECT_NE(read.error().message.find("script line "), std::string::npos);
      continue;
    }
    for (const auto& component : read->components) {
      OptionSet options(SlurmCommand::kSbatch);
      for (const auto& directive : component) {
        ASSERT_FALSE(directive.words.empty());
        if (const auto taken = options.read_directive(directive.words, directive.line); !taken)
          EXPECT_FALSE(taken.error().message.empty());
        else
          ++accepted;
      }
    }
  }
  EXPECT_GT(accepted, 5000u);  // most of the mutants still say something
}

}  // namespace
}  // namespace lockstep::slurm
