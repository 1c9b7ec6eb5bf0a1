#include "io/tls.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/sha256.h"
#include "io/x509_text.h"

namespace lockstep {

namespace {

std::string openssl_error(std::string_view what) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  return reason != nullptr ? format("{}: {}", what, reason) : std::string(what);
}

std::string time_text(const ASN1_TIME* time) {
  BIO* bio = BIO_new(BIO_s_mem());
  ASN1_TIME_print(bio, time);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

// The library opens them by name, and would wait for a FIFO.
Result<void> are_plain(const TlsFiles& files) {
  for (const auto& path : {files.ca, files.certificate, files.key})
    if (!path.empty())
      ::close(TRY(open_plain(path, O_RDONLY, 0, Links::kFollowed)));
  return {};
}

Result<SSL_CTX*> make_context(const TlsFiles& files, bool is_server) {
  TRY(are_plain(files));
  ERR_clear_error();
  SSL_CTX* context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
  CHECK(context != nullptr);
  const auto fail = [context](std::string what) -> Error {
    Error error{Errc::kIo, openssl_error(what), {}};
    SSL_CTX_free(context);
    return error;
  };
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (is_server)
    SSL_CTX_set_num_tickets(context, 0);  // links live for days: resuming saves nothing
  else
    SSL_CTX_set_mode(context,
                     SSL_MODE_NO_AUTO_CHAIN);  // a server that trusts our CA has it, and would keep it once more
  if (!files.ca.empty()) {
    if (SSL_CTX_load_verify_locations(context, files.ca.c_str(), nullptr) != 1)
      return fail("cannot read the CA certificate " + files.ca);
    if (is_server)
      SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(files.ca.c_str()));
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  if (!files.certificate.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
      return fail("cannot read the certificate " + files.certificate);
    if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
      return fail("cannot use the private key " + files.key);
  }
  return context;
}

}  // namespace

struct TlsContext::Pin {
  std::string ca_sha256;
  bool ignores_time = false;

  static int verify(X509_STORE_CTX* store, void* argument);
};

// Looks for the pinned CA among what the server sent and verifies the chain against it alone.
int TlsContext::Pin::verify(X509_STORE_CTX* store, void* argument) {
  const auto& pin = *static_cast<const Pin*>(argument);
  STACK_OF(X509)* sent = X509_STORE_CTX_get0_untrusted(store);
  for (int i = 0; i < sk_X509_num(sent); ++i) {
    X509* candidate = sk_X509_value(sent, i);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (X509_digest(candidate, EVP_sha256(), digest, &size) != 1 ||
        hex({reinterpret_cast<const char*>(digest), size}) != pin.ca_sha256)
      continue;
    STACK_OF(X509)* trusted = sk_X509_new_null();
    sk_X509_push(trusted, candidate);
    if (pin.ignores_time)
      X509_STORE_CTX_set_flags(store, X509_V_FLAG_NO_CHECK_TIME);
    X509_STORE_CTX_set0_trusted_stack(store, trusted);  // borrowed, so it must outlive the verification
    const int ok = X509_verify_cert(store);
    sk_X509_free(trusted);
    return ok;
  }
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

struct TlsEngine::Inner {
  explicit Inner(SSL* session) : ssl(session) {
    BIO* bio = BIO_new(wire());
    CHECK(bio != nullptr);
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
  }
  ~Inner() { SSL_free(ssl); }  // frees the BIO

  // A memory BIO would keep the size of the largest write for good, once for each of a thousand connections.
  static BIO_METHOD* wire() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lockstep");
      CHECK(m != nullptr);
      BIO_meth_set_write_ex(m, [](BIO* bio, const char* data, std::size_t size, std::size_t* written) {
        static_cast<Inner*>(BIO_get_data(bio))->output.append(data, size);
        *written = size;
        return 1;
      });
      BIO_meth_set_read_ex(m, [](BIO* bio, char* data, std::size_t size, std::size_t* taken) {
        std::string_view& input = static_cast<Inner*>(BIO_get_data(bio))->input;
        BIO_clear_retry_flags(bio);
        *taken = std::min(size, input.size());
        if (*taken == 0) {
          BIO_set_retry_read(bio);
          return 0;
        }
        std::memcpy(data, input.data(), *taken);
        input.remove_prefix(*taken);
        return 1;
      });
      BIO_meth_set_ctrl(m, [](BIO*, int what, long, void*) -> long { return what == BIO_CTRL_FLUSH; });
      return m;
    }();
    return method;
  }

