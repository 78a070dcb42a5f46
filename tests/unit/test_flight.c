/* test_flight.c - the flight recorder: recording, reading, files, and invalid bytes. */
#include "flight_kit.h"

#include "harness.h"

#include "base/json.h"
#include "prof/flight/dump.h"
#include "prof/flight/write.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct msi_flight ring;
static struct msi_flight_snapshot snapshot;
#define view snapshot.view

static int set_up(void **state) {
    (void)state;
    kit_begin(&ring);
    kit_site(&ring, 3, "mst_all_reduce", "train.c", "step", 33);
    kit_site(&ring, 4, "mst_recv", "train.c", "pull", 50);
    kit_group(&ring, 0, "world", 0xabc, 4);
    return 0;
}

/* The file as a string. */
static char *text_of(const struct msi_rank_id *id, const struct msi_flight_failure *failure) {
    struct msi_buf text = {0};
    msi_flight_write(&view, id, failure, &text);
    msi_buf_add_u8(&text, 0);
    assert_false(text.failed);
    return (char *)text.data;
}

static void the_file_is_as_documented(void **state) {
    struct msi_rank_id id = {.rank = 3, .size = 4, .pid = 4711, .host = "a"};
    struct msi_flight_failure failure = {"MST_ERR_STALLED: x", MST_ERR_STALLED, 2};
    (void)state;
    kit_add(&ring, MSI_FLIGHT_DONE,
            (struct kit_op){.site = 3, .seq = 16, .count = 1024, .begin = 1, .end = 1.5, .dtype = MST_F32});
    kit_add(&ring, MSI_FLIGHT_FAILED,
            (struct kit_op){
                .site = 4, .seq = 1, .count = 8, .begin = 2, .type = MSI_FLIGHT_RECV, .peer = 3, .tag = 5});
    kit_add(&ring, MSI_FLIGHT_STARTED,
            (struct kit_op){.site = 4, .seq = MSI_FLIGHT_NO_NUMBER, .begin = 3, .type = MSI_FLIGHT_RECV});
    kit_add(&ring, MSI_FLIGHT_STARTED,
            (struct kit_op){.site = 4, .seq = 2, .type = MSI_FLIGHT_SEND, .peer = 1});
    kit_add(&ring, MSI_FLIGHT_QUEUED, (struct kit_op){.site = 7, .group = 5, .seq = 17, .begin = 3.25});
    kit_group(&ring, 2, "", 0xdef, 2);
    atomic_store(&ring.groups[2].generation, 7 | 1 << 16);
    assert_true(msi_flight_read(&ring, kit_look(15.25), &snapshot));
    char *text = text_of(&id, &failure);
    assert_string_equal(
        text,
        "{\"version\":1,\"rank\":3,\"size\":4,\"host\":\"a\",\"pid\":4711,\"reason\":\"MST_ERR_STALLED: x\","
        "\"error\":\"MST_ERR_STALLED\",\"culprit\":2,\"unix_ns\":1700000000000000000,\"now_us\":15250000.000,"
        "\"groups\":[{\"group\":0,\"name\":\"world\",\"id\":\"0000000000000abc\",\"size\":4},"
        "{\"group\":2,\"id\":\"0000000000000def\",\"size\":2,\"gone\":true}],\"operations\":[\n"
        "{\"n\":1,\"name\":\"all_reduce\",\"group\":0,\"group_name\":\"world\",\"group_id\":"
        "\"0000000000000abc\","
        "\"group_size\":4,\"seq\":16,\"count\":1024,\"dtype\":\"f32\",\"site\":\"train.c:33\",\"function\":"
        "\"step\","
        "\"state\":\"done\",\"begin_us\":1000000.000,\"end_us\":1500000.000}\n"
        ",{\"n\":2,\"name\":\"recv\",\"group\":0,\"group_name\":\"world\",\"group_id\":\"0000000000000abc\","
        "\"group_size\":4,\"seq\":1,\"count\":8,\"site\":\"train.c:50\",\"function\":\"pull\",\"state\":"
        "\"done\","
        "\"failed\":true,\"begin_us\":2000000.000,\"peer\":2,\"tag\":5,\"dir\":\"recv\"}\n"
        ",{\"n\":3,\"name\":\"recv\",\"group\":0,\"group_name\":\"world\",\"group_id\":\"0000000000000abc\","
        "\"group_size\":4,\"count\":0,\"site\":\"train.c:50\",\"function\":\"pull\",\"state\":\"started\","
        "\"begin_us\":3000000.000,\"peer\":-1,\"tag\":0,\"dir\":\"recv\"}\n"
        ",{\"n\":4,\"name\":\"recv\",\"group\":0,\"group_name\":\"world\",\"group_id\":\"0000000000000abc\","
        "\"group_size\":4,\"seq\":2,\"count\":0,\"site\":\"train.c:50\",\"function\":\"pull\",\"state\":"
        "\"started\",\"begin_us\":0.000,\"peer\":0,\"tag\":0,\"dir\":\"send\"}\n"
        ",{\"n\":5,\"group_gone\":true,\"seq\":17,\"count\":0,\"state\":\"queued\",\"begin_us\":3250000.000}"
        "\n"
        "]}\n");
    free(text);
}

