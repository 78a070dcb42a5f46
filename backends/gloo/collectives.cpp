/* collectives.cpp - one function for each kind of collective. Gloo is called only to transfer bytes. */
#include "collectives.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/logging.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <numeric>

namespace muster_gloo {

namespace {

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
/* A Gloo slot. Gloo's collectives use prefixes (the upper 8 bits) of at most 8. */
constexpr uint64_t BLOCK_SLOT = uint64_t(0x41) << 56; /* plus the length */

using Reduction = std::function<void(void *, const void *, const void *, size_t)>;

/* One collective and its Gloo buffers. */
class Call {
  public:
    Call(Collectives &owner, const mst_backend_op &what)
        : group(owner), op(what), bytes(what.count * what.element) {}

    Buffer buffer(const void *memory, size_t length) {
        Buffer made = group.context->createUnboundBuffer(const_cast<void *>(memory), length);
        buffers_.push_back(made.get());
        return made;
    }

    /* Calls Gloo. The buffers can be interrupted until it returns or throws. */
    template <typename Options, typename Function> void call_gloo(Options &options, Function function) {
        struct Reset {
            ActiveBuffers &active;
            ~Reset() {
                active.set({});
            }
        } reset{group.active};
        group.active.set(buffers_);
        function(options);
    }

    Collectives &group;
    const mst_backend_op &op;
    const size_t bytes; /* of count elements */

