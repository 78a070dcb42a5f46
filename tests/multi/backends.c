/*
 * backends.c - selects, requests and exchanges backends of groups. The program of test_backends.py, which
 * sets MUSTER_BACKEND_PATH to the directory of the example backend "minimal".
 *
 *   backends exchange     switches between native and minimal, in the world and in groups
 *   backends own          a backend that the program registers
 *   backends again        another backend after a backend has failed
 *   backends limit        data longer than a value of the store (MUSTER_STORE_MAX_VALUE=64K)
 *   backends mistakes     invalid calls
 *   backends refused      operations that a backend cannot do, not even composed
 *   backends probes       probes and receives with any tag, which a backend lacks
 *   backends memories     a backend for two kinds of memory; ranks use different ones
 *   backends batches      two threads that batch on one group at the same time
 *   backends streams      the group's thread polls operations of a stream for a limited time
 *   backends differ       rank 1 switches to another backend than the others
 *   backends apart W      rank 1 creates a group with another backend than the others; W says which
 *   backends uneven NAME  rank 1 switches to backend NAME once more than the others
 *   backends late         rank 1 does not take part in a switch
 *   backends absent       rank 1 does not open the backend
 *
 * Prints "ok" on success, else the error.
 */
#include "backends/kit.h"

#include <string.h>
#include <unistd.h>

enum { SOON_MS = 1000 };

int me, size;

void check_sum(mst_group *group) {
    int value = me + 1, sum = 0;
    int ranks = mst_get_world_size(group);
    for (int i = 0; i < ranks; i++) sum += mst_get_global_rank(group, i) + 1;
    OK(mst_all_reduce(&value, 1, MST_I32, .group = group));
    CHECK(value == sum);
}

static void exchange(void) {
    int all[16];
    mst_group *follows, *stays;
    mst_work *work;
    float x = 1;
    for (int r = 0; r < size; r++) all[r] = r;
    OK(mst_new_group(all, size, &follows));
    OK(mst_new_group(all, size, &stays, .backend = "minimal"));
    CHECK(!strcmp(mst_get_backend(NULL), "native") && mst_has_reduce_scatter_tensor());
    CHECK(!strcmp(mst_get_backend(stays), "minimal"));
    OK(mst_all_reduce(&x, 1, MST_F32, .work = &work));
    while (mst_set_backend(NULL, "minimal") == MST_ERR_STATE) { /* until the work is done */
    }
    for (int i = 0; i < 6; i++) {
        const char *name = i % 2 ? "native" : "minimal";
        OK(mst_set_backend(NULL, name));
        CHECK(!strcmp(mst_get_backend(NULL), name) && !strcmp(mst_get_backend(follows), name));
        CHECK(!strcmp(mst_get_backend(stays), "minimal"));
        CHECK(mst_has_reduce_scatter_tensor() == (i % 2 == 1));
        check_sum(NULL);
        check_sum(follows);
        check_sum(stays);
    }
    OK(mst_wait(work));
    CHECK(x == (float)size);
    OK(mst_set_backend(follows, "minimal"));
    CHECK(!strcmp(mst_get_backend(follows), "minimal") && !strcmp(mst_get_backend(NULL), "native"));
    check_sum(follows);
    OK(mst_destroy_process_group(follows));
    check_sum(NULL);
}

static void refuse(const char *backend, mst_status status, const char *words) {
    mst_status st = mst_set_backend(NULL, backend);
    if (st != status || !strstr(mst_error(), words) || !strstr(mst_error(), "backends.c:")) {
        fprintf(stderr, "'%s' gave %s: %s\n", backend ? backend : "NULL", mst_status_name(st), mst_error());
        exit(1);
    }
    check_sum(NULL); /* the backend has not changed */
}

