/* pool.cpp - see pool.hpp. */
#include "pool.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <thread>

namespace muster_torch {

namespace {

struct Pool {
    std::mutex lock; // of all below
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    size_t idle = 0;

    void work() {
        std::unique_lock<std::mutex> guard(lock);
        for (;;) {
            idle++;
            changed.wait(guard, [this] { return !tasks.empty(); });
            idle--;
            auto task = std::move(tasks.front());
            tasks.pop_front();
            guard.unlock();
            task();
            task = nullptr; // its tensors are freed without the lock
            guard.lock();
        }
    }

    void add(std::function<void()> task) {
        std::lock_guard<std::mutex> guard(lock);
        tasks.push_back(std::move(task));
        if (tasks.size() > idle)
            std::thread([this] { work(); }).detach();
        else
            changed.notify_one();
    }
};

/* Never freed: its threads may run until the process exits. */
Pool *pool = new Pool;

/* The threads of the parent do not exist in a forked process. */
void renew() {
    pool = new Pool;
}

const int registered = pthread_atfork(nullptr, nullptr, renew);

} // namespace

void run_in_pool(std::function<void()> task) {
    (void)registered;
    pool->add(std::move(task));
}

} // namespace muster_torch
