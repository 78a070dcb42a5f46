/* dataset.c - see dataset.h. */
#include "io/dataset.h"

#include "base/fail.h"
#include "base/random.h"
#include "io/file.h"

#include <unistd.h>

static const char *const licences[] = {
    "/usr/share/common-licenses/GPL-3",
    "/usr/share/common-licenses/GPL-2",
    "/usr/share/common-licenses/Apache-2.0",
    "/usr/share/licenses/common/GPL3/license.txt",
    "LICENSE",
};

static uint32_t hash_bytes(uint32_t hash, const void *bytes, size_t n) {
    for (const unsigned char *b = bytes; n; n--, b++) hash = (hash ^ *b) * 16777619u; /* FNV-1a */
    return hash;
}

static int hash_ends(struct gpt_dataset *d) {
    enum { BYTES = 4096 };
    char bytes[BYTES];
    size_t n = d->size < BYTES ? d->size : BYTES;
    d->hash = hash_bytes(2166136261u, &d->size, sizeof d->size);
    for (int end = 0; end < 2; end++) {
        if (gpt_file_read(d->fd, bytes, n, end ? d->size - n : 0, d->path)) return -1;
        d->hash = hash_bytes(d->hash, bytes, n);
    }
    return 0;
}

int gpt_dataset_open(const char *path, struct gpt_dataset *d) {
    for (size_t i = 0; !path && i < sizeof licences / sizeof *licences; i++)
        if (access(licences[i], R_OK) == 0) path = licences[i];
    if (!path) return gpt_fail("no licence text on this system; give a text with --text FILE");
    d->path = path;
    d->fd = gpt_file_open(path, &d->size);
    return d->fd < 0 ? -1 : hash_ends(d);
}

void gpt_dataset_close(struct gpt_dataset *d) {
    if (d->fd >= 0) close(d->fd);
    d->fd = -1;
}

int gpt_dataset_check(const struct gpt_dataset *d, size_t time) {
    if (d->size > time) return 0;
    return gpt_fail(
        "%s: %zu bytes are too few for sequences of %zu; choose a longer text or a shorter --context",
        d->path, d->size, time);
}

/* Reads the bytes into the array of targets, which is large enough, and widens them from there. */
int gpt_dataset_sequence(const struct gpt_dataset *d, uint64_t seed, size_t step, size_t index, size_t time,
                         int *tokens, int *targets) {
    if (gpt_dataset_check(d, time)) return -1;
    uint64_t draw = gpt_random_bits(gpt_random_bits(gpt_random_stream(seed, "data"), step), index);
    unsigned char *bytes = (unsigned char *)targets;
    if (gpt_file_read(d->fd, bytes, time + 1, draw % (d->size - time), d->path)) return -1;
    for (size_t t = 0; t < time; t++) tokens[t] = bytes[t];
    int last = bytes[time];
    for (size_t t = 0; t < time; t++) targets[t] = t + 1 < time ? tokens[t + 1] : last;
    return 0;
}
