/* backend.cpp - see backend.hpp; its collectives are in collectives.cpp. */
#include "backend.hpp"
#include "errors.hpp"
#include "operation.hpp"
#include "tensors.hpp"
#include "world.hpp"

#include <Python.h>
#include <algorithm>
#include <c10/util/StringUtil.h>
#include <numeric>
#include <random>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace muster_torch {

using c10d::OpType;
using Tensors = Backend::Tensors;

static void abort_group(mst_group *group, const char *why) {
    mst_abort_options options{};
    options.size = sizeof options;
    mst_abort_with(group, why, &options);
}

/* Sorted, handles are in the order of the ranks. */
static std::string new_handle(int rank) {
    std::random_device random;
    char text[64];
    std::snprintf(text, sizeof text, "%08d-%08x%08x%08x", rank, random(), random(), random());
    return text;
}

Backend::Backend(const GroupOptions &options)
    : c10d::Backend(options.rank, options.size), given_(options), handle_(new_handle(options.rank)) {
    state_ = std::make_shared<GroupState>();
    if (!options.waits) world_ = open_group(given_, state_, &group_);
    options_ = c10::make_intrusive<Options>("muster", options.timeout);
    options_->group_name = options.name;
    options_->global_ranks_in_group.assign(options.global_ranks.begin(), options.global_ranks.end());
}

/* Python may destroy it while it holds its lock, which callbacks of futures need. */
Backend::~Backend() {
    bool locked = !is_exiting() && Py_IsInitialized() && PyGILState_Check();
    auto *python = locked ? PyEval_SaveThread() : nullptr;
    shutdown();
    if (python) PyEval_RestoreThread(python);
}

/* What a group of some of the group's ranks begins with. */
static GroupOptions part_of(const GroupOptions &group, const std::vector<int> &ranks) {
    GroupOptions part = group;
    part.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), group.rank) - ranks.begin());
    part.size = static_cast<int>(ranks.size());
    part.global_ranks.clear();
    for (int rank : ranks) part.global_ranks.push_back(group.global_ranks.at(static_cast<size_t>(rank)));
    part.is_default = part.waits = part.alone = false;
    return part;
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &store,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<Options> &options) {
    if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end()) return nullptr;
    auto part = part_of(given_, ranks);
    part.world = world_;
    part.store = store;
    part.timeout = options->timeout;
    part.name = options->group_name;
    return c10::make_intrusive<Backend>(part);
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store> &store,
                                                 const c10::intrusive_ptr<Options> &options, const int &rank,
                                                 const int &size) {
    GroupOptions merged{store, rank,  size, options->timeout, options->group_name, {},
                        false, false, true, nullptr};
    merged.global_ranks.resize(static_cast<size_t>(size));
    std::iota(merged.global_ranks.begin(), merged.global_ranks.end(), 0);
    return c10::make_intrusive<Backend>(merged);
}

/* All ranks of the new group know its ranks, so they need not agree on them. */
c10::intrusive_ptr<c10d::Backend> Backend::shrink(const std::vector<int64_t> &excluded, int flags,
                                                  const c10::intrusive_ptr<Options> &options) {
    check_open("shrink");
    if (flags != 0) abort(); // SHRINK_ABORT
    std::vector<int> ranks;
    for (int rank = 0; rank < size_; rank++)
        if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) ranks.push_back(rank);
    auto part = part_of(given_, ranks);
    part.world = world_;
    part.name += "/without " + c10::Join(",", excluded);
    if (options) part.timeout = options->timeout;
    auto made = c10::make_intrusive<Backend>(part);
    if (given_.is_default) made->renumber();
    return made;
}