static void of_a_full_ring_the_last_are_seen(void **state) {
    (void)state;
    for (uint64_t i = 1; i <= 1000; i++)
        kit_add(&ring, MSI_FLIGHT_DONE, (struct kit_op){.site = 3, .seq = i, .begin = (double)i});
    assert_true(msi_flight_read(&ring, kit_look(2000), &snapshot));
    assert_int_equal(view.n, MSI_FLIGHT_ENTRIES);
    assert_int_equal(view.ops[0].number, 1000 - MSI_FLIGHT_ENTRIES + 1);
    assert_int_equal(view.ops[view.n - 1].seq, 1000);
    assert_int_equal(view.ops[view.n - 1].begin, INT64_C(1000) * 1000000000);
}

static void what_makes_no_sense_is_left_out(void **state) {
    (void)state;
    for (uint64_t i = 1; i <= 9; i++)
        kit_add(&ring, MSI_FLIGHT_DONE, (struct kit_op){.site = 3, .seq = i, .begin = 1});
    atomic_store(&ring.entries[1].number_state, 0);                          /* being written */
    atomic_store(&ring.entries[2].number_state, 2 << 3 | 7);                 /* invalid state */
    atomic_store(&ring.entries[3].number_state, 259 << 3 | MSI_FLIGHT_DONE); /* number of a later round */
    atomic_store(&ring.entries[4].site_group, MSI_FLIGHT_SITE_ENTRIES);      /* invalid site */
    atomic_store(&ring.entries[5].site_group, (uint64_t)MSI_FLIGHT_GROUPS << 32); /* invalid group */
    atomic_store(&ring.entries[8].tag_type, (uint64_t)3 << 32);                   /* invalid type */
    atomic_store(&ring.entries[6].dtype_peer, UINT32_MAX); /* no dtype: shown without */
    atomic_store(&ring.entries[7].begin, UINT64_MAX / 2);  /* no time */
    assert_true(msi_flight_read(&ring, kit_look(9), &snapshot));
    assert_int_equal(view.n, 3);
    assert_int_equal(view.ops[0].number, 6);
    assert_int_equal(view.ops[0].dtype, 0);
    assert_true(view.ops[1].begin == MSI_FLIGHT_UNKNOWN);
    assert_int_equal(view.ops[2].seq, 9);
    atomic_store(&ring.magic, 1);
    assert_false(msi_flight_read(&ring, kit_look(9), &snapshot));
    assert_int_equal(view.n, 0);
}

