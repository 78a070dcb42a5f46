/*
 * badcalls.c - calls with invalid arguments: checks the status, that the message names the argument, and that
 * the group still works. All ranks make the same calls, so that no rank waits for another. Run it under a
 * launcher; reports all errors and exits with 1 if there are any.
 */
#include <ctype.h>
#include <muster/muster.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 64, TIMEOUT_MS = 120000 };

static int me, size, wrong;
static float in[RANKS_MAX * 4], out[RANKS_MAX * 4];
static void *outs[RANKS_MAX];
static const void *ins[RANKS_MAX];
static const size_t counts[RANKS_MAX] = {1, 1, 1, 1};

static void report(const char *what, const char *why) {
    fprintf(stderr, "badcalls: rank %d: %s: %s\n", me, what, why);
    wrong++;
}

static bool is_part(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* Whole words only, so that "out" does not match "out_splits". */
static bool contains(const char *text, const char *word) {
    size_t len = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !is_part(at[-1])) && !is_part(at[len])) return true;
    return false;
}

static bool has_word(const char *word) {
    const mst_error_info *error = mst_last_error();
    return !*word || contains(error->message, word) || contains(error->remedy, word);
}

/* Checks the status, and the words in the message; "": none. */
static void refused(mst_status got, mst_status wanted, const char *word, const char *word2,
                    const char *what) {
    char text[1024];
    snprintf(text, sizeof text, "%s, expected %s with '%s' and '%s': %s", mst_status_name(got),
             mst_status_name(wanted), word, word2, got == MST_OK ? "" : mst_error());
    if (got != wanted || !has_word(word) || !has_word(word2)) report(what, text);
}
#define REFUSED(wanted, word, call)         refused(call, wanted, word, "", #call)
#define REFUSED2(wanted, word, word2, call) refused(call, wanted, word, word2, #call)
#define INVALID(word, call)                 refused(call, MST_ERR_INVALID, word, "", #call)

static void keep_last(void *inout, const void *other, size_t count, mst_dtype dtype, void *arg) {
    (void)inout, (void)other, (void)count, (void)dtype, (void)arg;
}

static void sum_up(void *inout, const void *other, size_t count, mst_dtype dtype, void *arg) {
    float *x = inout;
    const float *y = other;
    (void)dtype, (void)arg;
    for (size_t i = 0; i < count; i++) x[i] += y[i];
}

static void still_works(const char *after) {
    int32_t value = me, wanted = size * (size - 1) / 2;
    mst_status st = mst_all_reduce(&value, 1, MST_I32, .timeout_ms = TIMEOUT_MS);
    if (st != MST_OK) report(after, mst_error());
    if (st == MST_OK && value != wanted) report(after, "the sum afterwards is wrong");
    if (st != MST_OK) exit(1);
}

static void no_world(void) {
    mst_work *work = NULL;
    float one = 1;
    REFUSED(MST_ERR_STATE, "mst_init", mst_all_reduce(&one, 1, MST_F32));
    REFUSED(MST_ERR_STATE, "mst_init", mst_broadcast(&one, 1, MST_F32));
    REFUSED(MST_ERR_STATE, "mst_init", mst_send(&one, 1, MST_F32, 0));
    REFUSED(MST_ERR_STATE, "mst_init", mst_irecv(&one, 1, MST_F32, 0, .work = &work));
    REFUSED(MST_ERR_STATE, "mst_init", mst_monitored_barrier(.timeout_ms = 100));
    if (work) report("mst_irecv without a world", "it returned a work");
}

