/*
 * documented.c - the statements of docs/messages.md, docs/buffers.md and docs/threads.md that a program
 * can observe, with two ranks. Prints "done" on each rank.
 *
 * A rank that waits for a key of the store is in no call on the group.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATER_MS = 60000, SHORT_MS = 200, SMALL = 1000, LARGE = 8 << 20 };
#define LATER .timeout_ms = LATER_MS

static int me, peer;
static char *in, *out; /* LARGE bytes */
static mst_store *keys;

static void require_at(int line, bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "documented.c:%d: rank %d: not true: %s; %s\n", line, me, what, mst_error());
    _exit(1);
}
#define REQUIRE(condition) require_at(__LINE__, condition, #condition)
#define OK(call)           REQUIRE((call) == MST_OK)

static void let_go(const char *key) {
    OK(mst_store_set(keys, key, "", 0, LATER));
}

static void await(const char *key) {
    OK(mst_store_wait(keys, &key, 1, LATER));
}

/* The first message waits until the other rank is in a call on the group. Later ones do not. */
static void first_message(void) {
    if (me == 0) {
        mst_work *work;
        OK(mst_isend(in, 4, MST_U8, 1, .work = &work));
        REQUIRE(mst_wait(work, .timeout_ms = SHORT_MS) == MST_ERR_TIMEOUT);
        let_go("receive");
        OK(mst_wait(work, LATER));
        for (int i = 0; i < 8; i++) OK(mst_send(in, SMALL, MST_U8, 1, LATER));
        let_go("eager");
    } else {
        await("receive");
        OK(mst_recv(out, 4, MST_U8, 0, LATER));
        await("eager");
        for (int i = 0; i < 8; i++) OK(mst_recv(out, SMALL, MST_U8, 0, LATER));
    }
}

/* A rank in a collective takes no long messages. A work in progress does not disturb the collective. */
static void long_message_to_a_collective(void) {
    mst_work *work;
    if (me == 0) {
        OK(mst_isend(in, LARGE, MST_U8, 1, .work = &work));
        REQUIRE(mst_wait(work, .timeout_ms = SHORT_MS) == MST_ERR_TIMEOUT);
    }
    OK(mst_barrier(LATER));
    if (me == 1) OK(mst_recv(out, LARGE, MST_U8, 0, LATER));
    if (me == 0) OK(mst_wait(work, LATER));
}

/* Both ranks send before they receive. */
static void head_to_head(void) {
    OK(mst_send(in, LARGE, MST_U8, peer, LATER));
    OK(mst_recv(out, LARGE, MST_U8, peer, LATER));
    REQUIRE(out[0] == peer && out[LARGE - 1] == peer);
    OK(mst_send(in, SMALL, MST_U8, me, LATER));
    OK(mst_recv(out, SMALL, MST_U8, me, LATER));
    OK(mst_send_recv(NULL, 0, peer, NULL, 0, peer, MST_U8, LATER));
}

static void tags_and_mismatches(void) {
    mst_message message;
    for (char i = 0; i < 4 && me == 0; i++) OK(mst_send(&i, 1, MST_I8, 1, .tag = i % 2, LATER));
    for (int i = 0; i < 4 && me == 1; i++) {
        OK(mst_recv(out, 1, MST_I8, MST_ANY_SOURCE, .tag = i < 2, .message = &message, LATER));
        REQUIRE(out[0] == (i < 2 ? 1 + 2 * i : 2 * i - 4) && message.sender == 0 && message.tag == (i < 2));
    }
    if (me == 0) {
        OK(mst_send(in, 4, MST_U8, 1, LATER));
        OK(mst_send(in, 8, MST_U8, 1, LATER));
        OK(mst_send_bytes("bytes", 5, 1, LATER));
    } else {
        REQUIRE(mst_recv(out, 8, MST_U8, 0, LATER) == MST_ERR_MISMATCH);
        OK(mst_recv(out, 8, MST_U8, 0, LATER)); /* the other message was dropped */
        OK(mst_recv(out, 5, MST_U8, 0, LATER));
    }
    OK(mst_barrier(LATER));
}

/* Messages and barriers that end early leave the group usable; other collectives do not. */
static void deadlines(void) {
    mst_cancel *cancel;
    mst_group *group;
    int x = 1;
    OK(mst_cancel_new(&cancel));
    mst_cancel_fire(cancel);
    if (me == 0) {
        REQUIRE(mst_recv(out, 1, MST_U8, 1, .timeout_ms = SHORT_MS) == MST_ERR_STALLED);
        REQUIRE(mst_recv(out, 1, MST_U8, 1, .cancel = cancel) == MST_ERR_CANCELLED);
        REQUIRE(mst_barrier(.timeout_ms = SHORT_MS) == MST_ERR_STALLED);
        let_go("late");
    } else {
        await("late");
        OK(mst_barrier(LATER)); /* the call of the other rank counts */
    }
    OK(mst_all_reduce(&x, 1, MST_I32, LATER));
    OK(mst_split_group(0, 0, &group));
    OK(mst_barrier(.group = group, LATER)); /* connects */
    if (me == 0) {
        REQUIRE(mst_all_reduce(&x, 1, MST_I32, .group = group, .cancel = cancel) == MST_ERR_CANCELLED);
        REQUIRE(mst_barrier(.group = group, LATER) == MST_ERR_CANCELLED);
        let_go("failed");
    } else {
        await("failed");
        mst_all_reduce(&x, 1, MST_I32, .group = group, LATER);
        REQUIRE(mst_barrier(.group = group, LATER) != MST_OK);
    }
    OK(mst_destroy_process_group(group));
    mst_cancel_free(cancel);
}

static void callback(mst_status status, void *arg) {
    int *calls = arg;
    OK(status);
    REQUIRE(mst_barrier() == MST_ERR_STATE);
    REQUIRE(mst_destroy_process_group(NULL) == MST_ERR_STATE);
    ++*calls;
}

/* Lists and splits are copied; the memory of mst_alloc outlives the world. */
static int *buffers(void) {
    int *own, calls = 0, got[2];
    mst_work *work;
    OK(mst_alloc(2 * sizeof *own, &own));
    REQUIRE(own[0] == 0 && own[1] == 0);
    own[0] = own[1] = me;
    const void *ins[] = {&own[0], &own[1]};
    void *outs[] = {&got[0], &got[1]};
    size_t splits[] = {1, 1};
    OK(mst_all_to_all(outs, ins, 0, MST_I32, .in_splits = splits, .out_splits = splits, .work = &work));
    memset(outs, 0, sizeof outs);
    memset(ins, 0, sizeof ins);
    memset(splits, 0, sizeof splits);
    OK(mst_work_on_done(work, callback, &calls));
    OK(mst_wait(work, LATER));
    REQUIRE(got[0] == 0 && got[1] == 1 && calls == 1);
    return own;
}

int main(void) {
    if (mst_init() != MST_OK) return 1;
    me = mst_get_rank(NULL);
    peer = 1 - me;
    keys = mst_get_group_store(NULL);
    in = malloc(LARGE);
    out = malloc(LARGE);
    REQUIRE(in && out && keys && mst_get_world_size(NULL) == 2);
    memset(in, me, LARGE);
    first_message();
    if (mst_get_host_count(NULL) == 1) long_message_to_a_collective(); /* sockets have buffers of any size */
    head_to_head();
    tags_and_mismatches();
    deadlines();
    int *own = buffers();
    OK(mst_destroy_process_group(NULL));
    own[0] = 1;
    mst_free(own);
    REQUIRE(mst_barrier() == MST_ERR_STATE);
    free(in);
    free(out);
    puts("done");
    return 0;
}