  // Why the handshake or a read failed, in words that help.
  std::string failure() {
    const long verify = SSL_get_verify_result(ssl);
    if (verify != X509_V_OK) {
      ERR_clear_error();
      if (verify == X509_V_ERR_APPLICATION_VERIFICATION)
        return "it shows another CA than the one whose fingerprint was given";
      std::string who = "the peer's certificate";
      if (X509* certificate = refused_certificate(); certificate != nullptr) {
        who = format("certificate \"{}\"", name_part(certificate, NID_commonName));
        if (verify == X509_V_ERR_CERT_HAS_EXPIRED)
          return format("{} expired on {}", who, time_text(X509_get0_notAfter(certificate)));
      }
      return format("{} was refused: {}", who, X509_verify_cert_error_string(verify));
    }
    return openssl_error("TLS");
  }

  // A refused chain is not the session's peer certificate yet in every version; the callback keeps a reference.
  X509* refused_certificate() { return refused != nullptr ? refused : SSL_get0_peer_certificate(ssl); }

  static int on_verify(int ok, X509_STORE_CTX* store) {
    if (ok != 1) {
      auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
      auto* self = static_cast<Inner*>(SSL_get_app_data(ssl));
      if (self->refused == nullptr && X509_STORE_CTX_get_current_cert(store) != nullptr) {
        self->refused = X509_STORE_CTX_get_current_cert(store);
        X509_up_ref(self->refused);
        self->kept.reset(self->refused);
      }
    }
    return ok;
  }

  struct FreeX509 {
    void operator()(X509* x) const { X509_free(x); }
  };

  SSL* ssl;
  std::string_view input;  // what feed() was given, until the session has taken it in
  std::string output;
  X509* refused = nullptr;
  std::unique_ptr<X509, FreeX509> kept;
};

TlsEngine::TlsEngine(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}
TlsEngine::~TlsEngine() = default;

Result<void> TlsEngine::feed(std::string_view ciphertext, const std::function<void(std::string_view)>& on_plain) {
  SSL* ssl = inner_->ssl;
  ERR_clear_error();
  inner_->input = ciphertext;  // all of it is taken in before the session wants more
  if (SSL_is_init_finished(ssl) == 0) {
    const int rc = SSL_do_handshake(ssl);
    if (rc != 1) {
      if (SSL_get_error(ssl, rc) == SSL_ERROR_WANT_READ)
        return {};
      return Error{Errc::kDenied, inner_->failure(), {}};
    }
  }
  char plain[16 << 10];
  while (true) {
    const int n = SSL_read(ssl, plain, sizeof plain);
    if (n > 0) {
      on_plain({plain, static_cast<std::size_t>(n)});
      continue;
    }
    switch (SSL_get_error(ssl, n)) {
      case SSL_ERROR_WANT_READ: return {};
      case SSL_ERROR_ZERO_RETURN: return Error{Errc::kUnavailable, "", {}};  // an orderly end has no reason
      default: return Error{Errc::kDenied, inner_->failure(), {}};
    }
  }
}

