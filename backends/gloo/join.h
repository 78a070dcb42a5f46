/* join.h - how the ranks of a group find one another: Gloo's rendezvous over the store of muster. */
#ifndef MUSTER_GLOO_JOIN_H
#define MUSTER_GLOO_JOIN_H

#include <gloo/context.h>
#include <memory>
#include <muster/backend.h>

namespace muster_gloo {

/* The store failed, and has said why. */
struct StoreFailure {
    mst_status status;
};

/* Connects this rank with all others, until host->deadline. */
std::shared_ptr<gloo::Context> join(const mst_backend_host &host);

/* Milliseconds until a deadline, at least 1. */
int64_t milliseconds_until(int64_t deadline);

} // namespace muster_gloo
#endif
