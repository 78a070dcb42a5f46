/* messages.c - messages in orders that would block if they shared a stream; groups; streams of the
 * program's. */
#include "kit.h"

enum { LARGE = 200000, SMALL = 5, MANY = 20 };

static mst_backend_op message(bool send, int peer, void *buf, size_t count) {
    return (mst_backend_op){.kind = send ? MST_KIND_SEND : MST_KIND_RECV,
                            .dtype = MST_I32,
                            .element = 4,
                            .root = -1,
                            .peer = peer,
                            .count = count,
                            .in = send ? buf : NULL,
                            .out = send ? NULL : buf,
                            .memory = MST_MEMORY_CUDA};
}

static int32_t *filled(int first, size_t count) {
    int32_t *data = malloc(count * 4 + 4), *device = device_new(count * 4);
    REQUIRE(data);
    for (size_t i = 0; i < count; i++) data[i] = first + (int32_t)i;
    upload(device, data, count * 4);
    free(data);
    return device;
}

static void check(int32_t *device, int first, size_t count) {
    int32_t *data = malloc(count * 4 + 4);
    REQUIRE(data);
    download(data, device, count * 4);
    for (size_t i = 0; i < count; i++) REQUIRE(data[i] == first + (int32_t)i);
    free(data);
    device_free(device);
}

/* All send to the right before they receive from the left; alone, a rank sends to itself. */
static void test_ring(size_t count) {
    int right = (me + 1) % n, left = (me + n - 1) % n;
    int32_t *sent = filled(me * 1000, count), *received = device_new(count * 4);
    mst_backend_op send = message(true, right, sent, count), receive = message(false, left, received, count);
    REQUIRE_OK(table->submit(engine, &send));
    run_op(&receive);
    REQUIRE_OK(finish_op(&send, PATIENCE_MS));
    REQUIRE(receive.sender == left);
    check(received, left * 1000, count);
    device_free(sent);
}

/* Several to one rank keep their order, and muster's own meet no others. */
static void test_order(void) {
    if (n < 2 || me > 1) return;
    mst_backend_op ops[MANY + 1];
    int32_t *buffers[MANY + 1];
    for (int i = 0; i <= MANY; i++) {
        buffers[i] = me == 0 ? filled(i * 100, SMALL) : device_new(SMALL * 4);
        ops[i] = message(me == 0, 1 - me, buffers[i], SMALL);
    }
    ops[MANY].tag = -1;
    if (me == 1) REQUIRE_OK(table->submit(engine, &ops[MANY])); /* first here, last there */
    for (int i = 0; i < MANY; i++) REQUIRE_OK(table->submit(engine, &ops[i]));
    if (me == 0) REQUIRE_OK(table->submit(engine, &ops[MANY]));
    for (int i = MANY; i >= 0; i--) REQUIRE_OK(finish_op(&ops[i], PATIENCE_MS));
    for (int i = 0; i <= MANY; i++) {
        if (me == 1)
            check(buffers[i], i * 100, SMALL);
        else
            device_free(buffers[i]);
    }
}

static void test_self(void) {
    int32_t *first = filled(7, SMALL), *second = filled(70, SMALL), *a = device_new(SMALL * 4),
            *b = device_new(SMALL * 4);
    mst_backend_op ops[] = {message(false, me, a, SMALL), message(true, me, first, SMALL),
                            message(true, me, second, SMALL), message(false, me, b, SMALL)};
    for (int i = 0; i < 4; i++) REQUIRE_OK(table->submit(engine, &ops[i]));
    for (int i = 0; i < 4; i++) REQUIRE_OK(finish_op(&ops[i], PATIENCE_MS));
    check(a, 7, SMALL);
    check(b, 70, SMALL);
    device_free(first);
    device_free(second);
}

void test_messages(void) {
    test_ring(SMALL);
    test_ring(LARGE);
    test_ring(0);
    test_order();
    test_self();
}

