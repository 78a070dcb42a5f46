/* collectives.cpp - the collectives of backend.hpp. Each describes its call, and Backend::run makes it. */
#include "backend.hpp"
#include "operation.hpp"
#include "tensors.hpp"

#include <algorithm>

namespace muster_torch {

using c10d::OpType;
using Tensors = Backend::Tensors;

static void check_one(const Tensors &tensors, const char *call) {
    TORCH_CHECK(tensors.size() == 1, "[muster] ", call, " takes one tensor, not ", tensors.size());
    check_tensors(tensors, call);
}

static void check_count(const Tensors &tensors, int count, const char *call) {
    TORCH_CHECK(tensors.size() == static_cast<size_t>(count), "[muster] ", call, ": the list has ",
                tensors.size(), " tensors, but the group has ", count, " ranks");
    check_tensors(tensors, call);
}

/* Fails unless there is an input for each output. */
static void check_pairs(const Tensors &outs, const Tensors &ins, const char *call) {
    TORCH_CHECK(outs.size() == ins.size(), "[muster] ", call, ": the lists have different lengths");
    check_tensors(ins, call);
    check_tensors(outs, call);
}

static void check_none(const std::vector<Tensors> &lists, const char *call) {
    TORCH_CHECK(lists.empty(), "[muster] ", call, ": only the root gives a list of tensors");
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

/* Fails unless there are tensors, which have the same type and size. */
static void check_alike(const Tensors &tensors, const char *call) {
    TORCH_CHECK(!tensors.empty(), "[muster] ", call, " takes a tensor, or several");
    check_tensors(tensors, call);
    check_types(tensors, tensors[0], call);
    for (const auto &tensor : tensors)
        TORCH_CHECK(tensor.sizes() == tensors[0].sizes(), "[muster] ", call, ": the tensors have sizes ",
                    tensors[0].sizes(), " and ", tensor.sizes());
}

static size_t check_index(const Tensors &tensors, int64_t index, const char *call) {
    TORCH_CHECK(index >= 0 && static_cast<size_t>(index) < tensors.size(), "[muster] ", call,
                ": the root tensor is number ", index, " of ", tensors.size());
    return static_cast<size_t>(index);
}

/* The reduction of the tensors of this rank, which count as those of several ranks. */
static at::Tensor reduce_own(const Tensors &tensors, const c10d::ReduceOp &op, const char *call) {
    if (tensors.size() == 1) return tensors[0];
    at::AutoDispatchBelowADInplaceOrView no_autograd;
    auto all = at::stack(tensors), result = all[0];
    for (int64_t i = 1; i < all.size(0); i++) {
        if (op.op_ == c10d::ReduceOp::SUM)
            result.add_(all[i]);
        else if (op.op_ == c10d::ReduceOp::PRODUCT)
            result.mul_(all[i]);
        else if (op.op_ == c10d::ReduceOp::MIN)
            result.copy_(at::minimum(result, all[i]));
        else if (op.op_ == c10d::ReduceOp::MAX)
            result.copy_(at::maximum(result, all[i]));
        else if (op.op_ == c10d::ReduceOp::BAND)
            result.bitwise_and_(all[i]);
        else if (op.op_ == c10d::ReduceOp::BOR)
            result.bitwise_or_(all[i]);
        else if (op.op_ == c10d::ReduceOp::BXOR)
            result.bitwise_xor_(all[i]);
        else
            TORCH_CHECK(false, "[muster] ", call, " of several tensors does not support this reduction");
    }
    return result;
}

/* After the operation the other tensors get the values of one. */
static void give_all(const Tensors &tensors, const at::Tensor &one, Operation *operation) {
    for (const auto &tensor : tensors)
        if (!tensor.is_same(one)) operation->copies.emplace_back(tensor, one);
}

static size_t count_of(const at::Tensor &tensor) {
    return static_cast<size_t>(tensor.numel());
}

static std::vector<size_t> counts_of(const Tensors &tensors) {
    std::vector<size_t> counts;
    for (const auto &tensor : tensors) counts.push_back(count_of(tensor));
    return counts;
}

/* For .counts: NULL if all are equal. */
static const size_t *different(const std::vector<size_t> &counts) {
    bool differ = std::any_of(counts.begin(), counts.end(), [&](size_t count) { return count != counts[0]; });
    return differ ? counts.data() : nullptr;
}

/* The arguments of a coalesced call. */
struct Coalesced {
    std::vector<void *> outs, ins;
    std::vector<size_t> counts;
    std::vector<mst_dtype> dtypes;

    void add(const at::Tensor &out, const at::Tensor &in, const at::Tensor &part, mst_dtype dtype) {
        outs.push_back(out.data_ptr());
        ins.push_back(in.data_ptr());
        counts.push_back(count_of(part));
        dtypes.push_back(dtype);
    }
};

Backend::Result Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
    check_alike(tensors, "broadcast");
    const auto &one = tensors[check_index(tensors, options.rootTensor, "broadcast")];
    auto call = describe("broadcast", OpType::BROADCAST, options.asyncOp, options.timeout, &tensors);
    auto flat = in_place(one, &call.operation);
    give_all(tensors, one, &call.operation);
    call.operation.results = tensors;
    return run(std::move(call), [&](mst_call &made) {
        made.root = static_cast<int>(options.rootRank);
        return mst_broadcast_with(flat.data_ptr(), count_of(flat), dtype_of(flat), &made);
    });
}

Backend::Result Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
    if (!tensors.empty() && tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
    check_alike(tensors, "all_reduce");
    auto call = describe("all_reduce", OpType::ALLREDUCE, options.asyncOp, options.timeout, &tensors);
    auto own = reduce_own(tensors, options.reduceOp, "all_reduce");
    auto flat = in_place(own, &call.operation);
    give_all(tensors, own, &call.operation);
    call.operation.results = tensors;
    auto dtype = reduced_dtype_of(flat);
    return run(std::move(call), [&](mst_call &made) {
        set_reduction(options.reduceOp, &made);
        return mst_all_reduce_with(flat.data_ptr(), count_of(flat), dtype, &made);
    });
}

Backend::Result Backend::allreduce_coalesced(Tensors &tensors,
                                             const c10d::AllreduceCoalescedOptions &options) {
    check_tensors(tensors, "all_reduce");
    auto call =
        describe("all_reduce", OpType::ALLREDUCE_COALESCED, options.asyncOp, options.timeout, &tensors);
    call.operation.results = tensors;
    Coalesced all;
    for (const auto &flat : each(in_place, tensors, &call.operation))
        all.add(flat, flat, flat, reduced_dtype_of(flat));
    return run(std::move(call), [&](mst_call &made) {
        set_reduction(options.reduceOp, &made);
        made.dtypes = all.dtypes.data();
        return mst_all_reduce_coalesced_with(all.outs.data(), all.counts.data(), all.outs.size(), MST_U8,
                                             &made);
    });
}

/* Sums: gathers the elements of all ranks, whose numbers may differ, and adds those at the same place. */
Backend::Result Backend::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
    bool sum_only = tensors.size() == 1 && tensors[0].is_sparse() && options.reduceOp == c10d::ReduceOp::SUM;
    TORCH_CHECK(sum_only, "[muster] all_reduce of sparse tensors takes one, and supports SUM only");
    auto own = tensors[0].cpu().coalesce();
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
    tensors[0].copy_(sum.to(tensors[0].device()));
    auto work = c10::make_intrusive<Work>(
        WorkOrigin{rank_, OpType::_ALLREDUCE_SPARSE, sequence_, "sparse_all_reduce", &tensors},
        Operation{{}, tensors, {}, nullptr}, state_);
    work->complete();
    return work;
}

