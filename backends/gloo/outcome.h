/*
 * outcome.h - what became of an operation, and how the thread that asks learns of it.
 *
 * Operations end on the engine's threads, or on Gloo's. Words about an error are kept in the outcome and said by the
 * thread that calls progress, because host->fail speaks for its own thread.
 */
#ifndef MUSTER_GLOO_OUTCOME_H
#define MUSTER_GLOO_OUTCOME_H

#include <atomic>
#include <exception>
#include <muster/backend.h>
#include <string>

namespace muster_gloo {

struct Outcome {
    mst_status status = MST_OK;
    std::string text;
};

/* What the exception that is being handled means. */
Outcome outcome_of_exception();

/* An operation under way: made by submit, and op->request until progress has said how it ended. */
struct Job {
    mst_backend_op *op;
    Outcome outcome;                /* written before done is set */
    std::atomic<bool> done = false; /* set by Ended::add, met by Ended::take */
};

/* Counts the jobs that are done and were not asked for yet: its descriptor is readable while there are any. */
class Ended {
  public:
    Ended();
    ~Ended();
    Ended(const Ended &) = delete;
    Ended &operator=(const Ended &) = delete;

    int descriptor() const {
        return descriptor_;
    }
    void add(Job &job, Outcome outcome = {});
    bool take(Job &job); /* false: it is not done */

  private:
    int descriptor_;
};

} // namespace muster_gloo
#endif
