#include "frontends/slurm/import/conf_lines.h"

#include <algorithm>

#include "base/characters.h"
#include "base/text.h"
#include "model/bounds.h"

namespace lockstep::slurm {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
bool is_key_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Whether every byte belongs to a character of UTF-8.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80              ? 1
                               : (first & 0xe0u) == 0xc0 ? 2
                               : (first & 0xf0u) == 0xe0 ? 3
                               : (first & 0xf8u) == 0xf0 ? 4
                                                         : 0;
    if (length == 0 || i + length > text.size() || first == 0xc0 || first == 0xc1 || first > 0xf4)
      return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0u) != 0x80)
        return false;
    i += length;
  }
  return true;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string shown = without_control_characters(text.substr(0, kMost), kMost);
  if (text.size() > kMost)
    shown += "...";
  return shown;
}

// A line with those that are joined to it by a backslash. Each piece knows where it stood.
struct JoinedLine {
  struct Piece {
    std::size_t begin = 0, line = 0, column = 1;
  };
  std::string text;
  std::vector<Piece> pieces;

  struct Place {
    std::size_t line = 0, column = 0;
  };
  Place place(std::size_t at) const {
    const auto next = std::upper_bound(pieces.begin(), pieces.end(), at,
                                       [](std::size_t value, const Piece& piece) { return value < piece.begin; });
    const Piece& piece = *std::prev(next);
    return {piece.line, at - piece.begin + piece.column};
  }
};

// Up to the remark: a '#' that has no backslash before it.
std::string_view without_remark(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '#' && (i == 0 || line[i - 1] != '\\'))
      return line.substr(0, i);
  return line;
}

class LineReader {
 public:
  explicit LineReader(std::string name) : name_(std::move(name)) {}

  // What is done with each line: it has a word at least.
  using Sink = std::function<Result<void>(const JoinedLine& line)>;

  Result<void> run(std::string_view text, const Sink& sink) const {
    if (text.size() > kConfBytesMax)
      return wrong({1, 1}, format("{} bytes are too many: {} are read", text.size(), kConfBytesMax));
    if (text.starts_with("\xef\xbb\xbf"))
      text.remove_prefix(3);  // a byte order mark
    JoinedLine line;
    std::size_t number = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view part = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number;
      if (const std::size_t zero = part.find('\0'); zero != std::string_view::npos)
        return wrong({number, zero + 1}, "a zero byte: this is no text file");
      part = without_remark(part);
      while (!part.empty() && is_blank(part.back())) part.remove_suffix(1);
      const bool goes_on = part.ends_with('\\');
      if (goes_on)
        part.remove_suffix(1);
      if (line.text.size() + part.size() > kConfLineMax)
        return wrong({number, 1}, format("a line of more than {} bytes", kConfLineMax));
      line.pieces.push_back({line.text.size(), number});
      line.text += part;
      if (goes_on && !text.empty())
        continue;
      if (std::any_of(line.text.begin(), line.text.end(), [](char c) { return !is_blank(c); }))
        TRY(sink(line));
      line = {};
    }
    return {};
  }

  Result<std::vector<ConfWord>> words(const JoinedLine& line) const {
    std::vector<ConfWord> out;
    const std::string& text = line.text;
    std::size_t at = 0;
    for (;;) {
      while (at < text.size() && is_blank(text[at])) ++at;
      if (at == text.size())
        return out;
      out.push_back(TRY(word(line, at)));
    }
  }

  Error wrong(JoinedLine::Place place, std::string_view what) const {
    return invalid(format("{}:{}:{}: {}", name_, place.line, place.column, what), name_);
  }

 private:
  // KEY=VALUE, with blanks around the '=' where somebody likes them; "+=" and the like are the sum of several lines.
  Result<ConfWord> word(const JoinedLine& line, std::size_t& at) const {
    const std::string& text = line.text;
    const std::size_t start = at;
    while (at < text.size() && is_key_letter(text[at])) ++at;
    ConfWord out{text.substr(start, at - start), {}, line.place(start).line, line.place(start).column};
    while (at < text.size() && is_blank(text[at])) ++at;
    if (at + 1 < text.size() && std::string_view("+-*/").find(text[at]) != std::string_view::npos &&
        text[at + 1] == '=')
      ++at;
    if (out.key.empty() || at == text.size() || text[at] != '=')
      return no_pair(line, start);
    ++at;
    while (at < text.size() && is_blank(text[at])) ++at;
    if (at == text.size())
      return wrong(line.place(start), format("{}= has no value: leave it out where nothing is meant", out.key));
    TRY(value(line, at, out));
    return check(line, start, std::move(out));
  }

  Result<void> value(const JoinedLine& line, std::size_t& at, ConfWord& out) const {
    const std::string& text = line.text;
    const std::size_t start = at;
    if (text[at] == '"') {
      const std::size_t closing = text.find('"', at + 1);
      if (closing == std::string::npos)
        return wrong(line.place(start),
                     "the quote is not closed (a '#' begins a remark between quotes too: write \"\\#\")");
      out.value = text.substr(at + 1, closing - at - 1);
      at = closing + 1;
      if (at < text.size() && !is_blank(text[at]))
        return wrong(line.place(at), "a blank is missing behind the quote");
    } else {
      while (at < text.size() && !is_blank(text[at])) ++at;
      out.value = text.substr(start, at - start);
    }
    out.value = without_escapes(out.value);
    return {};
  }

  // "\#" is a '#'.
  static std::string without_escapes(std::string_view value) {
    std::string out;
    for (std::size_t i = 0; i < value.size(); ++i)
      if (value[i] != '\\' || i + 1 == value.size() || value[i + 1] != '#')
        out += value[i];
    return out;
  }

  Result<ConfWord> check(const JoinedLine& line, std::size_t start, ConfWord word) const {
    if (const auto code = control_character_in(word.value, "\t"))
      return wrong(line.place(start), format("{}= has a control character (byte {}) in it", word.key, *code));
    if (!is_utf8(word.value))
      return wrong(line.place(start), format("{}= is not UTF-8", word.key));
    return word;
  }

  Error no_pair(const JoinedLine& line, std::size_t start) const {
    std::size_t end = start;
    while (end < line.text.size() && !is_blank(line.text[end])) ++end;
    return wrong(line.place(start), format("\"{}\" is not KEY=VALUE, as every word of such a file is",
                                           shortened(std::string_view(line.text).substr(start, end - start))));
  }

  std::string name_;
};

