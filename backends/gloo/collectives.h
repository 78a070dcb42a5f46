/*
 * collectives.h - the collectives of Gloo, called as the table means them.
 *
 * They block. What ends them from another thread is a Flight, which knows the buffers that one has in use: Gloo does not tell a
 * buffer that a connection was lost if a part of its data had already been moved.
 */
#ifndef MUSTER_GLOO_COLLECTIVES_H
#define MUSTER_GLOO_COLLECTIVES_H

#include <chrono>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <memory>
#include <muster/backend.h>
#include <mutex>
#include <vector>

namespace muster_gloo {

/* How long Gloo may wait where muster watches the time. */
constexpr std::chrono::milliseconds FOREVER = std::chrono::hours(24 * 365);

/* The buffers of the collective that a thread is in. */
class Flight {
  public:
    void set(std::vector<gloo::transport::UnboundBuffer *> buffers);
    /* Ends the wait that the collective is in now, from any thread. It may go on to wait again. */
    void interrupt();

  private:
    std::mutex mutex_;
    std::vector<gloo::transport::UnboundBuffer *> buffers_;
};

using Combine = bool (*)(mst_dtype dtype, mst_op op, void *out, const void *a, const void *b, size_t count);

struct Collectives {
    std::shared_ptr<gloo::Context> context; /* NULL in a group of one */
    int rank, ranks;
    Combine combine;
    Flight flight;

    /* Runs one to its end. Gloo's exceptions come through. */
    void run(const mst_backend_op &op);
};

/* Closes all connections of the context: what waits for them fails, but for what Flight is there for. */
void close_connections(gloo::Context &context);

} // namespace muster_gloo
#endif