static void null_buffers(void) {
    REFUSED2(MST_ERR_INVALID, "in", "buf", mst_all_reduce(out + 1, 4, MST_F32, .in = out));
    REFUSED2(MST_ERR_INVALID, "in", "buf", mst_broadcast(out, 4, MST_F32, .in = out + 3));
    INVALID("buf", mst_all_reduce(NULL, 4, MST_F32));
    INVALID("buf", mst_inference_all_reduce(NULL, 4, MST_F32));
    INVALID("buf", mst_broadcast(NULL, 4, MST_F32));
    INVALID("buf", mst_reduce(NULL, 4, MST_F32));
    INVALID("buf", mst_scan(NULL, 4, MST_F32));
    INVALID("AVG", mst_scan(out, 4, MST_F32, .op = MST_AVG));
    INVALID("AVG", mst_exscan(out, 4, MST_F32, .op = MST_AVG));
    INVALID("out", mst_all_gather_into_tensor(NULL, in, 4, MST_F32));
    INVALID("in", mst_all_gather_into_tensor(out, NULL, 4, MST_F32));
    INVALID("out", mst_allgather_fn(NULL, in, 4, MST_F32));
    INVALID("out", mst_reduce_scatter_tensor(NULL, in, 4, MST_F32));
    INVALID("in", mst_reduce_scatter_tensor(out, NULL, 4, MST_F32));
    INVALID("in", mst_reduce_scatter_fn(out, NULL, 4, MST_F32));
    INVALID("in", mst_gather(out, NULL, 4, MST_F32));
    INVALID("out", mst_scatter(NULL, in, 4, MST_F32));
    INVALID("out", mst_all_to_all_single(NULL, in, 4, MST_F32));
    INVALID("in", mst_all_to_all_single(out, NULL, 4, MST_F32));
    INVALID("buf", mst_send(NULL, 4, MST_F32, me));
    INVALID("buf", mst_recv(NULL, 4, MST_F32, me));
    still_works("NULL buffers");
}

static void null_lists(void) {
    void *holes[RANKS_MAX];
    const void *in_holes[RANKS_MAX];
    memcpy(holes, outs, sizeof holes);
    memcpy(in_holes, ins, sizeof in_holes);
    holes[size - 1] = NULL;
    in_holes[size - 1] = NULL;
    INVALID("outs", mst_all_gather(NULL, in, 1, MST_F32));
    INVALID("outs", mst_all_gather(holes, in, 1, MST_F32));
    INVALID("in", mst_all_gather(outs, NULL, 1, MST_F32));
    INVALID("out", mst_reduce_scatter(NULL, ins, 1, MST_F32));
    INVALID("ins", mst_reduce_scatter(out, NULL, 1, MST_F32));
    INVALID("ins", mst_reduce_scatter(out, in_holes, 1, MST_F32));
    INVALID("outs", mst_all_to_all(NULL, ins, 1, MST_F32));
    INVALID("ins", mst_all_to_all(outs, NULL, 1, MST_F32));
    INVALID("bufs", mst_all_reduce_coalesced(NULL, counts, 2, MST_F32));
    INVALID("counts", mst_all_reduce_coalesced(outs, NULL, 2, MST_F32));
    INVALID("bufs", mst_broadcast_coalesced(NULL, counts, 2, MST_F32));
    INVALID("does not use .in", mst_broadcast_coalesced(outs, counts, 2, MST_F32, .in = in));
    INVALID(".root", mst_broadcast_coalesced(outs, counts, 2, MST_F32, .root = size));
    INVALID("outs", mst_all_gather_coalesced(NULL, ins, counts, 2, MST_F32));
    INVALID("ins", mst_reduce_scatter_coalesced(outs, NULL, counts, 2, MST_F32));
    INVALID(".counts", mst_gather(out, in, counts[me] + 1, MST_F32, .counts = counts));
    INVALID(".counts", mst_scatter(out, in, counts[me] + 1, MST_F32, .counts = counts));
    INVALID("out", mst_broadcast_bytes(NULL, "x", 1));
    INVALID("outs", mst_all_gather_bytes(NULL, in, 4));
    INVALID("data", mst_all_gather_bytes((mst_bytes[RANKS_MAX]){{0}}, NULL, 4));
    INVALID("out", mst_scatter_bytes(NULL, (mst_bytes[RANKS_MAX]){{0}}));
    INVALID("data", mst_send_bytes(NULL, 4, me));
    INVALID("out", mst_recv_bytes(NULL, me));
    still_works("NULL lists");
}

