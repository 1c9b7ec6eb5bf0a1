// Reading and unpacking trace files, cutting rows into fields.
#include "sim/trace_file.h"

#include <zlib.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/text.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kBytesMax = std::size_t{2} << 30;
constexpr std::size_t kSwfFields = 18;

Result<std::string> read_all(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file)
    return Error{errno == ENOENT ? Errc::kNotFound : Errc::kIo, format("{}: {}", path, std::strerror(errno)), {}};
  std::string bytes;
  std::vector<char> chunk(std::size_t{1} << 16);
  while (const std::size_t got = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    bytes.append(chunk.data(), got);
    if (bytes.size() > kBytesMax)
      return Error{Errc::kExhausted, format("{}: larger than 2 GiB", path), {}};
  }
  if (std::ferror(file.get()))
    return os_error(path);
  return bytes;
}

bool is_gzip(std::string_view bytes) { return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b'; }

// Unpacks all members of a gzip file into `out`; what could be unpacked stays there. Empty, or what is wrong.
std::string unpack(std::string_view packed, std::string& out) {
  z_stream stream{};
  CHECK(inflateInit2(&stream, 15 + 16) == Z_OK);
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, &inflateEnd);
  std::vector<unsigned char> chunk(std::size_t{1} << 18);
  std::size_t fed = 0;
  for (;;) {
    if (stream.avail_in == 0 && fed < packed.size()) {
      const std::size_t part = std::min<std::size_t>(packed.size() - fed, std::size_t{1} << 20);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + fed));
      stream.avail_in = static_cast<uInt>(part);
      fed += part;
    }
    stream.next_out = chunk.data();
    stream.avail_out = static_cast<uInt>(chunk.size());
    const int said = inflate(&stream, Z_NO_FLUSH);
    const std::size_t got = chunk.size() - stream.avail_out;
    out.append(reinterpret_cast<const char*>(chunk.data()), got);
    if (out.size() > kBytesMax)
      return "it unpacks to more than 2 GiB";
    if (said == Z_STREAM_END) {
      if (stream.avail_in == 0 && fed == packed.size())
        return {};
      if (inflateReset(&stream) != Z_OK)
        return "it cannot be unpacked";
    } else if (said == Z_BUF_ERROR || (said == Z_OK && got == 0 && stream.avail_in == 0 && fed == packed.size())) {
      return "it ends in the middle";
    } else if (said != Z_OK) {
      return stream.msg ? stream.msg : "it cannot be unpacked";
    }
  }
}

}  // namespace

Result<TraceFile> TraceFile::open(const std::string& path) {
  std::string_view stem = path;
  if (stem.ends_with(".gz"))
    stem.remove_suffix(3);
  return from_bytes(path, TRY(read_all(path)), stem.ends_with(".swf") ? TraceForm::kSwf : TraceForm::kCsv);
}

Result<TraceFile> TraceFile::from_bytes(std::string name, std::string bytes, TraceForm form) {
  TraceFile file;
  file.name_ = std::move(name);
  file.form_ = form;
  if (is_gzip(bytes))
    file.damage_ = unpack(bytes, file.bytes_);
  else
    file.bytes_ = std::move(bytes);
  if (form == TraceForm::kSwf)
    return file;
  const std::string_view row = file.next_line();
  if (!file.damage_.empty() && file.at_ >= file.bytes_.size())
    return file.wrong_line(format("the gzip stream is damaged: {}", file.damage_), Errc::kCorrupt);
  if (trim(row).empty())
    return file.wrong_line("the first line must name the columns");
  if (!file.split_row(row))
    return file.wrong_line("a quote does not close");
  for (const std::string_view field : file.fields_) file.header_.emplace_back(trim(field));
  file.fields_.clear();
  return file;
}

Result<std::size_t> TraceFile::column(std::string_view name) const {
  for (std::size_t i = 0; i < header_.size(); ++i)
    if (header_[i] == name)
      return i;
  return Error{Errc::kInvalid, format("{}:1: there is no column {} (there are {})", name_, name, join(header_, ", ")),
               std::string(name)};
}

