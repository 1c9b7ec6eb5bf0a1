// Internal to io: what is read from a certificate as text, the same wherever it is compared.
#pragma once

#include <openssl/bn.h>
#include <openssl/x509.h>

#include <string>

namespace lockstep {

// One part of a subject: NID_commonName, NID_organizationalUnitName. "" = it has none, or one with a NUL inside, which
// two readers might take for different names.
inline std::string name_part(X509* certificate, int nid) {
  char text[256];
  const int n = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), nid, text, sizeof text);
  return n > 0 && std::string_view(text).size() == static_cast<std::size_t>(n) ? std::string(text) : std::string();
}

// As `openssl x509 -serial` prints it, in lower case.
inline std::string serial_text(X509* certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* digits = number != nullptr ? BN_bn2hex(number) : nullptr;
  std::string text = digits != nullptr ? digits : "";
  OPENSSL_free(digits);
  BN_free(number);
  for (char& c : text) c = c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c;
  return text;
}

}  // namespace lockstep
