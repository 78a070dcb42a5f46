/* rank_states.c - creates and reads the states of the ranks. See rank_states.h. */
#include "run/ranks/rank_states.h"

#include "cli/text.h"

#include <muster/dtype.h>

#include <string.h>

#define get(field) atomic_load_explicit(&(field), memory_order_relaxed)

static struct msi_rank_state *rank_state_of(const struct rank_states *states, int local_rank) {
    return (struct msi_rank_state *)(void *)((char *)states->segment.base +
                                             (size_t)local_rank * MSI_RANK_STATE_SLOT);
}

void rank_states_open(struct rank_states *states, int n) {
    *states = (struct rank_states){.segment.fd = -1, .n = n};
    msi_segment_make(MSI_RANK_STATE_MEMFD, (size_t)n * MSI_RANK_STATE_SLOT, &states->segment);
}

void rank_states_close(struct rank_states *states) {
    msi_segment_close(&states->segment);
}

void rank_states_clear(struct rank_states *states, int local_rank) {
    if (states->segment.fd < 0) return;
    struct msi_rank_state *state = rank_state_of(states, local_rank);
    memset(state, 0, MSI_RANK_STATE_SLOT);
    atomic_store_explicit(&state->magic, MSI_RANK_STATE_MAGIC, memory_order_relaxed);
}

void rank_states_begin(struct rank_states *states, int world_size) {
    states->world_size = world_size;
    for (int i = 0; i < states->n; i++) rank_states_clear(states, i);
}

/* Copies a text that may lack its NUL. */
static void copy(char *to, const char *from, size_t size) {
    memcpy(to, from, size - 1);
    to[size - 1] = '\0';
    text_clean(to, false);
}

static int to_int(uint32_t number) {
    return number <= INT32_MAX ? (int)number : 0;
}

struct rank_stage rank_states_stage(const struct rank_states *states, int local_rank) {
    struct rank_stage stage = {.phase = MSI_RANK_STATE_NOTHING, .rank = -1};
    if (states->segment.fd < 0) return stage;
    struct msi_rank_state *state = rank_state_of(states, local_rank);
    uint32_t phase = get(state->phase);

    if (get(state->magic) != MSI_RANK_STATE_MAGIC || phase >= MSI_RANK_STATE_PHASES) return stage;
    stage.phase = (enum msi_rank_phase)phase;
    stage.rank = to_int(get(state->rank));
    stage.is_here = get(state->size) == (uint32_t)states->world_size;
    return stage;
}

static void read_call(struct msi_rank_state *state, struct rank_state_view *view) {
    uint64_t call = get(state->call);
    uint64_t about = get(state->size_dtype), where = get(state->line_site);
    uint64_t dtype = about >> 32, site = where >> 32;
    view->has_call = call > 1 && site < MSI_RANK_STATE_SITES;
    if (!view->has_call) return;
    view->under_way = call % 2 != 0;
    copy(view->operation, state->sites[site].operation, sizeof view->operation);
    copy(view->file, state->sites[site].file, sizeof view->file);
    copy(view->function, state->sites[site].function, sizeof view->function);
    view->sequence = get(state->sequence);
    view->count = get(state->count);
    view->ranks = to_int((uint32_t)about);
    view->line = to_int((uint32_t)where);
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

void rank_states_read(const struct rank_states *states, int local_rank, struct rank_state_view *view) {
    *view = (struct rank_state_view){.stage = rank_states_stage(states, local_rank), .culprit = -1};
    if (states->segment.fd < 0 || get(rank_state_of(states, local_rank)->magic) != MSI_RANK_STATE_MAGIC)
        return;
    read_call(rank_state_of(states, local_rank), view);
    read_error(rank_state_of(states, local_rank), states->world_size, view);
}

const struct msi_flight *rank_states_flight(const struct rank_states *states, int local_rank) {
    if (states->segment.fd < 0) return NULL;
    return (const void *)((char *)rank_state_of(states, local_rank) + MSI_RANK_STATE_OWN);
}
