/* hooks.hpp - functions that PyTorch wants called when operations have completed. */
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/version.h>

/* C10D_BACKEND_HAS_HOOKS is also defined by torch 2.14, which has hooks of aborts only. */
#if defined(C10D_BACKEND_HAS_HOOKS) && (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15)
#define MUSTER_TORCH_HAS_COMPLETION_HOOKS 1
#endif

namespace muster_torch {

/* An operation that has succeeded. */
struct Completion {
    c10d::OpType type;
    uint64_t sequence, key;
    std::chrono::steady_clock::time_point begun;
};

/* Hooks run on the thread that completes an operation, without a lock. So the hook of a blocking call may run
 * before that of an earlier one with a work. They must not wait for operations. */
class Hooks {
  public:
    using OnCompletion = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;
    using Completed = std::function<void(uint64_t key, float duration_ms)>;

    void set_on_completion(OnCompletion hook);
    void set_completed(int64_t id, Completed hook); // an empty function removes it

    /* Has there been a hook? Without one operations need not be timed. */
    bool any() const {
        return any_;
    }
    /* Calls the hooks, unless the operation was not timed. */
    void completed(const Completion &completion) const;

  private:
    /* Not changed: a new one takes its place, so that a call copies one pointer. */
    struct Set {
        std::shared_ptr<OnCompletion> on_completion;
        std::map<int64_t, std::shared_ptr<Completed>> completed;
    };

    mutable std::mutex lock_;
    std::atomic<bool> any_{false};
    std::shared_ptr<const Set> set_ = std::make_shared<Set>();
};

} // namespace muster_torch
