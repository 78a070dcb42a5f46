/*
 * collectives.h - runs muster's collectives with Gloo.
 *
 * Gloo's collectives block. ActiveBuffers holds the buffers that a collective is using, so that another
 * thread can interrupt it: Gloo does not notify a buffer of a lost connection if part of its data has already
 * been moved.
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

/* Gloo's timeout where muster enforces the deadline. */
constexpr std::chrono::milliseconds FOREVER = std::chrono::hours(24 * 365);

/* The buffers of the running collective. */
class ActiveBuffers {
  public:
    void set(std::vector<gloo::transport::UnboundBuffer *> buffers);
    /* Interrupts the current wait of the collective, from any thread. The collective may wait again. */
    void interrupt();

  private:
    std::mutex mutex_;
    std::vector<gloo::transport::UnboundBuffer *> buffers_;
};

using Combine = bool (*)(mst_dtype dtype, mst_op op, void *out, const void *a, const void *b, size_t count);

struct Collectives {
    std::shared_ptr<gloo::Context> context; /* NULL in a group of one rank */
    int rank, ranks;
    Combine combine;
    ActiveBuffers active;

    /* Runs a collective to completion. Throws Gloo's exceptions. */
    void run(const mst_backend_op &op);
};

/* Closes all connections of the context. Waits on them fail, except those that ActiveBuffers interrupts. */
void close_connections(gloo::Context &context);

} // namespace muster_gloo
#endif
