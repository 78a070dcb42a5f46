/*
 * fuzz_recovery.c - texts of votes and of the next world. The first byte picks the codec. What is taken is in
 * range, and is read again as it was after it was written.
 */
#include "wire/recovery.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIZE = 5 };

static void check_ballots(struct msi_str lines) {
    const char *end = lines.p + lines.n;
    struct msi_str text;
    int rank;
    while (msi_ballot_next(&lines, SIZE, &rank, &text))
        assert(rank >= 0 && rank < SIZE && text.p + text.n <= end && !memchr(text.p, '\n', text.n));
}

static void check_joiners(struct msi_str log) {
    struct msi_joiner_event event, again;
    while (msi_joiner_event_next(&log, &event)) {
        struct msi_buf line = {0};
        assert(strchr("+-=", event.kind));
        msi_joiner_event_write(&line, &event, "host a, pid 1");
        struct msi_str text = msi_buf_str(&line);
        assert(msi_joiner_event_next(&text, &again) && again.kind == event.kind &&
               again.nonce == event.nonce);
        msi_buf_free(&line);
    }
}

static void check_admission(struct msi_str text) {
    struct msi_admission given, again;
    struct msi_buf line = {0};
    if (!msi_admission_read(text, &given)) return;
    assert(given.rank < given.size && given.first_old < given.size && given.epoch > 0);
    msi_admission_write(&line, &given);
    assert(msi_admission_read(msi_buf_str(&line), &again) && again.rank == given.rank &&
           again.size == given.size);
    msi_buf_free(&line);
}

static void check_next_world(struct msi_str lines) {
    struct msi_admission head;
    struct msi_next_rank next, again;
    if (!msi_next_world_read(&lines, &head)) return;
    assert(head.size > 0 && head.first_old < head.size);
    while (msi_next_rank_read(&lines, head.size, &next)) {
        struct msi_buf line = {0};
        assert(next.rank >= 0 && next.rank < head.size && next.old >= -1);
        msi_next_rank_write(&line, &next);
        struct msi_str text = msi_buf_str(&line);
        assert(msi_next_rank_read(&text, head.size, &again) && again.old == next.old &&
               again.nonce == next.nonce);
        msi_buf_free(&line);
    }
}

static void check_store_ranks(struct msi_str text) {
    int ranks[2], again[2];
    char line[MSI_STORE_RANKS_MAX];
    bool valid = msi_store_ranks_read(text, SIZE, ranks);
    assert(valid ? ranks[0] >= 0 && ranks[0] < SIZE && ranks[1] >= -1 && ranks[1] < SIZE
                 : ranks[0] == -1 && ranks[1] == -1);
    msi_store_ranks_write(line, ranks);
    assert(msi_store_ranks_read(msi_cstr(line), SIZE, again) == valid);
    assert(again[0] == ranks[0] && again[1] == ranks[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const checks[])(struct msi_str) = {check_ballots, check_joiners, check_admission,
                                                     check_next_world, check_store_ranks};
    if (size) checks[data[0] % 5](msi_str(data + 1, size - 1));
    return 0;
}
