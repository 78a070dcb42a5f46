/* hooks.cpp - see hooks.hpp. */
#include "hooks.hpp"

namespace muster_torch {

void Hooks::set_on_completion(OnCompletion hook) {
    std::lock_guard<std::mutex> guard(lock_);
    TORCH_CHECK(!on_completion_, "[muster] there is an onCompletion hook already");
    on_completion_ = std::make_shared<OnCompletion>(std::move(hook));
    any_ = true;
}

void Hooks::set_completed(int64_t id, Completed hook) {
    std::lock_guard<std::mutex> guard(lock_);
    completed_.erase(id);
    if (hook) completed_.emplace(id, std::make_shared<Completed>(std::move(hook)));
    any_ = true;
}

void Hooks::completed(const Completion &completion) const {
    if (!any_) return;
    std::unique_lock<std::mutex> guard(lock_);
    auto on_completion = on_completion_;
    auto hooks = completed_;
    guard.unlock();
    auto now = std::chrono::steady_clock::now();
    std::chrono::duration<float> seconds = now - completion.begun;
    for (auto &hook : hooks) (*hook.second)(completion.key, seconds.count() * 1000);
    if (on_completion)
        (*on_completion)(std::make_shared<c10d::WorkInfo>(completion.type, completion.sequence,
                                                          completion.begun, now, seconds));
}

} // namespace muster_torch
