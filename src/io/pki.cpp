#include "io/pki.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/sha256.h"
#include "io/x509_text.h"

namespace lockstep {

namespace {

constexpr Duration kCaValid = hours(24 * 3650);
constexpr Duration kClockSkew = minutes(10);  // machines disagree about the time
constexpr Duration kGuestSkew = minutes(5);   // as other signers date back
constexpr std::size_t kGuestNameMax = 58;     // behind "guest:": a common name has 64 characters at most
constexpr int kRsaBitsMin = 2048, kRsaBitsMax = 8192;
constexpr std::size_t kPemMax = 64 << 10;

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Request = std::unique_ptr<X509_REQ, Freer<X509_REQ_free>>;
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;

Error crypto_error(std::string_view doing) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  return invalid(format("{}: {}", doing, reason != nullptr ? reason : "it is not valid"));
}

Bio reader(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

template <class Write>
std::string pem_of(Write&& write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  CHECK(write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}
std::string certificate_text(X509* certificate) {
  return pem_of([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
std::string key_text(EVP_PKEY* key) {
  return pem_of([&](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

Result<Certificate> parse_certificate(const std::string& pem) {
  Certificate certificate(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
  if (!certificate)
    return crypto_error("cannot read the certificate");
  return certificate;
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  CHECK(key != nullptr);
  return key;
}

std::string der_sha256(X509* certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  CHECK(size > 0);
  std::string text = sha256_hex({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
  OPENSSL_free(der);
  return text;
}

Result<void> set_name(X509_NAME* name, const char* part, const std::string& value) {
  if (value.empty())
    return {};
  if (value.find('\0') != std::string::npos ||
      X509_NAME_add_entry_by_txt(name, part, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                 static_cast<int>(value.size()), -1, 0) != 1)
    return crypto_error(format("\"{}\" cannot stand in a certificate", value));
  return {};
}

void set_validity(X509* certificate, Duration valid, Duration skew = kClockSkew) {
  const time_t now = ::time(nullptr);
  const time_t end = now + valid.seconds();
  // Also for certificates that are born expired, which tests need, the beginning comes before the end.
  const time_t begin = std::min<time_t>(now, end) - skew.seconds();
  ASN1_TIME_set(X509_getm_notBefore(certificate), begin);
  ASN1_TIME_set(X509_getm_notAfter(certificate), end);
}

void set_serial(X509* certificate) {
  unsigned char bytes[16];
  CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x3f) | 0x40);  // positive, never zero
  BIGNUM* number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
  BN_free(number);
}

void add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  CHECK(extension != nullptr, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Built by hand: a configuration string would take a comma in a host name for the next name.
Result<void> add_hosts(X509* certificate, const std::vector<std::string>& hosts) {
  if (hosts.empty())
    return {};
  const std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>> names(GENERAL_NAMES_new());
  for (const auto& host : hosts) {
    GENERAL_NAME* name = GENERAL_NAME_new();
    if (ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str()); address != nullptr) {
      GENERAL_NAME_set0_value(name, GEN_IPADD, address);
    } else {
      ASN1_IA5STRING* text = ASN1_IA5STRING_new();
      ASN1_STRING_set(text, host.data(), static_cast<int>(host.size()));
      GENERAL_NAME_set0_value(name, GEN_DNS, text);
    }
    sk_GENERAL_NAME_push(names.get(), name);
  }
  ERR_clear_error();  // of names that are not addresses
  if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) != 1)
    return crypto_error("the host names cannot stand in a certificate");
  return {};
}

Result<std::string> read_file(const std::string& path) { return read_plain(path, Links::kRefused, kPemMax); }

// With a key of its own beside it, and signed by this authority.
Result<Certificate> usable_certificate(const TlsFiles& files, EVP_PKEY* authority) {
  auto certificate = parse_certificate(TRY(read_file(files.certificate)));
  if (!certificate.ok())
    return invalid(format("{}: {}", files.certificate, certificate.error().message));
  const std::string key_pem = TRY(read_file(files.key));
  const Key key(PEM_read_bio_PrivateKey(reader(key_pem).get(), nullptr, nullptr, nullptr));
  const bool is_its_key = key && X509_check_private_key(certificate->get(), key.get()) == 1;
  const bool is_signed = X509_verify(certificate->get(), authority) == 1;
  ERR_clear_error();
  if (!is_its_key)
    return invalid(format("{} is no key, or not the one of {}", files.key, files.certificate));
  if (!is_signed)
    return invalid(format("{} is not signed by the cluster's CA", files.certificate));
  return certificate;
}

}  // namespace

Result<void> write_file_durably(const std::string& path, std::string_view content, unsigned mode) {
  const std::string temporary = format("{}.{}.new", path, ::getpid());
  const auto fail = [&] {
    Error error{Errc::kIo, format("cannot write {}: {}", path, std::strerror(errno)), {}};
    ::unlink(temporary.c_str());
    return error;
  };
  ::unlink(temporary.c_str());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0)
    return fail();
  const bool written = ::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
                       ::fchmod(fd, mode) == 0 && ::fsync(fd) == 0;
  ::close(fd);
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0)
    return fail();
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
  if (const int dir = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return {};
}

struct ClusterCa::Inner {
  std::string directory;
  Key key;
  Certificate certificate;
  std::string pem, fingerprint;
  std::string certificate_file, key_file;  // what the two held when they were opened

  Result<Certificate> make(EVP_PKEY* public_key, const CertificateAsk& ask) const {
    Certificate made(X509_new());
    X509* x = made.get();
    X509_set_version(x, X509_VERSION_3);
    set_serial(x);
    set_validity(x, ask.valid, ask.role == kGuestRole ? kGuestSkew : kClockSkew);
    if (ask.name.empty())
      return invalid("a certificate needs a name");
    TRY(set_name(X509_get_subject_name(x), "CN", ask.name));
    TRY(set_name(X509_get_subject_name(x), "OU", ask.role));
    for (const std::string& group : ask.groups) TRY(set_name(X509_get_subject_name(x), "O", group));
    X509_set_issuer_name(x, X509_get_subject_name(certificate.get()));
    X509_set_pubkey(x, public_key);
    add_extension(x, certificate.get(), NID_basic_constraints, "critical,CA:FALSE");
    const bool guest = ask.role == kGuestRole;
    add_extension(x, certificate.get(), NID_key_usage,
                  guest ? "critical,digitalSignature,keyEncipherment" : "critical,digitalSignature");
    add_extension(x, certificate.get(), NID_ext_key_usage, guest ? "clientAuth" : "serverAuth,clientAuth");
    add_extension(x, certificate.get(), NID_subject_key_identifier, "hash");
    add_extension(x, certificate.get(), NID_authority_key_identifier, "keyid");
    TRY(add_hosts(x, ask.hosts));
    if (X509_sign(x, key.get(), EVP_sha256()) == 0)
      return crypto_error("cannot sign");
    return made;
  }

  // Whether what issue() wrote earlier still serves.
  bool still_good(const TlsFiles& files, const CertificateAsk& ask) const {
    const auto found = usable_certificate(files, key.get());
    if (!found.ok())
      return false;
    for (const auto& host : ask.hosts)
      if (X509_check_ip_asc(found->get(), host.c_str(), 0) != 1 &&
          X509_check_host(found->get(), host.data(), host.size(), 0, nullptr) != 1) {
        ERR_clear_error();
        return false;
      }
    ERR_clear_error();
    // One that begins later was made while the clock was wrong.
    time_t now = ::time(nullptr), later = now + ask.valid.seconds() / 3;
    return X509_cmp_time(X509_get0_notBefore(found->get()), &now) < 0 &&
           name_part(found->get(), NID_commonName) == ask.name &&
           name_part(found->get(), NID_organizationalUnitName) == ask.role &&
           X509_cmp_time(X509_get0_notAfter(found->get()), &later) > 0;
  }
};

ClusterCa::ClusterCa(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}
ClusterCa::~ClusterCa() = default;

Result<std::unique_ptr<ClusterCa>> ClusterCa::open_or_make(const std::string& directory,
                                                           const std::string& cluster_name) {
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
    return Error{Errc::kIo, format("cannot make {}: {}", directory, std::strerror(errno)), {}};
  auto inner = std::make_unique<Inner>();
  inner->directory = directory;
  const std::string certificate_path = directory + "/ca.pem", key_path = directory + "/ca.key";
  auto pem = read_file(certificate_path);
  auto key_pem = read_file(key_path);
  if (!pem.ok() && pem.error().code != Errc::kNotFound)
    return std::move(pem).error();
  if (!key_pem.ok() && key_pem.error().code != Errc::kNotFound)
    return std::move(key_pem).error();
  if (pem.ok() && !key_pem.ok())
    return Error{Errc::kCorrupt, format("{} is there, but its key {} is not", certificate_path, key_path), {}};
  if (!pem.ok()) {
    // The key is written first, so a key alone is a first start that was cut short; nothing was ever signed with it.
    inner->key = make_key();
    inner->certificate.reset(X509_new());
    X509* x = inner->certificate.get();
    X509_set_version(x, X509_VERSION_3);
    set_serial(x);
    set_validity(x, kCaValid);
    TRY(set_name(X509_get_subject_name(x), "CN", cluster_name.substr(0, 40) + " cluster CA"));
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_set_pubkey(x, inner->key.get());
    add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(x, x, NID_subject_key_identifier, "hash");
    CHECK(X509_sign(x, inner->key.get(), EVP_sha256()) != 0);
    inner->key_file = key_text(inner->key.get());
    inner->certificate_file = certificate_text(x);
    TRY(write_file_durably(key_path, inner->key_file, 0600));
    TRY(write_file_durably(certificate_path, inner->certificate_file, 0644));
  } else {
    auto certificate = parse_certificate(*pem);
    inner->key.reset(PEM_read_bio_PrivateKey(reader(*key_pem).get(), nullptr, nullptr, nullptr));
    if (!certificate.ok() || !inner->key || X509_check_private_key(certificate->get(), inner->key.get()) != 1) {
      ERR_clear_error();
      return Error{
          Errc::kCorrupt, format("{} and {} are damaged or do not belong together", certificate_path, key_path), {}};
    }
    inner->certificate = std::move(*certificate);
    inner->certificate_file = std::move(*pem);
    inner->key_file = std::move(*key_pem);
  }
  inner->pem = certificate_text(inner->certificate.get());
  inner->fingerprint = der_sha256(inner->certificate.get());
  return std::unique_ptr<ClusterCa>(new ClusterCa(std::move(inner)));
}

const std::string& ClusterCa::certificate_pem() const { return inner_->pem; }
std::string ClusterCa::certificate_path() const { return inner_->directory + "/ca.pem"; }
const std::string& ClusterCa::fingerprint() const { return inner_->fingerprint; }
std::string ClusterCa::secret_for(std::string_view purpose) const { return hmac_sha256_hex(inner_->key_file, purpose); }

bool ClusterCa::is_on_disk() const {
  const auto pem = read_file(certificate_path()), key_pem = read_file(inner_->directory + "/ca.key");
  return pem.ok() && key_pem.ok() && *pem == inner_->certificate_file && *key_pem == inner_->key_file;
}

bool ClusterCa::is_usable_on_disk() const {
  const auto pem = read_file(certificate_path()), key_pem = read_file(inner_->directory + "/ca.key");
  const auto certificate = pem ? parse_certificate(*pem) : Result<Certificate>(pem.error());
  const Key key(key_pem ? PEM_read_bio_PrivateKey(reader(*key_pem).get(), nullptr, nullptr, nullptr) : nullptr);
  const bool is_usable = certificate.ok() && key && X509_check_private_key(certificate->get(), key.get()) == 1;
  ERR_clear_error();
  return is_usable;
}

namespace {

struct ReadRequest {
  Request request;
  Key key;
};

// fits: the kinds of keys that are not too weak, and take no long time to compute with.
Result<ReadRequest> parse_request(const std::string& pem, bool (*fits)(EVP_PKEY*), const char* wanted) {
  if (pem.size() > kPemMax)
    return invalid("the certificate request is too long");
  ReadRequest out{Request(PEM_read_bio_X509_REQ(reader(pem).get(), nullptr, nullptr, nullptr)), {}};
  if (!out.request)
    return crypto_error("cannot read the certificate request");
  out.key.reset(X509_REQ_get_pubkey(out.request.get()));
  if (!out.key)
    return crypto_error("cannot read the key of the certificate request");
  if (!fits(out.key.get()))
    return invalid(wanted);
  if (X509_REQ_verify(out.request.get(), out.key.get()) != 1)
    return crypto_error("the certificate request is not signed by its own key");
  return out;
}

// What make_key_and_request() makes.
bool is_our_kind(EVP_PKEY* key) { return EVP_PKEY_is_a(key, "EC") == 1 && EVP_PKEY_get_bits(key) == 256; }

bool is_common_kind(EVP_PKEY* key) {
  const int bits = EVP_PKEY_get_bits(key);
  if (EVP_PKEY_is_a(key, "RSA") == 1)
    return bits >= kRsaBitsMin && bits <= kRsaBitsMax;
  return EVP_PKEY_is_a(key, "ED25519") == 1 || (EVP_PKEY_is_a(key, "EC") == 1 && bits >= 256 && bits <= 521);
}

Result<ReadRequest> parse_guest_request(const std::string& pem) {
  return parse_request(pem, is_common_kind,
                       "the certificate request's key is none of RSA (2048 to 8192 bits), ECDSA or Ed25519");
}

}  // namespace

Result<RequestFacts> read_request(const std::string& pem) {
  const ReadRequest read = TRY(parse_guest_request(pem));
  const X509_NAME* subject = X509_REQ_get_subject_name(read.request.get());
  const auto names = name_parts(subject, NID_commonName);
  // Of several some readers show the first and some the last: who approves must see the one that counts.
  if (names.size() != 1 || names.front().empty())
    return invalid(format("the certificate request's subject has {} common names: it must have one", names.size()));
  if (names.front().size() > kGuestNameMax)
    return invalid(format("the certificate request's common name is longer than {} characters", kGuestNameMax));
  return RequestFacts{names.front(), name_parts(subject, NID_organizationName)};
}

Result<std::string> ClusterCa::sign_guest(const std::string& request_pem, const std::string& name,
                                          const std::vector<std::string>& groups, Duration valid) const {
  const ReadRequest read = TRY(parse_guest_request(request_pem));
  const auto made = TRY(inner_->make(
      read.key.get(),
      {.name = format("{}:{}", kGuestRole, name), .role = kGuestRole, .hosts = {}, .valid = valid, .groups = groups}));
  return certificate_text(made.get());
}

Result<std::string> ClusterCa::sign(const std::string& request_pem, const CertificateAsk& ask) const {
  const ReadRequest read = TRY(parse_request(
      request_pem, is_our_kind, "the certificate request has no key of the curve P-256: use `lockstep node join`"));
  const Key& key = read.key;
  const auto made = TRY(inner_->make(key.get(), ask));
  return certificate_text(made.get());
}

Result<TlsFiles> ClusterCa::issue(const std::string& stem, const CertificateAsk& ask) const {
  const std::string base = inner_->directory + "/" + stem;
  TlsFiles files{.ca = certificate_path(), .certificate = base + ".pem", .key = base + ".key"};
  if (inner_->still_good(files, ask))
    return files;
  const Key key = make_key();
  const auto made = TRY(inner_->make(key.get(), ask));
  TRY(write_file_durably(files.key, key_text(key.get()), 0600));
  TRY(write_file_durably(files.certificate, certificate_text(made.get()) + inner_->pem, 0644));
  return files;
}

Duration certificate_life() {
  const char* const told = ::getenv("LOCKSTEP_CERTIFICATE_SECONDS");
  const auto span = parse_uint(told ? told : "");
  return span && *span > 0 && *span < 1'000'000'000 ? seconds(static_cast<std::int64_t>(*span)) : hours(24 * 365);
}

bool belong_together(const std::string& key_pem, const std::string& certificate_pem) {
  const auto certificate = parse_certificate(certificate_pem);
  const Key key(PEM_read_bio_PrivateKey(reader(key_pem).get(), nullptr, nullptr, nullptr));
  const bool they_do = certificate.ok() && key && X509_check_private_key(certificate->get(), key.get()) == 1;
  ERR_clear_error();
  return they_do;
}

Result<void> check_usable(const TlsFiles& files) {
  const auto authority = parse_certificate(TRY(read_file(files.ca)));
  if (!authority.ok())
    return invalid(format("{}: {}", files.ca, authority.error().message));
  TRY(usable_certificate(files, X509_get0_pubkey(authority->get())));
  return {};
}

Result<KeyAndRequest> make_key_and_request(const std::string& name) {
  const Key key = make_key();
  const Request request(X509_REQ_new());
  X509_REQ_set_version(request.get(), X509_REQ_VERSION_1);
  TRY(set_name(X509_REQ_get_subject_name(request.get()), "CN", name));
  X509_REQ_set_pubkey(request.get(), key.get());
  CHECK(X509_REQ_sign(request.get(), key.get(), EVP_sha256()) != 0);
  return KeyAndRequest{key_text(key.get()),
                       pem_of([&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request.get()); })};
}

Result<CertificateFacts> read_certificate(const std::string& pem) {
  const auto certificate = TRY(parse_certificate(pem));
  tm begin{}, end{};
  if (ASN1_TIME_to_tm(X509_get0_notBefore(certificate.get()), &begin) != 1 ||
      ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1)
    return crypto_error("cannot read the certificate's end");
  return CertificateFacts{.name = name_part(certificate.get(), NID_commonName),
                          .role = name_part(certificate.get(), NID_organizationalUnitName),
                          .serial = serial_text(certificate.get()),
                          .fingerprint = der_sha256(certificate.get()),
                          .expires = {std::int64_t{::timegm(&end)} * 1'000'000},
                          .life = seconds(::timegm(&end) - ::timegm(&begin)) - kClockSkew};
}

}  // namespace lockstep
