/* collectives.c - every collective in every form that the module claims, against what must come of it. */
#include "kit.h"

#include "float_kit.h"

enum { COUNT = 1000, BLOCK_MAX = 2 * COUNT };

/* What rank r has at index i of the part that is meant for rank to. */
static int32_t number(int r, int to, size_t i) {
    return (int32_t)(r * 1000000 + to * 100000 + (int)i);
}

static size_t length(int r) {
    return r % 3 == 1 ? 0 : COUNT + 7 * (size_t)r;
}

static int32_t *buffer(size_t count) {
    return device_new(count * 4);
}

static void fill(int32_t *device, int r, int to, size_t count) {
    static int32_t host_copy[BLOCK_MAX];
    for (size_t i = 0; i < count; i++) host_copy[i] = number(r, to, i);
    upload(device, host_copy, count * 4);
}

static void check(const int32_t *device, int r, int to, size_t count) {
    static int32_t host_copy[BLOCK_MAX];
    download(host_copy, device, count * 4);
    for (size_t i = 0; i < count; i++) REQUIRE(host_copy[i] == number(r, to, i));
}

static mst_backend_op base(mst_kind kind) {
    return (mst_backend_op){
        .kind = kind, .dtype = MST_I32, .element = 4, .root = -1, .count = COUNT, .memory = MST_MEMORY_CUDA};
}

static void test_broadcast(void) {
    int root = n - 1;
    for (int in_place = 0; in_place < 2; in_place++) {
        int32_t *in = buffer(COUNT), *out = in_place ? in : buffer(COUNT);
        mst_backend_op op = base(MST_KIND_BROADCAST);
        fill(in, me, 0, COUNT);
        op.root = root;
        op.out = out;
        op.in = me == root ? in : out;
        run_op(&op);
        check(out, root, 0, COUNT);
        if (!in_place) device_free(out);
        device_free(in);
    }
}

/* form 0: one buffer; 1: in place; 2: blocks of different lengths; 3: lists of such */
static void test_all_gather(int form) {
    size_t counts[RANKS_MAX], start[RANKS_MAX + 1] = {0};
    void *list[RANKS_MAX];
    for (int r = 0; r < n; r++) {
        counts[r] = form >= 2 ? length(r) : COUNT;
        start[r + 1] = start[r] + counts[r];
    }
    int32_t *out = buffer(start[n]), *in = form == 1 ? out + start[me] : buffer(counts[me]);
    for (int r = 0; r < n; r++) list[r] = out + start[r];
    mst_backend_op op = base(MST_KIND_ALL_GATHER);
    fill(in, me, 0, counts[me]);
    op.in = in;
    if (form == 3)
        op.out_list = list;
    else
        op.out = out;
    if (form >= 2) op.out_counts = counts;
    run_op(&op);
    for (int r = 0; r < n; r++) check(out + start[r], r, 0, counts[r]);
    if (form != 1) device_free(in);
    device_free(out);
}

/* uneven: what goes from one rank to another differs; lists: the blocks lie apart */
static void test_all_to_all(bool uneven, bool lists) {
    size_t in_counts[RANKS_MAX], out_counts[RANKS_MAX], in_all = 0, out_all = 0;
    void *outs[RANKS_MAX];
    const void *ins[RANKS_MAX];
    for (int r = 0; r < n; r++) {
        in_counts[r] = uneven ? length(me + r) : COUNT;
        out_counts[r] = uneven ? length(r + me) : COUNT;
        in_all += in_counts[r];
        out_all += out_counts[r];
    }
    int32_t *in = buffer(in_all), *out = buffer(out_all), *from = in, *to = out;
    for (int r = 0; r < n; r++) {
        ins[r] = from;
        outs[r] = to;
        fill(from, me, r, in_counts[r]);
        from += in_counts[r];
        to += out_counts[r];
    }
    mst_backend_op op = base(MST_KIND_ALL_TO_ALL);
    if (uneven) op.in_counts = in_counts;
    if (uneven) op.out_counts = out_counts;
    if (lists) {
        op.in_list = ins;
        op.out_list = outs;
    } else {
        op.in = in;
        op.out = out;
    }
    run_op(&op);
    for (int r = 0; r < n; r++) check(outs[r], r, me, out_counts[r]);
    device_free(in);
    device_free(out);
}

static void test_gather_scatter(int root, bool in_place) {
    bool is_root = me == root;
    int32_t *all = is_root ? buffer((size_t)n * COUNT) : NULL;
    int32_t *mine = is_root && in_place ? all + (size_t)me * COUNT : buffer(COUNT);
    mst_backend_op op = base(MST_KIND_GATHER);
    fill(mine, me, 0, COUNT);
    op.root = root;
    op.in = mine;
    op.out = all;
    run_op(&op);
    for (int r = 0; r < n && is_root; r++) check(all + (size_t)r * COUNT, r, 0, COUNT);
    op = base(MST_KIND_SCATTER);
    for (int r = 0; r < n && is_root; r++) fill(all + (size_t)r * COUNT, root, r, COUNT);
    op.root = root;
    op.in = all;
    op.out = mine;
    run_op(&op);
    check(mine, root, me, COUNT);
    if (!(is_root && in_place)) device_free(mine);
    if (all) device_free(all);
}

