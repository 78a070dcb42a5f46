/* safetensors.c - the reader. */
#include "io/safetensors.h"

#include "base/fail.h"
#include "io/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100000000 };

static const struct {
    const char *name;
    enum gpt_dtype dtype;
    size_t size;
} dtypes[] = {
    {"F32", GPT_F32, 4},    {"F16", GPT_F16, 2},       {"BF16", GPT_BF16, 2},     {"F64", GPT_OTHER, 8},
    {"I64", GPT_OTHER, 8},  {"I32", GPT_OTHER, 4},     {"I16", GPT_OTHER, 2},     {"I8", GPT_OTHER, 1},
    {"U64", GPT_OTHER, 8},  {"U32", GPT_OTHER, 4},     {"U16", GPT_OTHER, 2},     {"U8", GPT_OTHER, 1},
    {"BOOL", GPT_OTHER, 1}, {"F8_E4M3", GPT_OTHER, 1}, {"F8_E5M2", GPT_OTHER, 1},
};

/* The element's size, or 0. */
static size_t read_dtype(struct gpt_json *in, struct gpt_tensor *t) {
    char name[16];
    if (!gpt_json_string(in, name, sizeof name)) return 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            t->dtype = dtypes[i].dtype;
            return dtypes[i].size;
        }
    in->bad = true;
    return 0;
}

static void read_counts(struct gpt_json *in, size_t max, size_t *to, size_t *count) {
    uint64_t value;
    *count = 0;
    if (!gpt_json_open(in, '[')) return;
    while (gpt_json_item(in)) {
        if (*count == max || !gpt_json_count(in, &value)) {
            in->bad = true;
            return;
        }
        to[(*count)++] = (size_t)value;
    }
}

/* The product of the shape; false on overflow. */
static bool elements(const struct gpt_tensor *t, size_t *count) {
    size_t product = 1;
    for (size_t d = 0; d < t->dimensions; d++)
        if (__builtin_mul_overflow(product, t->shape[d], &product)) return false;
    *count = product;
    return true;
}

/* One entry of the header: dtype, shape and data_offsets, each once. */
static int read_tensor(struct gpt_json *in, size_t data_size, struct gpt_tensor *t) {
    size_t size = 0, offsets[2], n = 0, bytes;
    bool shape = false;
    char key[32];
    if (gpt_json_open(in, '{'))
        while (gpt_json_key(in, key, sizeof key)) {
            if (strcmp(key, "dtype") == 0 && !size)
                size = read_dtype(in, t);
            else if (strcmp(key, "shape") == 0 && !shape) {
                shape = true;
                read_counts(in, GPT_MAX_DIMENSIONS, t->shape, &t->dimensions);
            } else if (strcmp(key, "data_offsets") == 0 && !n)
                read_counts(in, 2, offsets, &n);
            else
                in->bad = true;
        }
    if (in->bad || !size || !shape || n != 2)
        return gpt_fail("safetensors: the entry of '%.80s' must be a valid dtype, shape and data_offsets",
                        t->name);
    if (n == 2 && offsets[1] > data_size && offsets[1] > offsets[0])
        return gpt_fail(
            "safetensors: the file is truncated: '%.80s' is at bytes %zu to %zu of %zu; copy it again",
            t->name, offsets[0], offsets[1], data_size);
    if (!elements(t, &t->count) || __builtin_mul_overflow(t->count, size, &bytes) ||
        offsets[0] > offsets[1] || offsets[1] > data_size || offsets[1] - offsets[0] != bytes)
        return gpt_fail("safetensors: '%.80s' is at bytes %zu to %zu of %zu, which does not match its shape",
                        t->name, offsets[0], offsets[1], data_size);
    t->begin = offsets[0];
    t->end = offsets[1];
    return 0;
}

static void read_metadata(struct gpt_json *in, uint64_t *step) {
    char key[GPT_NAME_SIZE], value[16];
    if (!gpt_json_open(in, '{')) return;
    while (gpt_json_key(in, key, sizeof key)) {
        if (strcmp(key, "step") != 0) {
            gpt_json_string(in, NULL, 0);
            continue;
        }
        if (!gpt_json_string(in, value, sizeof value)) return;
        *step = strtoull(value, NULL, 10);
        if (!*value || value[strspn(value, "0123456789")]) in->bad = true;
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct gpt_tensor *)a)->name, ((const struct gpt_tensor *)b)->name);
}

