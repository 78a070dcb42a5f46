/* users.hpp - counts the threads that use a group, which may be destroyed when there are none. */
#pragma once

#include <condition_variable>
#include <mutex>

namespace muster_torch {

class Users {
  public:
    void enter() {
        std::lock_guard<std::mutex> guard(lock_);
        count_++;
    }
    void leave() {
        std::lock_guard<std::mutex> guard(lock_);
        if (--count_ == 0) none_.notify_all();
    }
    bool any() {
        std::lock_guard<std::mutex> guard(lock_);
        return count_ > 0;
    }
    void wait_until_none() {
        std::unique_lock<std::mutex> guard(lock_);
        none_.wait(guard, [this] { return count_ == 0; });
    }

  private:
    std::mutex lock_;
    std::condition_variable none_;
    int count_ = 0;
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
