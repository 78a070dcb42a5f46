/* backend.cpp - see backend.hpp. */
#include "backend.hpp"
#include "errors.hpp"
#include "tensors.hpp"
#include "world.hpp"

#include <algorithm>
#include <c10/util/StringUtil.h>
#include <unistd.h>

namespace muster_torch {

using c10d::OpType;
using Tensors = Backend::Tensors;

/* One call of PyTorch: its operation, and the calls of muster that it consists of. */
struct Backend::Call {
    const char *name;
    OpType type;
    bool async;
    Timeout timeout;
    Operation operation;
    std::vector<Post> posts;
    const Tensors *inputs = nullptr; // for the profiler; valid until run() returns
};

Backend::Backend(const GroupOptions &options) : c10d::Backend(options.rank, options.size) {
    users_ = std::make_shared<Users>();
    world_ = open_group(options, users_, &group_);
    global_ranks_ = options.global_ranks;
    options_ = c10::make_intrusive<Options>("muster", options.timeout);
    options_->group_name = options.name;
    options_->global_ranks_in_group.assign(global_ranks_.begin(), global_ranks_.end());
}

Backend::~Backend() {
    shutdown();
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &store,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<Options> &options) {
    auto own = std::find(ranks.begin(), ranks.end(), rank_);
    if (own == ranks.end()) return nullptr;
    GroupOptions made{store,
                      static_cast<int>(own - ranks.begin()),
                      static_cast<int>(ranks.size()),
                      options->timeout,
                      options->group_name,
                      {},
                      false};
    for (int rank : ranks) made.global_ranks.push_back(global_ranks_.at(static_cast<size_t>(rank)));
    return c10::make_intrusive<Backend>(made);
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
    Use use(*users_);
    TORCH_CHECK(!ended_, "[muster] empty: the process group was shut down");
    TORCH_CHECK(size >= 0, "[muster] empty: the size is ", size);
    size_t item = options.dtype().itemsize(), bytes = static_cast<size_t>(size) * item;
    TORCH_CHECK(bytes / item == static_cast<size_t>(size), "[muster] empty: the size is ", size);
    mst_call call = options_for(c10d::kUnsetTimeout);
    void *memory = nullptr;
    check(mst_alloc_with(std::max<size_t>(bytes, 1), &memory, &call), "empty");
    auto release = [owner = getpid()](void *address) {
        if (getpid() == owner) mst_free(address); // a forked process would empty its parent's tensor
    };
    return at::from_blob(memory, {size}, release, options.device(at::kCPU));
}

void Backend::setTimeout(Timeout timeout) {
    check(mst_group_set_timeout(group_, to_ms(timeout)), "setTimeout");
    options_->timeout = timeout; // groups that are split from this one inherit it
}

static void abort_group(mst_group *group, const char *why) {
    mst_abort_options options{};
    options.size = sizeof options;
    mst_abort_with(group, why, &options);
}

void Backend::abort() {
    if (!ended_) abort_group(group_, "the program aborted the process group");
}

void Backend::shutdown() {
    if (ended_.exchange(true)) return;
    if (users_->any()) abort_group(group_, "the program destroyed the process group during a call");
    users_->wait_until_none();
    if (group_ != world_->all && !is_exiting()) mst_destroy_process_group(group_);
    world_.reset();
}

mst_call Backend::options_for(Timeout timeout) const {
    mst_call call{};
    call.size = sizeof call;
    call.group = group_;
    call.timeout_ms = timeout < kNoTimeout ? 0 : std::max(1, to_ms(timeout)); // 0: the group's
    return call;
}

Backend::Result Backend::run(Call call) {
    Use use(*users_);
    TORCH_CHECK(!ended_, "[muster] ", call.name, ": the process group was shut down");
    std::lock_guard<std::mutex> guard(collectives_);
    uint64_t sequence = ++sequence_;
    auto work = c10::make_intrusive<Work>(WorkOrigin{rank_, call.type, sequence, call.name, call.inputs},
                                          std::move(call.operation), users_);
    mst_call options = options_for(call.timeout);
    std::vector<mst_work *> works;
    for (auto &post : call.posts) {
        mst_work *one = nullptr;
        options.work = call.async ? &one : nullptr;
        std::exception_ptr failed;
        try {
            mst_status status = post(options);
            if (status != MST_OK) failed = make_error(status, call.name);
        } catch (...) {
            failed = std::current_exception();
        }
        if (failed) {
            if (!works.empty()) work->begin(std::move(works)); // it keeps their tensors until they end
            std::rethrow_exception(failed);
        }
        if (call.async) works.push_back(one);
    }
    if (call.async)
        work->begin(std::move(works));
    else
        work->complete();
    return work;
}

static void check_one(const Tensors &tensors, const char *call) {
    TORCH_CHECK(tensors.size() == 1, "[muster] ", call, " takes one tensor, not ", tensors.size());
    check_tensors(tensors, call);
}

static void check_count(const Tensors &tensors, int count, const char *call) {
    TORCH_CHECK(tensors.size() == static_cast<size_t>(count), "[muster] ", call, ": the list has ",
                tensors.size(), " tensors, but the group has ", count, " ranks");
    check_tensors(tensors, call);
}

static void check_none(const std::vector<Tensors> &lists, const char *call) {
    TORCH_CHECK(lists.empty(), "[muster] ", call, ": only the root gives a list of tensors");
}

/* Keeps the tensors alive. If flat is not the tensor itself, it is copied to it after success. */
static at::Tensor keep_output(const at::Tensor &tensor, const at::Tensor &flat, Operation *operation) {
    operation->tensors.push_back(tensor);
    operation->tensors.push_back(flat);
    if (flat.is_same(tensor)) return flat;
    operation->finish = [tensor, flat, before = std::move(operation->finish)] {
        if (before) before();
        at::AutoDispatchBelowADInplaceOrView no_autograd; // parameters may be written, too
        at::Tensor(tensor).copy_(flat);
    };
    return flat;
}

static at::Tensor in_place(const at::Tensor &tensor, Operation *operation) {
    return keep_output(tensor, flat_input(tensor), operation);
}

static at::Tensor output(const at::Tensor &tensor, Operation *operation) {
    return keep_output(tensor, flat_output(tensor), operation);
}

static at::Tensor input(const at::Tensor &tensor, Operation *operation) {
    operation->tensors.push_back(flat_input(tensor));
    return operation->tensors.back();
}

static Tensors inputs(const Tensors &tensors, Operation *operation) {
    Tensors list;
    for (const auto &tensor : tensors) list.push_back(input(tensor, operation));
    return list;
}

static Tensors outputs(const Tensors &tensors, Operation *operation) {
    Tensors list;
    for (const auto &tensor : tensors) list.push_back(output(tensor, operation));
    return list;
}

/* Addresses and counts that live as long as the operation. */
struct Lists {
    std::vector<void *> outs, ins;
    std::vector<size_t> out_counts, in_counts;
};

static std::shared_ptr<Lists> lists_of(Operation *operation) {
    auto lists = std::make_shared<Lists>();
    operation->lists = lists;
    return lists;
}

static std::vector<size_t> counts_of(const Tensors &tensors, const Payload &payload) {
    std::vector<size_t> counts;
    for (const auto &tensor : tensors) counts.push_back(payload.count(tensor.numel()));
    return counts;
}

/* Fails unless large has the elements of all ranks' small. */
static void check_blocks(const at::Tensor &large, const at::Tensor &small, int size, const char *call) {
    TORCH_CHECK(large.scalar_type() == small.scalar_type(), "[muster] ", call, ": the tensors have types ",
                large.scalar_type(), " and ", small.scalar_type());
    TORCH_CHECK(large.numel() == small.numel() * size, "[muster] ", call, ": one tensor has ", small.numel(),
                " elements, so the other one must have ", small.numel() * size, ", not ", large.numel());
}

/* Fails unless all tensors have the type of one. */
static void check_types(const Tensors &tensors, const at::Tensor &one, const char *call) {
    for (const auto &tensor : tensors)
        TORCH_CHECK(tensor.scalar_type() == one.scalar_type(), "[muster] ", call, ": the tensors have types ",
                    tensor.scalar_type(), " and ", one.scalar_type());
}

static bool have_different_counts(const std::vector<size_t> &counts) {
    return std::any_of(counts.begin(), counts.end(), [&](size_t count) { return count != counts[0]; });
}

Backend::Result Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
    check_one(tensors, "broadcast");
    Call call{"broadcast", OpType::BROADCAST, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &tensors;
    auto flat = in_place(tensors[0], &call.operation);
    call.operation.results = tensors;
    auto payload = payload_of(flat);
    call.posts.push_back([=, root = static_cast<int>(options.rootRank)](mst_call made) {
        made.root = root;
        return mst_broadcast_with(flat.data_ptr(), payload.count(flat.numel()), payload.dtype, &made);
    });
    return run(std::move(call));
}

Backend::Result Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
    TORCH_CHECK(tensors.size() == 1, "[muster] all_reduce takes one tensor, not ", tensors.size());
    if (tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
    return reduce_each("all_reduce", OpType::ALLREDUCE, tensors, options);
}

Backend::Result Backend::allreduce_coalesced(Tensors &tensors,
                                             const c10d::AllreduceCoalescedOptions &options) {
    return reduce_each("all_reduce", OpType::ALLREDUCE_COALESCED, tensors, options);
}

Backend::Result Backend::reduce_each(const char *name, OpType type, Tensors &tensors,
                                     const c10d::AllreduceOptions &options) {
    check_tensors(tensors, name);
    Call call{name, type, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &tensors;
    call.operation.results = tensors;
    for (const auto &tensor : tensors) {
        auto flat = in_place(tensor, &call.operation);
        call.posts.push_back([flat, dtype = dtype_of(flat), op = options.reduceOp](mst_call made) {
            set_reduction(op, &made);
            return mst_all_reduce_with(flat.data_ptr(), static_cast<size_t>(flat.numel()), dtype, &made);
        });
    }
    return run(std::move(call));
}

/* Sums: gathers the elements of all ranks, whose numbers may differ, and adds those at the same place. */
Backend::Result Backend::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
    TORCH_CHECK(tensors.size() == 1 && tensors[0].is_sparse(), "[muster] all_reduce takes one sparse tensor");
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM,
                "[muster] all_reduce of sparse tensors supports SUM only");
    auto own = tensors[0].coalesce();
    TORCH_CHECK(own.device().is_cpu(), "[muster] all_reduce: the tensor is on ", own.device());
    auto indices = own.indices().t().contiguous(), values = own.values().contiguous();
    auto counts = at::empty({size_}, at::kLong), count = at::full({1}, own._nnz(), at::kLong);
    c10d::AllgatherOptions blocking;
    blocking.timeout = options.timeout;
    blocking.asyncOp = false;
    _allgather_base(counts, count, blocking);
    Tensors all_indices, all_values;
    for (int r = 0; r < size_; r++) {
        int64_t n = counts[r].item<int64_t>();
        auto shape = values.sizes().vec();
        shape[0] = n;
        all_indices.push_back(at::empty({n, own.sparse_dim()}, indices.options()));
        all_values.push_back(at::empty(shape, values.options()));
    }
    std::vector<Tensors> out_indices{all_indices}, out_values{all_values};
    Tensors in_indices{indices}, in_values{values};
    allgather(out_indices, in_indices, blocking);
    allgather(out_values, in_values, blocking);
    auto sum = at::sparse_coo_tensor(at::cat(all_indices).t(), at::cat(all_values), own.sizes()).coalesce();
    tensors[0].copy_(sum);
    auto work = c10::make_intrusive<Work>(
        WorkOrigin{rank_, OpType::_ALLREDUCE_SPARSE, sequence_, "sparse_all_reduce", &tensors},
        Operation{{}, tensors, nullptr, nullptr}, users_);
    work->complete();
    return work;
}