/* It is the default group from now on, whose ranks are PyTorch's global ranks. */
void Backend::renumber() {
    renumber_world(*world_, given_.global_ranks);
    std::iota(given_.global_ranks.begin(), given_.global_ranks.end(), 0);
    given_.is_default = true;
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
c10d::ReconfigureHandle Backend::get_reconfigure_handle() const {
    return handle_;
}

/* In the order of the list; those of a set in the order of their former ranks. */
static std::vector<c10d::ReconfigureHandle> ordered(const c10d::ReconfigureOptions &options) {
    if (const auto *list = std::get_if<1>(&options.handles)) return *list;
    const auto &set = std::get<0>(options.handles);
    std::vector<c10d::ReconfigureHandle> handles(set.begin(), set.end());
    std::sort(handles.begin(), handles.end());
    return handles;
}

/* Set for as long as it exists. */
class Flag {
  public:
    explicit Flag(std::atomic<bool> &flag) : flag_(flag) {
        flag_ = true;
    }
    ~Flag() {
        flag_ = false;
    }
    Flag(const Flag &) = delete;
    Flag &operator=(const Flag &) = delete;

  private:
    std::atomic<bool> &flag_;
};

Backend::Result Backend::reconfigure(const c10d::ReconfigureOptions &options) {
    auto handles = ordered(options);
    auto own = std::find(handles.begin(), handles.end(), handle_);
    TORCH_CHECK(own != handles.end(), "[muster] reconfigure: the handle of this process is missing");
    TORCH_CHECK(!ended_, "[muster] reconfigure: the process group was shut down");
    if (group_) abort_group(group_, "the program reconfigured the process group");
    devices_.abort("the program reconfigured the process group");
    Flag reconfigures(reconfigures_);
    state_->users.wait_until_none();
    devices_.forget();
    if (world_) former_.push_back(std::move(world_)); // its end would wait for ranks that have died
    group_ = nullptr;
    given_.rank = rank_ = static_cast<int>(own - handles.begin());
    given_.size = size_ = static_cast<int>(handles.size());
    given_.global_ranks.resize(handles.size());
    std::iota(given_.global_ranks.begin(), given_.global_ranks.end(), 0);
    GroupOptions made = given_;
    made.alone = true;
    made.store = c10::make_intrusive<c10d::PrefixStore>("reconfigured/" + std::to_string(options.uuid) + "/",
                                                        given_.store);
    made.timeout = options.timeout.value_or(given_.timeout);
    world_ = open_group(made, state_, &group_);
    WorkOrigin origin{rank_, OpType::UNKNOWN, sequence_, "reconfigure", nullptr};
    auto work = c10::make_intrusive<Work>(origin, Operation{}, state_);
    work->complete();
    return work;
}
#endif

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
    Use use(state_->users);
    check_open("empty");
    TORCH_CHECK(size >= 0, "[muster] empty: the size is ", size);
    TORCH_CHECK(options.device().is_cpu(), "[muster] empty: the tensor would be on ", options.device());
    size_t item = options.dtype().itemsize(), bytes = static_cast<size_t>(size) * item;
    TORCH_CHECK(bytes / item == static_cast<size_t>(size), "[muster] empty: the size is ", size);
    mst_call call = options_for(c10d::kUnsetTimeout);
    void *memory = nullptr;
    check(mst_alloc_with(std::max<size_t>(bytes, 1), &memory, &call), "empty");
    auto release = [made_at = forks()](void *address) {
        if (forks() == made_at) mst_free(address); // a forked process would empty its parent's tensor
    };
    return at::from_blob(memory, {size}, release, options.device(at::kCPU));
}

void Backend::setTimeout(Timeout timeout) {
    Use use(state_->users);
    int ms = std::max(1, to_ms(timeout));
    if (!ended_ && group_) check(mst_group_set_timeout(group_, ms), "setTimeout");
    if (!ended_) check(devices_.set_timeout(ms), "setTimeout");
    given_.timeout = timeout;
    options_->timeout = timeout; // groups that are split from this one inherit it
}

void Backend::abort() {
    Use use(state_->users);
    if (ended_ || !group_) return;
    abort_group(group_, "the program aborted the process group");
    devices_.abort("the program aborted the process group");
}

void Backend::shutdown() {
    if (!ended_.exchange(true)) close();
}