Backend::Result Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
    check_alike(tensors, "reduce");
    const auto &one = tensors[check_index(tensors, options.rootTensor, "reduce")];
    auto call = describe("reduce", OpType::REDUCE, options.asyncOp, options.timeout, &tensors);
    int root = static_cast<int>(options.rootRank);
    auto own = reduce_own(tensors, options.reduceOp, "reduce");
    auto flat = (root == rank_ ? in_place : input)(own, &call.operation);
    if (root == rank_) give_all({one}, own, &call.operation);
    call.operation.results = tensors;
    auto dtype = reduced_dtype_of(flat);
    return run(std::move(call), [&](mst_call &made) {
        set_reduction(options.reduceOp, &made);
        made.root = root;
        return mst_reduce_with(flat.data_ptr(), count_of(flat), dtype, &made);
    });
}

Backend::Result Backend::allgather(std::vector<Tensors> &output_lists, Tensors &input_list,
                                   const c10d::AllgatherOptions &options) {
    if (input_list.size() > 1) return allgather_several(output_lists, input_list, options);
    check_one(input_list, "all_gather");
    TORCH_CHECK(output_lists.size() == 1, "[muster] all_gather takes one list of outputs");
    check_count(output_lists[0], size_, "all_gather");
    check_types(output_lists[0], input_list[0], "all_gather");
    check_blocks(output_lists[0][static_cast<size_t>(rank_)], input_list[0], 1, "all_gather");
    auto call = describe("all_gather", OpType::ALLGATHER, options.asyncOp, options.timeout, &input_list);
    auto flat = input(input_list[0], &call.operation);
    auto outs = each(output, output_lists[0], &call.operation);
    call.operation.results = output_lists[0];
    auto to = addresses(outs);
    auto counts = counts_of(outs);
    return run(std::move(call), [&](mst_call &made) {
        made.counts = different(counts);
        return mst_all_gather_with(to.data(), flat.data_ptr(), count_of(flat), dtype_of(flat), &made);
    });
}