static void mistakes(void) {
    refuse(NULL, MST_ERR_INVALID, "backend is NULL");
    refuse("nativ", MST_ERR_UNSUPPORTED, "no backend 'nativ'; did you mean 'native'?");
    refuse("minimall", MST_ERR_UNSUPPORTED, "no backend 'minimall'; did you mean 'minimal'?");
    refuse("unlike", MST_ERR_UNSUPPORTED, "no backend 'unlike'; see `muster info`");
    char beyond[200];
    memset(beyond, 'x', sizeof beyond - 1);
    beyond[sizeof beyond - 1] = '\0';
    refuse(beyond, MST_ERR_INVALID, "has 199 characters; the limit is 79");
    CHECK(mst_backend_list(0, NULL, NULL, NULL, 0) && mst_backend_list(0, NULL, NULL, beyond, sizeof beyond));
    CHECK(!mst_backend_list(-1, NULL, NULL, NULL, 0) && !mst_backend_list(99, NULL, NULL, NULL, 0));
    refuse("../native", MST_ERR_INVALID, "'../native' is not a valid name of a backend");
    refuse("tpu:native", MST_ERR_INVALID, "'tpu:native' does not name a kind of memory");
    refuse("cuda:native", MST_ERR_INVALID, "'native' cannot serve memory of the device");
    refuse("native,minimal", MST_ERR_INVALID, "'native' and 'minimal' are for the same memory");
    refuse("native,", MST_ERR_INVALID, "'' is not a valid name of a backend");
    mst_backend bad = own_table;
    bad.version = 99;
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && strstr(mst_error(), "version 99"));
    bad = own_table;
    bad.progress = NULL;
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && strstr(mst_error(), "lacks progress"));
    bad = own_table;
    bad.group_begin = own_begin;
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && strstr(mst_error(), "lacks group_end"));
    bad = own_table;
    bad.name = "a b";
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && strstr(mst_error(), "'a b' is not a valid name"));
    bad.name = "native";
    CHECK(mst_backend_register(&bad) == MST_ERR_STATE);
    bad.size = 8;
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && mst_backend_register(NULL) == MST_ERR_INVALID);
    mst_group *group;
    CHECK(mst_new_group(&me, 1, &group, .backend = "none") == MST_ERR_UNSUPPORTED);
}

static void tell(mst_status st) {
    printf("%s culprit %d %s\n", mst_status_name(st), mst_last_error()->culprit, mst_error());
}

/* All ranks fail; the world continues over native. */
static void differ(void) {
    tell(mst_set_backend(NULL, me == 1 ? "minimal2" : "minimal"));
    check_sum(NULL);
    tell(mst_set_backend(NULL, me == 1 ? "native" : "minimal"));
    check_sum(NULL);
    tell(mst_set_backend(NULL, me == 1 ? "nothing" : "minimal"));
    check_sum(NULL);
    OK(mst_set_backend(NULL, "minimal"));
    check_sum(NULL);
}

/* Creating a group does not wait for the others: the first rank fails in its first operation. */
static void apart(const char *which) {
    int value = 1, all[] = {0, 1, 2};
    const char *mine = !strcmp(which, "native") == (me == 1) ? "native" : "minimal";
    mst_group *group;
    mst_status st = mst_new_group(all, 3, &group, .backend = !strcmp(which, "none") && me != 1 ? NULL : mine);
    if (st == MST_OK) st = mst_all_reduce(&value, 1, MST_I32, .group = group);
    tell(st);
    check_sum(NULL);
}

/* Meanwhile the others are in an operation of the world, or of a group that follows the world's backend. */
static void uneven(const char *name, bool in_group) {
    int value = 1, all[] = {0, 1, 2};
    mst_group *follows, *stays;
    OK(mst_new_group(all, 3, &follows));
    OK(mst_new_group(all, 3, &stays, .backend = "native"));
    OK(mst_set_backend(NULL, name));
    check_sum(NULL);
    check_sum(follows);
    tell(me == 1 ? mst_set_backend(NULL, "native")
                 : mst_all_reduce(&value, 1, MST_I32, .group = in_group ? follows : NULL));
    check_sum(stays);
    OK(mst_set_backend(NULL, name)); /* the world works again */
    check_sum(NULL);
    check_sum(follows);
}

static void late(void) {
    int all[] = {0, 1, 2};
    mst_group *apart;
    OK(mst_new_group(all, 3, &apart, .backend = "native"));
    OK(mst_barrier(.group = apart));
    if (me != 1) tell(mst_set_backend(NULL, "minimal", .timeout_ms = SOON_MS));
    OK(mst_barrier(.group = apart)); /* rank 1 does not use the world until the others have timed out */
    check_sum(NULL);
    if (me == 1) tell(mst_set_backend(NULL, "minimal"));
    check_sum(NULL);
    OK(mst_set_backend(NULL, "minimal"));
    check_sum(NULL);
}

static void absent(void) {
    int value = 1;
    int all[] = {0, 1, 2};
    mst_group *apart;
    OK(mst_new_group(all, 3, &apart, .backend = "native"));
    OK(mst_set_backend(NULL, "minimal"));
    OK(mst_barrier(.group = apart));
    if (me != 1) {
        mst_status st = mst_all_reduce(&value, 1, MST_I32, .timeout_ms = SOON_MS);
        printf("%s %s\n", mst_status_name(st), mst_error());
    }
    OK(mst_barrier(.group = apart)); /* no rank leaves before this */
}

