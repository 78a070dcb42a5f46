/* hooks.hpp - functions that PyTorch wants called when operations have completed. */
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace muster_torch {

/* An operation that has succeeded. */
struct Completion {
    c10d::OpType type;
    uint64_t sequence, key;
    std::chrono::steady_clock::time_point begun;
};

/* Hooks run on the thread that completes an operation, without a lock. They must not wait for operations. */
class Hooks {
  public:
    using OnCompletion = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;
    using Completed = std::function<void(uint64_t key, float duration_ms)>;

    void set_on_completion(OnCompletion hook);
    void set_completed(int64_t id, Completed hook); // an empty function removes it

    void completed(const Completion &completion) const;

  private:
    mutable std::mutex lock_;
    std::atomic<bool> any_{false}; // has there been a hook?
    /* Pointers, because functions of Python are copied under its lock only. */
    std::shared_ptr<OnCompletion> on_completion_;
    std::map<int64_t, std::shared_ptr<Completed>> completed_;
};

} // namespace muster_torch