/* Several inputs of each rank. Each list of outputs gets those of all ranks. */
Backend::Result Backend::allgather_several(std::vector<Tensors> &output_lists, Tensors &input_list,
                                           const c10d::AllgatherOptions &options) {
    check_alike(input_list, "all_gather");
    TORCH_CHECK(output_lists.size() == input_list.size(),
                "[muster] all_gather takes one list of outputs for each input");
    auto call = describe("all_gather", OpType::ALLGATHER, options.asyncOp, options.timeout, &input_list);
    at::AutoDispatchBelowADInplaceOrView no_autograd;
    int n = size_ * static_cast<int>(input_list.size());
    auto flat = input(at::stack(input_list), &call.operation);
    auto whole = buffer_like(input_list[0], {n, input_list[0].numel()}, &call.operation);
    for (auto &list : output_lists) {
        check_count(list, n, "all_gather");
        check_types(list, flat, "all_gather");
        for (int i = 0; i < n; i++) {
            auto &to = list[static_cast<size_t>(i)];
            check_blocks(to, input_list[0], 1, "all_gather");
            call.operation.copies.emplace_back(to, whole[i].view(to.sizes()));
        }
        call.operation.results.insert(call.operation.results.end(), list.begin(), list.end());
    }
    std::vector<void *> to;
    for (int r = 0; r < size_; r++) to.push_back(whole[r * n / size_].data_ptr());
    return run(std::move(call), [&](mst_call &made) {
        return mst_all_gather_with(to.data(), flat.data_ptr(), count_of(flat), dtype_of(flat), &made);
    });
}

Backend::Result Backend::_allgather_base(at::Tensor &out, at::Tensor &in,
                                         const c10d::AllgatherOptions &options) {
    Tensors ins{in}, outs{out};
    return allgather_into_tensor_coalesced(outs, ins, options);
}

Backend::Result Backend::allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins,
                                                         const c10d::AllgatherOptions &options) {
    check_pairs(outs, ins, "all_gather");
    auto call = describe("all_gather", OpType::_ALLGATHER_BASE, options.asyncOp, options.timeout, &ins);
    call.operation.results = outs;
    Coalesced all;
    for (size_t i = 0; i < ins.size(); i++) {
        check_blocks(outs[i], ins[i], size_, "all_gather");
        auto flat = input(ins[i], &call.operation), to = output(outs[i], &call.operation);
        all.add(to, flat, flat, dtype_of(flat));
    }
    return run(std::move(call), [&](mst_call &made) {
        made.dtypes = all.dtypes.data();
        return mst_all_gather_coalesced_with(all.outs.data(), all.ins.data(), all.counts.data(),
                                             all.outs.size(), MST_U8, &made);
    });
}

/* Through a tensor with the blocks of all ranks for each input. */
Backend::Result Backend::allgather_coalesced(std::vector<Tensors> &output_lists, Tensors &input_list,
                                             const c10d::AllgatherOptions &options) {
    TORCH_CHECK(output_lists.size() == static_cast<size_t>(size_),
                "[muster] all_gather takes one list of outputs for each rank");
    auto call =
        describe("all_gather", OpType::ALLGATHER_COALESCED, options.asyncOp, options.timeout, &input_list);
    check_tensors(input_list, "all_gather");
    for (auto &list : output_lists) {
        TORCH_CHECK(list.size() == input_list.size(), "[muster] all_gather: a list of outputs has ",
                    list.size(), " tensors, but there are ", input_list.size(), " inputs");
        check_tensors(list, "all_gather");
        call.operation.results.insert(call.operation.results.end(), list.begin(), list.end());
    }
    Coalesced all;
    for (size_t i = 0; i < input_list.size(); i++) {
        auto flat = input(input_list[i], &call.operation);
        auto whole = buffer_like(input_list[i], {size_, flat.numel()}, &call.operation);
        for (int r = 0; r < size_; r++) {
            auto &to = output_lists[static_cast<size_t>(r)][i];
            check_blocks(to, flat, 1, "all_gather");
            call.operation.copies.emplace_back(to, whole[r].view(to.sizes()));
        }
        all.add(whole, flat, flat, dtype_of(flat));
    }
    return run(std::move(call), [&](mst_call &made) {
        made.dtypes = all.dtypes.data();
        return mst_all_gather_coalesced_with(all.outs.data(), all.ins.data(), all.counts.data(),
                                             all.outs.size(), MST_U8, &made);
    });
}