static void types_and_operations(void) {
    INVALID("dtype", mst_all_reduce(out, 4, (mst_dtype)0));
    INVALID("dtype", mst_all_reduce(out, 4, MST_DTYPE_COUNT));
    INVALID("dtype", mst_broadcast(out, 4, (mst_dtype)1000));
    INVALID("dtype", mst_all_gather_into_tensor(out, in, 4, (mst_dtype)-1));
    INVALID("dtype", mst_send(out, 4, (mst_dtype)1000, me));
    INVALID("op", mst_all_reduce(out, 4, MST_F32, .op = MST_OP_COUNT));
    INVALID("op", mst_reduce(out, 4, MST_F32, .op = (mst_op)-1));
    REFUSED2(MST_ERR_INVALID, "BAND", "f32", mst_all_reduce(out, 4, MST_F32, .op = MST_BAND));
    REFUSED2(MST_ERR_INVALID, "BXOR", "bf16", mst_reduce(out, 4, MST_BF16, .op = MST_BXOR));
    INVALID("user-defined", mst_all_reduce(out, 4, MST_F32, .op = MST_OP_USER));
    mst_op op;
    INVALID("fn", mst_op_create(NULL, NULL, &op));
    INVALID("op is NULL", mst_op_create(keep_last, NULL, NULL));
    INVALID(".unit", mst_op_create(keep_last, NULL, &op, .unit = 65));
    REFUSED(MST_OK, "", mst_op_create(keep_last, NULL, &op, .unit = 3));
    INVALID(".unit", mst_all_reduce(out, 4, MST_F32, .op = op));
    INVALID(".unit", mst_reduce_scatter_tensor(out, in, 2, MST_F32, .op = op));
    INVALID("not a user-defined", mst_op_free(MST_SUM));
    REFUSED(MST_OK, "", mst_op_free(op));
    INVALID("not a user-defined", mst_op_free(op));
    INVALID("does not exist", mst_all_reduce(out, 3, MST_F32, .op = op));
    REFUSED2(MST_ERR_INVALID, "MIN", "c64", mst_all_reduce(out, 1, MST_C64, .op = MST_MIN));
    REFUSED2(MST_ERR_INVALID, "BAND", "c128", mst_all_reduce(out, 1, MST_C128, .op = MST_BAND));
    REFUSED2(MST_ERR_INVALID, "AVG", "bool", mst_all_reduce(out, 4, MST_BOOL, .op = MST_AVG));
    REFUSED2(MST_ERR_INVALID, "PREMUL_SUM", "i32",
             mst_reduce_scatter_tensor(out, in, 1, MST_I32, .op = MST_PREMUL_SUM));
    still_works("dtypes and operations");
}

/* A user-defined operation may be freed while works use it; its number is not given to another at once. */
static void freed_operation(void) {
    float x = 1;
    mst_op op = MST_SUM, other = MST_SUM;
    mst_work *work = NULL;
    REFUSED(MST_OK, "", mst_op_create(sum_up, NULL, &op));
    REFUSED(MST_OK, "", mst_all_reduce(&x, 1, MST_F32, .op = op, .work = &work));
    REFUSED(MST_OK, "", mst_op_free(op));
    REFUSED(MST_OK, "", mst_op_create(keep_last, NULL, &other));
    REFUSED(MST_OK, "", mst_wait(work));
    if (x != (float)size) report("a freed operation", "wrong sum");
    for (int i = 0; i < 1 << 16; i++) {
        mst_op_create(keep_last, NULL, &op);
        if (op == other) report("mst_op_create", "a number was given twice");
        mst_op_free(op);
    }
    REFUSED(MST_OK, "", mst_op_free(other));
    still_works("a freed operation");
}

