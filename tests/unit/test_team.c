/* test_team.c - every part of a job is done once, by any of the team's threads, and a team that is busy or
 * small delays nobody. */
#include "harness.h"

#include "os/team.h"

#include <stdatomic.h>

enum { THREADS = 4, PARTS = 100, JOBS = 3000, BYTES = 3 << 20 };

struct job {
    _Atomic int done[PARTS];
    _Atomic int foreign; /* parts done by another thread than the caller */
    pthread_t caller;
};

static void count(void *context, int part, int parts) {
    struct job *job = context;
    atomic_fetch_add(&job->done[part], parts == PARTS);
    if (!pthread_equal(pthread_self(), job->caller)) atomic_fetch_add(&job->foreign, 1);
}

static void run_one(struct msi_team *team, struct job *job) {
    *job = (struct job){.caller = pthread_self()};
    msi_team_run(team, PARTS, count, job);
    for (int i = 0; i < PARTS; i++) assert_int_equal(job->done[i], 1);
}

static void every_part_once(void **state) {
    (void)state;
    struct msi_team *team = msi_team_new(THREADS, true);
    struct job job;
    assert_non_null(team);
    for (int i = 0; i < JOBS; i++) run_one(team, &job);
    msi_team_free(team);
}

static void wait_for_another(void *context, int part, int parts) {
    struct job *job = context;
    count(job, part, parts);
    /* The first part ends when another thread has taken one: it came, also out of its sleep. */
    while (part == 0 && atomic_load(&job->foreign) == 0) usleep(100);
}

static void other_threads_come(void **state) {
    (void)state;
    struct msi_team *team = msi_team_new(THREADS, true);
    for (int i = 0; i < 5; i++) {
        struct job job = {.caller = pthread_self()};
        msi_team_run(team, PARTS, wait_for_another, &job);
        assert_true(job.foreign > 0);
        usleep(2000 * (unsigned)i); /* of some jobs the threads have gone to sleep */
    }
    msi_team_free(team);
}

struct user {
    struct msi_team *team;
    struct job job;
};

static void *use(void *context) {
    struct user *user = context;
    for (int i = 0; i < JOBS; i++) run_one(user->team, &user->job);
    return NULL;
}

static void two_users(void **state) {
    (void)state;
    struct msi_team *team = msi_team_new(THREADS, true);
    struct user users[2] = {{.team = team}, {.team = team}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) threads[i] = start_thread(use, &users[i]);
    for (int i = 0; i < 2; i++) join_thread(threads[i]);
    msi_team_free(team);
}

static void check_copies(bool nt_stores) {
    struct msi_team *team = msi_team_new(THREADS, true);
    unsigned char *from = malloc(BYTES), *memory = malloc(BYTES + 1), *to = memory + 1; /* not aligned */
    for (size_t i = 0; i < BYTES; i++) from[i] = (unsigned char)(i * 7 + i / 251);
    static const size_t lengths[] = {0, 1, 63, 65536, 131071, 131072, 1000003, BYTES};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        memset(to, 0, BYTES);
        msi_team_copy(i % 2 ? team : NULL, to, from, lengths[i], nt_stores);
        assert_memory_equal(to, from, lengths[i]);
        for (size_t k = lengths[i]; k < BYTES; k++) assert_int_equal(to[k], 0);
    }
    free(from);
    free(memory);
    msi_team_free(team);
}

static void copies(void **state) {
    (void)state;
    check_copies(false);
    check_copies(true);
}

/* The threads that took parts of jobs of one that leaves processors to the program. */
struct seen {
    _Atomic int n;
};

static void note_thread(void *context, int part, int parts) {
    struct seen *seen = context;
    (void)part;
    (void)parts;
    static _Thread_local const struct seen *noted;
    if (noted != seen) atomic_fetch_add(&seen->n, 1);
    noted = seen;
    usleep(100);
}

static void *spare(void *context) {
    struct msi_team *team = msi_team_new(THREADS, false);
    struct job job;
    assert_int_equal(msi_team_threads(team), THREADS);
    for (int i = 0; i < 20; i++) run_one(team, &job); /* all threads have started */
    msi_team_spare_processors();
    assert_int_equal(msi_team_threads(team), THREADS / 2);
    for (int i = 0; i < 20; i++) msi_team_run(team, 4 * THREADS, note_thread, context);
    msi_team_free(team);
    return NULL;
}

static void spares(void **state) {
    (void)state;
    struct seen seen = {.n = 0};
    join_thread(start_thread(spare, &seen));
    assert_in_range(seen.n, 1, THREADS / 2);
}

static void limits(void **state) {
    (void)state;
    assert_null(msi_team_new(1, false));
    assert_int_equal(msi_team_threads(NULL), 1);
    struct msi_team *team = msi_team_new(8, false), *fixed = msi_team_new(8, true);
    msi_team_limit(team, 3);
    msi_team_limit(team, 5); /* never raises it */
    msi_team_limit(fixed, 3);
    msi_team_limit(NULL, 3);
    assert_int_equal(msi_team_threads(team), 3);
    assert_int_equal(msi_team_threads(fixed), 8);
    assert_int_equal(msi_team_parts(team, 100, 64), 1);
    assert_int_equal(msi_team_parts(team, 128, 64), 2);
    assert_int_equal(msi_team_parts(team, 1000, 64), 3);
    msi_team_limit(team, 0);
    assert_int_equal(msi_team_threads(team), 1);
    msi_team_free(team);
    msi_team_free(fixed);
    assert_in_range(msi_team_share(1), 1, 8);
    assert_int_equal(msi_team_share(100000), 1);
}

/* A thread that takes a part and does not run: the team rests, so that the next jobs do not wait for it. */
static void stall(void *context, int part, int parts) {
    struct job *job = context;
    bool foreign = !pthread_equal(pthread_self(), job->caller);
    count(job, part, parts);
    if (foreign && atomic_load(&job->foreign) == 1) usleep(20000);
    while (part == 0 && atomic_load(&job->foreign) == 0) usleep(10);
}

static void rests(void **state) {
    (void)state;
    struct msi_team *team = msi_team_new(2, true);
    int seen = 0;
    for (int i = 0; i < 20 && !seen; i++) { /* a rest may be over before a busy machine comes back here */
        struct job job = {.caller = pthread_self()};
        msi_team_run(team, PARTS, stall, &job);
        seen = msi_team_threads(team) == 1;
    }
    assert_true(seen);
    while (msi_team_threads(team) < 2) usleep(1000); /* it works again */
    msi_team_free(team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_once), cmocka_unit_test(other_threads_come),
        cmocka_unit_test(two_users),       cmocka_unit_test(copies),
        cmocka_unit_test(spares),          cmocka_unit_test(limits),
        cmocka_unit_test(rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
