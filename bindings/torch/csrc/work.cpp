/* work.cpp - see work.hpp. */
#include "work.hpp"
#include "errors.hpp"
#include "pool.hpp"

#include <ATen/record_function.h>
#include <algorithm>
#include <limits>

namespace muster_torch {

using Future = c10::ivalue::Future;

/* Shared by the Work and the callbacks of its works, so that it lives until all have ended. */
struct Work::State : std::enable_shared_from_this<Work::State> {
    std::string call;
    Operation operation;
    std::shared_ptr<Users> users;
    std::function<void()> end_event; // of a profiler; may be empty
    int sender = -1;

    std::mutex lock; // of all below
    std::condition_variable changed;
    std::vector<mst_work *> works; // not released yet
    size_t pending = 0;
    bool done = false;
    bool waiting = false; // a thread is in mst_wait
    std::exception_ptr error;
    c10::intrusive_ptr<Future> future;

    /* One of the works has ended. */
    void end_one(mst_work *work, mst_status status) {
        std::exception_ptr failed;
        if (status == MST_ERR_STATE) {
            failed = make_error("the process group was destroyed before the operation was done", call);
        } else if (status != MST_OK) {
            mst_work_result(work); // sets mst_error() of this thread
            failed = make_error(status, call);
        }
        std::unique_lock<std::mutex> guard(lock);
        if (failed && !error) error = failed;
        if (--pending > 0) return;
        guard.unlock();
        finish();
    }

    /* All have ended. */
    void finish() {
        if (!error && operation.finish) {
            try {
                operation.finish();
            } catch (...) {
                error = std::current_exception();
            }
        }
        if (auto end = std::move(end_event)) end();
        std::unique_lock<std::mutex> guard(lock);
        done = true;
        auto waits = future;
        std::vector<mst_work *> left;
        if (!waiting) left.swap(works); // else that thread releases them
        guard.unlock();
        for (auto *work : left) mst_work_free(work);
        changed.notify_all();
        if (waits) complete_future(waits);
    }

    /* On another thread: its callbacks may wait for other works. */
    void complete_future(const c10::intrusive_ptr<Future> &waits) {
        auto self = shared_from_this();
        run_in_pool([self, waits] { self->set_future(*waits); });
    }

    void set_future(Future &waits) {
        if (error)
            waits.setError(error);
        else
            waits.markCompleted(c10::IValue(operation.results));
    }

    /* Waits on this thread; false: the timeout of the wait has passed. */
    bool make_progress(std::chrono::milliseconds timeout) {
        std::vector<mst_work *> left;
        {
            std::lock_guard<std::mutex> guard(lock);
            left.swap(works);
        }
        Use use(*users);
        auto end = std::chrono::steady_clock::now() + timeout;
        bool late = false;
        while (!left.empty() && !late) { // mst_wait releases a work that has ended
            auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
            mst_wait_options options{};
            options.size = sizeof options;
            options.timeout_ms = timeout > kNoTimeout ? std::max(1, to_ms(rest)) : 0;
            bool ended = true;
            late = mst_wait_with(left.back(), &options) != MST_OK &&
                   mst_test(left.back(), &ended) == MST_OK && !ended;
            if (!late) left.pop_back();
        }
        std::lock_guard<std::mutex> guard(lock);
        works.insert(works.end(), left.begin(), left.end());
        return !late;
    }

    /* Waits; false: the timeout of the wait has passed. */
    bool wait(std::chrono::milliseconds timeout) {
        std::unique_lock<std::mutex> guard(lock);
        if (!done && !waiting && !works.empty()) {
            waiting = true;
            guard.unlock();
            bool in_time = make_progress(timeout);
            guard.lock();
            waiting = false;
            std::vector<mst_work *> left;
            if (done) left.swap(works);
            guard.unlock();
            changed.notify_all();
            for (auto *work : left) mst_work_free(work);
            guard.lock();
            if (!in_time) return done;
        }
        auto is_done = [this] { return done; };
        if (timeout > kNoTimeout) return changed.wait_for(guard, timeout, is_done);
        changed.wait(guard, is_done);
        return true;
    }
};

namespace {

struct Hook {
    std::shared_ptr<Work::State> state;
    mst_work *work;
};

void on_done(mst_status status, void *arg) {
    auto *hook = static_cast<Hook *>(arg);
    hook->state->end_one(hook->work, status);
    delete hook;
}

} // namespace

int to_ms(std::chrono::milliseconds time) {
    return static_cast<int>(std::clamp<int64_t>(time.count(), 0, std::numeric_limits<int>::max()));
}

static std::string event_title(const char *name) {
    bool profiled = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value();
    return profiled ? std::string("muster:") + name : std::string();
}

Work::Work(const WorkOrigin &origin, const std::string &title)
    : c10d::Work(origin.rank, origin.type, title.empty() ? nullptr : title.c_str(),
                 title.empty() || !origin.inputs ? std::nullopt : std::make_optional(*origin.inputs)),
      state_(std::make_shared<State>()), sequence_(origin.sequence) {
    state_->end_event = std::move(recordFunctionEndCallback_);
}

Work::Work(const WorkOrigin &origin, Operation operation, std::shared_ptr<Users> users)
    : Work(origin, event_title(origin.name)) {
    state_->call = origin.name;
    state_->operation = std::move(operation);
    state_->users = std::move(users);
}

void Work::begin(std::vector<mst_work *> works) {
    state_->works = works;
    state_->pending = works.size();
    if (works.empty()) state_->finish();
    for (auto *work : works) {
        auto *hook = new Hook{state_, work};
        mst_status status = mst_work_on_done(work, on_done, hook);
        if (status != MST_OK) on_done(status, hook);
    }
}

void Work::complete() {
    state_->finish();
}

int *Work::sender() {
    return &state_->sender;
}

bool Work::isCompleted() {
    std::unique_lock<std::mutex> guard(state_->lock);
    if (state_->done || state_->waiting) return state_->done;
    auto works = state_->works;
    guard.unlock();
    Use use(*state_->users);
    bool ended;
    for (auto *work : works) mst_test(work, &ended); // makes progress; a released work is MST_ERR_STATE
    guard.lock();
    return state_->done;
}

bool Work::isSuccess() const {
    std::lock_guard<std::mutex> guard(state_->lock);
    return state_->done && !state_->error;
}

std::exception_ptr Work::exception() const {
    std::lock_guard<std::mutex> guard(state_->lock);
    return state_->error;
}

int Work::sourceRank() const {
    return state_->sender;
}

std::vector<at::Tensor> Work::result() {
    return state_->operation.results;
}

void Work::synchronize() {
    wait();
}

bool Work::wait(std::chrono::milliseconds timeout) {
    if (!state_->wait(timeout))
        C10_THROW_ERROR(DistBackendError, "[muster] " + state_->call + ": Timed out waiting " +
                                              std::to_string(timeout.count()) + "ms for the operation");
    if (auto error = exception()) std::rethrow_exception(error);
    return true;
}

c10::intrusive_ptr<Future> Work::getFuture() {
    std::lock_guard<std::mutex> guard(state_->lock);
    if (state_->future) return state_->future;
    state_->future = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
    if (state_->done) state_->set_future(*state_->future);
    return state_->future;
}

uint64_t Work::getSequencenumber() const {
    return sequence_;
}

} // namespace muster_torch
