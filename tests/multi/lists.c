/*
 * lists.c - gather and scatter with lists, coalesced calls of several dtypes, opaque dtypes.
 *
 *   lists gather|scatter|dtypes|opaque|misuse
 *
 * Prints "done" at the end.
 */
#include <muster/muster.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, MOST = 40000 };

static int rank, size;

static void fail(int line, const char *what) {
    fprintf(stderr, "lists: rank %d, line %d: %s: %s\n", rank, line, what, mst_error());
    _exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
#define OK(call)         CHECK((call) == MST_OK)
#define FAILS(call, wanted, text)                                                                            \
    CHECK((call) == (wanted) && (strstr(mst_error(), text) || (fprintf(stderr, "no '%s' in ", text), 0)))

static const size_t counts_of[] = {0, 1, 7, 600, MOST};

static int32_t value(int from, int to, size_t i) {
    return (int32_t)(1000000 * from + 100000 * to + (int)i);
}

/* Blocks that are not next to each other, with guards around them. */
static int32_t *blocks[RANKS], own[MOST];

static void clear(int32_t *block) {
    for (size_t i = 0; i < MOST + 2; i++) block[i] = -1;
}

static void check_block(const int32_t *block, int from, size_t count) {
    CHECK(block[0] == -1 && block[count + 1] == -1);
    for (size_t i = 0; i < count; i++) CHECK(block[1 + i] == value(from, 0, i));
}

/* Calls with .work or without. */
#define RUN(call, ...)                                                                                       \
    do {                                                                                                     \
        mst_work *work;                                                                                      \
        if (later)                                                                                           \
            OK(call(__VA_ARGS__, .work = &work)), OK(mst_wait(work));                                        \
        else                                                                                                 \
            OK(call(__VA_ARGS__));                                                                           \
    } while (0)

static void gather(size_t count, int root, bool uneven, bool later) {
    void *outs[RANKS];
    size_t counts[RANKS];
    for (int r = 0; r < size; r++) {
        clear(blocks[r]);
        outs[size - 1 - r] = blocks[r] + 1; /* not in the order of memory */
        counts[r] = uneven ? count * (size_t)r / 2 : count;
    }
    size_t mine = counts[rank];
    for (size_t i = 0; i < mine; i++) own[i] = value(rank, 0, i);
    const size_t *given = uneven ? counts : NULL;
    if (rank == root)
        RUN(mst_gather_list, outs, own, mine, MST_I32, .root = root, .counts = given);
    else if (later)
        RUN(mst_gather_list, NULL, own, mine, MST_I32, .root = root, .counts = given);
    else /* the forms match */
        RUN(mst_gather, NULL, own, mine, MST_I32, .root = root, .counts = given);
    for (int r = 0; r < size && rank == root; r++) check_block(blocks[size - 1 - r], r, counts[r]);
}

static void scatter(size_t count, int root, bool uneven, bool later) {
    const void *ins[RANKS];
    size_t counts[RANKS];
    for (int r = 0; r < size; r++) {
        int32_t *block = blocks[size - 1 - r] + 1;
        counts[r] = uneven ? count * (size_t)r / 2 : count;
        for (size_t i = 0; i < counts[r]; i++) block[i] = value(root, r, i);
        ins[r] = block;
    }
    size_t mine = counts[rank];
    const size_t *given = uneven ? counts : NULL;
    memset(own, 0, sizeof own);
    if (rank == root)
        RUN(mst_scatter_list, own, ins, mine, MST_I32, .root = root, .counts = given);
    else if (later)
        RUN(mst_scatter_list, own, NULL, mine, MST_I32, .root = root, .counts = given);
    else
        RUN(mst_scatter, own, NULL, mine, MST_I32, .root = root, .counts = given);
    for (size_t i = 0; i < mine; i++) CHECK(own[i] == value(root, rank, i));
}

static void each(void (*run)(size_t count, int root, bool uneven, bool later)) {
    for (size_t c = 0; c < sizeof counts_of / sizeof *counts_of; c++)
        for (int root = 0; root < size; root++)
            for (int form = 0; form < 4; form++) run(counts_of[c] / 2, root, form & 1, form & 2);
}

static void test_gather(void) {
    each(gather);
}

static void test_scatter(void) {
    each(scatter);
}

/* Coalesced calls whose tensors have different dtypes. */
static void test_dtypes(void) {
    static float f[5000], all_f[RANKS * 5000];
    static int64_t n[300], all_n[RANKS * 300];
    static uint8_t b[7], all_b[RANKS * 7];
    static const mst_dtype dtypes[] = {MST_F32, MST_I64, MST_U8};
    static const size_t counts[] = {5000, 300, 7};
    void *tensors[] = {f, n, b}, *all[] = {all_f, all_n, all_b};
    for (int later = 0; later < 2; later++) {
        for (size_t i = 0; i < counts[0]; i++) f[i] = (float)(rank + (int)i);
        for (size_t i = 0; i < counts[1]; i++) n[i] = (int64_t)1 << 40 | (int64_t)i;
        for (size_t i = 0; i < counts[2]; i++) b[i] = (uint8_t)(rank + 1);
        RUN(mst_all_gather_coalesced, all, (const void *const *)tensors, counts, 3, MST_F32,
            .dtypes = dtypes);
        for (int r = 0; r < size; r++) {
            CHECK(all_f[(size_t)r * 5000 + 4999] == (float)(r + 4999));
            CHECK(all_n[(size_t)r * 300 + 299] == ((int64_t)1 << 40 | 299));
            CHECK(all_b[(size_t)r * 7 + 6] == r + 1);
        }
        RUN(mst_all_reduce_coalesced, tensors, counts, 3, MST_F32, .dtypes = dtypes, .op = MST_MAX);
        CHECK(f[4999] == (float)(size - 1 + 4999) && n[299] == ((int64_t)1 << 40 | 299) && b[6] == size);
        f[0] = (float)rank, n[0] = rank, b[0] = (uint8_t)rank;
        RUN(mst_broadcast_coalesced, tensors, counts, 3, MST_F32, .dtypes = dtypes, .root = size - 1);
        CHECK(f[0] == (float)(size - 1) && n[0] == size - 1 && b[0] == size - 1);
        RUN(mst_reduce_scatter_coalesced, tensors, (const void *const *)all, counts, 3, MST_F32,
            .dtypes = dtypes);
        CHECK(f[4999] == (float)(size * (rank + 4999)) && b[6] == size * (rank + 1));
    }
    if (getenv("MUSTER_BACKEND")) return; /* backends do not compare calls */
    static const mst_dtype other[] = {MST_F32, MST_U64, MST_U8};
    FAILS(mst_all_reduce_coalesced(tensors, counts, 3, MST_F32, .dtypes = rank ? dtypes : other),
          MST_ERR_MISMATCH, "u64");
}

static void exclusive_or(void *inout, const void *in, size_t count, mst_dtype dtype, void *arg) {
    (void)arg;
    uint8_t *to = inout;
    const uint8_t *from = in;
    for (size_t i = 0; i < count * mst_dtype_size(dtype); i++) to[i] ^= from[i];
}

/* All operations that move data, and a reduction of the program. */
static void test_opaque(void) {
    static const mst_dtype dtypes[] = {MST_BITS8, MST_BITS16, MST_BITS32, MST_BITS64, MST_BITS128};
    enum { COUNT = 100 };
    mst_op op;
    OK(mst_op_create(exclusive_or, NULL, &op));
    for (size_t d = 0; d < 5; d++) {
        mst_dtype dtype = dtypes[d];
        size_t bytes = COUNT * ((size_t)1 << d);
        char *in = malloc(bytes), *out = malloc(RANKS * bytes), *back = malloc(RANKS * bytes);
        CHECK(in && out && back && mst_dtype_size(dtype) == (size_t)1 << d);
        memset(in, 'a' + rank, bytes);
        OK(mst_all_gather_into_tensor(out, in, COUNT, dtype));
        OK(mst_all_to_all_single(back, out, COUNT, dtype)); /* block r of rank s is block s of rank r */
        for (int r = 0; r < size; r++) CHECK(out[(size_t)r * bytes] == 'a' + r);
        for (int r = 0; r < size; r++) CHECK(back[(size_t)r * bytes + bytes - 1] == 'a' + rank);
        OK(mst_gather(out, in, COUNT, dtype));
        OK(mst_scatter(in, out, COUNT, dtype));
        CHECK(in[0] == 'a' + rank && in[bytes - 1] == 'a' + rank);
        OK(mst_send_recv(out, COUNT, (rank + size - 1) % size, in, COUNT, (rank + 1) % size, dtype));
        CHECK(out[bytes - 1] == 'a' + (rank + size - 1) % size);
        OK(mst_broadcast(in, COUNT, dtype, .root = size - 1));
        CHECK(in[bytes - 1] == 'a' + size - 1);
        OK(mst_all_reduce(in, COUNT, dtype, .op = op));
        CHECK(in[bytes - 1] == (size % 2 ? 'a' + size - 1 : 0));
        free(in), free(out), free(back);
    }
    OK(mst_op_free(op));
    FAILS(mst_all_reduce(&op, 1, MST_BITS16), MST_ERR_INVALID, "bits16");
}

static void test_misuse(void) {
    int32_t x[4] = {0};
    void *outs[RANKS] = {x, NULL};
    const size_t counts[RANKS] = {1, 1, 1, 1};
    if (rank > 0) return;
    FAILS(mst_gather_list(outs, x, 2, MST_I32), MST_ERR_INVALID, "outs[1]");
    FAILS(mst_gather_list(NULL, x, 2, MST_I32), MST_ERR_INVALID, "outs is NULL");
    FAILS(mst_scatter_list(x, NULL, 2, MST_I32), MST_ERR_INVALID, "ins is NULL");
    FAILS(mst_scatter_list(NULL, (const void *const *)outs, 2, MST_I32), MST_ERR_INVALID, "");
    FAILS(mst_gather_list(outs, x, 2, MST_I32, .counts = counts), MST_ERR_INVALID, ".counts[0]");
    FAILS(mst_gather_list(outs, x, 2, MST_I32, .root = size), MST_ERR_INVALID, "root");
    FAILS(mst_all_reduce(x, 1, MST_I32, .dtypes = &(mst_dtype){MST_I32}), MST_ERR_INVALID, ".dtypes");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"gather", test_gather},
                 {"scatter", test_scatter},
                 {"dtypes", test_dtypes},
                 {"opaque", test_opaque},
                 {"misuse", test_misuse}};
    OK(mst_init(.timeout_ms = 60000));
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    for (int r = 0; r < RANKS; r++) {
        blocks[r] = malloc((MOST + 2) * sizeof *blocks[r]);
        CHECK(blocks[r]);
    }
    bool known = false;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc < 2 || strcmp(argv[1], tests[i].name)) continue;
        known = true;
        tests[i].run();
    }
    CHECK(known);
    for (int r = 0; r < RANKS; r++) free(blocks[r]);
    OK(mst_destroy_process_group(NULL));
    puts("done");
    return 0;
}
