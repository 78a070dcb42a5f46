/*
 * store.cpp - see store.hpp.
 *
 * A client of PyTorch's TCPStore has one connection and a lock, so a wait delays all other calls on it. Every
 * operation takes an idle clone, or makes one.
 *
 * A store written in Python has no clones: operations share it, as with gloo. It cannot delete either,
 * because PyTorch looks for a method of another name: keys become empty.
 */
#include "store.hpp"
#include "errors.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace muster_torch {

using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;

static constexpr auto POLL_MOST = std::chrono::microseconds(10000);
/* Of one operation that does not wait: a shorter one would break the client's connection. */
static constexpr auto ANSWER_LEAST = std::chrono::milliseconds(10000);

namespace {

struct Pool {
    c10::intrusive_ptr<c10d::Store> origin;
    std::chrono::milliseconds timeout; // of origin; clones may share it
    bool has_clones;
    std::mutex lock; // of the rest
    bool lost = false;
    std::vector<c10::intrusive_ptr<c10d::Store>> idle;
};

/* A clone for one operation. After an exception it is not used again. */
class Borrowed {
  public:
    explicit Borrowed(const mst_store_op_call *call) : pool_(*static_cast<Pool *>(call->context)) {
        {
            std::lock_guard<std::mutex> guard(pool_.lock);
            TORCH_CHECK(!pool_.lost, "the store was lost before"); // do not connect again and again
            if (!pool_.idle.empty()) {
                store_ = pool_.idle.back();
                pool_.idle.pop_back();
            }
        }
        if (!store_) store_ = pool_.has_clones ? pool_.origin->clone() : pool_.origin;
        timeout_ = std::chrono::milliseconds(call->timeout_ms > 0 ? call->timeout_ms : 1);
        if (pool_.has_clones) store_->setTimeout(std::max({timeout_, ANSWER_LEAST, pool_.timeout}));
    }
    ~Borrowed() {
        if (std::uncaught_exceptions() > 0 || !pool_.has_clones) return;
        std::lock_guard<std::mutex> guard(pool_.lock);
        pool_.idle.push_back(std::move(store_));
    }
    c10d::Store *operator->() {
        return store_.get();
    }
    std::chrono::milliseconds timeout() const {
        return timeout_;
    }
    bool is_shared() const {
        return !pool_.has_clones;
    }

