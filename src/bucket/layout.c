/*
 * layout.c - which tensor is in which bucket. Tensors are taken from the last to the first. Each dtype has
 * one open bucket; a tensor that does not fit closes it and opens the next. A large tensor is alone. A bucket
 * is complete when its tensor with the lowest index is ready, so that index orders the buckets.
 */
#include "bucket/bucket.h"

#include <stdlib.h>

/* Puts the tensor before the others of the bucket. */
static void add(struct msi_bucket_tensor *tensors, struct msi_bucket *bucket, size_t index) {
    tensors[index].next = bucket->tensors ? bucket->first : MSI_NO_TENSOR;
    bucket->first = index;
    bucket->tensors++;
    bucket->bytes += tensors[index].bytes;
}

/* The bucket with the higher index first. */
static int compare(const void *a, const void *b) {
    size_t x = ((const struct msi_bucket *)a)->first, y = ((const struct msi_bucket *)b)->first;
    return (x < y) - (x > y);
}

mst_status msi_bucket_divide(struct msi_bucket_tensor *tensors, size_t n,
                             const struct msi_bucket_limits *limits, struct msi_bucket **buckets,
                             size_t *n_buckets) {
    struct msi_bucket *all = calloc(n, sizeof *all), *open[MST_DTYPE_COUNT] = {NULL};
    size_t made = 0;
    if (!all) return msi_fail_memory();
    for (size_t i = n; i-- > 0;) {
        struct msi_bucket **at = &open[tensors[i].user.dtype], *to = *at;
        size_t bytes = tensors[i].bytes, limit = to == all ? limits->first : limits->other;
        bool alone = bytes >= limits->alone || bytes >= (made ? limits->other : limits->first);
        if (alone || !to || bytes > limit - to->bytes) to = &all[made++];
        if (!alone) *at = to; /* smaller tensors are still added to the open bucket after a large one */
        add(tensors, to, i);
    }
    qsort(all, made, sizeof *all, compare);
    for (size_t b = 0; b < made; b++)
        for (size_t i = all[b].first; i != MSI_NO_TENSOR; i = tensors[i].next) tensors[i].bucket = b;
    *buckets = all;
    *n_buckets = made;
    return MST_OK;
}

void *msi_bucket_find_memory(const struct msi_bucket_tensor *tensors, const struct msi_bucket *bucket) {
    char *begin = NULL, *end = NULL;
    for (size_t i = bucket->first; i != MSI_NO_TENSOR; i = tensors[i].next) {
        if (!tensors[i].bytes) continue;
        if (end && tensors[i].user.data != end) return NULL;
        if (!begin) begin = tensors[i].user.data;
        end = (char *)tensors[i].user.data + tensors[i].bytes;
    }
    return begin;
}
