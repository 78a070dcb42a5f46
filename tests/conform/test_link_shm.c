/*
 * test_link_shm.c - what only the shared memory link does: it wakes the other side, uses few cells, and finds
 * out how large messages are copied fastest.
 */
#include "link_kit.h"

#include "transport/cma.h"
#include "transport/rendezvous.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void count(void *arg) {
    ++*(int *)arg;
}

static void a_shm_link_tells_when_the_other_side_may_move(void **state) {
    (void)state;
    struct ends ends;
    struct msi_link *link;
    struct msi_transfer send, receive;
    char data[1000];
    int posted = 0, before = 0;
    assert_true(open_ends(&link_bases[1], 0, &ends));
    assert_ok(msi_link_open_shm(ends.memory, 0, count, &posted, &link)); /* replaces end 0, which is unused */
    memset(data, 0, sizeof data);
    msi_link_send(link, &send, data, sizeof data);
    advance(link);
    assert_int_equal(posted, 1);
    for (int i = 0; i < 64; i++) { /* a message in each cell, several rounds */
        msi_link_send(ends.end[1], &send, data, sizeof data);
        advance(ends.end[1]);
        assert_true(msi_transfer_done(&send));
        msi_link_receive(link, &receive, data, sizeof data);
        before = posted;
        advance(link);
        assert_true(msi_transfer_done(&receive));
        assert_in_range(posted - before, 0, 1);
    }
    assert_in_range(posted, 1 + 64 / 16, 1 + 64); /* at least once per round, for free cells */
    before = posted;
    close_link(link);
    assert_int_equal(posted, before + 1);
    close_ends(&ends);
}

/* The number of emptied cells that end 1 has reported. It may report one cell late. */
static uint64_t cells_used(const struct ends *ends) {
    return atomic_load((_Atomic uint64_t *)((char *)ends->memory + 2 * 128));
}

/* Sends one message in each direction; returns the number of cells that it took. */
static uint64_t cells_for(const struct ends *ends, size_t bytes) {
    static char from[2 << 20], to[2 << 20];
    struct msi_transfer send, receive;
    uint64_t before = cells_used(ends);
    fill(from, bytes, 1, bytes);
    memset(to, 0, bytes);
    msi_link_send(ends->end[0], &send, from, bytes);
    msi_link_receive(ends->end[1], &receive, to, bytes);
    int64_t limit = msi_deadline(LIMIT_MS);
    while (!msi_transfer_done(&send) || !msi_transfer_done(&receive)) {
        advance(ends->end[0]);
        advance(ends->end[1]);
        assert_true(msi_now() < limit);
    }
    check_bytes(to, bytes, 1, bytes);
    return cells_used(ends) - before;
}

static bool can_cma(void) {
    int64_t from = 7, to = 0;
    return msi_cma_read((int)getpid(), (uintptr_t)&from, &to, sizeof to) && to == 7;
}

static void a_large_message_uses_cma_if_allowed(void **state) {
    (void)state;
    struct ends ends;
    if (!can_cma()) skip();
    assert_true(open_cma(&ends));
    for (int i = 0; i < 2; i++) cells_for(&ends, 1); /* each side detects that the other supports CMA */
    assert_int_equal(cells_for(&ends, 1 << 20), 1);
    assert_int_equal(cells_for(&ends, 2 * MSI_RENDEZVOUS_FROM), 1);
    close_ends(&ends);
}

/* A block that is sent again is mapped by the receiver, whether CMA is possible or not. */
static void a_large_message_from_an_arena_is_mapped(void **state) {
    (void)state;
    enum { BYTES = 3 << 20 };
    struct ends ends;
    void *from = NULL;
    char *to = malloc(BYTES);
    assert_true(open_wide(&ends)); /* never CMA */
    assert_status(msi_arena_alloc(BYTES, &from), MST_OK);
    static const size_t lengths[] = {BYTES - 5, MSI_RENDEZVOUS_FROM, BYTES - 5};
    for (size_t i = 0; i < 3; i++) {
        struct msi_transfer send, receive[2];
        uint64_t before = cells_used(&ends);
        size_t n = lengths[i], half = n / 2;
        fill((char *)from + 5, n, (unsigned)i, n);
        memset(to, 0, BYTES);
        msi_link_send(ends.end[0], &send, (char *)from + 5, n);
        msi_link_receive(ends.end[1], &receive[0], to, half);
        msi_link_receive(ends.end[1], &receive[1], to + half, n - half);
        run_until_done(ends.end[0], ends.end[1], &receive[1]);
        run_until_done(ends.end[1], ends.end[0], &send);
        check_bytes(to, n, (unsigned)i, n);
        assert_true((cells_used(&ends) - before == 1) == (i > 0));
    }
    assert_true(msi_arena_free(from));
    free(to);
    close_ends(&ends);
}

