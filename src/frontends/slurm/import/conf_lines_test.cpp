#include "frontends/slurm/import/conf_lines.h"

#include <gtest/gtest.h>

#include <map>

#include "base/text.h"

namespace lockstep::slurm {
namespace {

using Files = std::map<std::string, std::string>;

ReadFile from(const Files& files) {
  return [&files](const std::string& path) -> Result<std::string> {
    const auto file = files.find(path);
    return file == files.end() ? Result<std::string>(not_found(path + " is not there")) : file->second;
  };
}

// "1:1 Key=Value", a line each; or the error.
std::string shown(const Result<std::vector<ConfLine>>& lines) {
  if (!lines)
    return lines.error().message;
  std::string out;
  for (const ConfLine& line : *lines)
    for (const ConfWord& word : line.words)
      out += format("{}{}:{} {}={}", &word == &line.words.front() ? "\n" : ", ", word.line, word.column, word.key,
                    word.value);
  return out.empty() ? out : out.substr(1);
}
std::string read(const std::string& text) { return shown(conf_lines("f", text)); }

TEST(ConfLines, WordsAreKeysAndValuesWithTheirPlaces) {
  EXPECT_EQ(read("A=1\n  B = 2   C= \"x y\"\tD=a=b,c=d\n"), "1:1 A=1\n2:3 B=2, 2:11 C=x y, 2:20 D=a=b,c=d");
  EXPECT_EQ(read("A=1"), "1:1 A=1");
  EXPECT_EQ(read("A=1\r\nB=2\r\n"), "1:1 A=1\n2:1 B=2");
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "A=1\n"),
            "1:1 A=1");
  EXPECT_EQ(read("A=\"\"\n"), "1:1 A=");
  EXPECT_EQ(read("A+=1\n"), "1:1 A=1");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("\n  \n# nothing\n\t\r\n"), "");
}

TEST(ConfLines, RemarksEndALineAlsoBetweenQuotes) {
  EXPECT_EQ(read("# all\nA=1 # B=2\n#C=3\nD=4#E\n"), "2:1 A=1\n4:1 D=4");
  EXPECT_EQ(read("A=x\\#3 B=\"y \\#4\"\n"), "1:1 A=x#3, 1:8 B=y #4");
  EXPECT_EQ(read("A=\"rack #3\"\n"),
            "f:1:3: the quote is not closed (a '#' begins a remark between quotes too: write \"\\#\")");
  EXPECT_EQ(read("# a remark does not go on \\\nA=1\n"), "2:1 A=1");
}

TEST(ConfLines, ABackslashJoinsLines) {
  EXPECT_EQ(read("A=1 \\\n  B=2 \\  \n\tC=3\nD=4\n"), "1:1 A=1, 2:3 B=2, 3:2 C=3\n4:1 D=4");
  EXPECT_EQ(read("A=1 \\\r\nB=2\r\n"), "1:1 A=1, 2:1 B=2");
  EXPECT_EQ(read("A=1 \\"), "1:1 A=1");                      // nothing follows
  EXPECT_EQ(read("A=1,\\\n2 B=3\n"), "1:1 A=1,2, 2:3 B=3");  // also within a value
  EXPECT_EQ(read("A=1,\\\n  2\n"), "f:2:3: \"2\" is not KEY=VALUE, as every word of such a file is");
}

TEST(ConfLines, WhatIsNoSuchFileIsRefusedWithItsPlace) {
  EXPECT_EQ(read("A=1\nnodes: 3\n"), "f:2:1: \"nodes:\" is not KEY=VALUE, as every word of such a file is");
  EXPECT_EQ(read("partitions:\n  - name: main\n"),
            "f:1:1: \"partitions:\" is not KEY=VALUE, as every word of such a file is");
  EXPECT_EQ(read("A=1 =2\n"), "f:1:5: \"=2\" is not KEY=VALUE, as every word of such a file is");
  EXPECT_EQ(read("A=\n"), "f:1:1: A= has no value: leave it out where nothing is meant");
  EXPECT_EQ(read("A=\"x\"y\n"), "f:1:6: a blank is missing behind the quote");
  EXPECT_EQ(read(std::string("A=1\n\x7f"
                             "ELF\0\0",
                             9)),
            "f:2:5: a zero byte: this is no text file");
  EXPECT_EQ(read("A=\x1b[31m\n"), "f:1:1: A= has a control character (byte 27) in it");
  EXPECT_EQ(read("A=M\xfcller\n"), "f:1:1: A= is not UTF-8");
  EXPECT_EQ(read("# M\xfcller\nA=M\xc3\xbcller\n"), "2:1 A=M\xc3\xbcller");
}

