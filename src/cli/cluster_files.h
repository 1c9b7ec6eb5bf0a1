// The files that `lockstep apply` and its like read, and the records of a cluster that they speak of.
#pragma once

#include <string>
#include <vector>

#include "ports/http.h"
#include "wire/cluster_diff.h"

namespace lockstep {

// All of a file, or of standard input where the path is "-". The Error names the path.
Result<std::string> read_cluster_text(const std::string& path);
Result<std::string> read_cluster_text(FILE* file, const std::string& path);  // path: what it is called

// Several files as one. Errors name file and line: "cluster.yaml:12: …".
Result<ClusterFile> read_cluster_files(const std::vector<std::string>& paths);

Result<LiveCluster> read_live_cluster(ApiClient& client);

// The live records as a file says them: what the core chose or settled by itself is left out.
ClusterFile file_of(const LiveCluster& live);

}  // namespace lockstep
