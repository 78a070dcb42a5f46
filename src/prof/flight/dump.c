/* dump.c - see dump.h. */
#include "prof/flight/dump.h"
#include "base/error.h"
#include "base/log.h"
#include "prof/flight/write.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PERIOD_NS INT64_C(1000000000)

/* The world that is dumped. */
static struct {
    pthread_mutex_t lock; /* of everything here; held while a file is written */
    const void *world;    /* NULL: the next world that is set */
    char directory[PATH_MAX];
    struct msi_rank_id id;
    int64_t last; /* when a file was written; 0: never */
} target = {.lock = PTHREAD_MUTEX_INITIALIZER, .id.rank = -1};

struct failure {
    mst_status status;
    int culprit;
    char message[600];
};

/* Taken inside the other lock, never around it. */
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static struct failure first_failure; /* valid if msi_flight_noted is set */
_Atomic bool msi_flight_noted;

void msi_flight_set_world(const void *world, const char *directory, const struct msi_rank_id *id) {
    pthread_mutex_lock(&target.lock);
    if (!target.world) {
        msi_copy_text(target.directory, sizeof target.directory, directory);
        target.id = *id;
        target.world = world;
        target.last = 0;
    }
    pthread_mutex_unlock(&target.lock);
}

void msi_flight_clear_world(const void *world) {
    pthread_mutex_lock(&target.lock);
    if (target.world == world) target.world = NULL;
    pthread_mutex_unlock(&target.lock);
}

/* Under the lock. 0, or an errno; ENODATA: nothing is recorded. */
static int write_to(const char *path, const struct msi_flight_failure *failure) {
    struct msi_buf text = {0};
    struct msi_flight_snapshot *snapshot = malloc(sizeof *snapshot);
    if (!snapshot) return ENOMEM;
    int error = ENODATA;
    target.id.pid = getpid();
    if (msi_flight_read_own(snapshot)) {
        msi_flight_write(&snapshot->view, &target.id, failure, &text);
        error = msi_flight_save(path, &text);
    }
    msi_buf_free(&text);
    free(snapshot);
    return error;
}

/* Under the lock. */
static void write_failure(const struct failure *failure) {
    char path[PATH_MAX + 64], reason[1200];
    int64_t now = msi_now();
    if (!target.directory[0] || (target.last && now - target.last < PERIOD_NS)) return;
    target.last = now;
    snprintf(path, sizeof path, "%s/rank-%d.flight.json", target.directory, target.id.rank);
    snprintf(reason, sizeof reason, "%s: %s", mst_status_name(failure->status), failure->message);
    int error = write_to(path, &(struct msi_flight_failure){reason, failure->status, failure->culprit});
    if (error && error != ENODATA)
        msi_warn_once(prof, "cannot write the flight recorder to %s: %s", path, strerror(error));
}

void msi_flight_note(mst_status status, const char *message, int culprit) {
    if (!msi_flight_get()) return;
    pthread_mutex_lock(&failure_lock);
    if (!msi_flight_is_noted()) {
        first_failure.status = status;
        first_failure.culprit = culprit;
        msi_copy_text(first_failure.message, sizeof first_failure.message, message);
        atomic_store_explicit(&msi_flight_noted, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&failure_lock);
}

void msi_flight_keep(void) {
    pthread_mutex_lock(&target.lock);
    pthread_mutex_lock(&failure_lock);
    bool noted = msi_flight_is_noted();
    struct failure failure = first_failure;
    atomic_store_explicit(&msi_flight_noted, false, memory_order_relaxed);
    pthread_mutex_unlock(&failure_lock);
    if (noted) write_failure(&failure);
    pthread_mutex_unlock(&target.lock);
}

mst_status msi_flight_dump(const char *path) {
    pthread_mutex_lock(&target.lock);
    int error = write_to(path, &(struct msi_flight_failure){.culprit = -1});
    pthread_mutex_unlock(&target.lock);
    if (error == ENODATA)
        return msi_fail(MST_ERR_STATE, "call mst_init first, and leave MUSTER_FLIGHT at 1",
                        "the flight recorder of this process has recorded nothing");
    return error ? msi_fail_errno(error, "cannot write '%s'", path) : MST_OK;
}