static void test_nothing(void) {
    static const mst_kind kinds[] = {MST_KIND_BROADCAST,  MST_KIND_ALL_REDUCE,     MST_KIND_REDUCE,
                                     MST_KIND_ALL_GATHER, MST_KIND_REDUCE_SCATTER, MST_KIND_ALL_TO_ALL,
                                     MST_KIND_GATHER,     MST_KIND_SCATTER};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        mst_backend_op op = base(kinds[k]);
        op.count = 0;
        op.root = 0;
        run_op(&op);
    }
}

void test_collectives(void) {
    mst_backend_op barrier = {.kind = MST_KIND_BARRIER, .root = -1};
    run_op(&barrier);
    test_broadcast();
    for (int form = 0; form < 4; form++) test_all_gather(form);
    for (int form = 0; form < 4; form++) test_all_to_all(form & 1, form & 2);
    for (int root = 0; root < n; root++) test_gather_scatter(root, root & 1);
    test_nothing();
    run_op(&barrier);
}

/* A small number as an element of the dtype. */
static void encode(mst_dtype dtype, int value, void *element) {
    uint64_t bits = kit_format(dtype) ? kit_encode(dtype, value) : (uint64_t)(int64_t)value;
    size_t size = dtype == MST_F64 || dtype == MST_I64 || dtype == MST_U64   ? 8
                  : dtype == MST_F32 || dtype == MST_I32 || dtype == MST_U32 ? 4
                  : dtype == MST_F16 || dtype == MST_BF16                    ? 2
                                                                             : 1;
    memcpy(element, &bits, size);
}

/* Inputs are 1, 2 or -2; where each rank's block of a reduce_scatter is, they differ by a known amount. */
static int input(int r, size_t i, mst_op op, bool sign) {
    int value = (int)((unsigned)r + i) % 2 + 1;
    return sign && op != MST_PRODUCT && i % 3 == 0 ? -value : value;
}

static int reduced(size_t i, mst_op op, bool sign) {
    int result = 0;
    for (int r = 0; r < n; r++) {
        int value = input(r, i, op, sign) * (op == MST_PREMUL_SUM ? 2 : 1);
        if (!r)
            result = value;
        else if (op == MST_PRODUCT)
            result *= value;
        else if (op == MST_MIN || op == MST_MAX)
            result = (op == MST_MIN) == (value < result) ? value : result;
        else
            result += value;
    }
    return result;
}

static void check_reduced(const mst_backend_op *op, const char *device, size_t from, size_t count) {
    bool sign = kit_format(op->dtype) || op->dtype == MST_I8 || op->dtype == MST_I32 || op->dtype == MST_I64;
    char *got = malloc(count * op->element + 1), wanted[8];
    REQUIRE(got);
    download(got, device, count * op->element);
    for (size_t i = 0; i < count; i++) {
        int value = reduced(from + i, op->op, sign);
        if (op->op == MST_AVG && kit_format(op->dtype)) {
            if (value % n) continue; /* not exact in all dtypes */
        }
        encode(op->dtype, op->op == MST_AVG ? value / n : value, wanted);
        REQUIRE(!memcmp(got + i * op->element, wanted, op->element));
    }
    free(got);
}

static void reduce_one(mst_dtype dtype, mst_op reduces, size_t element) {
    bool sign = kit_format(dtype) || dtype == MST_I8 || dtype == MST_I32 || dtype == MST_I64;
    size_t all = (size_t)n * COUNT, counts[RANKS_MAX], start = 0;
    char *data = malloc(all * element), *in = device_new(all * element), *out = device_new(all * element);
    REQUIRE(data);
    for (size_t i = 0; i < all; i++) encode(dtype, input(me, i, reduces, sign), data + i * element);
    mst_backend_op op = base(MST_KIND_ALL_REDUCE);
    op.dtype = dtype;
    op.element = element;
    op.op = reduces;
    op.factor = 2;
    op.in = in;
    op.out = out;
    upload(in, data, all * element);
    run_op(&op);
    check_reduced(&op, out, 0, COUNT);
    op.kind = MST_KIND_REDUCE;
    op.root = n - 1;
    op.out = me == n - 1 ? out : NULL;
    run_op(&op);
    if (me == n - 1) check_reduced(&op, out, 0, COUNT);
    op.kind = MST_KIND_REDUCE_SCATTER;
    op.root = -1;
    op.out = out;
    run_op(&op);
    check_reduced(&op, out, (size_t)me * COUNT, COUNT);
    for (int r = 0; r < n; r++) counts[r] = r % 3 == 1 ? COUNT / 2 : r % 3 == 2 ? 0 : COUNT;
    for (int r = 0; r < me; r++) start += counts[r];
    op.in_counts = counts;
    run_op(&op);
    check_reduced(&op, out, start, counts[me]);
    free(data);
    device_free(in);
    device_free(out);
}

/* All pairs that rows() has. */
void test_reductions(void) {
    static const struct {
        mst_dtype dtype;
        size_t element;
    } types[] = {{MST_F64, 8}, {MST_F32, 4}, {MST_F16, 2}, {MST_BF16, 2}, {MST_F8E4M3, 1}, {MST_F8E5M2, 1},
                 {MST_I8, 1},  {MST_U8, 1},  {MST_I32, 4}, {MST_U32, 4},  {MST_I64, 8},    {MST_U64, 8}};
    for (const mst_backend_capability *row = table->rows(); row->kinds; row++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int op = 0; op < MST_OP_COUNT; op++)
                if (row->kinds >> MST_KIND_ALL_REDUCE & 1 && row->dtypes >> types[t].dtype & 1 &&
                    row->ops >> op & 1)
                    reduce_one(types[t].dtype, (mst_op)op, types[t].element);
}