TEST(ConfLines, LongLinesAreReadUpToABound) {
  const std::string value(1 << 20, 'x');
  EXPECT_EQ(conf_lines("f", "A=" + value + "\n")->front().words.front().value, value);
  EXPECT_EQ(read("A=" + std::string(kConfLineMax, 'x')), format("f:1:1: a line of more than {} bytes", kConfLineMax));
  EXPECT_EQ(read(std::string(kConfBytesMax + 1, '\n')),
            format("f:1:1: {} bytes are too many: {} are read", kConfBytesMax + 1, kConfBytesMax));
  // Many short lines joined are one long line.
  std::string joined;
  for (std::size_t i = 0; i <= kConfLineMax / 1000; ++i) joined += "A=" + std::string(1000, 'x') + " \\\n";
  EXPECT_NE(read(joined).find("a line of more than"), std::string::npos);
}

TEST(ConfLines, IncludedFilesStandInTheirPlace) {
  const Files files{{"/etc/slurm.conf", "ClusterName=hpc\nInclude nodes.conf\ninclude \"/opt/%c.conf\"\nZ=1\n"},
                    {"/etc/nodes.conf", "N=1\n"},
                    {"/opt/hpc.conf", "P=1\nINCLUDE more.conf\n"},
                    {"/etc/more.conf", "M=1\n"}};
  EXPECT_EQ(shown(read_conf("/etc/slurm.conf", from(files))),
            "1:1 ClusterName=hpc\n2:1 Include=/etc/nodes.conf\n1:1 N=1\n3:1 Include=/opt/hpc.conf\n1:1 P=1\n"
            "2:1 Include=/etc/more.conf\n1:1 M=1\n4:1 Z=1");
  EXPECT_EQ((*read_conf("/etc/slurm.conf", from(files)))[6].file, "/etc/more.conf");
}

TEST(ConfLines, IncludesThatGoWrongAreNamedWhereTheyStand) {
  EXPECT_EQ(shown(read_conf("a", from({{"a", "A=1\n  Include b\n"}}))), "a:2:3: b cannot be included: b is not there");
  EXPECT_EQ(shown(read_conf("a", from({{"a", "Include b\n"}, {"b", "B=1\nwhat\n"}}))),
            "b:2:1: \"what\" is not KEY=VALUE, as every word of such a file is");
  EXPECT_EQ(shown(read_conf("a", from({{"a", "Include a\n"}}))),
            "a:1:1: a circle of files that include each other: a -> a");
  EXPECT_EQ(shown(read_conf("a", from({{"a", "Include b\n"}, {"b", "\nInclude a\n"}}))),
            "b:2:1: a circle of files that include each other: a -> b -> a");
  EXPECT_EQ(shown(read_conf("none", from({}))), "none is not there");
  Files deep, wide;
  for (int i = 0; i < 40; ++i) deep[format("f{}", i)] = format("Include f{}\n", i + 1);
  EXPECT_EQ(shown(read_conf("f0", from(deep))), "f15:1:1: files that include files, more than 16 deep");
  for (int i = 0; i < 300; ++i) wide["w"] += "Include x\n";
  wide["x"] = "X=1\n";
  EXPECT_EQ(shown(read_conf("w", from(wide))), "x: more than 256 files are included");
}

TEST(ConfLines, TheNumberOfSettingsIsBounded) {
  std::string text;
  for (std::size_t i = 0; i <= kConfWordsMax; ++i) text += "A=1\n";
  const Files files{{"a", text}};
  EXPECT_EQ(shown(read_conf("a", from(files))),
            format("a:{}:1: more than {} settings", kConfWordsMax + 1, kConfWordsMax));
}

}  // namespace
}  // namespace lockstep::slurm