  private:
    std::vector<gloo::transport::UnboundBuffer *> buffers_;
};

char *at_offset(const void *memory, size_t offset) {
    return static_cast<char *>(const_cast<void *>(memory)) + offset;
}

void copy(void *to, const void *from, size_t bytes) {
    if (bytes && to != from) memmove(to, from, bytes);
}

size_t sum(const size_t *counts, int ranks) {
    return std::accumulate(counts, counts + ranks, size_t(0));
}

bool reduces(const mst_backend_op &op) {
    return op.kind == MST_KIND_ALL_REDUCE || op.kind == MST_KIND_REDUCE;
}

/*
 * Mismatched calls get different tags, so that they wait until muster's deadline: Gloo would abort the
 * process if lengths differ.
 */
uint32_t tag_of(const mst_backend_op &op, int ranks) {
    uint64_t words[] = {
        op.kind == MST_KIND_ALL_TO_ALL ? 0
                                       : (op.out_counts ? sum(op.out_counts, ranks) : op.count) * op.element,
        static_cast<uint64_t>(op.root + 1),
        reduces(op) ? op.op * 64 + op.dtype : uint64_t(0),
    };
    uint64_t hash = 14695981039346656037U;
    for (uint64_t word : words) hash = (hash ^ word ^ word >> 29) * 1099511628211U;
    return static_cast<uint32_t>(hash >> 32);
}

template <typename Options> Options begin(Call &call) {
    Options options(call.group.context);
    options.setTimeout(FOREVER);
    options.setTag(tag_of(call.op, call.group.ranks));
    return options;
}

/* Gloo's setters are templates: calls set with a value of a type as large as the element. */
template <typename Setter> void with_type(size_t element, Setter set) {
    switch (element) {
    case 1:
        return set(uint8_t());
    case 2:
        return set(uint16_t());
    case 4:
        return set(uint32_t());
    case 16:
        return set(std::complex<double>());
    default:
        return set(uint64_t());
    }
}

/* Sets the buffers of a reduction. in is NULL or equal to out for an operation in place. */
template <typename Options> void set_buffers(Options &options, Call &call, const void *in, void *out) {
    with_type(call.op.element, [&](auto zero) {
        using Type = decltype(zero);
        if (in && in != out) options.template setInput<Type>(call.buffer(in, call.bytes));
        options.template setOutput<Type>(call.buffer(out, call.bytes));
    });
}

Reduction reduction(const Call &call) {
    return [combine = call.group.combine, dtype = call.op.dtype,
            op = call.op.op](void *out, const void *a, const void *b, size_t count) {
        combine(dtype, op, out, a, b, count);
    };
}

void barrier(Call &call) {
    auto options = begin<gloo::BarrierOptions>(call);
    call.call_gloo(options, [](auto &set) { gloo::barrier(set); });
}

void broadcast(Call &call) {
    auto options = begin<gloo::BroadcastOptions>(call);
    options.setRoot(call.op.root);
    if (call.group.rank == call.op.root && call.op.in && call.op.in != call.op.out) {
        options.setInput<char>(call.buffer(call.op.in, call.bytes));
    }
    options.setOutput<char>(call.buffer(call.op.out, call.bytes));
    call.call_gloo(options, [](auto &set) { gloo::broadcast(set); });
}

void all_reduce(Call &call) {
    auto options = begin<gloo::AllreduceOptions>(call);
    set_buffers(options, call, call.op.in, call.op.out);
    options.setReduceFunction(reduction(call));
    call.call_gloo(options, [](auto &set) { gloo::allreduce(set); });
}

/* Gloo needs an output buffer on all ranks. In muster only the root has one. */
void reduce(Call &call) {
    std::unique_ptr<char[]> scratch;
    void *out = call.op.out;
    const void *in = call.op.in ? call.op.in : out;
    if (call.group.rank != call.op.root) {
        scratch.reset(new char[call.bytes]);
        out = scratch.get();
    }
    auto options = begin<gloo::ReduceOptions>(call);
    options.setRoot(call.op.root);
    set_buffers(options, call, in, out);
    options.setReduceFunction(reduction(call));
    call.call_gloo(options, [](auto &set) { gloo::reduce(set); });
}

void all_gather(Call &call) {
    auto options = begin<gloo::AllgatherOptions>(call);
    if (call.op.in != at_offset(call.op.out, call.group.rank * call.bytes)) {
        options.setInput<char>(call.buffer(call.op.in, call.bytes));
    }
    options.setOutput<char>(call.buffer(call.op.out, call.bytes * call.group.ranks));
    call.call_gloo(options, [](auto &set) { gloo::allgather(set); });
}

void all_gather_uneven(Call &call) {
    std::vector<size_t> blocks(call.op.out_counts, call.op.out_counts + call.group.ranks);
    for (size_t &block : blocks) block *= call.op.element;
    size_t before = sum(blocks.data(), call.group.rank), all = sum(blocks.data(), call.group.ranks);
    size_t mine = blocks[call.group.rank];
    auto options = begin<gloo::AllgathervOptions>(call);
    if (mine && call.op.in != at_offset(call.op.out, before)) {
        options.setInput<char>(call.buffer(call.op.in, mine));
    }
    options.setOutput<char>(call.buffer(call.op.out, all), std::move(blocks));
    call.call_gloo(options, [](auto &set) { gloo::allgatherv(set); });
}

void all_to_all(Call &call) {
    size_t all = call.bytes * call.group.ranks;
    auto options = begin<gloo::AlltoallOptions>(call);
    options.setInput<char>(call.buffer(call.op.in, all));
    options.setOutput<char>(call.buffer(call.op.out, all));
    call.call_gloo(options, [](auto &set) { gloo::alltoall(set); });
}

/* The offset of each rank's block in bytes, and the end. */
std::vector<size_t> block_offsets(const Call &call, const size_t *counts) {
    std::vector<size_t> at(call.group.ranks + 1);
    for (int r = 0; r < call.group.ranks; r++) {
        at[r + 1] = at[r] + (counts ? counts[r] : call.op.count) * call.op.element;
    }
    return at;
}

/*
 * Like gloo::alltoallv, but the length of a block is part of its slot: blocks of mismatched lengths must not
 * match (see tag_of), and only the two ranks know the length.
 */
void all_to_all_uneven(Call &call) {
    const int rank = call.group.rank, ranks = call.group.ranks;
    auto in_at = block_offsets(call, call.op.in_counts), out_at = block_offsets(call, call.op.out_counts);
    size_t own = in_at[rank + 1] - in_at[rank];
    GLOO_ENFORCE(own == out_at[rank + 1] - out_at[rank], "the counts of a rank's block for itself differ");
    copy(at_offset(call.op.out, out_at[rank]), at_offset(call.op.in, in_at[rank]), own);
    Buffer in = call.buffer(call.op.in, in_at[ranks]), out = call.buffer(call.op.out, out_at[ranks]);
    call.call_gloo(in, [&](Buffer &) {
        for (int i = 1; i < ranks; i++) {
            int to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
            size_t sent = in_at[to + 1] - in_at[to], received = out_at[from + 1] - out_at[from];
            in->send(to, BLOCK_SLOT + sent, in_at[to], sent);
            out->recv(from, BLOCK_SLOT + received, out_at[from], received);
        }
        for (int i = 1; i < ranks; i++) {
            in->waitSend(FOREVER);
            out->waitRecv(FOREVER);
        }
    });
}

void gather(Call &call) {
    auto options = begin<gloo::GatherOptions>(call);
    options.setRoot(call.op.root);
    options.setInput<char>(call.buffer(call.op.in, call.bytes));
    if (call.group.rank == call.op.root) {
        options.setOutput<char>(call.buffer(call.op.out, call.bytes * call.group.ranks));
    }
    call.call_gloo(options, [](auto &set) { gloo::gather(set); });
}

void scatter(Call &call) {
    auto options = begin<gloo::ScatterOptions>(call);
    options.setRoot(call.op.root);
    if (call.group.rank == call.op.root) {
        std::vector<Buffer> blocks;
        for (int r = 0; r < call.group.ranks; r++) {
            blocks.push_back(call.buffer(at_offset(call.op.in, r * call.bytes), call.bytes));
        }
        options.setInputs<char>(std::move(blocks));
    }
    options.setOutput<char>(call.buffer(call.op.out, call.bytes));
    call.call_gloo(options, [](auto &set) { gloo::scatter(set); });
}

/* Is there nothing to transfer on any rank? Gloo divides by the length. */
bool is_empty(const mst_backend_op &op, int ranks) {
    if (op.kind == MST_KIND_BARRIER) return false;
    if (op.in_counts || op.out_counts) { /* a rank does not know all counts of all_to_all */
        return op.kind != MST_KIND_ALL_TO_ALL && sum(op.out_counts, ranks) == 0;
    }
    return op.count == 0;
}

/* In a group of one rank the result is the input. A reduction normalizes a bool to 0 or 1. */
void run_alone(const mst_backend_op &op) {
    if (op.kind == MST_KIND_BARRIER || !op.out) return;
    const size_t *counts = op.out_counts ? op.out_counts : op.in_counts;
    if (op.in) copy(op.out, op.in, (counts ? counts[0] : op.count) * op.element);
    if (!reduces(op) || op.dtype != MST_BOOL) return;
    auto *values = static_cast<unsigned char *>(op.out);
    std::transform(values, values + op.count, values, [](unsigned char value) { return value != 0; });
}

} // namespace

void ActiveBuffers::set(std::vector<gloo::transport::UnboundBuffer *> buffers) {
    std::lock_guard lock(mutex_);
    buffers_ = std::move(buffers);
}

void ActiveBuffers::interrupt() {
    std::lock_guard lock(mutex_);
    for (auto *buffer : buffers_) {
        buffer->abortWaitRecv();
        buffer->abortWaitSend();
    }
}

void Collectives::run(const mst_backend_op &op) {
    if (ranks == 1) return run_alone(op);
    if (is_empty(op, ranks)) return;
    Call call(*this, op);
    bool uneven = op.in_counts || op.out_counts;
    switch (op.kind) {
    case MST_KIND_BARRIER:
        return barrier(call);
    case MST_KIND_BROADCAST:
        return broadcast(call);
    case MST_KIND_ALL_REDUCE:
        return all_reduce(call);
    case MST_KIND_REDUCE:
        return reduce(call);
    case MST_KIND_ALL_GATHER:
        return uneven ? all_gather_uneven(call) : all_gather(call);
    case MST_KIND_ALL_TO_ALL:
        return uneven ? all_to_all_uneven(call) : all_to_all(call);
    case MST_KIND_GATHER:
        return gather(call);
    case MST_KIND_SCATTER:
        return scatter(call);
    default:
        GLOO_ENFORCE(false, "unsupported kind of collective: ", static_cast<int>(op.kind));
    }
}

/* Gloo cannot close connections and wake waiting threads. A wait that times out does both. */
void close_connections(gloo::Context &context) {
    char byte;
    try {
        context.createUnboundBuffer(&byte, 1)->waitRecv(std::chrono::milliseconds(1));
    } catch (const std::exception &) {
    }
}

} // namespace muster_gloo
