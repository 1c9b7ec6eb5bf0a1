// Internal to io: what is read from a certificate as text, the same wherever it is compared.
#pragma once

#include <openssl/bn.h>
#include <openssl/x509.h>

#include <string>
#include <vector>

namespace lockstep {

// One part of a subject: NID_commonName, NID_organizationalUnitName. "" = it has none, or one with a NUL inside, which
// two readers might take for different names.
inline std::string name_part(X509* certificate, int nid) {
  char text[256];
  const int n = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), nid, text, sizeof text);
  return n > 0 && std::string_view(text).size() == static_cast<std::size_t>(n) ? std::string(text) : std::string();
}

// All parts of that kind, in order; those with a NUL inside are left out.
inline std::vector<std::string> name_parts(const X509_NAME* name, int nid) {
  std::vector<std::string> out;
  for (int at = X509_NAME_get_index_by_NID(name, nid, -1); at >= 0; at = X509_NAME_get_index_by_NID(name, nid, at)) {
    unsigned char* bytes = nullptr;
    const int size = ASN1_STRING_to_UTF8(&bytes, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
    if (size >= 0)
      out.emplace_back(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    OPENSSL_free(bytes);
    if (!out.empty() && out.back().find('\0') != std::string::npos)
      out.pop_back();
  }
  return out;
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