static mst_backend_op all_reduce(const void *in, void *out, size_t count) {
    return (mst_backend_op){.kind = MST_KIND_ALL_REDUCE,
                            .dtype = MST_I32,
                            .element = 4,
                            .op = MST_MAX,
                            .root = -1,
                            .count = count,
                            .in = in,
                            .out = out,
                            .memory = MST_MEMORY_CUDA};
}

/* Everybody to everybody, and reductions, in one group; then the same with a kind that is launched late
 * between them. */
void test_groups(void) {
    mst_backend_op ops[2 * RANKS_MAX + 3];
    int32_t *in[RANKS_MAX], *out[RANKS_MAX], *a = filled(me, LARGE), *b = filled(10 * me, SMALL),
                                             *mine = filled(me * 3, 1), *all = device_new(4 * (size_t)n);
    int k = 0;
    for (int r = 0; r < n; r++) {
        in[r] = filled(me * 100 + r, SMALL);
        out[r] = device_new(SMALL * 4);
        ops[k++] = message(true, r, in[r], SMALL);
        ops[k++] = message(false, r, out[r], SMALL);
    }
    ops[k++] = all_reduce(a, a, LARGE);
    ops[k] = all_reduce(mine, all, 1);
    ops[k].root = 0;
    ops[k++].kind = MST_KIND_GATHER;
    ops[k++] = all_reduce(b, b, SMALL);
    REQUIRE_OK(table->group_begin(engine));
    for (int i = 0; i < k; i++) REQUIRE_OK(table->submit(engine, &ops[i]));
    REQUIRE_OK(table->group_end(engine));
    for (int i = k - 1; i >= 0; i--) REQUIRE_OK(finish_op(&ops[i], PATIENCE_MS));
    for (int r = 0; r < n; r++) {
        check(out[r], r * 100 + me, SMALL);
        device_free(in[r]);
    }
    check(a, n - 1, LARGE);
    check(b, 10 * (n - 1), SMALL);
    int32_t got[RANKS_MAX];
    download(got, all, 4 * (size_t)n);
    for (int r = 0; r < n && me == 0; r++) REQUIRE(got[r] == 3 * r);
    device_free(mine);
    device_free(all);
}

/* On a stream of the program's nothing waits but the stream: what is copied there before and after is in
 * order. */
void test_streams(void) {
    void *stream = stream_new();
    int32_t *source = filled(me, LARGE), *work = device_new(LARGE * 4), *result = device_new(LARGE * 4),
            *blocks = device_new((size_t)n * LARGE * 4);
    for (int round = 0; round < 5; round++) {
        mst_backend_op op = all_reduce(work, work, LARGE);
        op.stream = stream;
        op.unwatched = round != 0;
        op.timed = round == 1;
        op.deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
        copy_on(stream, work, source, LARGE * 4);
        REQUIRE_OK(table->submit(engine, &op));
        if (round == 1) {
            double seconds = -1;
            REQUIRE_OK(finish_op(&op, PATIENCE_MS));
            REQUIRE_OK(table->elapsed(engine, &op, &seconds));
            REQUIRE(seconds >= 0 && seconds < 60);
        }
        mst_backend_op gather = all_reduce(work, blocks, LARGE);
        gather.kind = round % 2 ? MST_KIND_ALL_GATHER : MST_KIND_GATHER;
        gather.root = n - 1;
        gather.stream = stream;
        gather.unwatched = true;
        REQUIRE_OK(table->submit(engine, &gather));
        copy_on(stream, result, blocks, LARGE * 4);
        if (round == 0) REQUIRE_OK(finish_op(&op, PATIENCE_MS));
        stream_wait(stream);
        int32_t got[2];
        download(got, result, sizeof got);
        if (round % 2 || me == n - 1) REQUIRE(got[0] == n - 1 && got[1] == n);
    }
    stream_end(stream);
    device_free(source);
    device_free(work);
    device_free(result);
    device_free(blocks);
}