Backend::Result Backend::gather(std::vector<Tensors> &output_lists, Tensors &input_list,
                                const c10d::GatherOptions &options) {
    check_one(input_list, "gather");
    auto call = describe("gather", OpType::GATHER, options.asyncOp, options.timeout, &input_list);
    int root = static_cast<int>(options.rootRank);
    auto flat = input(input_list[0], &call.operation);
    std::vector<void *> outs;
    if (root == rank_) {
        TORCH_CHECK(output_lists.size() == 1, "[muster] gather: the root gives one list of outputs");
        check_count(output_lists[0], size_, "gather");
        for (auto &out : output_lists[0]) check_blocks(out, flat, 1, "gather");
        call.operation.results = output_lists[0];
        outs = addresses(each(output, output_lists[0], &call.operation));
    } else {
        check_none(output_lists, "gather");
    }
    return run(std::move(call), [&](mst_call &made) {
        made.root = root;
        return mst_gather_list_with(outs.data(), flat.data_ptr(), count_of(flat), dtype_of(flat), &made);
    });
}

Backend::Result Backend::scatter(Tensors &output_list, std::vector<Tensors> &input_lists,
                                 const c10d::ScatterOptions &options) {
    check_one(output_list, "scatter");
    auto call = describe("scatter", OpType::SCATTER, options.asyncOp, options.timeout, &output_list);
    int root = static_cast<int>(options.rootRank);
    auto to = output(output_list[0], &call.operation);
    call.operation.results = output_list;
    std::vector<void *> ins;
    if (root == rank_) {
        TORCH_CHECK(input_lists.size() == 1, "[muster] scatter: the root gives one list of inputs");
        check_count(input_lists[0], size_, "scatter");
        for (auto &in : input_lists[0]) check_blocks(in, to, 1, "scatter");
        ins = addresses(each(input, input_lists[0], &call.operation));
    } else {
        check_none(input_lists, "scatter");
    }
    return run(std::move(call), [&](mst_call &made) {
        made.root = root;
        return mst_scatter_list_with(to.data_ptr(), ins.data(), count_of(to), dtype_of(to), &made);
    });
}

Backend::Result Backend::reduce_scatter(Tensors &output_list, std::vector<Tensors> &input_lists,
                                        const c10d::ReduceScatterOptions &options) {
    check_one(output_list, "reduce_scatter");
    TORCH_CHECK(input_lists.size() == 1, "[muster] reduce_scatter takes one list of inputs");
    check_count(input_lists[0], size_, "reduce_scatter");
    check_types(input_lists[0], output_list[0], "reduce_scatter");
    check_blocks(input_lists[0][static_cast<size_t>(rank_)], output_list[0], 1, "reduce_scatter");
    auto call = describe("reduce_scatter", OpType::REDUCE_SCATTER, options.asyncOp, options.timeout,
                         input_lists.data());
    auto to = output(output_list[0], &call.operation);
    auto ins = each(input, input_lists[0], &call.operation);
    call.operation.results = output_list;
    auto dtype = reduced_dtype_of(to);
    auto from = addresses(ins);
    auto counts = counts_of(ins);
    return run(std::move(call), [&](mst_call &made) {
        set_reduction(options.reduceOp, &made);
        made.counts = different(counts);
        return mst_reduce_scatter_with(to.data_ptr(), from.data(), count_of(to), dtype, &made);
    });
}

Backend::Result Backend::_reduce_scatter_base(at::Tensor &out, at::Tensor &in,
                                              const c10d::ReduceScatterOptions &options) {
    Tensors ins{in}, outs{out};
    return reduce_scatter_tensor_coalesced(outs, ins, options);
}

