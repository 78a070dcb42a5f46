/* join.h - connects the ranks of a group: Gloo's rendezvous over muster's store. */
#ifndef MUSTER_GLOO_JOIN_H
#define MUSTER_GLOO_JOIN_H

#include <gloo/context.h>
#include <memory>
#include <muster/backend.h>

namespace muster_gloo {

/* Thrown after a store operation has failed and set the error message. */
struct StoreFailure {
    mst_status status;
};

/* Connects this rank with all others, before host->deadline. */
std::shared_ptr<gloo::Context> join(const mst_backend_host &host);

} // namespace muster_gloo
#endif
