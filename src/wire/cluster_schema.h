// What cluster.yaml may hold, for editors (JSON schema) and for docs/cluster-file.md: from the rows of its keys.
#pragma once

#include <string>

namespace lockstep {

std::string cluster_file_schema();
// Markdown: a table of keys for each section, and of the forms of their values.
std::string cluster_file_tables();

}  // namespace lockstep