Result<void> TlsEngine::seal(std::string_view plain) {
  ERR_clear_error();
  while (!plain.empty()) {
    const int n = SSL_write(inner_->ssl, plain.data(), static_cast<int>(std::min<std::size_t>(plain.size(), 1 << 20)));
    if (n <= 0)
      return Error{Errc::kIo, openssl_error("TLS"), {}};
    plain.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

std::string TlsEngine::take_output() {
  SSL* ssl = inner_->ssl;
  if (SSL_is_init_finished(ssl) == 0 && SSL_in_before(ssl) != 0 && SSL_is_server(ssl) == 0)
    SSL_do_handshake(ssl);  // the client's first words
  return std::exchange(inner_->output, {});
}

void TlsEngine::finish() {
  if (ready())
    SSL_shutdown(inner_->ssl);
  ERR_clear_error();
}

bool TlsEngine::ready() const { return SSL_is_init_finished(inner_->ssl) != 0; }

std::string_view TlsEngine::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(inner_->ssl, &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

CertificateName TlsEngine::peer() const {
  X509* certificate = SSL_get0_peer_certificate(inner_->ssl);
  if (certificate == nullptr || SSL_get_verify_result(inner_->ssl) != X509_V_OK)
    return {};
  return {true, name_part(certificate, NID_commonName), name_part(certificate, NID_organizationalUnitName),
          serial_text(certificate), name_parts(X509_get_subject_name(certificate), NID_organizationName)};
}

Result<std::unique_ptr<TlsContext>> TlsContext::server(const TlsFiles& files) {
  auto context = std::unique_ptr<TlsContext>(new TlsContext());
  context->context_ = TRY(make_context(files, true));
  context->is_server_ = true;
  return context;
}

Result<std::unique_ptr<TlsContext>> TlsContext::client(const TlsFiles& files) {
  auto context = std::unique_ptr<TlsContext>(new TlsContext());
  context->context_ = TRY(make_context(files, false));
  return context;
}

Result<std::unique_ptr<TlsContext>> TlsContext::pinned_client(const std::string& ca_sha256, bool ignores_time) {
  auto context = TRY(client({}));
  context->pin_ = std::make_unique<Pin>(ca_sha256, ignores_time);
  auto* native = static_cast<SSL_CTX*>(context->context_);
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(native, Pin::verify, context->pin_.get());
  return context;
}

namespace {

template <auto Free>
struct FreedBy {
  void operator()(auto* what) const { Free(what); }
};
template <class T, auto Free>
using Owned = std::unique_ptr<T, FreedBy<Free>>;

Result<void> trust_pem(SSL_CTX* context, const std::string& pem) {
  const Owned<BIO, BIO_free> text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  int count = 0;
  while (const auto one = Owned<X509, X509_free>(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)))
    count += X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one.get());
  ERR_clear_error();
  return count > 0 ? Result<void>() : Result<void>(denied("its caBundle has no certificate"));
}

Result<void> show_pem(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  const Owned<BIO, BIO_free> first(BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const Owned<BIO, BIO_free> second(BIO_new_mem_buf(key.data(), static_cast<int>(key.size())));
  const Owned<X509, X509_free> ours(PEM_read_bio_X509(first.get(), nullptr, nullptr, nullptr));
  const Owned<EVP_PKEY, EVP_PKEY_free> secret(PEM_read_bio_PrivateKey(second.get(), nullptr, nullptr, nullptr));
  if (!ours || !secret || SSL_CTX_use_certificate(context, ours.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, secret.get()) != 1)
    return Error{Errc::kIo, openssl_error("our own certificate cannot be used"), {}};
  return {};
}

}  // namespace

Result<std::unique_ptr<TlsContext>> TlsContext::web_client(const WebTrust& trust) {
  auto context = TRY(client({}));
  auto* native = static_cast<SSL_CTX*>(context->context_);
  context->server_name_ = trust.server_name;
  if (!trust.certificate_pem.empty())
    TRY(show_pem(native, trust.certificate_pem, trust.key_pem));
  if (trust.anybody)
    return context;
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
  if (trust.ca_pem.empty())
    SSL_CTX_set_default_verify_paths(native);
  else
    TRY(trust_pem(native, trust.ca_pem));
  return context;
}

void TlsContext::offer(const std::vector<std::string>& protocols) {
  for (const std::string& name : protocols) {
    CHECK(is_server_ && !name.empty() && name.size() < 256);
    offered_ += static_cast<char>(name.size());
    offered_ += name;
  }
  // A client that names none of ours goes on without: what was spoken before there were names.
  SSL_CTX_set_alpn_select_cb(
      static_cast<SSL_CTX*>(context_),
      [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char* named, unsigned named_size,
         void* own) {
        const auto& ours = *static_cast<const std::string*>(own);
        unsigned char* chosen = nullptr;
        if (SSL_select_next_proto(&chosen, size, reinterpret_cast<const unsigned char*>(ours.data()),
                                  static_cast<unsigned>(ours.size()), named, named_size) != OPENSSL_NPN_NEGOTIATED)
          return SSL_TLSEXT_ERR_NOACK;
        *out = chosen;
        return SSL_TLSEXT_ERR_OK;
      },
      &offered_);
}

TlsContext::TlsContext() = default;
TlsContext::~TlsContext() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

std::unique_ptr<TlsEngine> TlsContext::open() const {
  SSL* ssl = SSL_new(static_cast<SSL_CTX*>(context_));
  if (ssl == nullptr)
    return nullptr;
  auto inner = std::make_unique<TlsEngine::Inner>(ssl);
  SSL_set_app_data(ssl, inner.get());
  SSL_set_verify(ssl, SSL_CTX_get_verify_mode(static_cast<SSL_CTX*>(context_)), TlsEngine::Inner::on_verify);
  if (!server_name_.empty()) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_name_.c_str()) != 1) {
      ERR_clear_error();  // it is a name
      SSL_set_tlsext_host_name(ssl, server_name_.c_str());
      SSL_set1_host(ssl, server_name_.c_str());
    }
  }
  if (is_server_)
    SSL_set_accept_state(ssl);
  else
    SSL_set_connect_state(ssl);
  return std::unique_ptr<TlsEngine>(new TlsEngine(std::move(inner)));
}

}  // namespace lockstep
