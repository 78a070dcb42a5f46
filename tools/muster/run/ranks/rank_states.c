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

static struct msi_slate *slate_of(const struct slates *slates, int local_rank) {
    return (struct msi_slate *)(void *)(slates->memory + (size_t)local_rank * MSI_SLATE_SLOT);
}

void slates_open(struct slates *slates, int n) {
    size_t bytes = (size_t)n * MSI_SLATE_SLOT;

    *slates = (struct slates){.fd = memfd_create(MSI_SLATE_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING), .n = n};
    if (slates->fd < 0) return;
    void *memory = MAP_FAILED;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files counts here, too */
    if (ftruncate(slates->fd, (off_t)bytes) == 0 && fcntl(slates->fd, F_ADD_SEALS, SEALS) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, slates->fd, 0);
    signal(SIGXFSZ, before);
    if (memory == MAP_FAILED) {
        close(slates->fd);
        slates->fd = -1;
        return;
    }
    slates->memory = memory;
}

void slates_close(struct slates *slates) {
    if (slates->fd < 0) return;
    munmap(slates->memory, (size_t)slates->n * MSI_SLATE_SLOT);
    close(slates->fd);
    slates->fd = -1;
}

void slates_begin(struct slates *slates, int world_size) {
    slates->world_size = world_size;
    for (int i = 0; i < slates->n && slates->fd >= 0; i++) {
        memset(slate_of(slates, i), 0, MSI_SLATE_SLOT);
        atomic_store_explicit(&slate_of(slates, i)->magic, MSI_SLATE_MAGIC, memory_order_relaxed);
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

struct slate_stage slates_stage(const struct slates *slates, int local_rank) {
    struct slate_stage stage = {.phase = MSI_SLATE_NOTHING, .rank = -1};
    if (slates->fd < 0) return stage;
    struct msi_slate *slate = slate_of(slates, local_rank);
    uint32_t phase = get(slate->phase);

    if (get(slate->magic) != MSI_SLATE_MAGIC || phase >= MSI_SLATE_PHASES) return stage;
    stage.phase = (enum msi_slate_phase)phase;
    stage.rank = whole(get(slate->rank));
    stage.is_here = get(slate->size) == (uint32_t)slates->world_size;
    return stage;
}

static void read_call(struct msi_slate *slate, struct slate_view *view) {
    uint64_t call = get(slate->call);
    uint64_t about = get(slate->about), where = get(slate->where);
    uint64_t dtype = about >> 32, place = where >> 32;

    view->has_call = call > 1 && place < MSI_SLATE_PLACES;
    if (!view->has_call) return;
    view->under_way = call % 2 != 0;
    copy(view->operation, slate->places[place].operation, sizeof view->operation);
    copy(view->file, slate->places[place].file, sizeof view->file);
    copy(view->function, slate->places[place].function, sizeof view->function);
    view->sequence = get(slate->sequence);
    view->count = get(slate->count);
    view->ranks = whole((uint32_t)about);
    view->line = whole((uint32_t)where);
    view->dtype = dtype < MST_DTYPE_COUNT ? (int)dtype : 0;
    view->has_call = view->operation[0] != '\0';
}

static void read_error(struct msi_slate *slate, int world_size, struct slate_view *view) {
    uint32_t status = get(slate->status);
    int32_t culprit = get(slate->culprit);

    view->has_error = status != MST_OK && status < MST_STATUS_COUNT;
    view->culprit = -1;
    if (!view->has_error) return;
    view->status = (mst_status)status;
    if (culprit >= 0 && culprit < world_size) view->culprit = culprit;
    view->error_sequence = get(slate->error_sequence);
    view->is_earlier = get(slate->error_call) != (get(slate->call) | 1);
    copy(view->error_operation, slate->error_operation, sizeof view->error_operation);
    copy(view->message, slate->message, sizeof view->message);
    copy(view->remedy, slate->remedy, sizeof view->remedy);
}

void slates_read(const struct slates *slates, int local_rank, struct slate_view *view) {
    *view = (struct slate_view){.stage = slates_stage(slates, local_rank), .culprit = -1};
    if (slates->fd < 0 || get(slate_of(slates, local_rank)->magic) != MSI_SLATE_MAGIC) return;
    read_call(slate_of(slates, local_rank), view);
    read_error(slate_of(slates, local_rank), slates->world_size, view);
}

bool slates_flight(const struct slates *slates, int local_rank, struct msi_flight *copy) {
    if (slates->fd < 0) return false;
    msi_flight_copy(
        (const struct msi_flight *)(const void *)((char *)slate_of(slates, local_rank) + MSI_SLATE_OWN),
        copy);
    return true;
}