static void texts_are_clean_and_end(void **state) {
    (void)state;
    memset(ring.sites[3].operation, 'x', sizeof ring.sites[3].operation);
    memcpy(ring.sites[3].file, "a\033[2J\xc2\x9b\x7f.c", 10);
    kit_add(&ring, MSI_FLIGHT_DONE, (struct kit_op){.site = 3, .seq = 1, .begin = 1});
    assert_true(msi_flight_read(&ring, kit_look(9), &snapshot));
    assert_int_equal(strlen(view.ops[0].name), MSI_FLIGHT_NAME - 1);
    assert_string_equal(view.ops[0].site, "a?[2J???.c:33");
}

/* The first look may be anything, too: then there are no times, and nothing else happens. */
static void clocks_that_make_no_sense(void **state) {
    static const uint64_t odd[] = {0, 1, UINT64_MAX, INT64_MAX, (uint64_t)1 << 63};
    (void)state;
    kit_add(&ring, MSI_FLIGHT_DONE, (struct kit_op){.site = 3, .seq = 1, .begin = 1, .end = 2});
    for (size_t i = 0; i < COUNT_OF(odd); i++)
        for (size_t k = 0; k < COUNT_OF(odd); k++) {
            atomic_store(&ring.first_tick, odd[i]);
            atomic_store(&ring.first_time, odd[k]);
            atomic_store(&ring.unix_time, odd[k]);
            assert_true(msi_flight_read(&ring, kit_look(9), &snapshot));
            assert_int_equal(view.n, 1);
            assert_true(view.unix_ns >= 0);
            if (odd[k] > 1) assert_true(view.ops[0].begin == MSI_FLIGHT_UNKNOWN);
        }
}

static void whatever_the_bytes_are_the_file_is_json(void **state) {
    unsigned seed = 7;
    (void)state;
    for (int turn = 0; turn < 300; turn++) {
        for (size_t i = 0; i < sizeof ring; i++) {
            unsigned r = (unsigned)rand_r(&seed);
            ((unsigned char *)&ring)[i] = (unsigned char)(turn % 3 == 0 ? r >> 8 : r >> 8 & r >> 16 & 3);
        }
        atomic_store(&ring.magic, MSI_FLIGHT_MAGIC);
        uint64_t last = turn % 2 ? 300 : atomic_load(&ring.next);
        atomic_store(&ring.next, last);
        for (uint64_t n = 45; last == 300 && n <= 300; n++)
            atomic_store(&ring.entries[n % MSI_FLIGHT_ENTRIES].number_state,
                         n << 3 | (unsigned)rand_r(&seed) % 8);
        assert_true(msi_flight_read(&ring, msi_tick_look(), &snapshot));
        assert_in_range(view.n, 0, MSI_FLIGHT_ENTRIES);
        struct msi_rank_id id = {.host = ""};
        memcpy(id.host, ring.sites[0].file, sizeof ring.sites[0].file);
        char *text = text_of(&id, &(struct msi_flight_failure){.culprit = -1});
        struct msi_json in = msi_json_of(text, strlen(text));
        assert_true(msi_json_skip(&in) && msi_json_end(&in));
        free(text);
    }
}

