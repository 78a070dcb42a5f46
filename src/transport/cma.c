/* cma.c - see cma.h. */
#include "transport/cma.h"
#include "base/hash.h"
#include "os/team.h"

#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { GRAIN = 512 << 10 }; /* bytes that are worth a thread */

bool msi_cma_read(int pid, uint64_t from, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        struct iovec here = {(char *)to + done, bytes - done},
                     there = {(void *)(uintptr_t)(from + done), bytes - done};
        ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (n == 0) errno = EFAULT;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

/* A read by several threads. */
struct read {
    int pid;
    uint64_t from;
    char *to;
    size_t bytes;
    _Atomic int error; /* errno of a part that failed; 0: none */
};

static void read_part(void *context, int part, int parts) {
    struct read *read = context;
    size_t at = msi_team_start(read->bytes, part, parts, 64),
           end = msi_team_start(read->bytes, part + 1, parts, 64);
    if (!msi_cma_read(read->pid, read->from + at, read->to + at, end - at))
        atomic_store_explicit(&read->error, errno, memory_order_relaxed); /* read after the job has ended */
}

int msi_cma_read_by(struct msi_team *team, int pid, uint64_t from, void *to, size_t bytes) {
    struct read read = {pid, from, to, bytes, 0};
    msi_team_run(team, msi_team_parts(team, bytes, GRAIN), read_part, &read);
    return atomic_load_explicit(&read.error, memory_order_relaxed);
}

void msi_cma_publish(struct msi_cma_token *token, uint64_t *value) {
    msi_random(value, sizeof *value);
    token->pid = (int32_t)getpid();
    token->address = (uintptr_t)value;
    token->value = *value;
    atomic_store_explicit(&token->ready, 1, memory_order_release); /* to msi_cma_try */
}

enum msi_cma_access msi_cma_try(const struct msi_cma_token *token) {
    uint64_t value = 0;
    /* Acquires what msi_cma_publish released: the other fields. */
    if (!atomic_load_explicit(&token->ready, memory_order_acquire)) return MSI_CMA_NOT_READY;
    bool read = msi_cma_read(token->pid, token->address, &value, sizeof value);
    return read && value == token->value ? MSI_CMA_ALLOWED : MSI_CMA_DENIED;
}
