/*
 * worker.h - the thread that runs collectives sequentially. The first collective starts it.
 *
 * It owns, or shares with its engine, everything but the program's buffers. If a wait inside Gloo cannot be
 * interrupted, the thread is abandoned with everything that it owns: the connections are closed, so it never
 * wakes and touches no buffer.
 */
#ifndef MUSTER_GLOO_WORKER_H
#define MUSTER_GLOO_WORKER_H

#include "collectives.h"
#include "outcome.h"

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace muster_gloo {

/* The thread's copy of a collective. The caller may free the operation and its arrays after an abort. */
struct Task {
    Task(Job &of, int ranks);
    Task(Task &&) = default;

    Job *job; /* invalid once the worker is stopping */
    mst_backend_op op;
    std::vector<size_t> in_counts, out_counts; /* of op */
};

class Worker : public std::enable_shared_from_this<Worker> {
  public:
    Worker(std::unique_ptr<Collectives> collectives, std::shared_ptr<Completions> completions);

    void add(Job &job);
    /*
     * Stops the thread and drops the pending tasks. Close the connections first, unless the thread is idle.
     * Waits while the thread uses the processor, because it may access the program's buffers, and at most
     * this long while it does not.
     */
    void stop(std::chrono::milliseconds patience = std::chrono::seconds(5));

  private:
    void start();
    void work();
    Outcome run(const Task &task);
    int64_t time_used() const; /* CPU time of the running thread in ns */

    const std::unique_ptr<Collectives> collectives_;
    const std::shared_ptr<Completions> completions_;

    std::mutex mutex_; /* protects all below */
    std::condition_variable changed_;
    std::deque<Task> tasks_;
    clockid_t clock_ = 0; /* of the thread */
    bool started_ = false, stopping_ = false, exited_ = false;
};

} // namespace muster_gloo
#endif
