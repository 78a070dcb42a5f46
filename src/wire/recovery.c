/* recovery.c - see recovery.h. */
#include "wire/recovery.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINE_MAX_READ = 96, RANKS_MOST = 1 << 24 };

void msi_ballot_write(struct msi_buf *out, int rank, struct msi_str text) {
    msi_buf_add_format(out, "%d ", rank);
    msi_buf_add(out, text.p, text.n);
    msi_buf_add_u8(out, '\n');
}

bool msi_ballot_next(struct msi_str *lines, int size, int *rank, struct msi_str *text) {
    struct msi_str line;
    while (msi_str_line(lines, &line)) {
        char head[16];
        int used = 0;
        msi_str_copy(line, head, sizeof head);
        if (sscanf(head, "%9d%n", rank, &used) != 1 || *rank < 0 || *rank >= size) continue;
        if ((size_t)used >= line.n || line.p[used] != ' ') continue;
        *text = msi_str(line.p + used + 1, line.n - (size_t)used - 1);
        return true;
    }
    return false;
}

void msi_joiner_event_write(struct msi_buf *out, const struct msi_joiner_event *event, const char *what) {
    msi_buf_add_format(out, "%c %016" PRIx64 "%s%s\n", event->kind, event->nonce, *what ? " " : "", what);
}

bool msi_joiner_event_next(struct msi_str *log, struct msi_joiner_event *event) {
    struct msi_str line;
    char text[LINE_MAX_READ];
    char kind[2];
    while (msi_str_line(log, &line))
        if (sscanf(msi_str_copy(line, text, sizeof text), "%1[-+=] %16" SCNx64, kind, &event->nonce) == 2) {
            event->kind = kind[0];
            return true;
        }
    return false;
}

/* Numbers that all ranks of a world have in common. */
static bool is_valid(const struct msi_admission *a) {
    return a->epoch > 0 && a->size > 0 && a->size <= RANKS_MOST && a->first_old >= 0 &&
           a->first_old < a->size;
}

void msi_admission_write(struct msi_buf *out, const struct msi_admission *given) {
    msi_buf_add_format(out, "%" PRId64 " %d %d %d", given->epoch, given->rank, given->size, given->first_old);
}

bool msi_admission_read(struct msi_str text, struct msi_admission *given) {
    char copy[LINE_MAX_READ];
    return sscanf(msi_str_copy(text, copy, sizeof copy), "%18" SCNd64 " %9d %9d %9d", &given->epoch,
                  &given->rank, &given->size, &given->first_old) == 4 &&
           is_valid(given) && given->rank >= 0 && given->rank < given->size;
}

void msi_next_world_write(struct msi_buf *out, const struct msi_admission *head) {
    msi_buf_add_format(out, "%" PRId64 " %d %d\n", head->epoch, head->size, head->first_old);
}

bool msi_next_world_read(struct msi_str *lines, struct msi_admission *head) {
    struct msi_str line;
    char text[LINE_MAX_READ];
    *head = (struct msi_admission){.rank = -1};
    return msi_str_line(lines, &line) &&
           sscanf(msi_str_copy(line, text, sizeof text), "%18" SCNd64 " %9d %9d", &head->epoch, &head->size,
                  &head->first_old) == 3 &&
           is_valid(head);
}

void msi_next_rank_write(struct msi_buf *out, const struct msi_next_rank *next) {
    if (next->old < 0)
        msi_buf_add_format(out, "+%016" PRIx64 " %d\n", next->nonce, next->rank);
    else
        msi_buf_add_format(out, "%d %d\n", next->old, next->rank);
}

static bool read_rank(const char *text, struct msi_next_rank *next) {
    *next = (struct msi_next_rank){.old = -1};
    if (text[0] == '+') return sscanf(text, "+%16" SCNx64 " %9d", &next->nonce, &next->rank) == 2;
    return sscanf(text, "%9d %9d", &next->old, &next->rank) == 2 && next->old >= 0;
}

bool msi_next_rank_read(struct msi_str *lines, int size, struct msi_next_rank *next) {
    struct msi_str line;
    char text[LINE_MAX_READ];
    while (msi_str_line(lines, &line))
        if (read_rank(msi_str_copy(line, text, sizeof text), next) && next->rank >= 0 && next->rank < size)
            return true;
    return false;
}

void msi_store_ranks_write(char out[MSI_STORE_RANKS_MAX], const int ranks[2]) {
    snprintf(out, MSI_STORE_RANKS_MAX, "%d %d", ranks[0], ranks[1]);
}

bool msi_store_ranks_read(struct msi_str text, int size, int ranks[2]) {
    char copy[LINE_MAX_READ];
    int n = sscanf(msi_str_copy(text, copy, sizeof copy), "%9d %9d", &ranks[0], &ranks[1]);
    if (n == 2 && ranks[0] >= 0 && ranks[0] < size && ranks[1] >= -1 && ranks[1] < size) return true;
    ranks[0] = ranks[1] = -1;
    return false;
}