bool TraceFile::has_column(std::string_view name) const { return column(name).ok(); }

std::string_view TraceFile::next_line() {
  ++line_;
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  at_ += std::min(end + 1, rest.size());
  std::string_view row = rest.substr(0, end);
  if (row.ends_with('\r'))
    row.remove_suffix(1);
  return row;
}

bool TraceFile::split_row(std::string_view row) {
  fields_.clear();
  if (form_ == TraceForm::kSwf) {
    for (std::size_t i = 0; i < row.size();) {
      const std::size_t begin = row.find_first_not_of(" \t", i);
      if (begin == std::string_view::npos)
        break;
      i = std::min(row.find_first_of(" \t", begin), row.size());
      fields_.push_back(row.substr(begin, i - begin));
    }
    return true;
  }
  for (std::size_t i = 0;;) {
    if (i < row.size() && row[i] == '"') {
      const std::size_t close = row.find('"', i + 1);
      if (close == std::string_view::npos || (close + 1 < row.size() && row[close + 1] != ','))
        return false;
      fields_.push_back(row.substr(i + 1, close - i - 1));
      i = close + 1;
    } else {
      const std::size_t end = std::min(row.find(',', i), row.size());
      fields_.push_back(row.substr(i, end - i));
      i = end;
    }
    if (i >= row.size())
      return true;
    ++i;  // the comma
  }
}

Result<bool> TraceFile::next() {
  while (at_ < bytes_.size()) {
    const std::string_view row = next_line();
    if (!damage_.empty() && at_ == bytes_.size() && bytes_.back() != '\n')
      return wrong_line(format("the gzip stream is damaged: {}", damage_),
                        Errc::kCorrupt);  // the line may be cut short
    const std::string_view content = trim(row);
    if (content.empty() || (form_ == TraceForm::kSwf && content.front() == ';'))
      continue;
    if (!split_row(row))
      return wrong_line("a quote does not close");
    if (form_ == TraceForm::kCsv && fields_.size() != header_.size())
      return wrong_line(format("{} fields where the header has {}", fields_.size(), header_.size()));
    if (form_ == TraceForm::kSwf && fields_.size() < kSwfFields)
      return wrong_line(format("{} fields where SWF has {}", fields_.size(), kSwfFields));
    return true;
  }
  fields_.clear();
  if (damage_.empty())
    return false;
  ++line_;
  return wrong_line(format("the gzip stream is damaged: {}", damage_), Errc::kCorrupt);
}

std::string_view TraceFile::text(std::size_t column) const {
  CHECK(column < fields_.size());
  return trim(fields_[column]);
}

Result<std::int64_t> TraceFile::integer(std::size_t column, std::int64_t min, std::int64_t max) const {
  std::string_view digits = text(column);
  const std::size_t point = digits.find('.');
  if (point != std::string_view::npos && point + 1 < digits.size() &&
      digits.find_first_not_of('0', point + 1) == std::string_view::npos)
    digits = digits.substr(0, point);
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure == std::errc::result_out_of_range)
    return wrong(column, format("{} is out of range", text(column)));
  if (failure != std::errc() || end != digits.data() + digits.size())
    return wrong(column, format("\"{}\" is not a whole number", text(column)));
  if (value < min || value > max)
    return wrong(column, format("{} is not within {} to {}", value, min, max));
  return value;
}

Result<double> TraceFile::number(std::size_t column) const {
  const std::string_view digits = text(column);
  double value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value))
    return wrong(column, format("\"{}\" is not a number", digits));
  return value;
}

Error TraceFile::wrong(std::size_t column, std::string_view what) const {
  const std::string field = column < header_.size() ? header_[column] : format("field {}", column + 1);
  return Error{Errc::kInvalid, format("{}:{}: {}: {}", name_, line_, field, what), field};
}

Error TraceFile::wrong_line(std::string_view what, Errc code) const {
  return Error{code, format("{}:{}: {}", name_, line_, what), {}};
}

}  // namespace lockstep::sim
