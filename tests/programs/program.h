/* program.h - what the programs share: a failed call or a wrong result ends the rank with a message. */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <muster/muster.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static inline void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* Ends the rank with a message unless the result is right. */
__attribute__((format(printf, 2, 3))) static inline void expect(bool right, const char *format, ...) {
    if (right) return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "rank %d: wrong result: ", mst_get_rank(NULL));
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

/* Zeroed memory for n elements; n may be 0. */
static inline void *allocate(size_t n, size_t size) {
    void *memory = calloc(n + 1, size);
    if (!memory) exit(1);
    return memory;
}

/* The last call of a program whose results were all right: rank 0 reports the layout. */
static inline int finish(const char *program) {
    int size = mst_get_world_size(NULL), hosts = mst_get_host_count(NULL);
    check(mst_barrier());
    mst_printf("%s: ok: %d ranks on %d hosts\n", program, size, hosts);
    check(mst_destroy_process_group(NULL));
    return 0;
}

#endif