Backend::Result Backend::reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins,
                                                         const c10d::ReduceScatterOptions &options) {
    check_pairs(outs, ins, "reduce_scatter");
    auto call =
        describe("reduce_scatter", OpType::_REDUCE_SCATTER_BASE, options.asyncOp, options.timeout, &ins);
    call.operation.results = outs;
    Coalesced all;
    for (size_t i = 0; i < ins.size(); i++) {
        check_blocks(ins[i], outs[i], size_, "reduce_scatter");
        auto flat = input(ins[i], &call.operation), to = output(outs[i], &call.operation);
        all.add(to, flat, to, reduced_dtype_of(to));
    }
    return run(std::move(call), [&](mst_call &made) {
        set_reduction(options.reduceOp, &made);
        made.dtypes = all.dtypes.data();
        return mst_reduce_scatter_coalesced_with(all.outs.data(), all.ins.data(), all.counts.data(),
                                                 all.outs.size(), MST_U8, &made);
    });
}

/* Elements to or from each rank: the splits in rows, or equal parts. */
static std::vector<size_t> split_counts(const at::Tensor &tensor, const std::vector<int64_t> &splits,
                                        int size) {
    int64_t rows = tensor.dim() ? tensor.size(0) : 1, row = rows ? tensor.numel() / rows : 0, total = 0;
    std::vector<size_t> counts;
    if (splits.empty()) {
        TORCH_CHECK(rows % size == 0, "[muster] all_to_all: ", size, " ranks cannot divide ", rows, " rows");
        return std::vector<size_t>(static_cast<size_t>(size), static_cast<size_t>(rows / size * row));
    }
    TORCH_CHECK(splits.size() == static_cast<size_t>(size), "[muster] all_to_all: there are ", splits.size(),
                " splits, but ", size, " ranks");
    for (auto split : splits) {
        TORCH_CHECK(split >= 0, "[muster] all_to_all: Split sizes must be non-negative, not ", split);
        total += split;
        counts.push_back(static_cast<size_t>(split * row));
    }
    TORCH_CHECK(total == rows, "[muster] all_to_all: the splits have ", total, " rows, but the tensor has ",
                rows);
    return counts;
}

Backend::Result Backend::alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &output_splits,
                                       std::vector<int64_t> &input_splits,
                                       const c10d::AllToAllOptions &options) {
    Tensors ins{in}, outs{out};
    check_pairs(outs, ins, "all_to_all");
    check_types(outs, in, "all_to_all");
    bool split = !output_splits.empty() || !input_splits.empty();
    TORCH_CHECK(split || in.numel() == out.numel(), "[muster] all_to_all: the tensors have ", in.numel(),
                " and ", out.numel(), " elements");
    auto call = describe("all_to_all", OpType::ALLTOALL_BASE, options.asyncOp, options.timeout, &ins);
    auto flat = input(in, &call.operation), to = output(out, &call.operation);
    call.operation.results = outs;
    auto in_counts = split_counts(in, input_splits, size_),
         out_counts = split_counts(out, output_splits, size_);
    return run(std::move(call), [&](mst_call &made) {
        if (split) {
            made.in_splits = in_counts.data();
            made.out_splits = out_counts.data();
        }
        return mst_all_to_all_single_with(to.data_ptr(), flat.data_ptr(), split ? 0 : in_counts[0],
                                          dtype_of(flat), &made);
    });
}

Backend::Result Backend::alltoall(Tensors &output_list, Tensors &input_list,
                                  const c10d::AllToAllOptions &options) {
    check_count(output_list, size_, "all_to_all");
    check_count(input_list, size_, "all_to_all");
    check_types(output_list, input_list[0], "all_to_all");
    check_types(input_list, input_list[0], "all_to_all");
    auto call = describe("all_to_all", OpType::ALLTOALL, options.asyncOp, options.timeout, &input_list);
    auto ins = each(input, input_list, &call.operation), outs = each(output, output_list, &call.operation);
    call.operation.results = output_list;
    auto in = addresses(ins), out = addresses(outs);
    auto in_counts = counts_of(ins), out_counts = counts_of(outs);
    return run(std::move(call), [&](mst_call &made) {
        made.in_splits = in_counts.data();
        made.out_splits = out_counts.data();
        return mst_all_to_all_with(out.data(), in.data(), 0, dtype_of(ins[0]), &made);
    });
}

} // namespace muster_torch
