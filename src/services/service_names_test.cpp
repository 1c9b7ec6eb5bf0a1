#include "services/service_names.h"

#include <gtest/gtest.h>

#include "base/ip_range.h"
#include "base/text.h"

namespace lockstep {
namespace {

struct Names {
  ServiceView view;

  Names() {
    view.hear(ServiceHead{"cluster.local", "10.96.0.0/16", true});
    ServiceFact web{"lab", "web"};
    web.address = "10.96.3.1";
    web.ports = {{"http", "tcp", 80, 0}, {"dns", "udp", 53, 0}};
    view.hear(web);
    ServiceFact db{"lab", "db"};
    db.headless = true;
    db.ports = {{"sql", "tcp", 5432, 0}};
    view.hear(db);
    ServiceEnd first{"10.70.128.3", "n1"}, second{"10.70.128.4", "n1"}, late{"10.70.128.5", "n1"};
    first.host = "db-0";
    late.ready = false;
    view.hear(ServiceEnds{"lab", "db-x", "db", {{"sql", "tcp", 5432, 0}}, {first, second, late}});
    for (const auto& [name, alias] :
         {std::pair("out", "example.org"), std::pair("in", "web.lab.svc.cluster.local"),
          std::pair("ring", "ring.lab.svc.cluster.local"), std::pair("chain", "out.lab.svc.cluster.local")}) {
      ServiceFact one{"lab", name};
      one.alias = alias;
      view.hear(one);
    }
    view.hear(ServiceMark{"e", 1});
  }

  NamesAnswer ask(const std::string& name, DnsType type = DnsType::kA) const {
    DnsQuery query;
    query.name = dns_name(name).value();
    query.type = type;
    return answer_of_names(view, query, 0);
  }
  // "A web.lab… 10.96.3.1" in order; codes other than 0 first.
  std::string text(const std::string& name, DnsType type = DnsType::kA) const {
    const NamesAnswer got = ask(name, type);
    if (got.how == NamesAnswer::How::kElsewhere)
      return "elsewhere";
    std::string out = got.answer.code == DnsCode::kNone ? "" : format("code {} ", static_cast<int>(got.answer.code));
    for (const DnsRecord& one : got.answer.answers) out += format("{} ", data_of(one));
    if (got.answer.answers.empty())
      out += got.answer.authority.empty() ? "no authority" : "nothing";
    if (got.how == NamesAnswer::How::kAlias)
      out += "then " + text_of(got.target);
    return out;
  }
  static std::string data_of(const DnsRecord& record) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(record.data[i])); };
    if (record.type == DnsType::kA)
      return format("{}.{}.{}.{}", byte(0), byte(1), byte(2), byte(3));
    std::string out;
    std::size_t at = 0;
    if (record.type == DnsType::kSrv) {
      out = format("{}:", byte(4) << 8 | byte(5));
      at = 6;
    }
    for (; at < record.data.size() && byte(at) != 0; at += byte(at) + 1u)
      out += record.data.substr(at + 1, byte(at)) + ".";
    return out;
  }
};

TEST(ServiceNames, OfServices) {
  const Names names;
  EXPECT_EQ(names.text("web.lab.svc.cluster.local"), "10.96.3.1 ");
  EXPECT_EQ(names.text("WEB.Lab.svc.Cluster.local."), "10.96.3.1 ");
  EXPECT_EQ(names.text("web.lab.svc.cluster.local", DnsType::kAaaa), "nothing");
  EXPECT_EQ(names.text("gone.lab.svc.cluster.local"), "code 3 nothing");
  EXPECT_EQ(names.text("web.none.svc.cluster.local"), "code 3 nothing");
  EXPECT_EQ(names.text("lab.svc.cluster.local"), "nothing");
  EXPECT_EQ(names.text("svc.cluster.local"), "nothing");
  EXPECT_EQ(names.text("cluster.local"), "nothing");
  EXPECT_EQ(names.text("x.cluster.local"), "code 3 nothing");
  EXPECT_EQ(names.text("example.org"), "elsewhere");
  EXPECT_EQ(names.text("cluster.local.example.org"), "elsewhere");
}

TEST(ServiceNames, OfPorts) {
  const Names names;
  EXPECT_EQ(names.text("_http._tcp.web.lab.svc.cluster.local", DnsType::kSrv), "80:web.lab.svc.cluster.local. ");
  EXPECT_EQ(names.text("_http._udp.web.lab.svc.cluster.local", DnsType::kSrv), "code 3 nothing");
  EXPECT_EQ(names.text("_http._tcp.web.lab.svc.cluster.local"), "nothing");
  EXPECT_EQ(names.text("_tcp.web.lab.svc.cluster.local"), "nothing");
  EXPECT_EQ(names.text("_sql._tcp.db.lab.svc.cluster.local", DnsType::kSrv),
            "5432:db-0.db.lab.svc.cluster.local. 5432:10-70-128-4.db.lab.svc.cluster.local. ");
  EXPECT_EQ(names.ask("_sql._tcp.db.lab.svc.cluster.local", DnsType::kSrv).answer.additional.size(), 2u);
}

