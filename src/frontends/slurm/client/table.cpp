#include "frontends/slurm/client/table.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/terminal_look.h"
#include "frontends/slurm/client/text_width.h"
#include "views/shown_text.h"

namespace lockstep::slurm {

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

std::uint32_t read_width(std::string_view text, std::size_t& at) {
  std::uint32_t width = 0;
  for (; at < text.size() && digit(text[at]); ++at)
    width = std::min(width * 10 + static_cast<std::uint32_t>(text[at] - '0'), kWidthMax);
  return width;
}

std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : lower(name))
    if (c != '-' && c != '_')
      out += c;
  return out;
}

std::int64_t to_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void append_cell(std::string& out, std::string_view text, const TableColumn& column) {
  if (column.width > 0) {
    text = cut_to_width(text, column.cut_at ? column.cut_at : column.width);
    const std::size_t taken = width_of(text), pad = column.width > taken ? column.width - taken : 0;
    if (column.right)
      out.append(pad, ' ');
    out += text;
    if (!column.right)
      out.append(pad, ' ');
  } else {
    out += column.cut_at ? cut_to_width(text, column.cut_at) : text;
  }
  out += column.suffix;
}

bool is_state(const FieldDef& field) {
  return field.name == "state" || field.name == "statecompact" || field.name == "statelong";
}

// The cell that was written last, without the blanks around it.
void paint_from(std::string& out, std::size_t begin, std::size_t suffix) {
  const std::string_view cell = std::string_view(out).substr(begin, out.size() - begin - suffix);
  const auto first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
  const std::string_view colour = colour_of_state(cell);
  if (colour.empty())
    return;
  out.insert(begin + last + 1, kPlainAgain);
  out.insert(begin + first, colour);
}

std::vector<std::int64_t> numbers_of(const Rows& rows, std::size_t cell) {
  std::vector<std::int64_t> out(rows.size());
  for (std::uint32_t row = 0; row < out.size(); ++row) out[row] = to_number(rows.cell(row, cell));
  return out;
}

// Each row's text by its place among all that there are. Neighbours are often the same.
std::vector<std::int64_t> ranks_of(const Rows& rows, std::size_t cell) {
  std::map<std::string_view, std::int64_t> ranks;
  const auto at = [&](std::uint32_t row) { return rows.cell(row, cell); };
  std::vector<std::int64_t> out(rows.size());
  for (std::uint32_t row = 0; row < out.size(); ++row)
    if (row == 0 || at(row) != at(row - 1))
      ranks.emplace(at(row), 0);
  std::int64_t next = 0;
  for (auto& [text, rank] : ranks) rank = next++;
  for (std::uint32_t row = 0; row < out.size(); ++row)
    out[row] = row > 0 && at(row) == at(row - 1) ? out[row - 1] : ranks.find(at(row))->second;
  return out;
}

// Plain text needs no work; the common kind is not copied. Whatever a name holds, it stays in its cell.
std::string_view shown_cell(std::string_view raw, FieldKind kind, const TableLook& look, std::string& buffer) {
  if (kind == FieldKind::kText || kind == FieldKind::kNumber)
    return shown(raw, buffer);
  buffer = cell_text(raw, kind, look);
  return buffer;
}

}  // namespace

namespace {

// "%all": every field that has a letter, small ones first, between bars.
std::string all_letters(std::span<const FieldDef> fields) {
  std::string small, large;
  for (char letter = 'a'; letter <= 'z'; ++letter)
    for (const FieldDef& field : fields) {
      if (field.letter == letter)
        small += format("%{}|", letter);
      if (field.letter == letter - 'a' + 'A')
        large += format("%{}|", field.letter);
    }
  std::string all = small + large;
  if (!all.empty())
    all.pop_back();
  return all;
}

}  // namespace

Result<TableFormat> parse_short_format(std::string_view text, std::span<const FieldDef> fields) {
  if (lower(trim(text)) == "%all")
    return parse_short_format(all_letters(fields), fields);
  TableFormat format_;
  std::string* literal = &format_.prefix;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '%') {
      *literal += text[i++];
      continue;
    }
    ++i;
    if (i < text.size() && text[i] == '%') {
      *literal += text[i++];
      continue;
    }
    TableColumn column;
    for (; i < text.size() && (text[i] == '-' || text[i] == '#'); ++i) column.fit_widest |= text[i] == '#';
    if (i < text.size() && text[i] == '.')
      column.right = true, ++i;
    column.width = read_width(text, i);
    if (i < text.size() && text[i] == '.')
      column.cut_at = read_width(text, ++i);
    if (i >= text.size())
      return invalid("Invalid job format specification: it ends after %", "format");
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const FieldDef& f) { return f.letter == text[i]; });
    if (field == fields.end())
      return invalid(format("Invalid job format specification: {}", text[i]), "format");
    column.field = &*field;
    ++i;
    format_.columns.push_back(std::move(column));
    literal = &format_.columns.back().suffix;
  }
  return format_;
}

