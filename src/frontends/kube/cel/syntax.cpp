#include "frontends/kube/cel/syntax.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/text.h"

namespace lockstep::kube::cel {
namespace {

using Kind = Node::Kind;
using Made = std::unique_ptr<Node>;

struct Token {
  enum class Is : unsigned char { kEnd, kName, kQuotedName, kNumber, kText, kBytes, kMark, kFault } is = Is::kEnd;
  std::string text;  // of a text without quotes and escapes; of a fault the reason
  std::size_t position = 0;
};

constexpr std::string_view kKeywords[] = {"as",        "break",  "const",  "continue", "else", "for",
                                          "function",  "if",     "import", "let",      "loop", "package",
                                          "namespace", "return", "var",    "void",     "while"};

bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Token next() {
    skip_blanks();
    const std::size_t from = at_;
    if (at_ == text_.size())
      return {Token::Is::kEnd, {}, from};
    const char c = text_[at_];
    if (const auto quoted = text_literal(from))
      return *quoted;
    if (name_start(c)) {
      while (at_ < text_.size() && (name_start(text_[at_]) || digit(text_[at_]))) ++at_;
      return {Token::Is::kName, std::string(text_.substr(from, at_ - from)), from};
    }
    if (c == '`') {
      const std::size_t end = text_.find('`', at_ + 1);
      if (end == text_.npos)
        return {Token::Is::kFault, "token recognition error at: '`'", from};
      at_ = end + 1;
      return {Token::Is::kQuotedName, std::string(text_.substr(from + 1, end - from - 1)), from};
    }
    if (digit(c) || (c == '.' && at_ + 1 < text_.size() && digit(text_[at_ + 1])))
      return number(from);
    for (const std::string_view mark : {"&&", "||", "==", "!=", "<=", ">="})
      if (text_.substr(at_).starts_with(mark)) {
        at_ += 2;
        return {Token::Is::kMark, std::string(mark), from};
      }
    if (std::string_view("?:+-*/%!<>()[]{}.,").find(c) == std::string_view::npos)
      return {Token::Is::kFault, format("token recognition error at: '{}'", c), from};
    ++at_;
    return {Token::Is::kMark, std::string(1, c), from};
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (std::string_view(" \t\r\n\f").find(text_[at_]) != std::string_view::npos)
        ++at_;
      else if (text_.substr(at_).starts_with("//"))
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        return;
    }
  }

  Token number(std::size_t from) {
    if (text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X")) {
      at_ += 2;
      while (at_ < text_.size() && std::isxdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    } else {
      const auto digits = [&] {
        while (at_ < text_.size() && digit(text_[at_])) ++at_;
      };
      digits();
      if (at_ + 1 < text_.size() && text_[at_] == '.' && digit(text_[at_ + 1])) {
        ++at_;
        digits();
      }
      if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
        std::size_t ahead = at_ + 1;
        if (ahead < text_.size() && (text_[ahead] == '+' || text_[ahead] == '-'))
          ++ahead;
        if (ahead < text_.size() && digit(text_[ahead])) {
          at_ = ahead;
          digits();
        }
      }
    }
    if (at_ < text_.size() && (text_[at_] == 'u' || text_[at_] == 'U'))
      ++at_;
    return {Token::Is::kNumber, std::string(text_.substr(from, at_ - from)), from};
  }

