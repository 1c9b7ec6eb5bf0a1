#include "io/pki.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>

#include "io/temp_dir.h"

namespace lockstep {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ClusterCa, IsMadeOnceAndKeptWithASecretKey) {
  TempDir dir;
  const std::string pki = dir.file("pki");
  std::string fingerprint;
  {
    const auto ca = ClusterCa::open_or_make(pki, "demo");
    ASSERT_TRUE(ca.ok()) << ca.error().message;
    fingerprint = (*ca)->fingerprint();
    EXPECT_EQ(fingerprint.size(), 64u);
  }
  struct stat key {};
  ASSERT_EQ(stat((pki + "/ca.key").c_str(), &key), 0);
  EXPECT_EQ(key.st_mode & 0777, 0600u);
  const auto again = ClusterCa::open_or_make(pki, "demo");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->fingerprint(), fingerprint);
  EXPECT_EQ(read_certificate((*again)->certificate_pem())->fingerprint, fingerprint);
}

TEST(ClusterCa, DamagedOrHalfMissingFilesAreRefusedAndKept) {
  TempDir dir;
  ASSERT_TRUE(ClusterCa::open_or_make(dir.path(), "demo").ok());
  const std::string key = slurp(dir.file("ca.key")), certificate = slurp(dir.file("ca.pem"));
  std::ofstream(dir.file("ca.key")) << "rubbish";
  EXPECT_EQ(ClusterCa::open_or_make(dir.path(), "demo").error().code, Errc::kCorrupt);
  EXPECT_EQ(slurp(dir.file("ca.key")), "rubbish");
  std::remove(dir.file("ca.key").c_str());
  EXPECT_EQ(ClusterCa::open_or_make(dir.path(), "demo").error().code, Errc::kCorrupt);
  EXPECT_EQ(slurp(dir.file("ca.pem")), certificate);
  // Somebody else's key.
  TempDir other;
  ASSERT_TRUE(ClusterCa::open_or_make(other.path(), "other").ok());
  std::ofstream(dir.file("ca.key")) << slurp(other.file("ca.key"));
  EXPECT_EQ(ClusterCa::open_or_make(dir.path(), "demo").error().code, Errc::kCorrupt);
  // A first start that was cut between the two files.
  std::remove(dir.file("ca.pem").c_str());
  EXPECT_TRUE(ClusterCa::open_or_make(dir.path(), "demo").ok());
}

// The same certificate, as of a clock that is a year ahead.
void date_ahead(const std::string& certificate, const std::string& authority_key) {
  constexpr std::int64_t kYear = 365 * 24 * 3600;
  FILE* const in = std::fopen(certificate.c_str(), "r");
  FILE* const key_in = std::fopen(authority_key.c_str(), "r");
  X509* const x = PEM_read_X509(in, nullptr, nullptr, nullptr);
  EVP_PKEY* const key = PEM_read_PrivateKey(key_in, nullptr, nullptr, nullptr);
  std::fclose(in), std::fclose(key_in);
  X509_gmtime_adj(X509_getm_notBefore(x), kYear);
  X509_gmtime_adj(X509_getm_notAfter(x), 2 * kYear);
  EXPECT_NE(X509_sign(x, key, EVP_sha256()), 0);
  FILE* const out = std::fopen(certificate.c_str(), "w");
  PEM_write_X509(out, x);
  std::fclose(out);
  X509_free(x), EVP_PKEY_free(key);
}

TEST(ClusterCa, ACertificateThatBeginsLaterIsMadeAnew) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  const CertificateAsk ask{
      .name = "controller", .role = "controller", .hosts = {"127.0.0.1"}, .valid = hours(24 * 365)};
  const auto files = (*ca)->issue("controller", ask);
  ASSERT_TRUE(files.ok()) << files.error().message;
  date_ahead(files->certificate, dir.file("ca.key"));
  const std::string ahead = slurp(files->certificate);
  ASSERT_TRUE((*ca)->issue("controller", ask).ok());
  EXPECT_NE(slurp(files->certificate), ahead);
  const std::string now = slurp(files->certificate);
  ASSERT_TRUE((*ca)->issue("controller", ask).ok());
  EXPECT_EQ(slurp(files->certificate), now);
}

