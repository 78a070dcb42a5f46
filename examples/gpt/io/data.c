/* data.c - sequences of bytes out of a text. */
#include "io/data.h"

#include "app/fail.h"
#include "io/file.h"
#include "nn/random.h"

#include <unistd.h>

static const char *const licences[] = {
    "/usr/share/common-licenses/GPL-3",
    "/usr/share/common-licenses/GPL-2",
    "/usr/share/common-licenses/Apache-2.0",
    "/usr/share/licenses/common/GPL3/license.txt",
    "LICENSE",
};

static uint32_t add_bytes(uint32_t sum, const void *bytes, size_t n) {
    for (const unsigned char *b = bytes; n; n--, b++) sum = (sum ^ *b) * 16777619u; /* FNV-1a */
    return sum;
}

static int sum_up(struct gpt_text *text) {
    enum { SOME = 4096 };
    char bytes[SOME];
    size_t n = text->size < SOME ? text->size : SOME;
    text->sum = add_bytes(2166136261u, &text->size, sizeof text->size);
    for (int end = 0; end < 2; end++) {
        if (gpt_file_read(text->fd, bytes, n, end ? text->size - n : 0, text->path)) return -1;
        text->sum = add_bytes(text->sum, bytes, n);
    }
    return 0;
}

int gpt_text_open(const char *path, struct gpt_text *text) {
    for (size_t i = 0; !path && i < sizeof licences / sizeof *licences; i++)
        if (access(licences[i], R_OK) == 0) path = licences[i];
    if (!path) return gpt_fail("no licence text is found here; give a text with --text FILE");
    text->path = path;
    text->fd = gpt_file_open(path, &text->size);
    return text->fd < 0 ? -1 : sum_up(text);
}

void gpt_text_close(struct gpt_text *text) {
    if (text->fd >= 0) close(text->fd);
    text->fd = -1;
}

int gpt_text_check(const struct gpt_text *text, size_t time) {
    if (text->size > time) return 0;
    return gpt_fail(
        "%s: %zu bytes are too few for sequences of %zu; take a longer text or a shorter --context",
        text->path, text->size, time);
}

/* The bytes are first read to where the targets will be, which have four times the room. */
int gpt_text_sequence(const struct gpt_text *text, uint64_t seed, size_t step, size_t index, size_t time,
                      int *tokens, int *targets) {
    if (gpt_text_check(text, time)) return -1;
    uint64_t draw = gpt_random_bits(gpt_random_bits(gpt_random_stream(seed, "data"), step), index);
    unsigned char *bytes = (unsigned char *)targets;
    if (gpt_file_read(text->fd, bytes, time + 1, draw % (text->size - time), text->path)) return -1;
    for (size_t t = 0; t < time; t++) tokens[t] = bytes[t];
    int last = bytes[time];
    for (size_t t = 0; t < time; t++) targets[t] = t + 1 < time ? tokens[t + 1] : last;
    return 0;
}
