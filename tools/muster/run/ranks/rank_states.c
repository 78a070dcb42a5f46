/* rank_states.c - see rank_states.h. The loop's thread alone. */
#include "run/ranks/rank_states.h"

#include "cli/text.h"

#include <muster/dtype.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

#define get(field) atomic_load_explicit(&(field), memory_order_relaxed)

static struct msi_rank_state *rank_state_of(const struct states *states, int local_rank) {
    return (struct msi_rank_state *)(void *)(states->memory + (size_t)local_rank * MSI_RANK_STATE_SLOT);
}

void rank_states_open(struct states *states, int n) {
    size_t bytes = (size_t)n * MSI_RANK_STATE_SLOT;

    *states =
        (struct states){.fd = memfd_create(MSI_RANK_STATE_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING), .n = n};
    if (states->fd < 0) return;
    void *memory = MAP_FAILED;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files counts here, too */
    if (ftruncate(states->fd, (off_t)bytes) == 0 && fcntl(states->fd, F_ADD_SEALS, SEALS) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, states->fd, 0);
    signal(SIGXFSZ, before);
    if (memory == MAP_FAILED) {
        close(states->fd);
        states->fd = -1;
        return;
    }
    states->memory = memory;
}

void rank_states_close(struct states *states) {
    if (states->fd < 0) return;
    munmap(states->memory, (size_t)states->n * MSI_RANK_STATE_SLOT);
    close(states->fd);
    states->fd = -1;
}

void rank_states_begin(struct states *states, int world_size) {
    states->world_size = world_size;
    for (int i = 0; i < states->n && states->fd >= 0; i++) {
        memset(rank_state_of(states, i), 0, MSI_RANK_STATE_SLOT);
        atomic_store_explicit(&rank_state_of(states, i)->magic, MSI_RANK_STATE_MAGIC, memory_order_relaxed);
    }
}

/* A text up to its end or that of its room. */
static void copy(char *to, const char *from, size_t room) {
    memcpy(to, from, room - 1);
    to[room - 1] = '\0';
    text_clean(to, false);
}

static int whole(uint32_t number) {
    return number <= INT32_MAX ? (int)number : 0;
}

struct rank_stage rank_states_stage(const struct states *states, int local_rank) {
    struct rank_stage stage = {.phase = MSI_RANK_STATE_NOTHING, .rank = -1};
    if (states->fd < 0) return stage;
    struct msi_rank_state *state = rank_state_of(states, local_rank);
    uint32_t phase = get(state->phase);

    if (get(state->magic) != MSI_RANK_STATE_MAGIC || phase >= MSI_RANK_STATE_PHASES) return stage;
    stage.phase = (enum msi_rank_phase)phase;
    stage.rank = whole(get(state->rank));
    stage.is_here = get(state->size) == (uint32_t)states->world_size;
    return stage;
}

static void read_call(struct msi_rank_state *state, struct rank_state_view *view) {
    uint64_t call = get(state->call);
    uint64_t about = get(state->size_dtype), where = get(state->line_site);
    uint64_t dtype = about >> 32, place = where >> 32;

    view->has_call = call > 1 && place < MSI_RANK_STATE_SITES;
    if (!view->has_call) return;
    view->under_way = call % 2 != 0;
    copy(view->operation, state->sites[place].operation, sizeof view->operation);
    copy(view->file, state->sites[place].file, sizeof view->file);
    copy(view->function, state->sites[place].function, sizeof view->function);
    view->sequence = get(state->sequence);
    view->count = get(state->count);
    view->ranks = whole((uint32_t)about);
    view->line = whole((uint32_t)where);
    view->dtype = dtype < MST_DTYPE_COUNT ? (int)dtype : 0;
    view->has_call = view->operation[0] != '\0';
}

static void read_error(struct msi_rank_state *state, int world_size, struct rank_state_view *view) {
    uint32_t status = get(state->status);
    int32_t culprit = get(state->culprit);

    view->has_error = status != MST_OK && status < MST_STATUS_COUNT;
    view->culprit = -1;
    if (!view->has_error) return;
    view->status = (mst_status)status;
    if (culprit >= 0 && culprit < world_size) view->culprit = culprit;
    view->error_sequence = get(state->error_sequence);
    view->is_earlier = get(state->error_call) != (get(state->call) | 1);
    copy(view->error_operation, state->error_operation, sizeof view->error_operation);
    copy(view->message, state->message, sizeof view->message);
    copy(view->remedy, state->remedy, sizeof view->remedy);
}

void rank_states_read(const struct states *states, int local_rank, struct rank_state_view *view) {
    *view = (struct rank_state_view){.stage = rank_states_stage(states, local_rank), .culprit = -1};
    if (states->fd < 0 || get(rank_state_of(states, local_rank)->magic) != MSI_RANK_STATE_MAGIC) return;
    read_call(rank_state_of(states, local_rank), view);
    read_error(rank_state_of(states, local_rank), states->world_size, view);
}

bool rank_states_flight(const struct states *states, int local_rank, struct msi_flight *copy) {
    if (states->fd < 0) return false;
    msi_flight_copy((const struct msi_flight *)(const void *)((char *)rank_state_of(states, local_rank) +
                                                              MSI_RANK_STATE_OWN),
                    copy);
    return true;
}