  // Texts and bytes: 'a', "a", '''a''', with r and b before them.
  std::optional<Token> text_literal(std::size_t from) {
    bool raw = false, bytes = false;
    std::size_t ahead = at_;
    while (ahead < text_.size() && ahead < at_ + 2) {
      const char c = text_[ahead];
      if ((c == 'r' || c == 'R') && !raw)
        raw = true;
      else if ((c == 'b' || c == 'B') && !bytes)
        bytes = true;
      else
        break;
      ++ahead;
    }
    if (ahead == text_.size() || (text_[ahead] != '"' && text_[ahead] != '\''))
      return std::nullopt;
    const std::string quote(1, text_[ahead]), triple(3, text_[ahead]);
    const bool long_form = text_.substr(ahead).starts_with(triple);
    const std::string_view end = long_form ? triple : quote;
    ahead += end.size();
    Token token{bytes ? Token::Is::kBytes : Token::Is::kText, {}, from};
    while (ahead < text_.size() && !text_.substr(ahead).starts_with(end)) {
      if (!long_form && (text_[ahead] == '\n' || text_[ahead] == '\r'))
        break;
      if (text_[ahead] != '\\' || raw) {
        token.text += text_[ahead++];
        continue;
      }
      if (!escape(ahead, bytes, token.text)) {
        at_ = text_.size();
        return Token{Token::Is::kFault, "invalid escape sequence", from};
      }
    }
    if (!text_.substr(std::min(ahead, text_.size())).starts_with(end)) {
      at_ = text_.size();
      return Token{Token::Is::kFault, "unterminated text", from};
    }
    at_ = ahead + end.size();
    return token;
  }