  private:
    Pool &pool_;
    c10::intrusive_ptr<c10d::Store> store_;
    std::chrono::milliseconds timeout_;
};

Bytes bytes_of(const void *data, size_t len) {
    const auto *begin = static_cast<const uint8_t *>(data);
    return len ? Bytes(begin, begin + len) : Bytes();
}

mst_status give(const Bytes &from, mst_bytes *to) {
    char *data = static_cast<char *>(std::malloc(from.size() + 1));
    if (!data) return MST_ERR_MEMORY;
    if (!from.empty()) std::memcpy(data, from.data(), from.size());
    data[from.size()] = 0;
    *to = mst_bytes{data, from.size()};
    return MST_OK;
}

/* Runs an operation. An exception is a timeout if the time is over, else the store is lost. */
template <typename Operation> mst_status guarded(const mst_store_op_call *call, Operation operation) {
    auto end = Clock::now() + std::chrono::milliseconds(call->timeout_ms);
    try {
        return operation();
    } catch (const std::exception &error) {
        if (Clock::now() >= end) return MST_ERR_TIMEOUT;
        auto *pool = static_cast<Pool *>(call->context);
        std::lock_guard<std::mutex> guard(pool->lock);
        pool->lost = true;
        const char *what = error.what();
        std::snprintf(call->why, call->why_size, "%.*s", static_cast<int>(std::strcspn(what, "\n")), what);
        return MST_ERR_STORE_LOST;
    }
}

mst_status set(const mst_store_op_call *call, const char *key, const void *value, size_t len) {
    return guarded(call, [&] {
        Borrowed store(call);
        store->set(key, bytes_of(value, len));
        return MST_OK;
    });
}

/* Polls: a wait of PyTorch's client that times out writes warnings. */
bool wait_until_set(Borrowed &store, const std::vector<std::string> &keys) {
    auto end = Clock::now() + store.timeout();
    for (auto pause = std::chrono::microseconds(100);; pause = std::min(pause * 2, POLL_MOST)) {
        if (store->check(keys)) return true;
        if (Clock::now() >= end) return false;
        std::this_thread::sleep_for(pause);
    }
}

mst_status get(const mst_store_op_call *call, const char *key, mst_bytes *value) {
    return guarded(call, [&] {
        Borrowed store(call);
        return wait_until_set(store, {key}) ? give(store->get(key), value) : MST_ERR_TIMEOUT;
    });
}

mst_status add(const mst_store_op_call *call, const char *key, int64_t delta, int64_t *result) {
    return guarded(call, [&] {
        Borrowed store(call);
        *result = store->add(key, delta);
        return MST_OK;
    });
}

mst_status compare_set(const mst_store_op_call *call, const char *key, const void *expected,
                       size_t expected_len, const void *desired, size_t desired_len, mst_bytes *value) {
    return guarded(call, [&] {
        Borrowed store(call);
        return give(store->compareSet(key, bytes_of(expected, expected_len), bytes_of(desired, desired_len)),
                    value);
    });
}

mst_status wait_for(const mst_store_op_call *call, const char *const *keys, size_t n) {
    return guarded(call, [&] {
        Borrowed store(call);
        return wait_until_set(store, {keys, keys + n}) ? MST_OK : MST_ERR_TIMEOUT;
    });
}

mst_status check_keys(const mst_store_op_call *call, const char *const *keys, size_t n, bool *ready) {
    return guarded(call, [&] {
        Borrowed store(call);
        *ready = store->check(std::vector<std::string>(keys, keys + n));
        return MST_OK;
    });
}

mst_status delete_key(const mst_store_op_call *call, const char *key, bool *deleted) {
    return guarded(call, [&] {
        Borrowed store(call);
        *deleted = !store.is_shared() && store->deleteKey(key);
        if (store.is_shared()) store->set(key, Bytes());
        return MST_OK;
    });
}

mst_status multi_get(const mst_store_op_call *call, const char *const *keys, size_t n, mst_bytes *values) {
    return guarded(call, [&] {
        Borrowed store(call);
        auto found = store->multiGet(std::vector<std::string>(keys, keys + n));
        mst_status status = MST_OK;
        for (size_t i = 0; i < n && status == MST_OK; i++) status = give(found[i], &values[i]);
        return status;
    });
}

mst_status append(const mst_store_op_call *call, const char *key, const void *value, size_t len) {
    return guarded(call, [&] {
        Borrowed store(call);
        store->append(key, bytes_of(value, len));
        return MST_OK;
    });
}

void free_pool(void *context) {
    delete static_cast<Pool *>(context);
}

/* NULL: the store has no clones. */
c10::intrusive_ptr<c10d::Store> try_clone(c10d::Store &store) try {
    return store.clone();
} catch (const std::exception &) {
    return nullptr;
}

} // namespace

mst_store *open_store(c10::intrusive_ptr<c10d::Store> origin) {
    mst_store_ops ops{};
    ops.size = sizeof ops;
    ops.set = set;
    ops.get = get;
    ops.add = add;
    ops.compare_set = compare_set;
    ops.wait = wait_for;
    ops.check = check_keys;
    ops.delete_key = delete_key;
    if (origin->hasExtendedApi()) {
        ops.multi_get = multi_get;
        ops.append = append;
    }
    ops.free = free_pool;
    auto timeout = origin->getTimeout();
    auto first = try_clone(*origin);
    auto *pool = new Pool{std::move(origin), timeout, first != nullptr, {}, false, {}};
    if (first) pool->idle.push_back(std::move(first));
    mst_store *store = nullptr;
    mst_status status = mst_store_open_custom(&ops, pool, &store);
    if (status != MST_OK) delete pool;
    check(status, "init_process_group");
    return store;
}

} // namespace muster_torch