void Backend::close() {
    former_.clear();
    if (!group_) return;
    if (!world_->is_parents()) { // a forked process does not have the threads
        static const char why[] = "the program destroyed the process group during a call";
        bool used = state_->users.any();
        if (used) abort_group(group_, why);
        if (used) devices_.abort(why);
        state_->users.wait_until_none();
        state_->on_streams.wait_until_none(); // the program need not have waited for them
    }
    if (!is_exiting() && !world_->is_parents()) devices_.destroy(); // another thread may have held its lock
    if (group_ != world_->all && !is_exiting()) mst_destroy_process_group(group_);
    group_ = nullptr;
    world_.reset();
}

mst_call Backend::options_for(Timeout timeout) const {
    mst_call call{};
    call.size = sizeof call;
    call.group = group_;
    call.timeout_ms = timeout < kNoTimeout ? 0 : std::max(1, to_ms(timeout)); // 0: the group's
    return call;
}

void Backend::check_open(const char *call) const {
    TORCH_CHECK(!ended_, "[muster] ", call, ": the process group was shut down");
    TORCH_CHECK(!reconfigures_, "[muster] ", call, ": another thread reconfigures the process group");
    TORCH_CHECK(group_, "[muster] ", call, ": the process group is not open before reconfigure");
    /* Another thread of the parent may have held a lock. */
    if (world_->is_parents()) std::rethrow_exception(make_forked_error(call));
}

std::shared_ptr<OnDevice> Backend::place(const at::Tensor &tensor, bool message, const char *call) {
    if (tensor.is_cpu()) return nullptr;
    Use use(state_->users);
    check_open(call);
    DeviceGroup::Host host{world_->all, group_, rank_, size_, given_.name, 0, &collectives_};
    host.timeout_ms = std::max(1, to_ms(given_.timeout));
    return devices_.place(host, tensor.device(), message, call);
}

Backend::Call Backend::describe(const char *name, OpType type, bool async, Timeout timeout,
                                const Tensors *inputs) {
    Call call{name, type, async, timeout, inputs};
    if (!inputs->empty()) call.operation.device = place(inputs->front(), false, name);
    return call;
}

void Backend::set_device(const OnDevice &device, mst_call *options) const {
    options->group = devices_.group();
    TORCH_CHECK(options->group, "[muster] another thread has reconfigured the process group");
    options->stream = device.stream().native_handle();
}

Backend::Result Backend::run(Call call, c10::function_ref<mst_status(mst_call &options)> post) {
    EndsHere ends_here;
    Use use(state_->users);
    check_open(call.name);
    auto device = call.operation.device;
    if (device) device->take_inputs();
    bool on_stream = device && !device->is_staged();
    std::lock_guard<std::mutex> guard(collectives_);
    WorkOrigin origin{rank_, call.type, ++sequence_, call.name, call.inputs};
    auto work = c10::make_intrusive<Work>(origin, std::move(call.operation), state_);
    mst_call options = options_for(call.timeout);
    mst_work *begun = nullptr;
    if (call.async || on_stream) options.work = &begun;
    c10::OptionalDeviceGuard current; // the engine makes its device the current one
    if (on_stream) {
        current.reset_device(device->device());
        set_device(*device, &options);
    }
    check(post(options), call.name);
    if (begun)
        work->begin(begun, on_stream);
    else
        work->complete();
    if (on_stream && !call.async) work->wait();
    return work;
}

