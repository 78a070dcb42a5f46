/* collectives.cpp - one function for each kind; counts that need no transport never get to Gloo. */
#include "collectives.h"

#include <algorithm>
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
/* Slots of Gloo for what is not one of its collectives, which use prefixes (the upper 8 bits) of at most 8. */
constexpr uint64_t BLOCK_SLOT = uint64_t(0x41) << 56; /* plus the length */

using Reduction = std::function<void(void *, const void *, const void *, size_t)>;

/* One collective, and the buffers that were made for it. */
class Call {
  public:
    Call(Collectives &owner, const mst_backend_op &what)
        : group(owner), op(what), bytes(what.count * what.element) {}

    Buffer buffer(const void *memory, size_t length) {
        Buffer made = group.context->createUnboundBuffer(const_cast<void *>(memory), length);
        buffers_.push_back(made.get());
        return made;
    }

    /* Calls Gloo; the buffers are in the flight until it returns or throws. */
    template <typename Options, typename Function> void fly(Options &options, Function function) {
        struct Landing {
            Flight &flight;
            ~Landing() {
                flight.set({});
            }
        } landing{group.flight};
        group.flight.set(buffers_);
        function(options);
    }

    Collectives &group;
    const mst_backend_op &op;
    const size_t bytes; /* of count elements */

  private:
    std::vector<gloo::transport::UnboundBuffer *> buffers_;
};

char *place(const void *memory, size_t offset) {
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
 * Ranks that call different things must not meet in Gloo, which ends the process where lengths differ: their tags differ, and
 * they wait for one another until muster's deadline.
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

/* Gloo's setters take the size of an element as a type; elements of reductions have 1, 2, 4 or 8 bytes. */
template <typename Options> void set_input(Options &options, size_t element, Buffer buffer) {
    switch (element) {
    case 1:
        options.template setInput<uint8_t>(std::move(buffer));
        break;
    case 2:
        options.template setInput<uint16_t>(std::move(buffer));
        break;
    case 4:
        options.template setInput<uint32_t>(std::move(buffer));
        break;
    default:
        options.template setInput<uint64_t>(std::move(buffer));
        break;
    }
}

template <typename Options> void set_output(Options &options, size_t element, Buffer buffer) {
    switch (element) {
    case 1:
        options.template setOutput<uint8_t>(std::move(buffer));
        break;
    case 2:
        options.template setOutput<uint16_t>(std::move(buffer));
        break;
    case 4:
        options.template setOutput<uint32_t>(std::move(buffer));
        break;
    default:
        options.template setOutput<uint64_t>(std::move(buffer));
        break;
    }
}

Reduction reduction(const Call &call) {
    return [combine = call.group.combine, dtype = call.op.dtype,
            op = call.op.op](void *out, const void *a, const void *b, size_t count) {
        combine(dtype, op, out, a, b, count);
    };
}

void barrier(Call &call) {
    auto options = begin<gloo::BarrierOptions>(call);
    call.fly(options, [](auto &set) { gloo::barrier(set); });
}

void broadcast(Call &call) {
    auto options = begin<gloo::BroadcastOptions>(call);
    options.setRoot(call.op.root);
    if (call.group.rank == call.op.root && call.op.in && call.op.in != call.op.out) {
        options.setInput<char>(call.buffer(call.op.in, call.bytes));
    }
    options.setOutput<char>(call.buffer(call.op.out, call.bytes));
    call.fly(options, [](auto &set) { gloo::broadcast(set); });
}

void all_reduce(Call &call) {
    auto options = begin<gloo::AllreduceOptions>(call);
    if (call.op.in && call.op.in != call.op.out) {
        set_input(options, call.op.element, call.buffer(call.op.in, call.bytes));
    }
    set_output(options, call.op.element, call.buffer(call.op.out, call.bytes));
    options.setReduceFunction(reduction(call));
    call.fly(options, [](auto &set) { gloo::allreduce(set); });
}

/* Gloo needs an output on all ranks; ours has none but on the root, or it is to be left alone. */
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
    if (in != out) set_input(options, call.op.element, call.buffer(in, call.bytes));
    set_output(options, call.op.element, call.buffer(out, call.bytes));
    options.setReduceFunction(reduction(call));
    call.fly(options, [](auto &set) { gloo::reduce(set); });
}

void all_gather(Call &call) {
    auto options = begin<gloo::AllgatherOptions>(call);
    if (call.op.in != place(call.op.out, call.group.rank * call.bytes)) {
        options.setInput<char>(call.buffer(call.op.in, call.bytes));
    }
    options.setOutput<char>(call.buffer(call.op.out, call.bytes * call.group.ranks));
    call.fly(options, [](auto &set) { gloo::allgather(set); });
}

void all_gather_uneven(Call &call) {
    const size_t *counts = call.op.out_counts;
    std::vector<size_t> blocks(call.group.ranks);
    std::transform(counts, counts + call.group.ranks, blocks.begin(),
                   [&](size_t count) { return count * call.op.element; });
    size_t before = std::accumulate(blocks.begin(), blocks.begin() + call.group.rank, size_t(0));
    size_t all = std::accumulate(blocks.begin(), blocks.end(), size_t(0));
    size_t mine = blocks[call.group.rank];
    auto options = begin<gloo::AllgathervOptions>(call);
    if (mine && call.op.in != place(call.op.out, before)) {
        options.setInput<char>(call.buffer(call.op.in, mine));
    }
    options.setOutput<char>(call.buffer(call.op.out, all), std::move(blocks));
    call.fly(options, [](auto &set) { gloo::allgatherv(set); });
}

