// GET /v1/health (wire/health_rows.h), of all nodes or of ?node=NAME.
#pragma once

#include "views/read_context.h"

namespace lockstep {

PageReply health_page(const ReadContext& context, const PageRequest& request);

}  // namespace lockstep
