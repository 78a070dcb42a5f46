/* hooks.cpp - see hooks.hpp. */
#include "hooks.hpp"

#include <utility>

namespace muster_torch {

void Hooks::set_on_completion(OnCompletion hook) {
    std::lock_guard<std::mutex> guard(lock_);
    TORCH_CHECK(!set_->on_completion, "[muster] there is an onCompletion hook already");
    auto set = std::make_shared<Set>(*set_);
    set->on_completion = std::make_shared<OnCompletion>(std::move(hook));
    set_ = std::move(set);
    any_ = true;
}

void Hooks::set_completed(int64_t id, Completed hook) {
    std::unique_lock<std::mutex> guard(lock_);
    auto set = std::make_shared<Set>(*set_);
    set->completed.erase(id);
    if (hook) set->completed.emplace(id, std::make_shared<Completed>(std::move(hook)));
    auto former = std::exchange(set_, std::move(set));
    any_ = true;
    guard.unlock(); // before former ends, whose functions may need Python's lock
}

void Hooks::completed(const Completion &completion) const {
    if (completion.begun == std::chrono::steady_clock::time_point{}) return;
    std::unique_lock<std::mutex> guard(lock_);
    auto set = set_;
    guard.unlock();
    auto now = std::chrono::steady_clock::now();
    std::chrono::duration<float> seconds = now - completion.begun;
    for (const auto &hook : set->completed) (*hook.second)(completion.key, seconds.count() * 1000);
    if (set->on_completion)
        (*set->on_completion)(std::make_shared<c10d::WorkInfo>(completion.type, completion.sequence,
                                                               completion.begun, now, seconds));
}

} // namespace muster_torch
