/* files.c - the figures of "muster bench OPERATION" as JSON and CSV, a table at a time; see ops.h. */
#include "bench/ops/ops.h"

#include <string.h>

/* How much faster the first backend is than each other one; null for those others, and where there is nothing to compare. */
static void write_ratios(const struct ops_bench *b, const struct ops_result *r, int side, int i) {
    const char *before = "{";

    for (int other = side + 1; side == ops_first(b) && other < b->n_sides; other++) {
        double x = ops_ratio(b, r, other, i);
        if (x <= 0) continue;
        fprintf(b->json, "%s\"%s\":%.4g", before, b->sides[other].peer.name, x);
        before = ",";
    }
    fputs(before[0] == '{' ? "null" : "}", b->json);
}

static void write_json(const struct ops_bench *b, const struct ops_result *r, int side, int i) {
    const struct ops_case *what = &r->what;
    const struct ops_figure *f = &r->at[side][i];

    fprintf(b->json,
            "{\"backend\":\"%s\",\"op\":\"%s\",\"dtype\":\"%s\",\"ranks\":%d,\"hosts\":%d,\"bytes\":%zu,",
            b->sides[side].peer.name, loop_op_names[what->op], what->dtype->name, what->ranks, what->hosts,
            what->bytes[i]);
    fprintf(b->json,
            "\"buffers\":\"%s\",\"us_median\":%.4f,\"us_p99\":%.4f,\"algbw_GBps\":%.6g,\"busbw_GBps\":%.6g,",
            ops_buffer_names[what->buffers], f->us, f->p99, ops_algbw(what, i, f->us),
            ops_busbw(what, i, f->us));
    fprintf(b->json, "\"ratio_to\":");
    write_ratios(b, r, side, i);
    fprintf(b->json, ",\"wrong\":%zu}\n", f->wrong);
}

static void write_csv(const struct ops_bench *b, const struct ops_result *r, int side, int i) {
    const struct ops_case *what = &r->what;
    const struct ops_figure *f = &r->at[side][i];

    fprintf(b->csv, "%s,%s,%s,%d,%d,%zu,%s,%.4f,%.4f,%.6g,%.6g,%zu\n", b->sides[side].peer.name,
            loop_op_names[what->op], what->dtype->name, what->ranks, what->hosts, what->bytes[i],
            ops_buffer_names[what->buffers], f->us, f->p99, ops_algbw(what, i, f->us),
            ops_busbw(what, i, f->us), f->wrong);
}

void ops_write_files(const struct ops_bench *b, const struct ops_result *r) {
    if (b->csv != NULL && b->n_results == 1)
        fprintf(b->csv,
                "backend,op,dtype,ranks,hosts,bytes,buffers,us_median,us_p99,algbw_GBps,busbw_GBps,wrong\n");
    for (int i = 0; i < r->what.n_sizes; i++)
        for (int side = 0; side < b->n_sides; side++) {
            if (r->at[side][i].us <= 0) continue;
            if (b->json != NULL) write_json(b, r, side, i);
            if (b->csv != NULL) write_csv(b, r, side, i);
        }
    if (b->json != NULL) fflush(b->json);
    if (b->csv != NULL) fflush(b->csv);
}
