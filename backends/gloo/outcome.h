/*
 * outcome.h - the result of an operation, and how it reaches the thread that calls progress.
 *
 * Operations complete on the engine's or Gloo's threads. The outcome keeps the error message, and the thread
 * that calls progress reports it, because host->fail sets the error of the calling thread.
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

/* The outcome for the exception that is being handled. */
Outcome outcome_of_exception();

/* An operation in progress. submit creates it as op->request; progress releases it. */
struct Job {
    mst_backend_op *op;
    int tag = 0;                    /* of the message; written before done is set */
    Outcome outcome;                /* written before done is set */
    std::atomic<bool> done = false; /* released by Completions::add, acquired by Completions::take */
};

/* Counts completed jobs that were not taken yet. Its descriptor is readable while there are any. */
class Completions {
  public:
    Completions();
    ~Completions();
    Completions(const Completions &) = delete;
    Completions &operator=(const Completions &) = delete;

    int descriptor() const {
        return descriptor_;
    }
    void add(Job &job, Outcome outcome = {});
    bool take(Job &job); /* false: not done */
    void wake();         /* makes the descriptor readable until drain is called */
    void drain();

  private:
    int descriptor_;
    std::atomic<int> wakes_ = 0; /* written to the descriptor, and not read */
};

} // namespace muster_gloo
#endif