/* Rank 1 makes the others fail over one backend, and lets them wait over the next. */
static void again(void) {
    int all[] = {0, 1, 2}, value = 1;
    mst_group *apart;
    register_copy();
    OK(mst_new_group(all, 3, &apart, .backend = "native"));
    OK(mst_set_backend(NULL, "minimal"));
    check_sum(NULL);
    if (me != 1) CHECK(mst_all_reduce(&value, 1, MST_I32, .timeout_ms = SOON_MS) == MST_ERR_STALLED);
    OK(mst_barrier(.group = apart));
    OK(mst_set_backend(NULL, "copy"));
    if (me == 1) usleep(2 * SOON_MS * 1000);
    check_sum(NULL);
    /* Switching back works: to failed backends, to the other one, and to native after it has failed. */
    for (int i = 0; i < 2; i++) {
        OK(mst_set_backend(NULL, "minimal"));
        check_sum(NULL);
        OK(mst_set_backend(NULL, i ? "native" : "copy"));
        check_sum(NULL);
    }
    mst_status st = me == 1 ? mst_barrier() : mst_all_reduce(&value, 1, MST_I32);
    CHECK(st == MST_ERR_MISMATCH && mst_barrier() == MST_ERR_MISMATCH);
    for (int i = 0; i < 2; i++) {
        OK(mst_set_backend(NULL, "native"));
        check_sum(NULL);
    }
    /* A backend that some ranks could not open, because another rank did not come. */
    OK(mst_set_backend(apart, "minimal"));
    if (me != 1)
        CHECK(mst_all_reduce(&value, 1, MST_I32, .group = apart, .timeout_ms = SOON_MS) == MST_ERR_STALLED);
    check_sum(NULL);
    OK(mst_set_backend(apart, "native"));
    OK(mst_set_backend(apart, "minimal"));
    check_sum(apart);
}

/* The error names both sizes, and the store still works. */
static void limit(void) {
    static char in[(64 << 10) + 8], out[sizeof in * 16];
    int all[16];
    mst_group *group;
    for (int r = 0; r < size; r++) all[r] = r;
    OK(mst_new_group(all, size, &group, .backend = "minimal"));
    check_sum(group);
    OK(mst_all_gather_into_tensor(out, in, sizeof in - 8, MST_U8, .group = group));
    CHECK(mst_all_gather_into_tensor(out, in, sizeof in, MST_U8, .group = group) == MST_ERR_LIMIT);
    CHECK(strstr(mst_error(), "65544 bytes") && strstr(mst_error(), "limit is 65536"));
    CHECK(strstr(mst_error(), "MUSTER_STORE_MAX_VALUE"));
    OK(mst_new_group(all, size, &group, .backend = "minimal"));
    check_sum(group);
}

/* They are rejected with a remedy, and fail alone. */
static void probes(void) {
    int all[16], value = me, got = -1, next = (me + 1) % size, last = (me + size - 1) % size;
    bool found;
    mst_group *group;
    mst_bytes bytes;
    for (int r = 0; r < size; r++) all[r] = r;
    OK(mst_new_group(all, size, &group, .backend = "minimal"));
    check_sum(group);
    CHECK(mst_probe(last, NULL, .group = group) == MST_ERR_UNSUPPORTED);
    CHECK(strstr(mst_error(), "backend 'minimal' has no probes; use the native backend"));
    CHECK(mst_iprobe(last, &found, NULL, .group = group) == MST_ERR_UNSUPPORTED);
    CHECK(mst_recv(&got, 1, MST_I32, last, .tag = MST_ANY_TAG, .group = group) == MST_ERR_UNSUPPORTED);
    CHECK(strstr(mst_error(), "'minimal' has no receives with any tag; name the sender and the tag"));
    OK(mst_send_recv(&got, 1, last, &value, 1, next, MST_I32, .tag = 3, .group = group));
    CHECK(got == last);
    if (me == 0) OK(mst_send_bytes("abc", 3, 1, .group = group));
    if (me == 1) {
        mst_message m;
        OK(mst_recv_bytes(&bytes, MST_ANY_SOURCE, .group = group, .message = &m));
        CHECK(bytes.len == 3 && m.sender == 0 && m.tag == 0 && m.bytes == 3);
        mst_bytes_free(&bytes);
    }
    check_sum(group);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "differ")) register_second();
    OK(mst_init());
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (!strcmp(what, "exchange")) exchange();
    if (!strcmp(what, "own")) own();
    if (!strcmp(what, "again")) again();
    if (!strcmp(what, "limit")) limit();
    if (!strcmp(what, "mistakes")) mistakes();
    if (!strcmp(what, "refused")) refused();
    if (!strcmp(what, "probes")) probes();
    if (!strcmp(what, "memories")) memories();
    if (!strcmp(what, "batches")) batches();
    if (!strcmp(what, "streams")) streams();
    if (!strcmp(what, "differ")) differ();
    if (!strcmp(what, "apart")) apart(argc > 2 ? argv[2] : "");
    if (!strcmp(what, "uneven")) uneven(argc > 2 ? argv[2] : "native", argc > 3);
    if (!strcmp(what, "late")) late();
    if (!strcmp(what, "absent")) absent();
    if (strcmp(what, "absent") != 0) {
        OK(mst_barrier());
        puts("ok");
    }
    fflush(stdout);
    OK(mst_destroy_process_group(NULL));
    return 0;
}