// "Include FILE", "include = FILE"; "": the line is none.
std::string included(std::string_view line) {
  constexpr std::string_view kInclude = "include";
  line = trim(line);
  if (lower(line.substr(0, kInclude.size())) != kInclude || line.size() == kInclude.size() ||
      !is_blank(line[kInclude.size()]))
    return {};
  std::string_view path = trim(line.substr(kInclude.size()));
  if (path.size() >= 2 && path.front() == '"' && path.back() == '"')
    path = path.substr(1, path.size() - 2);
  return std::string(path);
}

class ConfReader {
 public:
  ConfReader(const std::string& first, const ReadFile& read) : read_(read) {
    if (const auto slash = first.rfind('/'); slash != std::string::npos)
      folder_ = first.substr(0, slash + 1);
  }

  Result<void> file(const std::string& path) {
    way_.push_back(path);
    if (++files_ > kConfFilesMax)
      return invalid(format("{}: more than {} files are included", path, kConfFilesMax), path);
    const std::string text = TRY(read_(path));
    const LineReader reader(path);
    TRY(reader.run(text, [&](const JoinedLine& line) -> Result<void> {
      if (const std::string name = included(line.text); !name.empty())
        return include(reader, line, name);
      return take(path, TRY(reader.words(line)), line, reader);
    }));
    way_.pop_back();
    return {};
  }

  std::vector<ConfLine> lines;

 private:
  Result<void> take(const std::string& path, std::vector<ConfWord> words, const JoinedLine& line,
                    const LineReader& reader) {
    words_ += words.size();
    if (words_ > kConfWordsMax)
      return reader.wrong(line.place(0), format("more than {} settings", kConfWordsMax));
    for (const ConfWord& word : words)
      if (lower(word.key) == "clustername")
        cluster_ = word.value;
    lines.push_back({path, std::move(words), false});
    return {};
  }

  Result<void> include(const LineReader& reader, const JoinedLine& line, std::string name) {
    const JoinedLine::Place place = line.place(line.text.find_first_not_of(" \t"));
    if (const auto at = name.find("%c"); at != std::string::npos)
      name.replace(at, 2, cluster_);
    const std::string path = name.starts_with('/') ? name : folder_ + name;
    if (std::find(way_.begin(), way_.end(), path) != way_.end())
      return reader.wrong(place,
                          format("a circle of files that include each other: {} -> {}", join(way_, " -> "), path));
    if (way_.size() >= kConfDepthMax)
      return reader.wrong(place, format("files that include files, more than {} deep", kConfDepthMax));
    lines.push_back({way_.back(), {{"Include", path, place.line, place.column}}, true});
    const auto done = file(path);
    if (!done && done.error().field.empty())  // not a fault within it
      return reader.wrong(place, format("{} cannot be included: {}", path, done.error().message));
    return done;
  }

  const ReadFile& read_;
  std::string folder_, cluster_;
  std::vector<std::string> way_;  // files that are being read, the first one first
  std::size_t files_ = 0, words_ = 0;
};

}  // namespace

bool is_record_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name.find_first_of(" ,/|\t") == std::string_view::npos &&
         !name.starts_with('-');
}

Result<std::vector<ConfLine>> read_conf(const std::string& path, const ReadFile& read) {
  ConfReader reader(path, read);
  TRY(reader.file(path));
  return std::move(reader.lines);
}

Result<std::vector<ConfLine>> conf_lines(const std::string& name, std::string_view text) {
  std::vector<ConfLine> lines;
  const LineReader reader(name);
  TRY(reader.run(text, [&](const JoinedLine& line) -> Result<void> {
    lines.push_back({name, TRY(reader.words(line)), false});
    return {};
  }));
  return lines;
}

}  // namespace lockstep::slurm
