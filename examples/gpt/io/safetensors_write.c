/* safetensors_write.c - creates files: header and size. The processes that hold the data write it later. */
#include "base/fail.h"
#include "io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names come from this program, so they need no escapes. */
static void write_entry(FILE *out, const struct gpt_tensor *t) {
    fprintf(out, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", t->name);
    for (size_t d = 0; d < t->dimensions; d++) fprintf(out, "%s%zu", d ? "," : "", t->shape[d]);
    fprintf(out, "],\"data_offsets\":[%zu,%zu]}", t->begin, t->end);
}

char *gpt_tensors_header(struct gpt_tensor *list, size_t count, uint64_t step, size_t *length) {
    char *text = NULL;
    size_t size = 0, at = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return gpt_fail("no memory"), NULL;
    fprintf(out, "........{\"__metadata__\":{\"format\":\"pt\",\"step\":\"%llu\"}", (unsigned long long)step);
    for (size_t i = 0; i < count; i++) {
        struct gpt_tensor *t = &list[i];
        t->dtype = GPT_F32;
        t->count = 1;
        for (size_t d = 0; d < t->dimensions; d++) t->count *= t->shape[d];
        t->begin = at;
        t->end = at += t->count * sizeof(float);
        write_entry(out, t);
    }
    fputc('}', out);
    while (ftell(out) % 8) fputc(' ', out);
    if (fclose(out)) {
        free(text);
        return gpt_fail("no memory for a header"), NULL;
    }
    for (int i = 0; i < 8; i++) text[i] = (char)((uint64_t)(size - 8) >> 8 * i);
    *length = size;
    return text;
}

int gpt_tensors_create(const char *path, struct gpt_tensor *list, size_t count, uint64_t step,
                       size_t *data_at) {
    size_t length;
    char *header = gpt_tensors_header(list, count, step, &length);
    if (!header) return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), st = 0;
    if (fd < 0 || ftruncate(fd, (off_t)(length + (count ? list[count - 1].end : 0))))
        st = gpt_fail("%s: %s", path, strerror(errno));
    else
        st = gpt_file_write(fd, header, length, 0, path);
    if (fd >= 0 && close(fd) && !st) st = gpt_fail("%s: %s", path, strerror(errno));
    free(header);
    if (!st) *data_at = length;
    return st;
}
