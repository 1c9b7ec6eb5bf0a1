// Times and spans as the Slurm commands write them, and the dates that sacct reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::slurm {

// By $SLURM_TIME_FORMAT: "" or "standard", "relative", or a strftime pattern ("%s"). 0 gives `none`.
std::string time_text(std::int64_t wall_seconds, std::string_view none, const std::string& pattern, std::int64_t now);

// A page of "scontrol show" in which times are marked (server/show_text.h): each as time_text writes it.
std::string with_times(std::string_view text, const std::string& pattern, std::int64_t now);

std::string span_text(std::int64_t seconds);         // squeue's: "0:05", "1:02:03", "2-00:00:00"
std::string padded_span_text(std::int64_t seconds);  // sacct's: "00:00:05", "2-00:00:00"

std::string date_line(std::int64_t now);  // "Fri Nov 21 12:55:00 2025\n"

// sacct's dates: those of --begin and "now-2days", "today", "midnight", "noon", "HH:MM", "MMDD", "2025-11-21",
// "YYYY-MM-DDTHH:MM:SS", Unix seconds are not taken. now is the reference.
std::optional<std::int64_t> parse_date(std::string_view text, std::int64_t now);

}  // namespace lockstep::slurm
