/* rest.c - the thread of a group sleeps while nothing but blocking calls is under way. */
#include "works.h"

#include <dirent.h>
#include <pthread.h>

enum { CALLS = 500, WAKES_MOST = CALLS / 5, TAG = 3 };

/* How often the group's thread has gone to sleep; -1: there is none. */
static long count_sleeps(void) {
    char path[300], line[100], name[32];
    long sleeps = -1;
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir);
    for (struct dirent *at; (at = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/self/task/%.200s/status", at->d_name);
        FILE *file = at->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file) continue;
        bool found = fgets(line, sizeof line, file) && sscanf(line, "Name: %31s", name) == 1 &&
                     !strcmp(name, "muster-comm");
        while (found && fgets(line, sizeof line, file)) sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps);
        fclose(file);
    }
    closedir(dir);
    return sleeps;
}

static void call(void) {
    float x = (float)rank;
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, out = rank, in = -1;
    OK(mst_all_reduce(&x, 1, MST_F32));
    CHECK(x == (float)(size * (size - 1)) / 2);
    OK(mst_send_recv(&in, 1, previous, &out, 1, next, MST_I32));
    CHECK(in == previous);
    OK(mst_barrier());
}

static void call_with_work(void) {
    float x = 1;
    mst_work *work;
    OK(mst_all_reduce(&x, 1, MST_F32, .work = &work));
    OK(mst_wait(work));
    CHECK(x == (float)size);
}

void test_rest(void) {
    call_with_work();
    call();
    long before = count_sleeps();
    for (int i = 0; i < CALLS; i++) call();
    long slept = count_sleeps() - before;
    if (before >= 0 && slept > WAKES_MOST) {
        fprintf(stderr, "rank %d: %d blocking calls have woken the group's thread %ld times\n", rank, CALLS,
                slept);
        _exit(1);
    }
    for (int i = 0; i < CALLS; i++) { /* works and blocking calls in turn */
        call_with_work();
        call();
    }
}

static void *send_messages(void *arg) {
    for (int i = 0; i < CALLS; i++) OK(mst_send(&i, 1, MST_I32, (rank + 1) % size, .tag = TAG));
    return arg;
}

static void *receive_messages(void *arg) {
    for (int i = 0, got; i < CALLS; i++) {
        OK(mst_recv(&got, 1, MST_I32, (rank + size - 1) % size, .tag = TAG));
        CHECK(got == i);
    }
    return arg;
}

/* Blocking calls of several threads, after a work: one of them may find the others waiting. */
void test_rest_threads(void) {
    pthread_t threads[2];
    call_with_work();
    pthread_create(&threads[0], NULL, send_messages, NULL);
    pthread_create(&threads[1], NULL, receive_messages, NULL);
    for (int i = 0; i < CALLS; i++) {
        OK(mst_barrier());
        if (i % 50 == 0) call_with_work();
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}
