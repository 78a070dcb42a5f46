/* users.hpp - counts the threads that use a group, which may be destroyed when there are none. */
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace muster_torch {

class Users {
  public:
    void enter() {
        count_++;
    }
    void leave() {
        if (--count_ > 0 || !awaited_) return; // in this order: see wait_until_none
        std::lock_guard<std::mutex> guard(lock_);
        none_.notify_all();
    }
    bool any() const {
        return count_ > 0;
    }
    void wait_until_none() {
        awaited_ = true; // before it looks at the count, so that the last user sees it or it sees 0
        std::unique_lock<std::mutex> guard(lock_);
        none_.wait(guard, [this] { return count_ == 0; });
    }
    /* The same, at most until then. */
    void wait_until_none(std::chrono::steady_clock::time_point end) {
        awaited_ = true;
        std::unique_lock<std::mutex> guard(lock_);
        none_.wait_until(guard, end, [this] { return count_ == 0; });
    }

  private:
    std::atomic<int> count_{0};
    std::atomic<bool> awaited_{false}; // a thread has waited
    std::mutex lock_;
    std::condition_variable none_;
};

/* One use, for as long as it exists. */
class Use {
  public:
    explicit Use(Users &users) : users_(users) {
        users_.enter();
    }
    ~Use() {
        users_.leave();
    }
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;

  private:
    Users &users_;
};

} // namespace muster_torch
