/* files.c - writes the figures of "muster bench OPERATION" as JSON and CSV, a table at a time. See ops.h. */
#include "bench/ops/ops.h"

#include "base/json.h"

/*
 * The ratios of all other backends to the first one; null for other backends, or if there is nothing to
 * compare.
 */
static void put_ratios(const struct ops_bench *b, const struct ops_table *r, int backend, int i,
                       struct msi_json_out *out) {
    bool any = false;
    msi_json_put_key(out, "ratio_to");
    for (int other = 1; backend == 0 && other < b->n_backends; other++) {
        double x = ops_ratio(r, other, i);
        if (x <= 0) continue;
        if (!any) msi_json_put_object(out);
        msi_json_member_double(out, b->backends[other].name, x, 9);
        any = true;
    }
    if (any)
        msi_json_put_object_end(out);
    else
        msi_json_put_null(out);
}

static void write_json(const struct ops_bench *b, const struct ops_table *r, int backend, int i) {
    const struct ops_case *what = &r->what;
    const struct ops_figure *f = &r->at[backend][i];
    struct msi_buf line = {0};
    struct msi_json_out out = msi_json_to(&line);
    msi_json_put_object(&out);
    msi_json_member_string(&out, "backend", b->backends[backend].name);
    msi_json_member_string(&out, "op", loop_op_names[what->op]);
    msi_json_member_string(&out, "dtype", what->dtype->name);
    msi_json_member_int(&out, "ranks", what->ranks);
    msi_json_member_int(&out, "hosts", what->hosts);
    msi_json_member_int(&out, "bytes", (int64_t)what->bytes[i]);
    msi_json_member_string(&out, "buffers", ops_buffer_names[what->buffers]);
    msi_json_member_double(&out, "us_median", f->us, 4);
    msi_json_member_double(&out, "us_p99", f->p99, 4);
    msi_json_member_double(&out, "algbw_GBps", ops_algbw(what, i, f->us), 9);
    msi_json_member_double(&out, "busbw_GBps", ops_busbw(what, i, f->us), 9);
    put_ratios(b, r, backend, i, &out);
    msi_json_member_int(&out, "wrong", (int64_t)f->wrong);
    msi_json_member_bool(&out, "in_place", what->in_place);
    msi_json_member_bool(&out, "bound", r->bound[backend]);
    msi_json_put_object_end(&out);
    bench_write_line(&line, b->json);
}

static void write_csv(const struct ops_bench *b, const struct ops_table *r, int backend, int i) {
    const struct ops_case *what = &r->what;
    const struct ops_figure *f = &r->at[backend][i];
    fprintf(b->csv, "%s,%s,%s,%d,%d,%zu,%s,%.4f,%.4f,%.6g,%.6g,%zu,%d,%d\n", b->backends[backend].name,
            loop_op_names[what->op], what->dtype->name, what->ranks, what->hosts, what->bytes[i],
            ops_buffer_names[what->buffers], f->us, f->p99, ops_algbw(what, i, f->us),
            ops_busbw(what, i, f->us), f->wrong, what->in_place, r->bound[backend]);
}

void ops_write_files(const struct ops_bench *b, const struct ops_table *r) {
    if (b->csv && b->n_results == 1)
        fprintf(b->csv,
                "backend,op,dtype,ranks,hosts,bytes,buffers,us_median,us_p99,algbw_GBps,busbw_GBps,wrong,"
                "in_place,bound\n");
    for (int i = 0; i < r->what.n_sizes; i++)
        for (int backend = 0; backend < b->n_backends; backend++) {
            if (r->at[backend][i].us <= 0) continue;
            if (b->json) write_json(b, r, backend, i);
            if (b->csv) write_csv(b, r, backend, i);
        }
    if (b->json) fflush(b->json);
    if (b->csv) fflush(b->csv);
}
