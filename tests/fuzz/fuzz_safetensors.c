/*
 * fuzz_safetensors.c - files of weights from anybody. What is accepted lies within the file, and can be read.
 * The input is a file without its length, which is put before it; the data follow the first newline.
 */
#include "io/config_json.h"
#include "io/safetensors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const struct gpt_tensors *t) {
    float some[4];
    for (size_t i = 0; i < t->count; i++) {
        const struct gpt_tensor *one = &t->list[i];
        size_t n = one->count < 4 ? one->count : 4;
        assert(gpt_tensors_find(t, one->name) == one);
        gpt_tensors_read(t, one, 0, 1, n, some);
        if (n) gpt_tensors_read(t, one, one->count - n, 1, n, some);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct gpt_tensors tensors;
    struct gpt_config config;
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    size_t header = newline ? (size_t)(newline - data) + 1 : size;
    char *file = malloc(size + 8);
    assert(file);
    for (int i = 0; i < 8; i++) file[i] = (char)((uint64_t)header >> 8 * i);
    if (size) memcpy(file + 8, data, size);
    if (gpt_tensors_parse(file, size + 8, &tensors) == 0) {
        read_all(&tensors);
        gpt_tensors_free(&tensors);
    }
    if (size >= 8 && gpt_tensors_parse(file + 8, size, &tensors) == 0) {
        read_all(&tensors);
        gpt_tensors_free(&tensors);
    }
    gpt_config_parse(file + 8, size, &config);
    free(file);
    return 0;
}