Backend::Result Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
    check_one(tensors, "reduce");
    Call call{"reduce", OpType::REDUCE, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &tensors;
    int root = static_cast<int>(options.rootRank);
    auto flat = root == rank_ ? in_place(tensors[0], &call.operation) : input(tensors[0], &call.operation);
    call.operation.results = tensors;
    call.posts.push_back([flat, root, dtype = dtype_of(flat), op = options.reduceOp](mst_call made) {
        set_reduction(op, &made);
        made.root = root;
        return mst_reduce_with(flat.data_ptr(), static_cast<size_t>(flat.numel()), dtype, &made);
    });
    return run(std::move(call));
}

Backend::Result Backend::allgather(std::vector<Tensors> &output_lists, Tensors &input_list,
                                   const c10d::AllgatherOptions &options) {
    check_one(input_list, "all_gather");
    TORCH_CHECK(output_lists.size() == 1, "[muster] all_gather takes one list of outputs");
    check_count(output_lists[0], size_, "all_gather");
    check_types(output_lists[0], input_list[0], "all_gather");
    check_blocks(output_lists[0][static_cast<size_t>(rank_)], input_list[0], 1, "all_gather");
    Call call{"all_gather", OpType::ALLGATHER, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &input_list;
    auto flat = input(input_list[0], &call.operation);
    auto outs = outputs(output_lists[0], &call.operation);
    call.operation.results = output_lists[0];
    auto payload = payload_of(flat);
    auto lists = lists_of(&call.operation);
    lists->outs = addresses(outs);
    lists->out_counts = counts_of(outs, payload);
    bool differ = have_different_counts(lists->out_counts);
    call.posts.push_back([=](mst_call made) {
        if (differ) made.counts = lists->out_counts.data();
        return mst_all_gather_with(lists->outs.data(), flat.data_ptr(), payload.count(flat.numel()),
                                   payload.dtype, &made);
    });
    return run(std::move(call));
}

static Backend::Tensors pair(const at::Tensor &a, const at::Tensor &b) {
    return {a, b};
}

Backend::Result Backend::_allgather_base(at::Tensor &out, at::Tensor &in,
                                         const c10d::AllgatherOptions &options) {
    Tensors ins{in}, outs{out};
    return allgather_into_tensor_coalesced(outs, ins, options);
}

Backend::Result Backend::allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins,
                                                         const c10d::AllgatherOptions &options) {
    TORCH_CHECK(outs.size() == ins.size(), "[muster] all_gather: the lists have different lengths");
    Call call{"all_gather", OpType::_ALLGATHER_BASE, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &ins;
    call.operation.results = outs;
    for (size_t i = 0; i < ins.size(); i++) {
        check_tensors(pair(ins[i], outs[i]), "all_gather");
        check_blocks(outs[i], ins[i], size_, "all_gather");
        auto flat = input(ins[i], &call.operation), to = output(outs[i], &call.operation);
        auto payload = payload_of(flat);
        call.posts.push_back([=](mst_call made) {
            return mst_all_gather_into_tensor_with(to.data_ptr(), flat.data_ptr(),
                                                   payload.count(flat.numel()), payload.dtype, &made);
        });
    }
    return run(std::move(call));
}

Backend::Result Backend::allgather_coalesced(std::vector<Tensors> &output_lists, Tensors &input_list,
                                             const c10d::AllgatherOptions &options) {
    TORCH_CHECK(output_lists.size() == static_cast<size_t>(size_),
                "[muster] all_gather takes one list of outputs for each rank");
    Call call{"all_gather", OpType::ALLGATHER_COALESCED, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &input_list;
    check_tensors(input_list, "all_gather");
    for (auto &list : output_lists)
        call.operation.results.insert(call.operation.results.end(), list.begin(), list.end());
    for (size_t i = 0; i < input_list.size(); i++) {
        Tensors of_ranks;
        for (auto &list : output_lists) {
            TORCH_CHECK(list.size() == input_list.size(), "[muster] all_gather: a list of outputs has ",
                        list.size(), " tensors, but there are ", input_list.size(), " inputs");
            of_ranks.push_back(list[i]);
            check_blocks(list[i], input_list[i], 1, "all_gather");
        }
        check_tensors(of_ranks, "all_gather");
        auto flat = input(input_list[i], &call.operation);
        auto outs = outputs(of_ranks, &call.operation);
        auto list = std::make_shared<std::vector<void *>>(addresses(outs));
        auto payload = payload_of(flat);
        call.posts.push_back([=](mst_call made) {
            return mst_all_gather_with(list->data(), flat.data_ptr(), payload.count(flat.numel()),
                                       payload.dtype, &made);
        });
    }
    auto posts = std::make_shared<std::vector<Post>>(call.posts); // they own the lists
    call.operation.lists = posts;
    return run(std::move(call));
}

Backend::Result Backend::gather(std::vector<Tensors> &output_lists, Tensors &input_list,
                                const c10d::GatherOptions &options) {
    check_one(input_list, "gather");
    Call call{"gather", OpType::GATHER, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &input_list;
    int root = static_cast<int>(options.rootRank);
    auto flat = input(input_list[0], &call.operation);
    auto payload = payload_of(flat);
    at::Tensor whole;
    if (root == rank_) {
        TORCH_CHECK(output_lists.size() == 1, "[muster] gather: the root gives one list of outputs");
        check_count(output_lists[0], size_, "gather");
        auto outs = output_lists[0];
        for (auto &out : outs) check_blocks(out, flat, 1, "gather");
        whole = at::empty({size_ * flat.numel()}, flat.options());
        call.operation.results = outs;
        call.operation.finish = [outs, whole, n = flat.numel()] {
            at::AutoDispatchBelowADInplaceOrView no_autograd;
            for (size_t i = 0; i < outs.size(); i++)
                at::Tensor(outs[i]).copy_(
                    whole.narrow(0, static_cast<int64_t>(i) * n, n).view(outs[i].sizes()));
        };
    } else {
        check_none(output_lists, "gather");
    }
    call.posts.push_back([=](mst_call made) {
        made.root = root;
        return mst_gather_with(whole.defined() ? whole.data_ptr() : nullptr, flat.data_ptr(),
                               payload.count(flat.numel()), payload.dtype, &made);
    });
    call.operation.tensors.push_back(whole);
    return run(std::move(call));
}

Backend::Result Backend::scatter(Tensors &output_list, std::vector<Tensors> &input_lists,
                                 const c10d::ScatterOptions &options) {
    check_one(output_list, "scatter");
    Call call{"scatter", OpType::SCATTER, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &output_list;
    int root = static_cast<int>(options.rootRank);
    auto to = output(output_list[0], &call.operation);
    auto payload = payload_of(to);
    call.operation.results = output_list;
    at::Tensor whole;
    if (root == rank_) {
        TORCH_CHECK(input_lists.size() == 1, "[muster] scatter: the root gives one list of inputs");
        check_count(input_lists[0], size_, "scatter");
        Tensors rows;
        for (auto &in : input_lists[0]) {
            check_blocks(in, to, 1, "scatter");
            rows.push_back(in.reshape({-1}));
        }
        at::AutoDispatchBelowADInplaceOrView no_autograd;
        whole = at::cat(rows);
    } else {
        check_none(input_lists, "scatter");
    }
    call.operation.tensors.push_back(whole);
    call.posts.push_back([=](mst_call made) {
        made.root = root;
        return mst_scatter_with(to.data_ptr(), whole.defined() ? whole.data_ptr() : nullptr,
                                payload.count(to.numel()), payload.dtype, &made);
    });
    return run(std::move(call));
}

Backend::Result Backend::reduce_scatter(Tensors &output_list, std::vector<Tensors> &input_lists,
                                        const c10d::ReduceScatterOptions &options) {
    check_one(output_list, "reduce_scatter");
    TORCH_CHECK(input_lists.size() == 1, "[muster] reduce_scatter takes one list of inputs");
    check_count(input_lists[0], size_, "reduce_scatter");
    check_types(input_lists[0], output_list[0], "reduce_scatter");
    check_blocks(input_lists[0][static_cast<size_t>(rank_)], output_list[0], 1, "reduce_scatter");
    Call call{"reduce_scatter", OpType::REDUCE_SCATTER, options.asyncOp, options.timeout, {}, {}};
    call.inputs = input_lists.data();
    auto to = output(output_list[0], &call.operation);
    auto ins = inputs(input_lists[0], &call.operation);
    call.operation.results = output_list;
    auto lists = lists_of(&call.operation);
    lists->ins = addresses(ins);
    lists->in_counts = counts_of(ins, {dtype_of(to), 1});
    bool differ = have_different_counts(lists->in_counts);
    call.posts.push_back([=, op = options.reduceOp](mst_call made) {
        set_reduction(op, &made);
        if (differ) made.counts = lists->in_counts.data();
        return mst_reduce_scatter_with(to.data_ptr(), lists->ins.data(), static_cast<size_t>(to.numel()),
                                       dtype_of(to), &made);
    });
    return run(std::move(call));
}

Backend::Result Backend::_reduce_scatter_base(at::Tensor &out, at::Tensor &in,
                                              const c10d::ReduceScatterOptions &options) {
    Tensors ins{in}, outs{out};
    return reduce_scatter_tensor_coalesced(outs, ins, options);
}

Backend::Result Backend::reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins,
                                                         const c10d::ReduceScatterOptions &options) {
    TORCH_CHECK(outs.size() == ins.size(), "[muster] reduce_scatter: the lists have different lengths");
    Call call{"reduce_scatter", OpType::_REDUCE_SCATTER_BASE, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &ins;
    call.operation.results = outs;
    for (size_t i = 0; i < ins.size(); i++) {
        check_tensors(pair(ins[i], outs[i]), "reduce_scatter");
        check_blocks(ins[i], outs[i], size_, "reduce_scatter");
        auto flat = input(ins[i], &call.operation), to = output(outs[i], &call.operation);
        call.posts.push_back([=, op = options.reduceOp](mst_call made) {
            set_reduction(op, &made);
            return mst_reduce_scatter_tensor_with(to.data_ptr(), flat.data_ptr(),
                                                  static_cast<size_t>(to.numel()), dtype_of(to), &made);
        });
    }
    return run(std::move(call));
}

/* Elements to or from each rank: the splits in rows, or equal parts. */
static std::vector<size_t> split_counts(const at::Tensor &tensor, const std::vector<int64_t> &splits,
                                        int size, const Payload &payload) {
    int64_t rows = tensor.dim() ? tensor.size(0) : 1, row = rows ? tensor.numel() / rows : 0, total = 0;
    std::vector<size_t> counts;
    if (splits.empty()) {
        TORCH_CHECK(rows % size == 0, "[muster] all_to_all: ", size, " ranks cannot divide ", rows, " rows");
        return std::vector<size_t>(static_cast<size_t>(size), payload.count(rows / size * row));
    }
    TORCH_CHECK(splits.size() == static_cast<size_t>(size), "[muster] all_to_all: there are ", splits.size(),
                " splits, but ", size, " ranks");
    for (auto split : splits) {
        total += split;
        counts.push_back(payload.count(split * row));
    }
    TORCH_CHECK(total == rows, "[muster] all_to_all: the splits have ", total, " rows, but the tensor has ",
                rows);
    return counts;
}

Backend::Result Backend::alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &output_splits,
                                       std::vector<int64_t> &input_splits,
                                       const c10d::AllToAllOptions &options) {
    check_tensors(pair(in, out), "all_to_all");
    Call call{"all_to_all", OpType::ALLTOALL_BASE, options.asyncOp, options.timeout, {}, {}};
    Tensors ins{in};
    call.inputs = &ins;
    auto flat = input(in, &call.operation), to = output(out, &call.operation);
    call.operation.results = {out};
    auto payload = payload_of(flat);
    auto lists = lists_of(&call.operation);
    bool split = !output_splits.empty() || !input_splits.empty();
    check_types({out}, in, "all_to_all");
    TORCH_CHECK(split || in.numel() == out.numel(), "[muster] all_to_all: the tensors have ", in.numel(),
                " and ", out.numel(), " elements");
    lists->out_counts = split_counts(out, output_splits, size_, payload);
    lists->in_counts = split_counts(in, input_splits, size_, payload);
    call.posts.push_back([=](mst_call made) {
        if (split) {
            made.in_splits = lists->in_counts.data();
            made.out_splits = lists->out_counts.data();
        }
        return mst_all_to_all_single_with(to.data_ptr(), flat.data_ptr(), split ? 0 : lists->in_counts[0],
                                          payload.dtype, &made);
    });
    return run(std::move(call));
}

Backend::Result Backend::alltoall(Tensors &output_list, Tensors &input_list,
                                  const c10d::AllToAllOptions &options) {
    check_count(output_list, size_, "all_to_all");
    check_count(input_list, size_, "all_to_all");
    check_types(output_list, input_list[0], "all_to_all");
    check_types(input_list, input_list[0], "all_to_all");
    Call call{"all_to_all", OpType::ALLTOALL, options.asyncOp, options.timeout, {}, {}};
    call.inputs = &input_list;
    auto ins = inputs(input_list, &call.operation), outs = outputs(output_list, &call.operation);
    call.operation.results = output_list;
    auto payload = payload_of(ins[0]);
    auto lists = lists_of(&call.operation);
    lists->ins = addresses(ins);
    lists->outs = addresses(outs);
    lists->in_counts = counts_of(ins, payload);
    lists->out_counts = counts_of(outs, payload);
    call.posts.push_back([=](mst_call made) {
        made.in_splits = lists->in_counts.data();
        made.out_splits = lists->out_counts.data();
        return mst_all_to_all_with(lists->outs.data(), lists->ins.data(), 0, payload.dtype, &made);
    });
    return run(std::move(call));
}

Backend::Result Backend::message(const char *name, OpType type, Tensors &tensors, bool receives, int peer,
                                 int tag) {
    Use use(*users_);
    TORCH_CHECK(!ended_, "[muster] ", name, ": the process group was shut down");
    check_one(tensors, name);
    Operation operation;
    auto flat = receives ? output(tensors[0], &operation) : input(tensors[0], &operation);
    operation.results = tensors;
    auto payload = payload_of(flat);
    auto work = c10::make_intrusive<Work>(WorkOrigin{rank_, type, sequence_, name, &tensors},
                                          std::move(operation), users_);
    mst_call call = options_for(c10d::kUnsetTimeout);
    mst_work *begun = nullptr;
    call.tag = tag;
    call.work = &begun;
    if (receives) call.sender = work->sender();
    size_t count = payload.count(flat.numel());
    check(receives ? mst_irecv_with(flat.data_ptr(), count, payload.dtype, peer, &call)
                   : mst_isend_with(flat.data_ptr(), count, payload.dtype, peer, &call),
          name);
    work->begin({begun});
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
    Call call{"barrier", OpType::BARRIER, options.asyncOp, options.timeout, {}, {}};
    call.posts.push_back([](const mst_call &made) { return mst_barrier_with(&made); });
    return run(std::move(call));
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
    Use use(*users_);
    TORCH_CHECK(!ended_, "[muster] monitored_barrier: the process group was shut down");
    std::lock_guard<std::mutex> guard(collectives_);
    mst_call call = options_for(options.timeout);
    call.wait_all_ranks = wait_all_ranks;
    mst_status status = mst_monitored_barrier_with(&call);
    auto timeout = options.timeout < kNoTimeout ? options_->timeout : options.timeout;
    if (status != MST_OK) fail_monitored_barrier(status, timeout, wait_all_ranks);
}

} // namespace muster_torch