/* Mapping many blocks in turn, or blocks that are freed after a message, takes longer than copying. */
static void blocks_that_are_soon_forgotten_are_not_mapped(void **state) {
    (void)state;
    enum { BLOCKS = 200, BYTES = 100000 };
    struct ends ends;
    static char to[BYTES];
    void *blocks[BLOCKS];
    assert_true(open_wide(&ends)); /* never CMA */
    for (int i = 0; i < BLOCKS; i++) assert_status(msi_arena_alloc(BYTES, &blocks[i]), MST_OK);
    for (int i = 0; i < 2 * BLOCKS; i++) {
        struct msi_transfer send, receive;
        uint64_t before = cells_used(&ends);
        fill(blocks[i % BLOCKS], BYTES, (unsigned)i, 0);
        msi_link_send(ends.end[0], &send, blocks[i % BLOCKS], BYTES);
        msi_link_receive(ends.end[1], &receive, to, BYTES);
        run_until_done(ends.end[0], ends.end[1], &receive);
        run_until_done(ends.end[1], ends.end[0], &send);
        check_bytes(to, BYTES, (unsigned)i, 0);
        assert_true(cells_used(&ends) - before > 1);
    }
    for (int i = 0; i < BLOCKS; i++) assert_true(msi_arena_free(blocks[i]));
    close_ends(&ends);
}

