// sshare and sprio, composed here: rows between tabs for the columns asked for.
#pragma once

#include "views/read_context.h"

namespace lockstep::slurm {

// GET /slurm/v1/sshare?columns=account,user,…&accounts=…&users=…&all=1&users_only=1
PageReply sshare_page(const ReadContext& context, const PageRequest& request);
// GET /slurm/v1/sprio?columns=jobid,priority,…&jobs=…&users=…&partitions=…
PageReply sprio_page(const ReadContext& context, const PageRequest& request);
PageReply sshare_json_page(const ReadContext& context, const PageRequest& request);
PageReply sprio_json_page(const ReadContext& context, const PageRequest& request);

}  // namespace lockstep::slurm
