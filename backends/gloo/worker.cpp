/* worker.cpp - the thread of the collectives. */
#include "worker.h"

#include "quiet.h"

#include <thread>

namespace muster_gloo {

namespace {

constexpr auto PATIENCE = std::chrono::seconds(5); /* with a wait of Gloo's that does not end */
constexpr auto PULSE = std::chrono::milliseconds(1);

} // namespace

Worker::Worker(std::unique_ptr<Collectives> collectives, std::shared_ptr<Ended> ended)
    : collectives_(std::move(collectives)), ended_(std::move(ended)) {}

void Worker::add(Job &job) {
    std::lock_guard lock(mutex_);
    if (!started_) {
        SignalsBlocked blocked;
        std::thread([self = shared_from_this()] { self->work(); }).detach();
        started_ = true;
    }
    jobs_.push_back(&job);
    changed_.notify_all();
}

void Worker::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
        if (stopping_) break;
        Job *job = jobs_.front();
        jobs_.pop_front();
        lock.unlock();
        Outcome outcome = run(*job);
        lock.lock();
        if (stopping_) break; /* the job is not ours any more */
        ended_->add(*job, std::move(outcome));
    }
    ended_thread_ = true;
    changed_.notify_all();
}

Outcome Worker::run(Job &job) {
    try {
        collectives_->run(*job.op);
        return {};
    } catch (const std::exception &) {
        return outcome_of_exception();
    }
}

void Worker::stop() {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    jobs_.clear();
    changed_.notify_all();
    if (!started_) return;
    /* A wait that was ended may be followed by another of the same collective. */
    auto until = std::chrono::steady_clock::now() + PATIENCE;
    while (!ended_thread_ && std::chrono::steady_clock::now() < until) {
        collectives_->flight.interrupt();
        changed_.wait_for(lock, PULSE);
    }
}

} // namespace muster_gloo