  bool escape(std::size_t& at, bool bytes, std::string& out) {
    if (at + 1 >= text_.size())
      return false;
    const char c = text_[at + 1];
    at += 2;
    constexpr std::string_view kLetters = "abfnrtv\\?\"'`";
    constexpr std::string_view kMeant = "\a\b\f\n\r\t\v\\?\"'`";
    if (const std::size_t known = kLetters.find(c); known != kLetters.npos) {
      out += kMeant[known];
      return true;
    }
    const int base = digit(c) ? 8 : 16;
    const std::size_t count = c == 'x' || c == 'X' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : digit(c) ? 3 : 0;
    const std::size_t from = digit(c) ? at - 1 : at;
    if (count == 0 || from + count > text_.size())
      return false;
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + from, text_.data() + from + count, value, base);
    if (error != std::errc() || end != text_.data() + from + count || value > 0x10FFFF ||
        (value >= 0xD800 && value < 0xE000))
      return false;
    at = from + count;
    if (bytes && (count == 2 || count == 3))
      out += static_cast<char>(value);
    else
      append_utf8(out, value);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), scanner_(text) { advance(); }

  Result<Made> parse() {
    Made made = expression();
    if (made != nullptr && now_.is != Token::Is::kEnd)
      made = fail(now_.position, unexpected());
    if (made == nullptr)
      return invalid(fault_at(text_, fault_position_, fault_));
    return made;
  }

 private:
  void advance() {
    now_ = scanner_.next();
    if (now_.is == Token::Is::kFault)
      fail(now_.position, now_.text);
  }
  bool at(std::string_view mark) const { return now_.is == Token::Is::kMark && now_.text == mark; }
  bool at_word(std::string_view word) const { return now_.is == Token::Is::kName && now_.text == word; }
  bool take(std::string_view mark) {
    if (!at(mark))
      return false;
    advance();
    return true;
  }
  std::string unexpected() const {
    return now_.is == Token::Is::kEnd ? "mismatched input '<EOF>'" : format("mismatched input '{}'", now_.text);
  }
  Made fail(std::size_t position, std::string_view why) { return refuse(position, format("Syntax error: {}", why)); }
  Made refuse(std::size_t position, std::string why) {
    if (fault_.empty()) {
      fault_ = std::move(why);
      fault_position_ = position;
    }
    return nullptr;
  }
  bool expect(std::string_view mark) {
    if (take(mark))
      return true;
    fail(now_.position, format("{} expecting '{}'", unexpected(), mark));
    return false;
  }

  // Null parts are failures below, which have been noted.
  Made make(Kind kind, std::size_t position, std::string name, std::vector<Made> parts) {
    Made node = std::make_unique<Node>();
    node->kind = kind;
    node->position = position;
    node->name = std::move(name);
    for (const Made& part : parts) {
      if (part == nullptr)
        return nullptr;
      node->depth = std::max(node->depth, part->depth + 1);
    }
    node->parts = std::move(parts);
    if (++nodes_ > kExpressionNodesMax)
      return fail(position, format("an expression may have {} parts at most", kExpressionNodesMax));
    if (node->depth > kExpressionDepthMax)
      return fail(position, format("expression recursion limit exceeded: {}", kExpressionDepthMax));
    return node;
  }
  template <class... Parts>
  static std::vector<Made> parts(Parts... each) {
    std::vector<Made> out;
    (out.push_back(std::move(each)), ...);
    return out;
  }

  Made expression() {
    if (++open_ > kExpressionDepthMax) {
      --open_;
      return fail(now_.position, format("expression recursion limit exceeded: {}", kExpressionDepthMax));
    }
    Made made = choice();
    --open_;
    return made;
  }

  Made choice() {
    Made condition = chain(Kind::kOr, "||");
    const std::size_t position = now_.position;
    if (condition == nullptr || !take("?"))
      return condition;
    Made yes = chain(Kind::kOr, "||");
    if (yes == nullptr || !expect(":"))
      return nullptr;
    return make(Kind::kChoice, position, "_?_:_", parts(std::move(condition), std::move(yes), expression()));
  }

  Made chain(Kind kind, std::string_view mark) {
    const auto part = [&] { return kind == Kind::kOr ? chain(Kind::kAnd, "&&") : relation(); };
    Made first = part();
    if (first == nullptr || !at(mark))
      return first;
    const std::size_t position = now_.position;
    std::vector<Made> all = parts(std::move(first));
    while (take(mark))
      if (all.push_back(part()); all.back() == nullptr)
        return nullptr;
    return make(kind, position, kind == Kind::kOr ? "_||_" : "_&&_", std::move(all));
  }

  Made relation() {
    Made left = sum();
    while (left != nullptr) {
      const std::string mark = now_.text;
      const bool in = at_word("in");
      if (!in && !at("==") && !at("!=") && !at("<") && !at("<=") && !at(">") && !at(">="))
        return left;
      const std::size_t position = now_.position;
      advance();
      left = make(Kind::kCall, position, in ? "@in" : format("_{}_", mark), parts(std::move(left), sum()));
    }
    return nullptr;
  }

  Made sum() {
    Made left = product();
    while (left != nullptr && (at("+") || at("-"))) {
      const std::string mark = now_.text;
      const std::size_t position = now_.position;
      advance();
      left = make(Kind::kCall, position, format("_{}_", mark), parts(std::move(left), product()));
    }
    return left;
  }

  Made product() {
    Made left = unary();
    while (left != nullptr && (at("*") || at("/") || at("%"))) {
      const std::string mark = now_.text;
      const std::size_t position = now_.position;
      advance();
      left = make(Kind::kCall, position, format("_{}_", mark), parts(std::move(left), unary()));
    }
    return left;
  }

  Made unary() {
    const std::size_t position = now_.position;
    if (!at("!") && !at("-"))
      return member();
    const std::string mark = now_.text;
    bool odd = false;
    while (take(mark)) odd = !odd;
    if (mark == "-" && odd && now_.is == Token::Is::kNumber)
      return member_behind(number("-" + now_.text, position));
    Made inner = member();
    if (inner == nullptr || !odd)
      return inner;
    return make(Kind::kCall, position, mark + "_", parts(std::move(inner)));
  }

  Made member() { return member_behind(primary()); }

  Made member_behind(Made left) {
    while (left != nullptr) {
      const std::size_t position = now_.position;
      if (take(".")) {
        const bool optional = take("?");
        const bool quoted = now_.is == Token::Is::kQuotedName;
        if (now_.is != Token::Is::kName && !quoted)
          return fail(now_.position, unexpected());
        std::string name = now_.text;
        advance();
        if (!quoted && !optional && at("(")) {
          left = call(std::move(left), std::move(name));
          continue;
        }
        left = make(Kind::kField, position, quoted ? escaped_name(name) : std::move(name), parts(std::move(left)));
        if (left != nullptr)
          left->optional = optional;
      } else if (take("[")) {
        const bool optional = take("?");
        Made key = expression();
        if (key == nullptr || !expect("]"))
          return nullptr;
        left = make(Kind::kIndex, position, "_[_]", parts(std::move(left), std::move(key)));
        if (left != nullptr)
          left->optional = optional;
      } else {
        return left;
      }
    }
    return nullptr;
  }

  bool arguments(std::string_view close, std::vector<Made>& out, std::vector<bool>* optional) {
    while (!take(close)) {
      if (optional != nullptr)
        optional->push_back(take("?"));
      out.push_back(expression());
      if (out.back() == nullptr)
        return false;
      if (!take(",") && !at(close)) {
        fail(now_.position, format("{} expecting '{}'", unexpected(), close));
        return false;
      }
    }
    return true;
  }

  Made call(Made target, std::string name) {
    const std::size_t position = now_.position;  // of "(", where the original sees a call
    advance();
    std::vector<Made> all;
    const bool method = target != nullptr;
    if (!arguments(")", all, nullptr))
      return nullptr;
    if (!method && name == "has" && all.size() == 1) {
      if (all[0]->kind != Kind::kField)
        return refuse(all[0]->position, "invalid argument to has() macro");
      all[0]->test = true;
      return std::move(all[0]);
    }
    if (method) {
      if (Made macro = loop(target, name, position, all); macro != nullptr || !fault_.empty())
        return macro;
      // "optional.of", "ip.isCanonical", "sets.contains": a function whose name has a dot.
      const bool space = target->kind == Kind::kName &&
                         (target->name == "optional" || target->name == "sets" || target->name == "strings" ||
                          target->name == "math" || (target->name == "ip" && name == "isCanonical") ||
                          (target->name == "format" && name == "named"));
      if (target->kind == Kind::kName && target->name == "format" && name != "named" && all.empty()) {
        all.push_back(literal(position, Value::text(name)));
        return make(Kind::kCall, position, "format.known", std::move(all));
      }
      if (space)
        return make(Kind::kCall, position, target->name + "." + name, std::move(all));
      all.insert(all.begin(), std::move(target));
    }
    Made node = make(Kind::kCall, position, std::move(name), std::move(all));
    if (node != nullptr)
      node->method = method;
    return node;
  }

  // Null without a fault: it is no macro.
  Made loop(Made& target, const std::string& name, std::size_t position, std::vector<Made>& all) {
    const bool quantifier = name == "all" || name == "exists" || name == (all.size() == 3 ? "existsOne" : "exists_one");
    const bool transform = name == "transformList" || name == "transformMap" || name == "transformMapEntry";
    const bool optional = name == "optMap" || name == "optFlatMap";
    const std::size_t count = all.size();
    const bool two = (quantifier && count == 3) || (transform && (count == 3 || count == 4));
    const bool one = (quantifier && count == 2) || (name == "filter" && count == 2) ||
                     (name == "map" && (count == 2 || count == 3)) || (optional && count == 2);
    if (!one && !two)
      return nullptr;
    const std::size_t variables = two ? 2 : 1;
    for (std::size_t each = 0; each < variables; ++each)
      if (all[each]->kind != Kind::kName)
        return refuse(all[each]->position, "argument must be a simple name");
    Made node = std::make_unique<Node>();
    std::vector<Made> inside = parts(std::move(target));
    for (std::size_t each = variables; each < count; ++each) inside.push_back(std::move(all[each]));
    const std::string first = all[0]->name, second = two ? all[1]->name : "";
    node = make(optional ? Kind::kOptional : Kind::kLoop, position, name == "existsOne" ? "exists_one" : name,
                std::move(inside));
    if (node != nullptr) {
      node->first = first;
      node->second = second;
    }
    return node;
  }

  Made literal(std::size_t position, Value value) {
    Made node = make(Kind::kLiteral, position, {}, {});
    if (node != nullptr)
      node->literal = std::move(value);
    return node;
  }

  Made number(const std::string& text, std::size_t position) {
    advance();
    const bool negative = text.starts_with('-');
    const bool hex = text.find_first_of("xX") != text.npos;
    const bool is_unsigned = text.ends_with('u') || text.ends_with('U');
    std::string_view digits(text);
    digits.remove_prefix((negative ? 1 : 0) + (hex ? 2 : 0));
    if (is_unsigned)
      digits.remove_suffix(1);
    if (!hex && digits.find_first_of(".eE") != digits.npos) {
      double value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc() || end != digits.data() + digits.size())
        return fail(position, "invalid double literal");
      return literal(position, Value(negative ? -value : value));
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    if (error != std::errc() || end != digits.data() + digits.size() || (is_unsigned && negative))
      return fail(position, is_unsigned ? "invalid uint literal" : "invalid int literal");
    if (is_unsigned)
      return literal(position, Value(value));
    if (value > static_cast<std::uint64_t>(INT64_MAX) + (negative ? 1 : 0))
      return fail(position, "invalid int literal");
    return literal(position, Value(negative ? static_cast<std::int64_t>(-value) : static_cast<std::int64_t>(value)));
  }

  Made primary() {
    const std::size_t position = now_.position;
    const Token token = now_;
    switch (token.is) {
      case Token::Is::kNumber: return number(token.text, position);
      case Token::Is::kText: advance(); return literal(position, Value::text(token.text));
      case Token::Is::kBytes:
        advance();
        return literal(position, Value(std::make_shared<const Bytes>(Bytes{token.text})));
      case Token::Is::kName: return named(token);
      case Token::Is::kMark: break;
      default: return fail(position, unexpected());
    }
    if (take("(")) {
      Made inner = expression();
      return inner != nullptr && expect(")") ? std::move(inner) : nullptr;
    }
    if (take("[")) {
      std::vector<Made> all;
      std::vector<bool> optional;
      if (!arguments("]", all, &optional))
        return nullptr;
      Made node = make(Kind::kList, position, "[]", std::move(all));
      if (node != nullptr)
        node->optional_parts = std::move(optional);
      return node;
    }
    if (take("{"))
      return map_literal(position);
    if (take(".")) {
      if (now_.is != Token::Is::kName)
        return fail(now_.position, unexpected());
      return named(now_);
    }
    return fail(position, unexpected());
  }

  Made named(const Token token) {
    advance();
    if (token.text == "true" || token.text == "false")
      return literal(token.position, Value(token.text == "true"));
    if (token.text == "null")
      return literal(token.position, Value());
    if (token.text == "in" || std::ranges::find(kKeywords, std::string_view(token.text)) != std::end(kKeywords))
      return refuse(token.position, format("reserved identifier: {}", token.text));
    if (at("("))
      return call(nullptr, token.text);
    return make(Kind::kName, token.position, token.text, {});
  }

  Made map_literal(std::size_t position) {
    std::vector<Made> all;
    std::vector<bool> optional;
    while (!take("}")) {
      optional.push_back(take("?"));
      all.push_back(expression());
      if (all.back() == nullptr || !expect(":"))
        return nullptr;
      all.push_back(expression());
      if (all.back() == nullptr)
        return nullptr;
      if (!take(",") && !at("}"))
        return fail(now_.position, format("{} expecting '}}'", unexpected()));
    }
    Made node = make(Kind::kMap, position, "{}", std::move(all));
    if (node != nullptr)
      node->optional_parts = std::move(optional);
    return node;
  }

  std::string_view text_;
  Scanner scanner_;
  Token now_;
  std::string fault_;
  std::size_t fault_position_ = 0;
  std::size_t nodes_ = 0, open_ = 0;
};

}  // namespace

std::string fault_at(std::string_view text, std::size_t position, std::string_view message) {
  position = std::min(position, text.size());
  const std::size_t before = text.substr(0, position).rfind('\n');
  const std::size_t begin = before == text.npos ? 0 : before + 1;
  const std::string_view line = text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
  const auto number = 1 + std::ranges::count(text.substr(0, position), '\n');
  return format("ERROR: <input>:{}:{}: {}\n | {}\n | {}^", number, position - begin + 1, message, line.substr(0, 500),
                std::string(std::min<std::size_t>(position - begin, 500), '.'));
}

Result<std::unique_ptr<Node>> parse_expression(std::string_view text) {
  if (text.size() > kExpressionMax)
    return invalid(format("an expression may have {} bytes at most", kExpressionMax));
  return Parser(text).parse();
}

}  // namespace lockstep::kube::cel
