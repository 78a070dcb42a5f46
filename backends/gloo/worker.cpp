/* worker.cpp - see worker.h. */
#include "worker.h"

#include "quiet.h"

#include <pthread.h>
#include <thread>

namespace muster_gloo {

namespace {

constexpr auto POLL_INTERVAL = std::chrono::milliseconds(1);

std::vector<size_t> copy_of(const size_t *counts, int ranks) {
    return counts ? std::vector<size_t>(counts, counts + ranks) : std::vector<size_t>();
}

} // namespace

/* A moved vector keeps its memory, so these pointers stay valid. */
Task::Task(Job &of, int ranks)
    : job(&of), op(*of.op), in_counts(copy_of(op.in_counts, ranks)),
      out_counts(copy_of(op.out_counts, ranks)) {
    if (op.in_counts) op.in_counts = in_counts.data();
    if (op.out_counts) op.out_counts = out_counts.data();
}

Worker::Worker(std::unique_ptr<Collectives> collectives, std::shared_ptr<Completions> completions)
    : collectives_(std::move(collectives)), completions_(std::move(completions)) {}

void Worker::start() {
    SignalsBlocked blocked;
    std::thread thread([self = shared_from_this()] { self->work(); });
    pthread_getcpuclockid(thread.native_handle(), &clock_);
    thread.detach();
    started_ = true;
}

void Worker::add(Job &job) {
    std::lock_guard lock(mutex_);
    if (!started_) start();
    tasks_.emplace_back(job, collectives_->ranks);
    changed_.notify_all();
}

void Worker::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
        if (stopping_) break;
        Task task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        Outcome outcome = run(task);
        lock.lock();
        if (stopping_) break;
        completions_->add(*task.job, std::move(outcome));
    }
    exited_ = true;
    changed_.notify_all();
}

Outcome Worker::run(const Task &task) {
    try {
        collectives_->run(task.op);
        return {};
    } catch (const std::exception &) {
        return outcome_of_exception();
    }
}

int64_t Worker::time_used() const {
    timespec used = {0, 0};
    clock_gettime(clock_, &used);
    return int64_t(used.tv_sec) * 1000000000 + used.tv_nsec;
}

void Worker::stop(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    tasks_.clear();
    changed_.notify_all();
    if (!started_) return;
    auto moved = std::chrono::steady_clock::now();
    int64_t used = time_used();
    while (!exited_ && std::chrono::steady_clock::now() - moved < patience) {
        /* The collective may wait again after an interrupted wait. */
        collectives_->active.interrupt();
        changed_.wait_for(lock, POLL_INTERVAL);
        if (exited_ || time_used() == used) continue;
        used = time_used();
        moved = std::chrono::steady_clock::now();
    }
}

} // namespace muster_gloo
