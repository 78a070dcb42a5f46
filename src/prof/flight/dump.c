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

static struct {
    pthread_mutex_t lock; /* of everything here; held while a file is written */
    const void *world;    /* whose it is; NULL: the next one's */
    char directory[PATH_MAX], host[256];
    int rank, size;
    int64_t last; /* when a file was written; 0: never */
} home = {.lock = PTHREAD_MUTEX_INITIALIZER, .rank = -1};

struct note {
    mst_status status;
    int culprit;
    char message[600];
};

/* Taken within the other, never the other way round. */
static pthread_mutex_t note_lock = PTHREAD_MUTEX_INITIALIZER;
static struct note note; /* of it; there is one if msi_flight_noted says so */
_Atomic bool msi_flight_noted;

void msi_flight_home(const void *world, const char *directory, int rank, int size, const char *host) {
    pthread_mutex_lock(&home.lock);
    if (!home.world) {
        snprintf(home.directory, sizeof home.directory, "%s", directory);
        snprintf(home.host, sizeof home.host, "%s", host);
        home.world = world;
        home.rank = rank;
        home.size = size;
        home.last = 0;
    }
    pthread_mutex_unlock(&home.lock);
}

void msi_flight_leave_home(const void *world) {
    pthread_mutex_lock(&home.lock);
    if (home.world == world) home.world = NULL;
    pthread_mutex_unlock(&home.lock);
}

struct space {
    struct msi_flight copy;
    struct msi_flight_room room;
};

/* Under the lock. 0, or an errno; ENODATA: nothing is recorded. */
static int write_to(const char *path, const char *reason, mst_status error, int culprit) {
    struct msi_flight_who who = {.rank = home.rank,
                                 .size = home.size,
                                 .pid = (int)getpid(),
                                 .host = home.host,
                                 .reason = reason,
                                 .error = error,
                                 .culprit = culprit};
    struct msi_buf text = {0};
    struct space *space = aligned_alloc(64, (sizeof *space + 63) / 64 * 64);
    if (!space) return ENOMEM;
    int failed = ENODATA;
    if (msi_flight_copy_own(&space->copy) && msi_flight_look(&space->copy, msi_tick_look(), &space->room)) {
        msi_flight_write(&space->room.view, &who, &text);
        failed = msi_flight_save(path, &text);
    }
    msi_buf_free(&text);
    free(space);
    return failed;
}

/* Under the lock. */
static void write_home(const struct note *failed) {
    char path[PATH_MAX + 64], reason[1200];
    int64_t now = msi_now();
    if (!home.directory[0] || (home.last && now - home.last < PERIOD_NS)) return;
    home.last = now;
    snprintf(path, sizeof path, "%s/rank-%d.flight.json", home.directory, home.rank);
    snprintf(reason, sizeof reason, "%s: %s", mst_status_name(failed->status), failed->message);
    int error = write_to(path, reason, failed->status, failed->culprit);
    if (error && error != ENODATA)
        msi_warn_once(prof, "what happened before a failure cannot be kept in %s: %s", path, strerror(error));
}

void msi_flight_note(mst_status status, const char *message, int culprit) {
    if (!msi_flight_get()) return;
    pthread_mutex_lock(&note_lock);
    if (!msi_flight_is_noted()) {
        note.status = status;
        note.culprit = culprit;
        snprintf(note.message, sizeof note.message, "%s", message);
        atomic_store_explicit(&msi_flight_noted, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&note_lock);
}

static bool take_note(struct note *to) {
    pthread_mutex_lock(&note_lock);
    bool any = msi_flight_is_noted();
    if (any) *to = note;
    atomic_store_explicit(&msi_flight_noted, false, memory_order_relaxed);
    pthread_mutex_unlock(&note_lock);
    return any;
}

void msi_flight_keep(void) {
    struct note failed;
    pthread_mutex_lock(&home.lock);
    if (take_note(&failed)) write_home(&failed);
    pthread_mutex_unlock(&home.lock);
}

mst_status msi_flight_dump(const char *path) {
    pthread_mutex_lock(&home.lock);
    int error = write_to(path, NULL, MST_OK, -1);
    pthread_mutex_unlock(&home.lock);
    if (error == ENODATA)
        return msi_fail(MST_ERR_STATE, "call mst_init first, and leave MUSTER_FLIGHT at 1",
                        "nothing is recorded of this process's operations");
    return error ? msi_fail_errno(error, "cannot write '%s'", path) : MST_OK;
}