/* A coalesced call that rejects a tensor has reduced none. */
static void second_tensor(void) {
    float x = 1;
    void *bufs[] = {&x, NULL};
    const size_t huge[] = {1, SIZE_MAX / 2};
    INVALID("bufs", mst_all_reduce_coalesced(bufs, counts, 2, MST_F32));
    bufs[1] = out;
    INVALID("count", mst_all_reduce_coalesced(bufs, huge, 2, MST_F32));
    REFUSED2(MST_ERR_INVALID, "in", "out",
             mst_all_gather_coalesced((void *[]){outs[0], out}, (const void *[]){in, (char *)out + 2}, counts,
                                      2, MST_F32));
    if (x != 1) report("mst_all_reduce_coalesced", "reduced the first tensor");
    still_works("coalesced calls");
}

static void ranks_and_times(void) {
    mst_work *work = NULL;
    INVALID(".root", mst_broadcast(out, 4, MST_F32, .root = size));
    INVALID(".root", mst_broadcast(out, 4, MST_F32, .root = -1));
    INVALID(".root", mst_scatter(out, in, 1, MST_F32, .root = size));
    INVALID(".root", mst_reduce(out, 4, MST_F32, .root = size));
    INVALID(".root", mst_gather(out, in, 1, MST_F32, .root = -2));
    INVALID(".root", mst_gather(out, in, 1, MST_F32, .root = size + 3));
    INVALID("dst", mst_send(out, 4, MST_F32, size));
    INVALID("dst", mst_send(out, 4, MST_F32, MST_ANY_SOURCE));
    INVALID("src", mst_recv(out, 4, MST_F32, size));
    INVALID("src", mst_recv(out, 4, MST_F32, MST_NO_RANK));
    INVALID("src", mst_probe(MST_NO_RANK, NULL));
    INVALID("dst", mst_send_recv(out, 4, me, in, 4, MST_ANY_SOURCE, MST_F32));
    INVALID("timeout_ms", mst_all_reduce(out, 4, MST_F32, .timeout_ms = -5));
    INVALID("timeout_ms", mst_monitored_barrier(.timeout_ms = -1));
    INVALID("timeout_ms", mst_recv(out, 4, MST_F32, me, .timeout_ms = -1));
    INVALID("work", mst_isend(out, 4, MST_F32, me));
    INVALID("work", mst_irecv(out, 4, MST_F32, me));
    INVALID("timeout_ms", mst_all_reduce(out, 4, MST_F32, .timeout_ms = -5, .work = &work));
    if (work) report("a refused call", "it returned a work");
    still_works("ranks and times");
}

static void sizes(void) {
    size_t splits[RANKS_MAX];
    for (int r = 0; r < RANKS_MAX; r++) splits[r] = 1;
    INVALID("out_splits", mst_all_to_all_single(out, in, 1, MST_F32, .in_splits = splits));
    INVALID("in_splits", mst_all_to_all_single(out, in, 1, MST_F32, .out_splits = splits));
    INVALID("in_splits", mst_all_to_all(outs, ins, 1, MST_F32, .out_splits = splits));
    splits[me] = 2; /* a rank must receive from itself what it sends to itself */
    INVALID("in_splits",
            mst_all_to_all_single(out, in, 1, MST_F32, .in_splits = splits, .out_splits = counts));
    mst_status st = mst_all_gather_into_tensor(out, in, SIZE_MAX / 2, MST_F64);
    if (st != MST_ERR_INVALID && st != MST_ERR_LIMIT) report("SIZE_MAX / 2 elements", mst_status_name(st));
    if (!has_word("count")) report("SIZE_MAX / 2 elements: the message does not name count", mst_error());
    still_works("sizes");
}

/* The first message of a refused batch is withdrawn: later messages do not match it. */
static void refuse_second(mst_p2p refused_one) {
    int next = (me + 1) % size, previous = (me + size - 1) % size;
    enum { TAG = 77 };
    float given = (float)me, got = -1;
    mst_work *works[2] = {NULL};
    mst_p2p two[2] = {{.buf = out, .count = 4, .dtype = MST_F32, .peer = previous, .tag = TAG}, refused_one};
    INVALID("buf", mst_batch_isend_irecv(two, 2, works));
    REFUSED(MST_OK, "", mst_barrier());
    REFUSED(MST_OK, "", mst_send(&given, 1, MST_F32, next, .tag = TAG));
    REFUSED(MST_OK, "", mst_recv(&got, 1, MST_F32, previous, .tag = TAG));
    if (got != (float)previous) report("a message after a refused batch", "it is wrong");
}