static int by_offset(const void *a, const void *b) {
    const struct gpt_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/*
 * Checks that tensors cover the data without gaps and overlaps, and that names are unique. Sorts the list by
 * name.
 */
static int check_all(struct gpt_tensors *t, size_t data_size) {
    size_t at = 0;
    if (t->count) qsort(t->list, t->count, sizeof *t->list, by_offset);
    for (size_t i = 0; i < t->count; i++) {
        if (t->list[i].begin != at)
            return gpt_fail("safetensors: '%.80s' begins at %zu, expected %zu", t->list[i].name,
                            t->list[i].begin, at);
        at = t->list[i].end;
    }
    if (at != data_size) return gpt_fail("safetensors: tensors end at %zu, the data at %zu", at, data_size);
    if (t->count) qsort(t->list, t->count, sizeof *t->list, by_name);
    for (size_t i = 1; i < t->count; i++)
        if (by_name(&t->list[i - 1], &t->list[i]) == 0)
            return gpt_fail("safetensors: two tensors have the name '%.80s'", t->list[i].name);
    return 0;
}

static int add(struct gpt_tensors *t, size_t *capacity, const struct gpt_tensor *one) {
    if (t->count == *capacity) {
        size_t wanted = *capacity ? 2 * *capacity : 64;
        struct gpt_tensor *list = realloc(t->list, wanted * sizeof *list);
        if (!list) return gpt_fail("safetensors: no memory for %zu tensors", wanted);
        t->list = list;
        *capacity = wanted;
    }
    t->list[t->count++] = *one;
    return 0;
}

static int read_header(struct gpt_json *in, size_t data_size, struct gpt_tensors *t) {
    struct gpt_tensor one;
    size_t capacity = 0;
    if (gpt_json_open(in, '{'))
        while (memset(&one, 0, sizeof one), gpt_json_key(in, one.name, sizeof one.name)) {
            if (strcmp(one.name, "__metadata__") == 0)
                read_metadata(in, &t->step);
            else if (read_tensor(in, data_size, &one) || add(t, &capacity, &one))
                return -1;
        }
    if (!gpt_json_end(in))
        return gpt_fail("safetensors: the header is not valid JSON, %zu bytes before its end",
                        (size_t)(in->end - in->at));
    return check_all(t, data_size);
}

int gpt_tensors_parse(const char *bytes, size_t size, struct gpt_tensors *tensors) {
    struct gpt_tensors t = {0};
    uint64_t length = 0;
    if (size < 8) return gpt_fail("safetensors: %zu bytes are too short for a header", size);
    for (int i = 7; i >= 0; i--) length = length << 8 | (unsigned char)bytes[i];
    if (length > MAX_HEADER || length > size - 8)
        return gpt_fail(
            "safetensors: a header of %llu bytes in a file of %zu: not a safetensors file, or damaged",
            (unsigned long long)length, size);
    struct gpt_json in = gpt_json_of(bytes + 8, (size_t)length);
    t.data = bytes + 8 + length;
    if (read_header(&in, size - 8 - (size_t)length, &t)) {
        free(t.list);
        return -1;
    }
    *tensors = t;
    return 0;
}

int gpt_tensors_open(const char *path, struct gpt_tensors *tensors) {
    struct gpt_file file;
    if (gpt_file_map(path, &file)) return -1;
    if (gpt_tensors_parse(file.data, file.size, tensors)) {
        gpt_file_unmap(&file);
        return gpt_fail_in(path);
    }
    tensors->file = file;
    return 0;
}

void gpt_tensors_free(struct gpt_tensors *tensors) {
    free(tensors->list);
    if (tensors->file.data) gpt_file_unmap(&tensors->file);
    *tensors = (struct gpt_tensors){0};
}

const struct gpt_tensor *gpt_tensors_find(const struct gpt_tensors *tensors, const char *name) {
    struct gpt_tensor key;
    if (strlen(name) >= sizeof key.name || !tensors->count) return NULL;
    strcpy(key.name, name);
    return bsearch(&key, tensors->list, tensors->count, sizeof key, by_name);
}

static float from_half(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023,
             whole;
    float value;
    if (exponent == 0) { /* 0 or subnormal: fraction * 2^-24 */
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    whole = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &whole, sizeof value);
    return value;
}

static float element(enum gpt_dtype dtype, const char *at) {
    float value = 0;
    uint16_t half;
    uint32_t whole;
    if (dtype == GPT_F32) {
        memcpy(&value, at, sizeof value);
    } else if (dtype != GPT_OTHER) {
        memcpy(&half, at, sizeof half);
        whole = (uint32_t)half << 16;
        memcpy(&value, &whole, sizeof value);
        if (dtype == GPT_F16) value = from_half(half);
    }
    return value;
}

void gpt_tensors_read(const struct gpt_tensors *tensors, const struct gpt_tensor *t, size_t at, size_t step,
                      size_t count, float *to) {
    size_t size = t->count ? (t->end - t->begin) / t->count : 0;
    const char *from = tensors->data + t->begin + at * size;
    for (size_t i = 0; i < count; i++) to[i] = element(t->dtype, from + i * step * size);
}
