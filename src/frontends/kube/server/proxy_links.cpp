#include "frontends/kube/server/proxy_links.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep::kube {

namespace {

struct TagLinks {
  std::string_view tag, attributes;
};
constexpr TagLinks kLinks[] = {{"a", "href"},
                               {"applet", "codebase"},
                               {"area", "href"},
                               {"audio", "src"},
                               {"base", "href"},
                               {"blockquote", "cite"},
                               {"body", "background"},
                               {"button", "formaction"},
                               {"command", "icon"},
                               {"del", "cite"},
                               {"embed", "src"},
                               {"form", "action"},
                               {"frame", "longdesc src"},
                               {"head", "profile"},
                               {"html", "manifest"},
                               {"iframe", "longdesc src"},
                               {"img", "longdesc src usemap"},
                               {"input", "src usemap formaction"},
                               {"ins", "cite"},
                               {"link", "href"},
                               {"object", "classid codebase data usemap"},
                               {"q", "cite"},
                               {"script", "src"},
                               {"source", "src"},
                               {"video", "poster src"}};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool holds_link(const std::string& tag, const std::string& attribute) {
  for (const TagLinks& one : kLinks)
    if (one.tag == tag) {
      const auto names = split_words(one.attributes);
      return std::ranges::find(names, attribute) != names.end();
    }
  return false;
}

// A page, tag by tag. What is no tag is copied as it is.
class Page {
 public:
  Page(std::string_view text, const ProxyPlace& place) : text_(text), place_(place) {}

  std::string through() && {
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with("<!--")) {
        const std::size_t end = text_.find("-->", at_);
        copy_to(end == text_.npos ? text_.size() : end + 3);
      } else if (text_[at_] == '<' && at_ + 1 < text_.size() && is_letter(text_[at_ + 1])) {
        tag();
      } else {
        copy_to(at_ + 1);
      }
    }
    return std::move(out_);
  }

 private:
  void copy_to(std::size_t end) {
    end = std::min(end, text_.size());
    out_.append(text_.substr(at_, end - at_));
    at_ = end;
  }
  std::string word(std::string_view stops) {
    const std::size_t begin = at_;
    std::size_t end = begin;
    while (end < text_.size() && !is_blank(text_[end]) && stops.find(text_[end]) == stops.npos) ++end;
    copy_to(end);
    return lower(std::string(text_.substr(begin, end - begin)));
  }
  void blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) copy_to(at_ + 1);
  }

  void tag() {
    copy_to(at_ + 1);
    const std::string name = word("/>");
    while (at_ < text_.size() && text_[at_] != '>') {
      if (is_blank(text_[at_]) || text_[at_] == '/' || text_[at_] == '=') {
        copy_to(at_ + 1);
        continue;
      }
      const std::string attribute = word("/>=");
      blanks();
      if (at_ >= text_.size() || text_[at_] != '=')
        continue;
      copy_to(at_ + 1);
      blanks();
      value(holds_link(name, attribute));
    }
    copy_to(at_ + 1);
  }

  void value(bool is_link) {
    if (at_ >= text_.size())
      return;
    const char quote = text_[at_];
    const bool quoted = quote == '"' || quote == '\'';
    if (quoted)
      copy_to(at_ + 1);
    std::size_t end = at_;
    while (end < text_.size() && (quoted ? text_[end] != quote : !is_blank(text_[end]) && text_[end] != '>')) ++end;
    const std::string_view link = text_.substr(at_, end - at_);
    if (is_link) {
      out_ += proxied_link(link, place_);
      at_ = end;
    }
    copy_to(quoted ? end + 1 : end);
  }

  std::string_view text_;
  const ProxyPlace& place_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string proxied_link(std::string_view link, const ProxyPlace& place) {
  std::string_view path = link;
  for (const std::string_view scheme : {"http://", "https://", "//"})
    if (link.starts_with(scheme)) {
      const std::string_view rest = link.substr(scheme.size());
      const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
      if (host != place.host && host != place.server)
        return std::string(link);
      path = rest.substr(host.size());
      if (path.empty())
        path = "/";
      break;
    }
  if (!path.starts_with('/') || (path.data() == link.data() && path.starts_with("//")))
    return std::string(link);
  return path.starts_with(place.prefix) ? std::string(path) : place.prefix + std::string(path);
}

std::string proxied_page(std::string_view page, const ProxyPlace& place) { return Page(page, place).through(); }

}  // namespace lockstep::kube