Result<TableFormat> parse_long_format(std::string_view text, std::span<const FieldDef> fields) {
  TableFormat format_;
  for (const std::string& part : items_of(text)) {
    const auto colon = part.find(':');
    const std::string name = plain_name(trim(std::string_view(part).substr(0, colon)));
    TableColumn column;
    column.width = 20;
    if (colon != std::string::npos) {
      std::size_t at = colon + 1;
      if (at < part.size() && part[at] == '.')
        column.right = true, ++at;
      column.width = read_width(part, at);  // none given: as long as the text
      column.suffix = part.substr(at);
    }
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const FieldDef& f) { return f.name == name; });
    if (field == fields.end())
      return invalid(format("Invalid job format specification: {}", part.substr(0, colon)), "Format");
    column.field = &*field;
    format_.columns.push_back(std::move(column));
  }
  if (format_.columns.empty())
    return invalid("Invalid job format specification: it is empty", "Format");
  return format_;
}

std::size_t TableAsk::add(std::string_view name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it != names.end())
    return static_cast<std::size_t>(it - names.begin());
  names.emplace_back(name);
  return names.size() - 1;
}

TableAsk ask_for(const TableFormat& format_) {
  TableAsk ask;
  for (const TableColumn& column : format_.columns) ask.cell_of.push_back(ask.add(column.field->column));
  return ask;
}

std::string cell_text(std::string_view raw, FieldKind kind, const TableLook& look) {
  switch (kind) {
    case FieldKind::kText:
    case FieldKind::kNumber: break;
    case FieldKind::kTime: return time_text(to_number(raw), look.no_time, look.time_pattern, look.now);
    case FieldKind::kSpan: return span_text(std::max<std::int64_t>(0, to_number(raw)));
    case FieldKind::kLimit: {
      const std::int64_t seconds = to_number(raw);
      return seconds == -1 ? std::string(look.unlimited)
             : seconds < 0 ? std::string(look.no_limit)
                           : span_text(seconds);
    }
  }
  return std::string(raw);
}

std::string write_table(const TableFormat& asked, const TableAsk& ask, const Rows& rows,
                        std::span<const std::uint32_t> order, const TableLook& look) {
  TableFormat format_ = asked;
  std::string buffer;
  for (std::size_t c = 0; c < format_.columns.size(); ++c) {
    TableColumn& column = format_.columns[c];
    if (!column.fit_widest)
      continue;
    std::size_t widest = std::max<std::size_t>(column.width, column.field->header.size());
    for (const std::uint32_t row : order)
      widest = std::max(widest, width_of(shown_cell(rows.cell(row, ask.cell_of[c]), column.field->kind, look, buffer)));
    column.width = static_cast<std::uint32_t>(std::min<std::size_t>(widest, kWidthMax));
  }
  std::string out;
  out.reserve((order.size() + 1) * 100);
  const auto line = [&](auto&& text_of) {
    out += format_.prefix;
    for (std::size_t c = 0; c < format_.columns.size(); ++c) append_cell(out, text_of(c), format_.columns[c]);
    out += '\n';
  };
  if (look.header)
    line([&](std::size_t c) { return format_.columns[c].field->header; });
  for (const std::uint32_t row : order) {
    if (look.colour) {
      out += format_.prefix;
      for (std::size_t c = 0; c < format_.columns.size(); ++c) {
        const TableColumn& column = format_.columns[c];
        const std::size_t begin = out.size();
        append_cell(out, shown_cell(rows.cell(row, ask.cell_of[c]), column.field->kind, look, buffer), column);
        if (is_state(*column.field))
          paint_from(out, begin, column.suffix.size());
      }
      out += '\n';
      continue;
    }
    line([&](std::size_t c) {
      return shown_cell(rows.cell(row, ask.cell_of[c]), format_.columns[c].field->kind, look, buffer);
    });
  }
  return out;
}

std::vector<std::uint32_t> sorted_rows(const Rows& rows, std::span<const SortKey> keys) {
  std::vector<std::uint32_t> order(rows.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  // Cells are read once, not at every comparison.
  std::vector<std::vector<std::int64_t>> ranks;
  for (const SortKey& key : keys) {
    auto& rank = ranks.emplace_back(key.numeric ? numbers_of(rows, key.cell) : ranks_of(rows, key.cell));
    if (key.descending)
      for (std::int64_t& number : rank) number = ~number;
  }
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    for (const auto& rank : ranks)
      if (rank[a] != rank[b])
        return rank[a] < rank[b];
    return false;
  };
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::stable_sort(order.begin(), order.end(), before);
  return order;
}

}  // namespace lockstep::slurm
