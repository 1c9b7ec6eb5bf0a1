#include "io/hook_programs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/text.h"
#include "io/temp_dir.h"

namespace lockstep {
namespace {

class HookPrograms : public testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& text, mode_t mode = 0755) const {
    const std::string path = dir_.path() + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  TempDir dir_;
};

TEST_F(HookPrograms, PatternsAreInTheirOrder) {
  const std::string b = put("20-b", ""), a = put("10-a", ""), own = put("own", "");
  const auto found = find_hook_programs({own, dir_.path() + "/[0-9]*", dir_.path() + "/none*"});
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(*found, (std::vector<std::string>{own, a, b}));
  const auto none = find_hook_programs({dir_.path() + "/missing"});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Errc::kNotFound);
}

TEST_F(HookPrograms, WhatOthersCanChangeIsNotRun) {
  const auto refusal = [](const std::string& path) {
    const auto found = check_trusted_program(path);
    return found.ok() ? std::string() : found.error().message;
  };
  const std::string good = put("good", "");
  EXPECT_EQ(refusal(good), "");
  EXPECT_NE(refusal(put("open", "", 0777)).find("/open can be written by others"), std::string::npos);
  EXPECT_NE(refusal(put("plain", "", 0644)).find("/plain is not executable: chmod 755"), std::string::npos);
  EXPECT_NE(refusal("good").find("is no path from / on"), std::string::npos);
  const std::string folder = dir_.path() + "/folder";
  ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0);
  EXPECT_NE(refusal(folder).find("/folder is no file: a program"), std::string::npos);
  const std::string open = dir_.path() + "/open-dir";
  ASSERT_EQ(::mkdir(open.c_str(), 0755), 0);
  put("open-dir/inside", "");
  ::chmod(open.c_str(), 01777);  // sticky is not enough where the file itself lies
  EXPECT_NE(refusal(open + "/inside").find("/open-dir can be written by others"), std::string::npos);
  const std::string link = dir_.path() + "/link";
  ASSERT_EQ(::symlink((open + "/inside").c_str(), link.c_str()), 0);
  EXPECT_NE(refusal(link).find("/open-dir can be written by others"), std::string::npos);
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give a file to another";
  const std::string theirs = put("theirs", "");
  ASSERT_EQ(::chown(theirs.c_str(), 1000, 1000), 0);
  EXPECT_NE(refusal(theirs).find("/theirs belongs to user 1000"), std::string::npos);
}

TEST_F(HookPrograms, OneProcessRunsThemAll) {
  const std::string log = dir_.path() + "/log";
  const std::string a = put("a", "echo a >> " + log), b = put("b", "echo b >> " + log + "; exit 3"),
                    c = put("c", "echo c >> " + log + "; exit 4");
  const auto ran = [&](AtFailure at_failure) {
    ::unlink(log.c_str());
    const auto end = run_program_within(words_to_run({a, b, c}, at_failure), {"PATH=/bin:/usr/bin"}, seconds(20));
    EXPECT_TRUE(end.ok());
    std::string seen;
    std::ifstream in(log);
    for (std::string word; in >> word;) seen += word;
    return format("{} {}", seen, end->code);
  };
  EXPECT_EQ(ran(AtFailure::kStop), "ab 3");
  EXPECT_EQ(ran(AtFailure::kGoOn), "abc 3");
  const auto nothing = run_program_within(words_to_run({}, AtFailure::kStop), {}, seconds(20));
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->ok());
}

TEST_F(HookPrograms, TheOutputTellsWhichProgramSaidWhat) {
  const std::string a = put("a", "echo all is well"), b = put("b", "echo no link; exit 3"), c = put("c", "echo fine"),
                    d = put("d", "exit 4");
  const auto ran = [&](const std::vector<std::string>& programs, const char* rest) {
    std::string command;
    for (const std::string& word : words_to_run(programs, AtFailure::kGoOn)) {
      command += " '";
      for (const char letter : word) command += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
      command += "'";
    }
    FILE* pipe = ::popen((command + rest).c_str(), "r");
    std::string text;
    for (int letter = 0; (letter = ::fgetc(pipe)) != EOF;) text += static_cast<char>(letter);
    ::pclose(pipe);
    return read_hook_output(text);
  };
  const HookOutput failed = ran({a, b, c, d}, "");
  EXPECT_EQ(failed.program, b);
  EXPECT_EQ(failed.verdict, "exit code 3");
  EXPECT_EQ(failed.said, "no link");
  EXPECT_EQ(failed.lines, (std::vector<std::string>{"all is well", "no link", "fine"}));
  const HookOutput silent = ran({a, d}, "");
  EXPECT_EQ(silent.program + silent.said, d);
  const HookOutput cut = ran({a, c}, " | head -n 3");  // as one that hangs leaves it
  EXPECT_EQ(cut.program + cut.verdict, a);
  EXPECT_EQ(ran({a}, "").verdict, "");
  const auto found = find_hook_programs({a, dir_.path() + "/gone", c}, AtFailure::kGoOn);
  ASSERT_TRUE(found.ok());
  const HookOutput missing = ran(*found, "");
  EXPECT_EQ(missing.program, dir_.path() + "/gone: there is no such file");
  EXPECT_EQ(missing.verdict, "not run");
  EXPECT_EQ(missing.lines, (std::vector<std::string>{"all is well", "fine"}));
  EXPECT_EQ(read_hook_output("").program, "");
}

TEST_F(HookPrograms, AScriptWithoutItsInterpreterIsNamed) {
  const auto refusal = [&](const std::string& name, const std::string& text) {
    const std::string path = dir_.path() + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0755);
    const auto checked = check_trusted_program(path);
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_EQ(refusal("good", "#! /bin/sh -e\n"), "");
  EXPECT_EQ(refusal("binary", "\177ELF"), "");
  EXPECT_NE(refusal("none", "#!/bin/bosh\n").find("names /bin/bosh, which is no program here"), std::string::npos);
  EXPECT_NE(refusal("dos", "#!/bin/sh\r\necho\r\n").find("carriage return"), std::string::npos);
}

TEST_F(HookPrograms, AProgramEndsWithItsTime) {
  const std::string slow = put("slow", "echo waiting\nsleep 1000 & sleep 1000\n");
  const auto end = run_program_within({slow}, {"PATH=/bin:/usr/bin"}, millis(300));
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_TRUE(end->late);
  EXPECT_EQ(end->said, "waiting");
  const auto missing = run_program_within({dir_.path() + "/missing"}, {}, seconds(1));
  EXPECT_FALSE(missing.ok());
}

TEST_F(HookPrograms, ItHasTheEnvironmentThatIsGiven) {
  const std::string shows = put("shows", "echo \"$A-$HOME-$(pwd)\"\n");
  const auto end = run_program_within({shows}, {"A=b", "PATH=/bin:/usr/bin"}, seconds(20));
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->said, "b--/");
}

TEST(LastLine, IsTheLastThatSaysSomething) {
  EXPECT_EQ(last_line_of("a\nb \n\n  \n"), "b");
  EXPECT_EQ(last_line_of("one"), "one");
  EXPECT_EQ(last_line_of("\n"), "");
  EXPECT_EQ(last_line_of(""), "");
}

}  // namespace
}  // namespace lockstep