TEST(ClusterCa, KnowsWhenItsFilesAreOthers) {
  TempDir dir, other;
  (void)ClusterCa::open_or_make(other.path(), "other");
  for (int start = 0; start < 2; ++start) {  // it was made, and it was read
    const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
    ASSERT_TRUE(ca.ok());
    EXPECT_TRUE((*ca)->is_on_disk());
    for (const std::string name : {"ca.pem", "ca.key"}) {
      const std::string kept = slurp(dir.file(name));
      std::ofstream(dir.file(name)) << slurp(other.file(name));
      EXPECT_FALSE((*ca)->is_on_disk()) << name;
      EXPECT_FALSE((*ca)->is_usable_on_disk()) << "one of two that belong together: " << name;
      std::ofstream(dir.file(name)) << "damaged";
      EXPECT_FALSE((*ca)->is_usable_on_disk()) << name;
      std::remove(dir.file(name).c_str());
      EXPECT_FALSE((*ca)->is_on_disk()) << name;
      std::ofstream(dir.file(name)) << kept;
      EXPECT_TRUE((*ca)->is_on_disk()) << name;
      EXPECT_TRUE((*ca)->is_usable_on_disk()) << name;
    }
  }
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  for (const std::string name : {"ca.pem", "ca.key"}) std::ofstream(dir.file(name)) << slurp(other.file(name));
  EXPECT_FALSE((*ca)->is_on_disk());
  EXPECT_TRUE((*ca)->is_usable_on_disk()) << "another authority, and a whole one";
}

TEST(ClusterCa, SignsRequestsInItsOwnWords) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  const auto request = make_key_and_request("I am the admin");
  ASSERT_TRUE(request.ok());
  const auto certificate = (*ca)->sign(request->request_pem, {.name = "node:n1", .role = "compute", .valid = hours(1)});
  ASSERT_TRUE(certificate.ok()) << certificate.error().message;
  const auto facts = read_certificate(*certificate);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->name, "node:n1");
  EXPECT_EQ(facts->role, "compute");
  const std::int64_t left = facts->expires.seconds() - ::time(nullptr);
  EXPECT_GT(left, 3500);
  EXPECT_LE(left, 3600);
}

TEST(ClusterCa, LivesOfCertificatesAreAYearUnlessATestSaysOtherwise) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  const auto request = make_key_and_request("x");
  EXPECT_EQ(read_certificate(*(*ca)->sign(request->request_pem, {.name = "node:n1", .role = "compute"}))->life,
            hours(24 * 365));
  setenv("LOCKSTEP_CERTIFICATE_SECONDS", "30", 1);
  EXPECT_EQ(read_certificate(*(*ca)->sign(request->request_pem, {.name = "node:n1", .role = "compute"}))->life,
            seconds(30));
  for (const char* odd : {"", "0", "x", "-5", "99999999999"}) {
    setenv("LOCKSTEP_CERTIFICATE_SECONDS", odd, 1);
    EXPECT_EQ(certificate_life(), hours(24 * 365)) << odd;
  }
  unsetenv("LOCKSTEP_CERTIFICATE_SECONDS");
}