static void works_and_memory(void) {
    mst_work *works[2] = {NULL};
    bool done = false;
    int at;
    mst_p2p one = {.send = true, .buf = out, .count = 1, .dtype = MST_F32, .peer = size};
    INVALID("work", mst_wait((mst_work *)NULL));
    INVALID("work", mst_test(NULL, &done));
    INVALID("work", mst_work_result(NULL));
    INVALID("work", mst_work_on_done(NULL, NULL, NULL));
    INVALID("works", mst_wait_all((mst_work **)NULL, 1));
    INVALID("works", mst_wait_any((mst_work **)NULL, 1, &at));
    INVALID("index", mst_wait_any(works, 2, (int *)NULL));
    INVALID("timeout_ms", mst_wait_all(works, 2, .timeout_ms = -1));
    INVALID("works", mst_test_all(NULL, 1, &done));
    INVALID("done", mst_test_all(works, 2, NULL));
    INVALID("memory", mst_alloc(10, (void **)NULL));
    INVALID("ops", mst_batch_isend_irecv(NULL, 1, works));
    INVALID("works", mst_batch_isend_irecv(&one, 1, (mst_work **)NULL));
    INVALID("peer", mst_batch_isend_irecv(&one, 1, works));
    one.peer = me;
    one.buf = NULL;
    INVALID("buf", mst_batch_isend_irecv(&one, 1, works));
    if (works[0]) report("a refused batch", "it returned a work");
    refuse_second(one);
    still_works("works and memory");
}

/* A group that this rank is not in. */
static void groups_of_others(void) {
    mst_group *group;
    int other = (me + 1) % size;
    if (size == 1) return;
    REFUSED(MST_OK, "", mst_new_group(&other, 1, &group));
    REFUSED(MST_ERR_NOT_MEMBER, "", mst_all_reduce(out, 4, MST_F32, .group = group));
    REFUSED(MST_ERR_NOT_MEMBER, "", mst_broadcast(out, 4, MST_F32, .group = group, .root = other));
    REFUSED(MST_ERR_NOT_MEMBER, "", mst_send(out, 4, MST_F32, other, .group = group));
    REFUSED(MST_ERR_NOT_MEMBER, "", mst_monitored_barrier(.group = group, .timeout_ms = 100));
    REFUSED(MST_OK, "", mst_destroy_process_group(group));
    REFUSED(MST_OK, "", mst_new_group(&me, 1, &group));
    INVALID("root", mst_broadcast(out, 4, MST_F32, .group = group, .root = 1));
    INVALID("dst", mst_send(out, 4, MST_F32, 1, .group = group));
    REFUSED(MST_OK, "", mst_destroy_process_group(group));
    still_works("groups of others");
}

/* Tensors that overlap partially. */
static void overlaps(void) {
    if (size == 1) return;
    INVALID("overlap", mst_all_gather_into_tensor(out, out + 1 + me * 2, 2, MST_F32));
    INVALID("overlap", mst_reduce_scatter_tensor(in + 1 + me * 2, in, 2, MST_F32));
    INVALID("overlap", mst_all_to_all_single(out, out + 1, 2, MST_F32));
    still_works("overlaps");
}

static void never_called(mst_status status, void *arg) {
    (void)status, (void)arg;
    report("the callback of a freed work", "called");
}