/* Without a free descriptor the receiver cannot map the buffer. The message comes nevertheless. */
static void a_large_message_that_cannot_be_mapped_uses_cells(void **state) {
    (void)state;
    enum { BYTES = 300001 };
    struct ends ends;
    struct rlimit limit, none;
    void *from = NULL;
    char *to = malloc(BYTES);
    assert_true(open_wide(&ends)); /* never CMA */
    assert_status(msi_arena_alloc(BYTES, &from), MST_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    for (int turn = 0; turn < 3; turn++) { /* only the second time with an offer */
        struct msi_transfer send[2], receive[2];
        uint64_t before = cells_used(&ends);
        fill(from, BYTES, (unsigned)turn, 0);
        memset(to, 0, BYTES);
        msi_link_send(ends.end[0], &send[0], from, BYTES - 1);
        msi_link_send(ends.end[0], &send[1], (char *)from + BYTES - 1, 1);
        msi_link_receive(ends.end[1], &receive[0], to, 5);
        msi_link_receive(ends.end[1], &receive[1], to + 5, BYTES - 5);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        run_until_done(ends.end[0], ends.end[1], &receive[1]);
        run_until_done(ends.end[1], ends.end[0], &send[1]);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        check_bytes(to, BYTES, (unsigned)turn, 0);
        assert_true(cells_used(&ends) - before > 1);
    }
    assert_true(msi_arena_free(from));
    free(to);
    close_ends(&ends);
}

/* A container may forbid CMA: then everything uses cells. */
static void a_large_message_uses_cells_if_cma_is_forbidden(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {COUNT_OF(filter), filter};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
            _exit(77);
        struct ends ends;
        bool through_cells =
            !can_cma() && open_cma(&ends) && cells_for(&ends, 2) < 2 && cells_for(&ends, 1 << 20) > 1;
        _exit(through_cells ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* How much a side can send before the other side runs. */
static size_t sent_in_one_turn(struct msi_link *link, struct msi_transfer *send, char *data, size_t bytes) {
    msi_link_send(link, send, data, bytes);
    while (advance(link)) continue;
    return send->done;
}

/* Each message fits, for any size of the earlier ones, with as few reports of the receiver as possible. */
static void a_wide_link_takes_a_large_message_in_one_turn(void **state) {
    (void)state;
    static const size_t sizes[] = {1 << 20, 1 << 20, 256 << 10, 256 << 10, 512 << 10,
                                   100,     1 << 20, 17 << 14,  1 << 20};
    static char from[(1 << 20) + 16], to[(1 << 20) + 16];
    struct ends ends;
    struct msi_transfer send, receive;
    assert_true(open_wide(&ends));
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        size_t bytes = sizes[i] + 16; /* with the head of a message */
        fill(from, bytes, i, 0);
        assert_int_equal(sent_in_one_turn(ends.end[0], &send, from, bytes), bytes);
        msi_link_receive(ends.end[1], &receive, to, bytes);
        run_until_done(ends.end[1], NULL, &receive);
        check_bytes(to, bytes, i, 0);
    }
    close_ends(&ends);
    assert_true(open_ends(&link_bases[1], 0, &ends));
    assert_in_range(sent_in_one_turn(ends.end[0], &send, from, 1 << 20), 1, (1 << 20) - 1);
    close_ends(&ends);
}

/* New cells cost memory, and cells that were not used recently are not in the cache. */
static void small_messages_keep_to_the_first_cells(void **state) {
    (void)state;
    enum { FIRST = 3 * 128, CELL = 16512, CELLS = 16 };
    struct ends ends;
    struct msi_transfer send, receive;
    char byte = 1;
    assert_true(open_wide(&ends));
    for (int i = 0; i < 100; i++) {
        msi_link_send(ends.end[0], &send, &byte, 1);
        msi_link_receive(ends.end[1], &receive, &byte, 1);
        run_until_done(ends.end[0], ends.end[1], &receive);
    }
    const char *cells = (char *)ends.memory + FIRST;
    assert_true(atomic_load((const _Atomic uint64_t *)(cells + (CELLS - 1) * CELL)) != 0);
    assert_true(atomic_load((const _Atomic uint64_t *)(cells + CELLS * CELL)) == 0);
    close_ends(&ends);
}

/* Tries all methods, then uses one of them. */
static void what_is_faster_is_found_out(void **state) {
    (void)state;
    struct ends ends;
    if (!can_cma()) skip();
    assert_true(open_ends(&link_bases[1], 0, &ends));
    for (int i = 0; i < 2; i++) cells_for(&ends, 1);
    int by_cma = 0, last = -1;
    for (int i = 0; i < 2 * MSI_COPY_TRIALS; i++) by_cma += cells_for(&ends, 1 << 20) <= 2;
    assert_int_equal(by_cma, MSI_COPY_TRIALS);
    for (int i = 0; i < 6; i++) {
        int now = cells_for(&ends, 1 << 20) <= 2;
        assert_true(last < 0 || now == last);
        last = now;
    }
    close_ends(&ends);
}

static void the_best_trial_decides(void **state) {
    (void)state;
    enum { CLASS = 2, ALL = 7 };
    struct msi_copy_trials trials = {0};
    assert_int_equal(msi_copy_class(MSI_COPY_FROM - 1), -1);
    assert_int_equal(msi_copy_class(MSI_COPY_FROM), 0);
    assert_int_equal(msi_copy_class(4 * MSI_COPY_FROM), 1);
    assert_int_equal(msi_copy_class(SIZE_MAX), MSI_COPY_CLASSES - 1);
    for (int i = 0; i < 3 * MSI_COPY_TRIALS; i++) {
        assert_false(msi_copy_decided(&trials, CLASS, ALL));
        msi_copy_add(&trials, CLASS, i % 3, 1000, 100 + i);
    }
    assert_true(msi_copy_decided(&trials, CLASS, ALL));
    assert_int_equal(msi_copy_fastest(&trials, CLASS, ALL), MSI_BY_CELLS);
    msi_copy_add(&trials, CLASS, MSI_BY_NT, 1000, 90); /* not worth it */
    assert_int_equal(msi_copy_fastest(&trials, CLASS, ALL), MSI_BY_CELLS);
    msi_copy_add(&trials, CLASS, MSI_BY_NT, 1000, 80);
    assert_int_equal(msi_copy_fastest(&trials, CLASS, ALL), MSI_BY_NT);
    msi_copy_add(&trials, CLASS, MSI_BY_CMA, 1000, 0);
    assert_int_equal(msi_copy_fastest(&trials, CLASS, ALL), MSI_BY_CMA);
    assert_int_equal(msi_copy_fastest(&trials, CLASS, ALL & ~MSI_METHOD(MSI_BY_CMA)), MSI_BY_NT);
    assert_int_equal(msi_copy_fastest(&trials, CLASS, MSI_METHOD(MSI_BY_CELLS)), MSI_BY_CELLS);
}

/* Methods that are not allowed have no turn. */
static void methods_take_turns(void **state) {
    (void)state;
    for (unsigned methods = 1; methods < 8; methods++) {
        int n[MSI_COPY_METHODS] = {0};
        for (unsigned turn = 0; turn < 48; turn++) n[msi_copy_in_turn(0, methods, turn)]++;
        for (int m = 0; m < MSI_COPY_METHODS; m++)
            assert_int_equal(n[m], methods & MSI_METHOD(m) ? 48 / __builtin_popcount(methods) : 0);
    }
}

static void misaligned_shm_memory_is_refused(void **state) {
    (void)state;
    static _Alignas(128) char memory[256];
    struct msi_link *link = NULL;
    assert_status(msi_link_open_shm(memory + 64, 0, NULL, NULL, &link), MST_ERR_INVALID);
    assert_status(msi_link_open_shm(memory, 2, NULL, NULL, &link), MST_ERR_INVALID);
    assert_null(link);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shm_link_tells_when_the_other_side_may_move),
        cmocka_unit_test(a_large_message_uses_cma_if_allowed),
        cmocka_unit_test(a_large_message_uses_cells_if_cma_is_forbidden),
        cmocka_unit_test(a_wide_link_takes_a_large_message_in_one_turn),
        cmocka_unit_test(small_messages_keep_to_the_first_cells),
        cmocka_unit_test(what_is_faster_is_found_out),
        cmocka_unit_test(the_best_trial_decides),
        cmocka_unit_test(a_large_message_from_an_arena_is_mapped),
        cmocka_unit_test(blocks_that_are_soon_forgotten_are_not_mapped),
        cmocka_unit_test(a_large_message_that_cannot_be_mapped_uses_cells),
        cmocka_unit_test(methods_take_turns),
        cmocka_unit_test(misaligned_shm_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