TEST(ClusterCa, WhatIsIssuedIsRenewedWhenAThirdOfItsLifeIsLeft) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  const CertificateAsk ask{.name = "controller", .role = "controller", .hosts = {"localhost"}, .valid = hours(3)};
  const auto files = (*ca)->issue("controller", ask);
  ASSERT_TRUE(files.ok());
  const std::string first = slurp(files->certificate);
  ASSERT_TRUE((*ca)->issue("controller", ask).ok());
  EXPECT_EQ(slurp(files->certificate), first) << "it is new";
  CertificateAsk longer = ask;
  longer.valid = hours(10);  // of which less than a third is left
  ASSERT_TRUE((*ca)->issue("controller", longer).ok());
  EXPECT_NE(slurp(files->certificate), first);
  EXPECT_TRUE(belong_together(slurp(files->key), slurp(files->certificate)));
  EXPECT_FALSE(belong_together(slurp(files->key), first));
  EXPECT_FALSE(belong_together("", first));
  EXPECT_FALSE(belong_together(slurp(files->key), ""));
}

TEST(ClusterCa, EveryCertificateHasASerialOfItsOwn) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  const auto request = make_key_and_request("x");
  std::set<std::string> serials;
  for (int i = 0; i < 20; ++i) {
    const auto made = (*ca)->sign(request->request_pem, {.name = "node:n1", .role = "compute"});
    const std::string serial = read_certificate(*made)->serial;
    EXPECT_EQ(serial.size(), 32u);
    EXPECT_EQ(serial.find_first_not_of("0123456789abcdef"), std::string::npos);
    serials.insert(serial);
  }
  EXPECT_EQ(serials.size(), 20u);
}

// What takes long to compute with is refused before it is.
TEST(ClusterCa, SignsNoOtherKindOfKey) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  for (const char* kind : {"-newkey rsa:2048", "-newkey ec -pkeyopt ec_paramgen_curve:P-384"}) {
    const std::string path = dir.file("other.csr");
    const std::string command =
        std::string("openssl req -new -nodes -batch -subj /CN=x ") + kind + " -keyout /dev/null -out " + path;
    ASSERT_EQ(std::system((command + " 2>/dev/null").c_str()), 0);
    EXPECT_EQ((*ca)->sign(slurp(path), {.name = "node:n1", .role = "compute"}).error().code, Errc::kInvalid) << kind;
  }
}

TEST(ClusterCa, GuestsHaveKeysOfTheirOwnKind) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  const auto request_of = [&](const std::string& kind, const std::string& subject) {
    const std::string path = dir.file("guest.csr");
    const std::string command =
        "openssl req -new -nodes -batch -subj '" + subject + "' " + kind + " -keyout /dev/null -out " + path;
    EXPECT_EQ(std::system((command + " 2>/dev/null").c_str()), 0);
    return slurp(path);
  };
  for (const char* kind : {"-newkey rsa:2048", "-newkey ec -pkeyopt ec_paramgen_curve:P-384", "-newkey ed25519"}) {
    const std::string request = request_of(kind, "/O=dev/CN=ann/O=ops/OU=admin");
    const auto facts = read_request(request);
    ASSERT_TRUE(facts.ok()) << kind << facts.error().message;
    EXPECT_EQ(facts->name, "ann");
    EXPECT_EQ(facts->groups, (std::vector<std::string>{"dev", "ops"}));
    const auto made = (*ca)->sign_guest(request, facts->name, facts->groups, hours(1));
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto read = read_certificate(*made);
    EXPECT_EQ(read->name, "guest:ann") << "nobody of the cluster's own has such a name";
    EXPECT_EQ(read->role, "guest") << "whatever the request says";
    EXPECT_LE(read->life, hours(1) + minutes(5));
  }
  EXPECT_FALSE(read_request(request_of("-newkey rsa:1024", "/CN=ann")).ok());
  // Who approves it would read another name than the one it is signed for.
  EXPECT_FALSE(read_request(request_of("-newkey ed25519", "/CN=bea/CN=harmless")).ok());
  EXPECT_FALSE(read_request(request_of("-newkey ed25519", "/O=dev")).ok());
  EXPECT_FALSE(read_request(request_of("-newkey ed25519", "/CN=" + std::string(59, 'n'))).ok());
  EXPECT_FALSE(read_request("rubbish").ok());
  const std::string request = request_of("-newkey ed25519", "/CN=ann");
  EXPECT_FALSE((*ca)->sign_guest(request, std::string(60, 'n'), {}, hours(1)).ok());
  EXPECT_FALSE((*ca)->sign_guest(request, "ann", {std::string(65, 'g')}, hours(1)).ok());
}