static void refuse_freed_work(mst_work *work) {
    bool done;
    REFUSED(MST_ERR_STATE, "work", mst_wait(work));
    REFUSED(MST_ERR_STATE, "work", mst_test(work, &done));
    REFUSED(MST_ERR_STATE, "work", mst_work_result(work));
    REFUSED(MST_ERR_STATE, "work", mst_work_on_done(work, never_called, NULL));
    REFUSED(MST_ERR_STATE, "work", mst_test_all(&work, 1, &done));
    mst_work *works[] = {NULL, work};
    int at = -1;
    REFUSED(MST_ERR_STATE, "work", mst_wait_any(works, 2, &at));
    if (at != 1 || works[1]) report("mst_wait_any of a freed work", "the entry is not NULL");
    works[1] = work;
    REFUSED(MST_ERR_STATE, "work", mst_wait_all(works, 2));
    if (works[1]) report("mst_wait_all of a freed work", "the entry is not NULL");
}

/* mst_wait_all releases all works and returns the first failure of the array. */
static void failures_of_several(void) {
    mst_group *groups[2];
    mst_work *works[4] = {NULL}, *freed, *receive;
    int32_t values[4] = {0};
    REFUSED(MST_OK, "", mst_all_reduce(&values[0], 1, MST_I32, .work = &freed));
    REFUSED(MST_OK, "", mst_wait(freed));
    for (int i = 0; i < 2; i++) {
        REFUSED(MST_OK, "", mst_new_group(&me, 1, &groups[i]));
        REFUSED(MST_OK, "",
                mst_irecv(&values[1], 1, MST_I32, 0, .tag = 8, .group = groups[i], .timeout_ms = 40,
                          .work = &receive));
        works[i ? 3 : 0] = receive;
        works[i ? 0 : 3] = freed;
        REFUSED(MST_OK, "", mst_all_reduce(&values[2], 1, MST_I32, .work = &works[2]));
        if (i == 0) REFUSED(MST_ERR_STALLED, "tag 8", mst_wait_all(works, 4));
        if (i == 1) REFUSED(MST_ERR_STATE, "freed before", mst_wait_all(works, 4));
        for (int k = 0; k < 4; k++)
            if (works[k]) report("mst_wait_all with failures", "an entry is not NULL");
        refuse_freed_work(receive);
        mst_destroy_process_group(groups[i]);
    }
    still_works("failures of several works");
}

/* Handles of freed works, also after their memory is in use again. */
static void freed_works(void) {
    mst_work *first, *second;
    int32_t value = 1, other = 1;
    for (int i = 0; i < 3; i++) {
        REFUSED(MST_OK, "", mst_all_reduce(&value, 1, MST_I32, .work = &first));
        REFUSED(MST_OK, "", mst_wait(first));
        refuse_freed_work(first);
        REFUSED(MST_OK, "", mst_all_reduce(&other, 1, MST_I32, .work = &second));
        refuse_freed_work(first);
        REFUSED(MST_OK, "", mst_wait(second));
        refuse_freed_work(second);
    }
    REFUSED(MST_OK, "", mst_all_reduce(&value, 1, MST_I32, .work = &first));
    mst_work_free(first);
    refuse_freed_work(first);
    still_works("freed works");
}

struct ended {
    mst_work *work;
    mst_status status;
};

/* In the callback of a work whose group is destroyed. */
static void note_ended(mst_status status, void *arg) {
    struct ended *ended = arg;
    ended->status = status;
    REFUSED(MST_ERR_STATE, "work", mst_work_result(ended->work));
    mst_work_free(ended->work);
}