TEST(ServiceNames, OfWhatIsBehindHeadlessOnes) {
  const Names names;
  EXPECT_EQ(names.text("db.lab.svc.cluster.local"), "10.70.128.3 10.70.128.4 ");
  EXPECT_EQ(names.text("db-0.db.lab.svc.cluster.local"), "10.70.128.3 ");
  EXPECT_EQ(names.text("10-70-128-4.db.lab.svc.cluster.local"), "10.70.128.4 ");
  EXPECT_EQ(names.text("10-70-128-5.db.lab.svc.cluster.local"), "code 3 nothing");
  EXPECT_EQ(names.text("db-0.web.lab.svc.cluster.local"), "code 3 nothing");
  EXPECT_EQ(names.text("a.b.c.db.lab.svc.cluster.local"), "code 3 nothing");
}

TEST(ServiceNames, OfTasksAndAddresses) {
  const Names names;
  EXPECT_EQ(names.text("10-70-128-3.lab.pod.cluster.local"), "10.70.128.3 ");
  EXPECT_EQ(names.text("10-70-128.lab.pod.cluster.local"), "code 3 nothing");
  EXPECT_EQ(names.text("1-2-3-4.none.pod.cluster.local"), "code 3 nothing");
  EXPECT_EQ(names.text("1.3.96.10.in-addr.arpa", DnsType::kPtr), "web.lab.svc.cluster.local. ");
  EXPECT_EQ(names.text("3.128.70.10.in-addr.arpa", DnsType::kPtr), "db-0.db.lab.svc.cluster.local. ");
  EXPECT_EQ(names.text("9.9.96.10.in-addr.arpa", DnsType::kPtr), "code 3 nothing");
  EXPECT_EQ(names.text("8.8.8.8.in-addr.arpa", DnsType::kPtr), "elsewhere");
  EXPECT_EQ(names.text("x.8.8.8.in-addr.arpa", DnsType::kPtr), "elsewhere");
}

TEST(ServiceNames, OfAliases) {
  const Names names;
  EXPECT_EQ(names.text("out.lab.svc.cluster.local", DnsType::kCname), "example.org. ");
  EXPECT_EQ(names.text("out.lab.svc.cluster.local"), "example.org. then example.org");
  EXPECT_EQ(names.text("in.lab.svc.cluster.local"), "web.lab.svc.cluster.local. 10.96.3.1 ");
  EXPECT_EQ(names.text("chain.lab.svc.cluster.local"), "out.lab.svc.cluster.local. example.org. then example.org");
  EXPECT_EQ(names.ask("ring.lab.svc.cluster.local").answer.code, DnsCode::kServer);
  EXPECT_LE(names.ask("ring.lab.svc.cluster.local").answer.answers.size(), 10u);
}

std::string question(const std::string& name, DnsType type) {
  return write_dns_query(0x1234, dns_name(name).value(), type);
}

TEST(DnsMessage, AnAnswerCarriesTheQuestionAndFitsWhatIsTaken) {
  const std::string bytes = question("Web.Lab", DnsType::kA);
  const DnsHeard heard = read_dns_query(bytes);
  ASSERT_TRUE(heard.query);
  EXPECT_EQ(heard.query->name, (DnsName{"web", "lab"}));
  DnsAnswer many;
  for (std::uint32_t i = 0; i < 2000; ++i) many.answers.push_back(dns_a({"web", "lab"}, 5, i));
  const std::string small = write_dns_answer(*heard.query, many, heard.query->udp_max);
  EXPECT_LE(small.size(), 512u);
  EXPECT_TRUE(small[2] & 0x02) << "it says that it was cut";
  EXPECT_TRUE(answers_dns_query(small, bytes));
  EXPECT_EQ(write_dns_answer(*heard.query, many, kDnsTcpMax).size(), 12 + 13 + 2000 * 16u);
  const auto found = read_dns_answer(write_dns_answer(*heard.query, {.answers = {dns_a({"web", "lab"}, 5, 7)}}, 512));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->records.size(), 1u);
  EXPECT_EQ(found->records[0].name, (DnsName{"web", "lab"}));
}

TEST(DnsMessage, WhatIsNoQuestionIsRefusedOrLeftAlone) {
  EXPECT_FALSE(read_dns_query("").query);
  EXPECT_EQ(read_dns_query("").refusal, "");
  std::string bytes = question("web", DnsType::kA);
  std::string answer = bytes;
  answer[2] = static_cast<char>(0x80);
  EXPECT_EQ(read_dns_query(answer).refusal, "") << "answers are not answered: two servers would never end";
  std::string cut = bytes.substr(0, bytes.size() - 2);
  EXPECT_EQ(static_cast<int>(read_dns_query(cut).refusal[3]) & 15, 1);
  std::string update = bytes;
  update[2] = static_cast<char>(5 << 3);
  EXPECT_EQ(static_cast<int>(read_dns_query(update).refusal[3]) & 15, 4);
  // One that points into the header, and one that points at itself.
  std::string pointer = bytes.substr(0, 12) + "\1a\xc0\x02" + std::string("\0\1\0\1", 4);
  EXPECT_EQ(static_cast<int>(read_dns_query(pointer).refusal[3]) & 15, 1);
  std::string loop = bytes.substr(0, 12) + "\xc0\x0c" + std::string("\0\1\0\1", 4);
  EXPECT_EQ(static_cast<int>(read_dns_query(loop).refusal[3]) & 15, 1);
}

}  // namespace
}  // namespace lockstep