void all_to_all(Call &call) {
    size_t all = call.bytes * call.group.ranks;
    auto options = begin<gloo::AlltoallOptions>(call);
    options.setInput<char>(call.buffer(call.op.in, all));
    options.setOutput<char>(call.buffer(call.op.out, all));
    call.fly(options, [](auto &set) { gloo::alltoall(set); });
}

/* Where the block of each rank begins, in bytes, and behind them all the end. */
std::vector<size_t> block_ends(const Call &call, const size_t *counts) {
    std::vector<size_t> at(call.group.ranks + 1);
    for (int r = 0; r < call.group.ranks; r++) {
        at[r + 1] = at[r] + (counts ? counts[r] : call.op.count) * call.op.element;
    }
    return at;
}

/*
 * What gloo::alltoallv does, but that the length of a block is a part of its slot: blocks whose two ranks disagree must not
 * meet (see tag_of), and only those two know the length.
 */
void all_to_all_uneven(Call &call) {
    const int rank = call.group.rank, ranks = call.group.ranks;
    auto in_at = block_ends(call, call.op.in_counts), out_at = block_ends(call, call.op.out_counts);
    size_t own = in_at[rank + 1] - in_at[rank];
    GLOO_ENFORCE(own == out_at[rank + 1] - out_at[rank], "a rank's block for itself has two lengths");
    copy(place(call.op.out, out_at[rank]), place(call.op.in, in_at[rank]), own);
    Buffer in = call.buffer(call.op.in, in_at[ranks]), out = call.buffer(call.op.out, out_at[ranks]);
    call.fly(in, [&](Buffer &) {
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
    call.fly(options, [](auto &set) { gloo::gather(set); });
}

void scatter(Call &call) {
    auto options = begin<gloo::ScatterOptions>(call);
    options.setRoot(call.op.root);
    if (call.group.rank == call.op.root) {
        std::vector<Buffer> blocks;
        for (int r = 0; r < call.group.ranks; r++) {
            blocks.push_back(call.buffer(place(call.op.in, r * call.bytes), call.bytes));
        }
        options.setInputs<char>(std::move(blocks));
    }
    options.setOutput<char>(call.buffer(call.op.out, call.bytes));
    call.fly(options, [](auto &set) { gloo::scatter(set); });
}

/* Does no rank have anything to move? Gloo divides by the length. The blocks of all_to_all are known to two ranks only. */
bool nothing_moves(const mst_backend_op &op, int ranks) {
    if (op.kind == MST_KIND_BARRIER) return false;
    if (op.in_counts || op.out_counts) {
        return op.kind != MST_KIND_ALL_TO_ALL && sum(op.out_counts, ranks) == 0;
    }
    return op.count == 0;
}

/* In a group of one, every collective gives its input; of a bool, what a reduction would make of it. */
void run_alone(const mst_backend_op &op) {
    if (op.kind == MST_KIND_BARRIER || !op.out) return;
    const size_t *counts = op.out_counts ? op.out_counts : op.in_counts;
    if (op.in) copy(op.out, op.in, (counts ? counts[0] : op.count) * op.element);
    if (!reduces(op) || op.dtype != MST_BOOL) return;
    auto *values = static_cast<unsigned char *>(op.out);
    std::transform(values, values + op.count, values, [](unsigned char value) { return value != 0; });
}

} // namespace

void Flight::set(std::vector<gloo::transport::UnboundBuffer *> buffers) {
    std::lock_guard lock(mutex_);
    buffers_ = std::move(buffers);
}

void Flight::interrupt() {
    std::lock_guard lock(mutex_);
    for (auto *buffer : buffers_) {
        buffer->abortWaitRecv();
        buffer->abortWaitSend();
    }
}

void Collectives::run(const mst_backend_op &op) {
    if (ranks == 1) {
        run_alone(op);
        return;
    }
    if (nothing_moves(op, ranks)) return;
    Call call(*this, op);
    bool uneven = op.in_counts || op.out_counts;
    switch (op.kind) {
    case MST_KIND_BARRIER:
        barrier(call);
        break;
    case MST_KIND_BROADCAST:
        broadcast(call);
        break;
    case MST_KIND_ALL_REDUCE:
        all_reduce(call);
        break;
    case MST_KIND_REDUCE:
        reduce(call);
        break;
    case MST_KIND_ALL_GATHER:
        uneven ? all_gather_uneven(call) : all_gather(call);
        break;
    case MST_KIND_ALL_TO_ALL:
        uneven ? all_to_all_uneven(call) : all_to_all(call);
        break;
    case MST_KIND_GATHER:
        gather(call);
        break;
    case MST_KIND_SCATTER:
        scatter(call);
        break;
    default:
        GLOO_ENFORCE(false, "no collective of Gloo: ", static_cast<int>(op.kind));
    }
}

/* Gloo has no call for this that would wake who waits; but a wait that runs out of time does it. */
void close_connections(gloo::Context &context) {
    char byte;
    try {
        context.createUnboundBuffer(&byte, 1)->waitRecv(std::chrono::milliseconds(1));
    } catch (const std::exception &) {
    }
}

} // namespace muster_gloo