/* What this process records, read while it goes on. */
static void what_goes_on_is_read(void **state) {
    mst_site site = {"some/where/train.c", "step", 88};
    (void)state;
    msi_flight_open();
    uint32_t other = msi_flight_group_add("w", "g2", "", NULL, 2);
    struct msi_flight_call call = {.operation = "mst_recv",
                                   .site = &site,
                                   .group = other,
                                   .seq = MSI_FLIGHT_NO_NUMBER,
                                   .count = 7,
                                   .type = MSI_FLIGHT_RECV,
                                   .peer = -1,
                                   .tag = MST_ANY_TAG};
    struct msi_flight_entry_ref ref = msi_flight_begin(&call, msi_tick());
    msi_flight_started(ref);
    assert_true(msi_flight_read_own(&snapshot));
    assert_int_equal(view.n, 1);
    const struct msi_flight_op *op = &view.ops[0];
    assert_ptr_equal(msi_flight_current(&view), op);
    assert_string_equal(op->name, "recv");
    assert_string_equal(op->site, "train.c:88");
    assert_true(op->seq == MSI_FLIGHT_NO_NUMBER);
    assert_int_equal(op->type, MSI_FLIGHT_RECV);
    assert_int_equal(op->tag, MST_ANY_TAG);
    assert_int_equal(op->peer, -1);
    assert_int_equal(op->group, other & 0xffff);
    assert_int_equal(op->state, MSI_FLIGHT_STARTED);
    msi_flight_number(ref, 5);
    msi_flight_match(ref, 2, 3);
    msi_flight_done(ref, true, msi_tick());
    assert_true(msi_flight_read_own(&snapshot));
    assert_null(msi_flight_current(&view));
    assert_int_equal(view.ops[0].seq, 5);
    assert_int_equal(view.ops[0].peer, 2);
    assert_int_equal(view.ops[0].tag, 3);
    assert_int_equal(view.ops[0].type, MSI_FLIGHT_RECV);
    assert_true(view.ops[0].end >= view.ops[0].begin && view.ops[0].end <= view.now);
}

/* What hangs is never written over by what goes on beside it; of too much under way, the oldest stay. */
static void what_is_not_over_stays(void **state) {
    static const mst_site site = {"train.c", "step", 33};
    struct msi_flight_call call = {.operation = "mst_all_reduce", .site = &site, .seq = 77777};
    struct msi_flight_entry_ref others[400];
    (void)state;
    msi_flight_open();
    struct msi_flight_entry_ref hangs = msi_flight_begin(&call, 1);
    for (call.seq = 0; call.seq < 1000; call.seq++) msi_flight_done(msi_flight_begin(&call, 1), true, 0);
    assert_true(msi_flight_read_own(&snapshot));
    assert_int_equal(view.n, MSI_FLIGHT_ENTRIES);
    assert_int_equal(view.ops[0].seq, 77777);
    assert_int_equal(view.ops[0].state, MSI_FLIGHT_QUEUED);
    assert_int_equal(view.ops[view.n - 1].seq, 999);
    for (int i = 0; i < 400; i++) others[i] = msi_flight_begin(&call, 1);
    assert_true(msi_flight_read_own(&snapshot));
    assert_int_equal(view.ops[0].seq, 77777);
    for (int i = 0; i < 400; i++) msi_flight_done(others[i], true, 0);
    msi_flight_done(hangs, true, 0);
    for (call.seq = 0; call.seq < 300; call.seq++) msi_flight_done(msi_flight_begin(&call, 1), true, 0);
    assert_true(msi_flight_read_own(&snapshot));
    for (int i = 0; i < view.n; i++) assert_int_equal(view.ops[i].state, MSI_FLIGHT_DONE);
    assert_int_equal(view.ops[view.n - 1].seq, 299);
}

/* Groups of one name at a time, of two worlds: they differ, and their lines come free when they end. */
/* Lines 1 to 64 of two operations whose names are any distance apart. */
static void call_sites_have_keys_of_their_own(void **state) {
    (void)state;
    for (uintptr_t distance = 16; distance < 1 << 20; distance += 16) {
        const char *names[] = {(const char *)(uintptr_t)0x555555560000,
                               (const char *)(0x555555560000 + distance)};
        uint64_t first = msi_flight_key(names[0], &(mst_site){"a.c", "f", 32});
        for (int line = 1; line <= 64; line++)
            assert_int_not_equal(msi_flight_key(names[1], &(mst_site){"a.c", "f", line}), first);
    }
}

