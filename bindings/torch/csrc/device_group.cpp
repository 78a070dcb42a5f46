/* device_group.cpp - see device_group.hpp. */
#include "device_group.hpp"
#include "errors.hpp"

#include <c10/util/Exception.h>
#include <cstdlib>

namespace muster_torch {

enum Mode : char { AUTO = 'a', NCCL = 'n', STAGE = 's' };

static Mode read_mode() {
    const char *given = std::getenv("MUSTER_TORCH_CUDA");
    std::string text = given ? given : "";
    if (text.empty() || text == "auto") return AUTO;
    if (text == "nccl") return NCCL;
    TORCH_CHECK(text == "stage", "[muster] MUSTER_TORCH_CUDA is \"", text,
                "\"; it must be auto, nccl or stage");
    return STAGE;
}

static Mode mode() {
    static const Mode read = read_mode();
    return read;
}

/* The last failure of this thread. */
static std::string failure() {
    const mst_error_info *info = mst_last_error();
    return std::string(info->message) + (info->remedy[0] ? "; " : "") + info->remedy;
}

/* Why this rank cannot use nccl; else makes the group. */
std::string DeviceGroup::make(const Host &host) {
    if (mode() == STAGE) return "MUSTER_TORCH_CUDA is stage";
    std::vector<int> ranks(static_cast<size_t>(host.size));
    mst_get_process_group_ranks(host.group, ranks.data(), host.size);
    std::string name = "cuda " + host.name;
    mst_group_options options{};
    options.size = sizeof options;
    options.world = host.world;
    options.timeout_ms = host.timeout_ms;
    options.name = name.c_str();
    options.backend = "nccl";
    mst_group *made = nullptr;
    if (mst_new_group_with(ranks.data(), host.size, &made, &options) != MST_OK) return failure();
    std::lock_guard<std::mutex> guard(lock_);
    group_ = made;
    return std::string();
}

/* Connects the ranks, on the GPUs that they use. Returns why that has failed. */
std::string DeviceGroup::try_out(const Host &host, c10::Device device) try {
    auto count = at::ones({1}, at::TensorOptions(device).dtype(at::kInt));
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    mst_call call{};
    call.size = sizeof call;
    call.group = group_;
    c10::OptionalDeviceGuard guard(device); // the engine makes its GPU the current one
    if (mst_all_reduce_with(count.data_ptr(), 1, MST_I32, &call) != MST_OK) return failure();
    int sum = count.item<int>();
    return sum == host.size ? std::string()
                            : "NCCL adds " + std::to_string(host.size) + " ones to " + std::to_string(sum);
} catch (const std::exception &error) { // the GPU failed before, or has no memory
    return error.what();
}

void DeviceGroup::abort(const char *why) {
    mst_abort_options options{};
    options.size = sizeof options;
    std::lock_guard<std::mutex> guard(lock_);
    if (group_) mst_abort_with(group_, why, &options);
}

mst_status DeviceGroup::set_timeout(int ms) {
    std::lock_guard<std::mutex> guard(lock_);
    return group_ ? mst_group_set_timeout(group_, ms) : MST_OK;
}

void DeviceGroup::destroy() {
    std::unique_lock<std::mutex> guard(lock_);
    auto *group = group_.exchange(nullptr);
    guard.unlock();
    if (group) mst_destroy_process_group(group);
}

void DeviceGroup::forget() {
    std::lock_guard<std::mutex> guard(lock_);
    group_ = nullptr;
    stream_.reset();
    decided_ = false;
}

/* What all ranks say; each text is a mode, and why the rank cannot use nccl. */
static std::vector<std::string> exchange(const DeviceGroup::Host &host, const std::string &own,
                                         const char *call) {
    std::vector<mst_bytes> all(static_cast<size_t>(host.size));
    mst_call options{};
    options.size = sizeof options;
    options.group = host.group;
    check(mst_all_gather_bytes_with(all.data(), own.data(), own.size(), &options),
          std::string(call) + ", the first call of process group '" + host.name +
              "' with tensors on a GPU, which connects all of its ranks");
    std::vector<std::string> texts;
    for (auto &bytes : all) {
        texts.emplace_back(static_cast<const char *>(bytes.data), bytes.len);
        mst_bytes_free(&bytes);
    }
    return texts;
}

/* Why a rank cannot use nccl, as all ranks say it; "": all can. must, speaker: see open. */
std::string DeviceGroup::agree(const Host &host, const std::string &own, const char *call, bool *must,
                               int *speaker) try {
    auto texts = exchange(host, static_cast<char>(mode()) + own, call);
    std::string why;
    *speaker = -1;
    for (int r = 0; r < host.size; r++) {
        const auto &text = texts[static_cast<size_t>(r)];
        *must |= text[0] == NCCL;
        if (*speaker < 0 && text[0] != STAGE) *speaker = r;
        if (why.empty() && text.size() > 1) why = "rank " + std::to_string(r) + ": " + text.substr(1);
    }
    return why;
} catch (...) {
    destroy();
    throw;
}

void DeviceGroup::open(const Host &host, c10::Device device, const char *call) {
    bool must = false; // a rank insists on nccl
    int speaker = -1;  // the rank that tells the user
    std::string why = agree(host, make(host), call, &must, &speaker);
    if (why.empty()) why = agree(host, try_out(host, device), call, &must, &speaker);
    if (!why.empty()) destroy();
    if (!why.empty() && must)
        std::rethrow_exception(make_error("MUSTER_TORCH_CUDA is nccl, but it cannot be used: " + why, call));
    if (why.empty()) stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
    decided_ = true;
    if (!why.empty() && speaker == host.rank) {
        TORCH_WARN_ONCE("[muster] tensors on GPUs of process group '", host.name,
                        "' pass through host memory, because nccl cannot be used: ", why);
    }
}

std::shared_ptr<OnDevice> DeviceGroup::place(const Host &host, c10::Device device, bool message,
                                             const char *call) {
    bool may = device.is_cuda() && (!message || mode() == NCCL);
    if (may && !decided_) {
        std::lock_guard<std::mutex> guard(*host.collectives);
        if (!decided_) open(host, device, call);
    }
    if (!may || !group_) return std::make_shared<OnDevice>(device);
    TORCH_CHECK(device == stream_->device(), "[muster] ", call, ": the tensor is on ", device,
                ", but the process group uses ", stream_->device());
    if (!message) return std::make_shared<OnDevice>(device, stream_);
    /* Messages have streams of their own, which wait for the default one. */
    auto first = c10::impl::VirtualGuardImpl(device.type()).getDefaultStream(device);
    return std::make_shared<OnDevice>(device, first);
}

} // namespace muster_torch
