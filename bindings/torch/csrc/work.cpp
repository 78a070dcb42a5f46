/* work.cpp - see work.hpp. */
#include "work.hpp"
#include "backend.hpp"
#include "errors.hpp"
#include "forks.hpp"

#include <ATen/record_function.h>
#include <algorithm>
#include <limits>
#include <thread>

namespace muster_torch {

using Future = c10::ivalue::Future;

/* Shared by the Work and the callbacks of its operation, so that it lives until both have ended. */
struct Work::State {
    std::string call;
    Completion completion;
    Operation operation;
    std::shared_ptr<GroupState> group;
    std::optional<Use> pending; // of group->works
    std::optional<Use> pending_on_stream;
    std::function<void()> end_event; // of a profiler; may be empty
    int sender = -1;
    bool on_stream = false;   // of the device; results are copied there
    mst_work *work = nullptr; // NULL: the operation was a blocking call
    std::exception_ptr error; // valid when done
    std::atomic<bool> done{false};
    const unsigned made_at = forks();

    std::mutex lock; // of all below
    c10::intrusive_ptr<Future> future;
    bool has_thread = false; // which completes the future

    /* The operation has ended. */
    void finish(mst_status status) {
        if (status != MST_OK) {
            error = make_error(status, call);
            if (on_stream) {
                TORCH_WARN_ONCE("[muster] ", call, " failed; its tensors are undefined: ", mst_error());
            }
        } else if (!on_stream) {
            error = copy_results();
        }
        {
            Use use(group->callbacks);
            bool alive = !is_exiting(); // else Python is ending
            if (auto end = std::move(end_event); end && alive) end();
            if (!error && alive) group->hooks.completed(completion);
        }
        pending.reset();
        pending_on_stream.reset();
        std::unique_lock<std::mutex> guard(lock);
        done = true;
        auto waits = has_thread || on_stream ? nullptr : future;
        guard.unlock();
        if (work && status != MST_ERR_STATE)
            mst_work_free(work); // else its group was destroyed, and the work too
        if (waits) set_future(*waits);
    }

    std::exception_ptr copy_results() {
        try {
            if (operation.device)
                operation.device->give_outputs(operation.copies);
            else
                copy_all(operation.copies);
            return nullptr;
        } catch (...) {
            return std::current_exception();
        }
    }

    /* Calls the callbacks of the program, unless Python is ending. */
    void set_future(Future &waits) {
        Use use(group->callbacks);
        if (is_exiting()) return;
        if (done && error) return waits.setError(error);
        c10::OptionalStreamGuard guard;
        if (operation.device) guard.reset_stream(operation.device->stream());
        waits.markCompleted(c10::IValue(operation.results));
    }

    /* Waits on this thread; false: the timeout of the wait has passed. */
    bool wait(std::chrono::milliseconds timeout) {
        if (done) return true;
        if (forks() != made_at) std::rethrow_exception(make_forked_error(call));
        Use use(group->users);
        mst_wait_options options{};
        options.size = sizeof options;
        options.timeout_ms = timeout > kNoTimeout ? std::max(1, to_ms(timeout)) : 0;
        options.keep = true;
        mst_status status = mst_wait_with(work, &options);
        bool ended; // another thread is destroying the group, and tells the works so
        while (!done && status == MST_ERR_STATE && mst_test(work, &ended) == MST_ERR_STATE)
            std::this_thread::yield();
        return done;
    }
};

using Owner = std::shared_ptr<Work::State>;

/* Its tensors may need Python's lock to be freed. While Python is ending they are not freed. */
static void drop(Owner *state) {
    auto group = (*state)->group;
    Use use(group->callbacks);
    if (!is_exiting()) delete state;
}

static void on_done(mst_status status, void *arg) {
    std::unique_ptr<Owner, decltype(&drop)> state(static_cast<Owner *>(arg), drop);
    (*state)->finish(status);
}

/* On a thread of its own: the callbacks of the future may wait for other works. */
static void complete_future(mst_status status, void *arg) {
    std::unique_ptr<Owner, decltype(&drop)> state(static_cast<Owner *>(arg), drop);
    if ((*state)->done) return (*state)->set_future(*(*state)->future);
    Use use((*state)->group->callbacks); // its group is destroyed meanwhile
    if (!is_exiting()) (*state)->future->setError(make_error(status, (*state)->call));
}

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
      state_(std::make_shared<State>()) {
    state_->end_event = std::move(recordFunctionEndCallback_);
}

Work::Work(const WorkOrigin &origin, Operation operation, std::shared_ptr<GroupState> group)
    : Work(origin, event_title(origin.name)) {
    static std::atomic<uint64_t> keys{0};
    state_->call = origin.name;
    state_->completion = {origin.type, origin.sequence, ++keys, {}};
    if (group->hooks.any()) state_->completion.begun = std::chrono::steady_clock::now();
    state_->operation = std::move(operation);
    state_->group = std::move(group);
    state_->pending.emplace(state_->group->works);
}

void Work::begin(mst_work *work, bool on_stream) {
    state_->work = work;
    state_->on_stream = on_stream;
    if (on_stream) {
        state_->pending_on_stream.emplace(state_->group->on_streams);
        if (auto end = std::move(state_->end_event))
            end(); // it is over for the thread that the profiler sees
    }
    auto *owner = new Owner(state_);
    if (mst_work_on_done(work, on_done, owner) != MST_OK) on_done(mst_wait(work), owner);
    if (on_stream) state_->operation.device->give_outputs(state_->operation.copies);
}

void Work::complete() {
    state_->finish(MST_OK);
    if (state_->operation.device && !state_->error) state_->operation.device->order();
}

int *Work::sender() {
    return &state_->sender;
}

bool Work::isCompleted() {
    if (state_->done) return true;
    Use use(state_->group->users);
    bool ended;
    mst_test(state_->work, &ended); // makes progress
    return state_->done;
}

bool Work::isSuccess() const {
    return state_->done && !state_->error;
}

std::exception_ptr Work::exception() const {
    return state_->done ? state_->error : nullptr;
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
    EndsHere ends_here;
    bool only_orders = state_->on_stream && timeout == kNoTimeout && !state_->done;
    if (!only_orders && !state_->wait(timeout))
        C10_THROW_ERROR(DistBackendError, "[muster] " + state_->call + ": Timed out waiting " +
                                              std::to_string(timeout.count()) + "ms for the operation");
    if (!only_orders && state_->error) std::rethrow_exception(state_->error);
    if (state_->operation.device) state_->operation.device->order();
    return true;
}

c10::intrusive_ptr<Future> Work::getFuture() {
    std::lock_guard<std::mutex> guard(state_->lock);
    if (state_->future) return state_->future;
    std::vector<c10::Device> devices;
    if (state_->operation.device) devices.push_back(state_->operation.device->device());
    state_->future = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), devices);
    if (state_->done || state_->on_stream) {
        state_->set_future(*state_->future);
        return state_->future;
    }
    Use use(state_->group->users);
    mst_done_options options{};
    options.size = sizeof options;
    options.may_wait = true;
    auto *owner = new Owner(state_);
    state_->has_thread = mst_work_on_done_with(state_->work, complete_future, owner, &options) == MST_OK;
    if (!state_->has_thread) delete owner; // the group is destroyed meanwhile: finish() completes it
    return state_->future;
}

uint64_t Work::getSequencenumber() const {
    return state_->completion.sequence;
}

#ifdef MUSTER_TORCH_HAS_COMPLETION_HOOKS
uint64_t Work::getCompletionKey() const {
    return state_->completion.key;
}
#endif

} // namespace muster_torch