static void groups_come_and_go(void **state) {
    mst_site site = {"a.c", "f", 1};
    uint32_t lines[MSI_FLIGHT_GROUPS], none = MSI_FLIGHT_GROUPS - 1;
    (void)state;
    msi_flight_open();
    uint32_t one = msi_flight_group_add("w1", "g", "one", NULL, 2),
             other = msi_flight_group_add("w2", "g", "other", NULL, 2);
    assert_true(msi_flight_read_own(&snapshot));
    assert_string_equal(view.groups[one & 0xffff].name, "one");
    assert_true(view.groups[one & 0xffff].id != view.groups[other & 0xffff].id);
    struct msi_flight_call call = {.operation = "mst_barrier", .site = &site, .group = one, .seq = 1};
    msi_flight_done(msi_flight_begin(&call, 1), true, 0);
    msi_flight_group_remove(one);
    assert_true(msi_flight_read_own(&snapshot));
    const struct msi_flight_op *op = msi_flight_last(&view);
    assert_string_equal(view.groups[op->group].name, "one");
    assert_true(view.groups[op->group].gone);
    /* All entries are used, also that of the destroyed group; further groups find no space. */
    int n = 0;
    while ((lines[n] = msi_flight_group_add("w1", "h", "new", NULL, 3)) != none)
        assert_true(++n < MSI_FLIGHT_GROUPS);
    assert_true(msi_flight_read_own(&snapshot));
    op = msi_flight_last(&view);
    assert_string_equal(view.groups[op->group].name, "");
    assert_true(view.groups[op->group].gone && view.groups[op->group].size == 0);
    assert_string_equal(view.groups[one & 0xffff].name, "new");
    call.group = none;
    msi_flight_done(msi_flight_begin(&call, 1), true, 0);
    assert_true(msi_flight_read_own(&snapshot));
    op = msi_flight_last(&view);
    assert_false(view.groups[op->group].gone);
    assert_int_equal(view.groups[op->group].size, 0);
    while (n > 0) msi_flight_group_remove(lines[--n]);
    msi_flight_group_remove(other);
    msi_flight_group_remove(none);
}

static void a_file_is_whole_or_as_it_was(void **state) {
    char dir[] = "/tmp/test_flight.XXXXXX", path[64], got[16] = "";
    struct msi_buf text = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a.json", dir);
    msi_buf_add(&text, "one", 3);
    assert_int_equal(msi_flight_save(path, &text), 0);
    text.failed = true;
    assert_int_equal(msi_flight_save(path, &text), ENOMEM);
    assert_int_equal(msi_flight_save("/nowhere/at/all", &(struct msi_buf){0}), ENOENT);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got, file), 3);
    assert_string_equal(got, "one");
    fclose(file);
    msi_buf_free(&text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0); /* nothing is left beside it */
}

static void fail_again(void) {
    msi_flight_note(MST_ERR_STALLED, "x", 0);
    msi_flight_keep();
}

static void assert_reason(const char *path, const char *reason) {
    char text[512], wanted[128];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    snprintf(wanted, sizeof wanted, "\"reason\":\"%s\"", reason);
    assert_contains(text, wanted);
}

/* The second failure of a second comes too soon. */
static void a_failure_leaves_a_file_once_a_second(void **state) {
    char dir[] = "/tmp/test_flight.XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/rank-1.flight.json", dir);
    msi_flight_open();
    int first, other;
    const struct msi_rank_id id = {.rank = 1, .size = 2, .host = "a"}, other_id = {.size = 1, .host = "b"};
    msi_flight_set_world(&first, dir, &id);
    msi_flight_set_world(&other, "/nowhere", &other_id); /* ignored while the first world is set */
    msi_flight_clear_world(&other);
    msi_flight_keep();
    msi_flight_note(MST_ERR_STALLED, "x", 0);
    msi_flight_note(MST_ERR_PEER_LOST, "because of that", 0);
    assert_int_equal(access(path, F_OK), -1); /* the caller of msi_flight_note may hold locks */
    msi_flight_keep();
    assert_reason(path, "MST_ERR_STALLED: x");
    assert_int_equal(unlink(path), 0);
    fail_again();
    assert_int_equal(access(path, F_OK), -1);
    msi_flight_clear_world(&first);
    msi_flight_set_world(&other, dir, &id);
    fail_again();
    assert_int_equal(unlink(path), 0);
    msi_flight_clear_world(&other);
    msi_flight_set_world(&first, "", &id);
    fail_again();
    assert_int_equal(rmdir(dir), 0);
}

