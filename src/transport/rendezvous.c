/* rendezvous.c - large sends whose bytes do not go through a ring. See rendezvous.h. */
#include "transport/rendezvous.h"
#include "base/hash.h"
#include "os/clock.h"

#include <unistd.h>

void msi_lending_set(struct msi_lending *lending, enum msi_pulling pulling) {
    lending->pulling = pulling;
    /* Who measures nothing has made up its mind. */
    for (int class = 0; class < MSI_PULL_CLASSES; class ++)
        atomic_store_explicit(&lending->own->verdict[class],
                              pulling == MSI_PULLING_NEVER ? MSI_PULL_STAGED : MSI_PULL_UNDECIDED,
                              memory_order_relaxed);
}

/* Says, once, where the other side finds a mark in this process's memory: not before the process that uses the link does. */
static void introduce(struct msi_lending *lending) {
    struct msi_side *own = lending->own;
    msi_random(&lending->mark, sizeof lending->mark);
    own->pid = (int32_t)getpid();
    own->address = (uintptr_t)&lending->mark;
    own->mark = lending->mark;
    atomic_store_explicit(&own->ready, 1, memory_order_release); /* to msi_lending_try */
    lending->introduced = true;
}

void msi_lending_try(struct msi_lending *lending) {
    const struct msi_side *other = lending->other;
    uint64_t mark = 0;
    if (!lending->introduced) introduce(lending);
    /* Acquires what introduce released: the fields of the other side. */
    if (!atomic_load_explicit(&other->ready, memory_order_acquire)) return;
    lending->tried = true;
    if (!msi_pull(other->pid, other->address, &mark, sizeof mark) || mark != other->mark) return;
    atomic_store_explicit(&lending->own->pulls, 1, memory_order_relaxed);
}

bool msi_lending_wanted(struct msi_lending *lending, const struct msi_transfer *send) {
    int class = send->done == 0 ? msi_pull_class(send->len) : -1;
    if (class < 0 || lending->pulling == MSI_PULLING_NEVER) return false;
    const struct msi_side *other = lending->other;
    if (!atomic_load_explicit(&other->pulls, memory_order_relaxed)) return false;
    if (lending->pulling == MSI_PULLING_ALWAYS) return true;
    uint32_t verdict = atomic_load_explicit(&other->verdict[class], memory_order_relaxed);
    return verdict == MSI_PULL_UNDECIDED ? lending->turns[class]++ % 2 : verdict == MSI_PULL_PULLED;
}

void msi_lending_begin(struct msi_lending *lending, const struct msi_transfer *receive, bool first_in_cell) {
    int class = msi_pull_class(receive->len);
    bool open = class >= 0 && msi_pull_verdict_of(&lending->trials, class) == MSI_PULL_UNDECIDED;
    lending->begun = open && first_in_cell ? msi_now() : 0;
}

void msi_lending_end(struct msi_lending *lending, const struct msi_transfer *receive, bool pulled) {
    if (lending->begun == 0) return;
    int class = msi_pull_class(receive->len);
    uint32_t verdict =
        msi_pull_judge(&lending->trials, class, pulled, receive->len, msi_now() - lending->begun);
    atomic_store_explicit(&lending->own->verdict[class], verdict, memory_order_relaxed);
}
