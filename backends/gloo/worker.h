/*
 * worker.h - the thread that runs collectives one after the other; started by the first.
 *
 * It owns what it uses, alone or together with its engine; only the buffers are the program's. If a wait inside of Gloo cannot be
 * ended, the thread is left behind in it, with all that it owns: it touches no buffer any more, since the connections are closed
 * and nothing wakes it, and does not return before the process does.
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

/* A collective, as the thread keeps it: the operation and its arrays are the caller's only until it gives them up. */
struct Task {
    Task(Job &of, int ranks);
    Task(Task &&) = default;

    Job *job; /* not to be looked at once the worker is to stop */
    mst_backend_op op;
    std::vector<size_t> in_counts, out_counts; /* op's */
};

class Worker : public std::enable_shared_from_this<Worker> {
  public:
    Worker(std::unique_ptr<Collectives> collectives, std::shared_ptr<Ended> ended);

    void add(Job &job);
    /*
     * Ends the thread. What it has not done yet is forgotten; the connections were closed before, unless it is idle. Waits for it
     * while it computes, since the buffers must be the program's again, and for at most this long while it stands still.
     */
    void stop(std::chrono::milliseconds patience = std::chrono::seconds(5));

  private:
    void start();
    void work();
    Outcome run(const Task &task);
    int64_t time_used() const; /* by the thread, while it is there: ns on a processor */

    const std::unique_ptr<Collectives> collectives_;
    const std::shared_ptr<Ended> ended_;

    std::mutex mutex_; /* of all below */
    std::condition_variable changed_;
    std::deque<Task> tasks_;
    clockid_t clock_ = 0; /* of the thread */
    bool started_ = false, stopping_ = false, ended_thread_ = false;
};

} // namespace muster_gloo
#endif