TEST(ClusterCa, RefusesWhatIsNoRequest) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  const auto request = make_key_and_request("x");
  const CertificateAsk ask{.name = "node:n1", .role = "compute"};
  for (const std::string& bad :
       {std::string(), std::string("rubbish"), (*ca)->certificate_pem(),
        request->request_pem.substr(0, request->request_pem.size() / 2), std::string(1 << 20, 'A')})
    EXPECT_EQ((*ca)->sign(bad, ask).error().code, Errc::kInvalid);
  // A request whose content was changed after it was signed.
  std::string changed = request->request_pem;
  const std::size_t at = changed.find('\n') + 70;
  changed[at] = changed[at] == 'A' ? 'B' : 'A';
  EXPECT_FALSE((*ca)->sign(changed, ask).ok());
  EXPECT_FALSE((*ca)->sign(request->request_pem, {.name = "", .role = "compute"}).ok());
  EXPECT_FALSE((*ca)->sign(request->request_pem, {.name = std::string(65, 'n'), .role = "compute"}).ok());
}

TEST(ClusterCa, IssuedFilesAreKeptWhileTheyServe) {
  TempDir dir;
  const auto ca = ClusterCa::open_or_make(dir.path(), "demo");
  const CertificateAsk ask{.name = "controller", .role = kControllerRole, .hosts = {"127.0.0.1", "localhost"}};
  const auto files = (*ca)->issue("controller", ask);
  ASSERT_TRUE(files.ok()) << files.error().message;
  const std::string first = slurp(files->certificate);
  ASSERT_TRUE((*ca)->issue("controller", ask).ok());
  EXPECT_EQ(slurp(files->certificate), first);
  CertificateAsk more = ask;
  more.hosts.push_back("10.77.0.1");
  ASSERT_TRUE((*ca)->issue("controller", more).ok());
  const std::string second = slurp(files->certificate);
  EXPECT_NE(second, first);
  std::ofstream(files->key) << "rubbish";
  ASSERT_TRUE((*ca)->issue("controller", more).ok());
  EXPECT_NE(slurp(files->certificate), second);
}

TEST(CheckUsable, NamesTheFileThatIsDamagedOrAnothers) {
  TempDir dir, elsewhere;
  const CertificateAsk ask{.name = "node:n1", .role = "compute"};
  const auto good = (*ClusterCa::open_or_make(dir.path(), "demo"))->issue("node", ask);
  const auto foreign = (*ClusterCa::open_or_make(elsewhere.path(), "demo"))->issue("node", ask);
  ASSERT_TRUE(good.ok() && foreign.ok());
  EXPECT_TRUE(check_usable(*good).ok());
  std::ofstream(dir.file("rubbish")) << "rubbish";
  std::ofstream(dir.file("empty")).flush();
  for (const auto part : {&TlsFiles::ca, &TlsFiles::certificate, &TlsFiles::key})
    for (const auto& other : {dir.file("rubbish"), dir.file("empty"), dir.file("missing"), (*foreign).*part}) {
      TlsFiles files = *good;
      files.*part = other;
      const auto refused = check_usable(files);
      ASSERT_FALSE(refused.ok()) << other;
      const bool is_named = refused.error().message.find(other) != std::string::npos;
      EXPECT_TRUE(is_named || part == &TlsFiles::ca || other == foreign->certificate) << refused.error().message;
    }
  TlsFiles of_another_ca = *foreign;
  of_another_ca.ca = good->ca;
  EXPECT_NE(check_usable(of_another_ca).error().message.find("not signed"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