/* Another process that records without a pause; its numbers, texts and members belong together. */
static void record_for_ever(void) {
    static const mst_site site = {"train.c", "step", 33};
    struct msi_flight_call call = {.operation = "mst_send", .site = &site, .type = MSI_FLIGHT_SEND};
    alarm(30);
    for (uint32_t i = 0;; i++) {
        char name[16];
        int size = 1 + (int)(i % 60);
        snprintf(name, sizeof name, "of %d", size);
        call.group = msi_flight_group_add("w", name, name, NULL, size);
        for (int k = 0; k < 4; k++) {
            call.seq++;
            call.count = 3 * call.seq;
            call.peer = size;
            call.tag = (int)(call.seq % 1000);
            struct msi_flight_entry_ref ref = msi_flight_begin(&call, msi_tick());
            msi_flight_started(ref);
            msi_flight_done(ref, true, msi_tick());
        }
        msi_flight_group_remove(call.group);
    }
}

static int check_ops(void) {
    int with_group = 0;
    for (int i = 0; i < view.n; i++) {
        const struct msi_flight_op *op = &view.ops[i];
        const struct msi_flight_group *group = &view.groups[op->group];
        assert_int_equal(op->count, 3 * op->seq);
        assert_int_equal(op->tag, op->seq % 1000);
        assert_string_equal(op->name, "send");
        assert_string_equal(op->site, "train.c:33");
        if (group->size) assert_int_equal(op->peer, group->size);
        with_group += group->size > 0;
    }
    return with_group;
}

static void check_groups(void) {
    for (int i = 0; i < view.n_groups; i++) {
        const struct msi_flight_group *group = &view.groups[i];
        int size = 0;
        if (!group->size) continue;
        assert_int_equal(sscanf(group->name, "of %d", &size), 1);
        assert_int_equal(size, group->size);
        assert_true(group->known && msi_flight_has_member(group, size - 1));
        assert_false(msi_flight_has_member(group, size));
    }
}

static void what_another_process_records_is_never_torn(void **state) {
    (void)state;
    struct msi_flight *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    kit_begin(shared);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        atomic_store(&msi_flight, shared);
        for (unsigned i = 0; i < MSI_FLIGHT_SITES; i++) atomic_store(&msi_flight_keys[i], 0);
        record_for_ever();
    }
    assert_true(child > 0);
    int64_t soon = msi_deadline(2000), end = msi_deadline(20000);
    int with_group = 0;
    for (int turn = 0; with_group < 4000 || (turn < 4000 && msi_now() < soon); turn++) {
        assert_true(msi_now() < end);
        assert_true(msi_flight_read(shared, msi_tick_look(), &snapshot));
        with_group += check_ops();
        check_groups();
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(shared, sizeof *shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_file_is_as_documented, set_up),
        cmocka_unit_test_setup(of_a_full_ring_the_last_are_seen, set_up),
        cmocka_unit_test_setup(what_makes_no_sense_is_left_out, set_up),
        cmocka_unit_test_setup(texts_are_clean_and_end, set_up),
        cmocka_unit_test_setup(clocks_that_make_no_sense, set_up),
        cmocka_unit_test_setup(whatever_the_bytes_are_the_file_is_json, set_up),
        cmocka_unit_test(what_goes_on_is_read),
        cmocka_unit_test(what_is_not_over_stays),
        cmocka_unit_test(call_sites_have_keys_of_their_own),
        cmocka_unit_test(groups_come_and_go),
        cmocka_unit_test(what_another_process_records_is_never_torn),
        cmocka_unit_test(a_file_is_whole_or_as_it_was),
        cmocka_unit_test(a_failure_leaves_a_file_once_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
