// scontrol show, composed here so that the command only prints: GET /slurm/v1/show/WHAT?name=…&detail=1&oneline=1.
#pragma once

#include "views/read_context.h"

namespace lockstep::slurm {

PageReply show_job_page(const ReadContext& context, const PageRequest& request);
PageReply show_step_page(const ReadContext& context, const PageRequest& request);
PageReply show_node_page(const ReadContext& context, const PageRequest& request);
PageReply show_partition_page(const ReadContext& context, const PageRequest& request);
PageReply show_reservation_page(const ReadContext& context, const PageRequest& request);
PageReply list_reservations_page(const ReadContext& context, const PageRequest& request);  // sinfo -T
PageReply show_licence_page(const ReadContext& context, const PageRequest& request);
PageReply show_topology_page(const ReadContext& context, const PageRequest& request);
PageReply show_config_page(const ReadContext& context, const PageRequest& request);

}  // namespace lockstep::slurm