Backend::Result Backend::message(const char *name, OpType type, Tensors &tensors, bool receives, int peer,
                                 int tag) {
    Use use(state_->users);
    check_open(name);
    TORCH_CHECK(tensors.size() == 1, "[muster] ", name, " takes one tensor, not ", tensors.size());
    TORCH_CHECK(tag >= 0, "[muster] ", name, ": Tag must be nonnegative, not ", tag);
    check_tensors(tensors, name);
    Operation operation;
    operation.device = place(tensors[0], true, name);
    auto flat = (receives ? output : input)(tensors[0], &operation);
    operation.results = tensors;
    auto device = operation.device;
    if (device) device->take_inputs();
    auto work = c10::make_intrusive<Work>(WorkOrigin{rank_, type, sequence_, name, &tensors},
                                          std::move(operation), state_);
    mst_call call = options_for(c10d::kUnsetTimeout);
    mst_work *begun = nullptr;
    call.tag = tag;
    call.work = &begun;
    c10::OptionalDeviceGuard current;
    if (device && !device->is_staged()) {
        current.reset_device(device->device());
        set_device(*device, &call);
    }
    if (receives) call.sender = work->sender();
    auto count = static_cast<size_t>(flat.numel());
    mst_status status = receives ? mst_irecv_with(flat.data_ptr(), count, dtype_of(flat), peer, &call)
                                 : mst_isend_with(flat.data_ptr(), count, dtype_of(flat), peer, &call);
    check(status, name);
    work->begin(begun, false);
    return work;
}

Backend::Result Backend::send(Tensors &tensors, int to, int tag) {
    return message("send", OpType::SEND, tensors, false, to, tag);
}

Backend::Result Backend::recv(Tensors &tensors, int from, int tag) {
    return message("recv", OpType::RECV, tensors, true, from, tag);
}

Backend::Result Backend::recvAnysource(Tensors &tensors, int tag) {
    return message("recvAnySource", OpType::RECVANYSOURCE, tensors, true, MST_ANY_SOURCE, tag);
}

Backend::Result Backend::barrier(const c10d::BarrierOptions &options) {
    Call call{"barrier", OpType::BARRIER, options.asyncOp, options.timeout, nullptr};
    return run(std::move(call), [](mst_call &made) { return mst_barrier_with(&made); });
}

/* Throws with gloo's text, which programs search for. Rank 0 names the ranks that did not arrive, at most
 * those that muster lists. muster's own text follows. */
void Backend::fail_monitored_barrier(mst_status status, Timeout timeout, bool wait_all_ranks) const {
    auto ms = std::to_string(timeout.count()) + " ms";
    std::vector<std::string> missing;
    for (int rank : blamed_ranks()) {
        int own = mst_get_group_rank(group_, rank);
        if (own >= 0) missing.push_back(std::to_string(own));
    }
    std::string text = "Rank " + std::to_string(rank_);
    if (rank_ > 0)
        text +=
            " successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
            "rank 0. Please check rank 0 logs for faulty rank";
    else if (missing.empty() || timeout == kNoTimeout)
        text += " timed out in monitoredBarrier after " + ms;
    else if (wait_all_ranks)
        text = "Ranks " + c10::Join(", ", missing) + " failed to pass monitoredBarrier in " + ms;
    else
        text = "Rank " + missing[0] + " failed to pass monitoredBarrier in " + ms;
    check(status, "monitored_barrier: " + text);
}

void Backend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) {
    EndsHere ends_here;
    Use use(state_->users);
    check_open("monitored_barrier");
    std::lock_guard<std::mutex> guard(collectives_);
    mst_call call = options_for(options.timeout);
    call.wait_all_ranks = wait_all_ranks;
    mst_status status = mst_monitored_barrier_with(&call);
    auto timeout = options.timeout < kNoTimeout ? options_->timeout : options.timeout;
    if (status != MST_OK) fail_monitored_barrier(status, timeout, wait_all_ranks);
}

void Backend::registerOnCompletionHook(Hooks::OnCompletion &&hook) {
    onCompletionHook_ = [](auto) {}; // for hasHooks()
    state_->hooks.set_on_completion(std::move(hook));
}

void Backend::waitForPendingWorks() {
    state_->works.wait_until_none();
}

#ifdef MUSTER_TORCH_HAS_COMPLETION_HOOKS
void Backend::registerCompletionHook(int64_t id, c10d::CompletionHook hook) {
    state_->hooks.set_completed(id, [hook = std::move(hook)](uint64_t key, float duration_ms) {
        hook({key, duration_ms});
    });
}

void Backend::unregisterCompletionHook(int64_t id) {
    state_->hooks.set_completed(id, nullptr);
}
#endif

} // namespace muster_torch
