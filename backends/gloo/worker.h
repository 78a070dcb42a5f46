/*
 * worker.h - the thread that runs collectives one after the other; started by the first.
 *
 * It owns what it uses together with its engine: if a wait inside of Gloo cannot be ended, the thread is left behind in
 * it. It touches no buffer of the program's any more, since the connections are closed, and does not return before the process does.
 */
#ifndef MUSTER_GLOO_WORKER_H
#define MUSTER_GLOO_WORKER_H

#include "collectives.h"
#include "outcome.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

namespace muster_gloo {

class Worker : public std::enable_shared_from_this<Worker> {
  public:
    Worker(std::unique_ptr<Collectives> collectives, std::shared_ptr<Ended> ended);

    void add(Job &job);
    /* Ends the thread. What it has not done yet is forgotten; the connections were closed before, unless it is idle. */
    void stop();

  private:
    void work();
    Outcome run(Job &job);

    const std::unique_ptr<Collectives> collectives_;
    const std::shared_ptr<Ended> ended_;

    std::mutex mutex_; /* of all below */
    std::condition_variable changed_;
    std::deque<Job *> jobs_;
    bool started_ = false, stopping_ = false, ended_thread_ = false;
};

} // namespace muster_gloo
#endif