static void freed_groups(void) {
    mst_group *first, *second, *invalid = (mst_group *)(void *)out;
    mst_work *work, *over;
    bool done = false;
    int32_t value = 0;
    REFUSED(MST_OK, "", mst_new_group(&me, 1, &first));
    REFUSED(MST_OK, "", mst_all_reduce(&value, 1, MST_I32, .group = first, .work = &over));
    while (!done) REFUSED(MST_OK, "", mst_test(over, &done));
    REFUSED(MST_OK, "", mst_irecv(&value, 1, MST_I32, 0, .group = first, .work = &work));
    struct ended ended = {work, MST_OK};
    REFUSED(MST_OK, "", mst_work_on_done(work, note_ended, &ended));
    REFUSED(MST_OK, "", mst_destroy_process_group(first));
    if (ended.status != MST_ERR_STATE)
        report("the callback of a work whose group was destroyed", mst_status_name(ended.status));
    refuse_freed_work(work);
    refuse_freed_work(over);
    REFUSED(MST_ERR_STATE, "destroyed", mst_destroy_process_group(first));
    REFUSED(MST_OK, "", mst_new_group(&me, 1, &second));
    REFUSED(MST_ERR_STATE, "group", mst_all_reduce(&value, 1, MST_I32, .group = first));
    REFUSED(MST_ERR_STATE, "group", mst_send(&value, 1, MST_I32, 0, .group = first));
    REFUSED(MST_ERR_STATE, "group", mst_barrier(.group = first));
    if (mst_get_rank(first) != -1) report("the rank in a destroyed group", "not -1");
    REFUSED(MST_OK, "", mst_all_reduce(&value, 1, MST_I32, .group = second));
    REFUSED(MST_OK, "", mst_destroy_process_group(second));
    REFUSED(MST_ERR_STATE, "group", mst_all_reduce(&value, 1, MST_I32, .group = invalid));
    still_works("freed groups");
}

static bool is_timeout(mst_status st) {
    return st == MST_ERR_TIMEOUT || st == MST_ERR_STALLED;
}

/* The other ranks do not call: the call times out, and other groups still work. */
static void timeouts(void) {
    enum { LARGE = 1 << 22 };
    static char large[LARGE];
    mst_group *group;
    mst_cancel *cancel;
    mst_status st;
    REFUSED(MST_OK, "", mst_new_group(&me, 1, &group, .name = "alone"));
    st = mst_recv(large, 1, MST_U8, 0, .group = group, .timeout_ms = 100);
    if (!is_timeout(st)) report("a receive without a send", mst_status_name(st));
    REFUSED(MST_OK, "", mst_destroy_process_group(group));
    REFUSED(MST_OK, "", mst_new_group(&me, 1, &group, .name = "alone"));
    REFUSED(MST_OK, "", mst_cancel_new(&cancel));
    mst_cancel_fire(cancel);
    REFUSED(MST_ERR_CANCELLED, "", mst_recv(large, 1, MST_U8, 0, .group = group, .cancel = cancel));
    mst_cancel_free(cancel);
    REFUSED(MST_OK, "", mst_destroy_process_group(group));
    still_works("timeouts");
}

/* A negative tag is either refused by name or works like any other. */
static void negative_tag(void) {
    mst_work *work = NULL;
    int32_t sent = 5, received = 0;
    mst_status st = mst_isend(&sent, 1, MST_I32, me, .tag = -3, .work = &work);
    if (st == MST_OK) {
        REFUSED(MST_OK, "", mst_recv(&received, 1, MST_I32, me, .tag = -3, .timeout_ms = TIMEOUT_MS));
        REFUSED(MST_OK, "", mst_wait(work));
        if (received != sent) report("a negative tag", "received another value");
    } else {
        refused(st, MST_ERR_INVALID, "tag", "", "a negative tag");
    }
    still_works("a negative tag");
}

int main(void) {
    no_world();
    if (mst_init(.timeout_ms = TIMEOUT_MS) != MST_OK) {
        fprintf(stderr, "badcalls: %s\n", mst_error());
        return 1;
    }
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    for (int r = 0; r < RANKS_MAX; r++) outs[r] = out + r, ins[r] = in + r;
    still_works("mst_init");
    null_buffers();
    null_lists();
    types_and_operations();
    freed_operation();
    second_tensor();
    ranks_and_times();
    sizes();
    works_and_memory();
    overlaps();
    freed_works();
    failures_of_several();
    groups_of_others();
    freed_groups();
    timeouts();
    negative_tag();
    mst_destroy_process_group(NULL);
    REFUSED(MST_ERR_STATE, "", mst_all_reduce(out, 1, MST_F32));
    return wrong != 0;
}
