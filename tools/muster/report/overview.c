/*
 * overview.c - what the timeline draws while it is zoomed out and an event is narrower than a pixel. The time
 * of each row is divided into equal bins. For each bin: the share of the time in events, the share of that
 * spent waiting, and the class of operations with the largest share. Also writes the tables to which the
 * events refer.
 */
#include "report/report.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS_LEAST = 1024, BINS_MOST = 16384, EVENTS_PER_BIN = 4 };

/* A layer for each class of operations, and one for waiting. */
enum { WAITS = REPORT_CLASSES, LAYERS };

struct overview {
    const struct report_job *job;
    FILE *to;
    int bins;
    size_t n_floats; /* of all layers, which are one allocation */
    struct layer {
        float *partly; /* for each bin: the coverage by events that begin or end in it */
        float *fully;  /* the change in the number of events that span it */
    } layers[LAYERS];
};

static void cover(const struct overview *l, uint32_t layer, int64_t begin, int64_t end) {
    float *partly = l->layers[layer].partly, *fully = l->layers[layer].fully;
    double scale = (double)l->bins / (double)(l->job->end - l->job->begin);
    double from = (double)(begin - l->job->begin) * scale, until = (double)(end - l->job->begin) * scale;
    int first = (int)from, last = (int)until;
    if (first >= l->bins) return;
    if (last == first) {
        partly[first] += (float)(until - from);
        return;
    }
    partly[first] += (float)(first + 1 - from);
    if (last < l->bins) partly[last] += (float)(until - last);
    fully[first + 1] += 1;
    fully[last < l->bins ? last : l->bins] -= 1;
}

static uint8_t as_byte(double share) {
    return share <= 0 ? 0 : share >= 1 ? 255 : (uint8_t)ceil(share * 255);
}

/* Writes three planes of one byte per bin. */
static void fill_planes(const struct overview *l, uint8_t *planes) {
    double depth[LAYERS] = {0}, here[LAYERS];
    for (int bin = 0; bin < l->bins; bin++) {
        double all = 0, most = 0;
        for (int i = 0; i < LAYERS; i++) {
            depth[i] += l->layers[i].fully[bin];
            here[i] = depth[i] + l->layers[i].partly[bin];
        }
        for (int i = 0; i < REPORT_CLASSES; i++) {
            all += here[i];
            if (here[i] <= most) continue;
            most = here[i];
            planes[2 * l->bins + bin] = (uint8_t)i;
        }
        planes[bin] = as_byte(all);
        planes[l->bins + bin] = all > 0 ? as_byte(here[WAITS] / all) : 0;
    }
}

static void put_overview(const struct overview *l, const struct report_rank *r, int row) {
    bool any = false;
    memset(l->layers[0].partly, 0, l->n_floats * sizeof(float));
    for (size_t i = 0; i < r->n; i++) {
        const struct report_event *e = &r->events[i];
        const struct report_kind *kind = report_kind_of(l->job, e);
        int64_t until = report_ready(l->job, e);
        if ((int)kind->work != row) continue;
        any = true;
        cover(l, kind->class, e->begin, e->begin + e->took);
        if (until > e->begin) cover(l, WAITS, e->begin, until);
    }
    if (!any) return;
    uint8_t *planes = report_alloc((size_t)l->bins, 3);
    fill_planes(l, planes);
    fprintf(l->to, "<script type=\"text/plain\" id=\"overview-%d-%d\">", r->rank, row);
    report_write_base64(planes, (size_t)l->bins * 3, l->to);
    fputs("</script>\n", l->to);
    free(planes);
}

static void put_kinds(const struct report_job *job, struct msi_json_out *out) {
    msi_json_member_array(out, "strings");
    for (uint32_t i = 0; i < job->strings.n; i++) msi_json_put_string(out, report_string(job, i));
    msi_json_put_array_end(out);
    msi_json_member_array(out, "kinds");
    for (uint32_t i = 0; i < job->kinds.n; i++) {
        const struct report_kind *k = msi_table_key(&job->kinds, i);
        const uint32_t all[] = {k->name,     k->call,   k->dtype, k->op,  k->backend, k->algorithm, k->site,
                                k->function, k->status, k->group, k->tid, k->class,   k->message,   k->work};
        msi_json_put_array(out);
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) msi_json_put_int(out, all[j]);
        msi_json_put_array_end(out);
    }
    msi_json_put_array_end(out);
    msi_json_member_array(out, "shapes");
    for (uint32_t i = 0; i < job->shapes.n; i++) {
        const struct report_shape *s = msi_table_key(&job->shapes, i);
        msi_json_put_int(out, s->bytes);
        msi_json_put_int(out, s->peer);
        msi_json_put_int(out, s->tag);
    }
    msi_json_put_array_end(out);
}

static void put_timeline(const struct overview *l) {
    struct msi_buf json = {0};
    struct msi_json_out out = msi_json_to(&json);
    msi_json_put_object(&out);
    msi_json_member_int(&out, "begin", l->job->begin);
    msi_json_member_int(&out, "end", l->job->end);
    msi_json_member_int(&out, "block", REPORT_BLOCK);
    msi_json_member_int(&out, "bins", l->bins);
    msi_json_member_array(&out, "classes");
    for (int i = 0; i < REPORT_CLASSES; i++) msi_json_put_string(&out, report_class_names[i]);
    msi_json_put_array_end(&out);
    put_kinds(l->job, &out);
    msi_json_put_object_end(&out);
    fputs("<script type=\"application/json\" id=\"timeline-data\">", l->to);
    report_write_json(&json, l->to);
    fputs("</script>\n", l->to);
    msi_buf_free(&json);
}

/* A power of two, about one bin for EVENTS_PER_BIN events. */
static int choose_bins(const struct report_job *job) {
    size_t most = 0;
    int bins = BINS_LEAST;
    for (int i = 0; i < job->n_ranks; i++)
        if (job->ranks[i]->n > most) most = job->ranks[i]->n;
    while (bins < BINS_MOST && (size_t)bins * EVENTS_PER_BIN < most) bins *= 2;
    return bins;
}

void report_write_overview(const struct report_job *job, FILE *to) {
    struct overview l = {.job = job, .to = to, .bins = choose_bins(job)};
    size_t each = (size_t)l.bins + 2;
    l.n_floats = 2 * LAYERS * each;
    float *floats = report_alloc(l.n_floats, sizeof *floats);
    for (size_t i = 0; i < LAYERS; i++)
        l.layers[i] = (struct layer){floats + 2 * i * each, floats + (2 * i + 1) * each};
    put_timeline(&l);
    for (int i = 0; i < job->n_ranks; i++)
        for (int row = 0; row < 2; row++) put_overview(&l, job->ranks[i], row);
    free(floats);
}
