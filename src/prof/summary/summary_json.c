/*
 * summary_json.c - the summary as JSON: the tables with full precision. See summary.h.
 *
 *     {"version":1,"ranks":4,"rank":0,"missing":[],"late":[],"total_ms":…,"calls":…,"failed":…,
 *      "operations":[{"op":"all_reduce","call":"all_reduce","group":"world","group_id":…,"group_size":4,
 *        "rank":0,"rows":[
 *        {"bytes":4096,"size":"4.0 KB","count":…,"failed":0,"total_ms":…,"avg_ms":…,"least_ms":…,"most_ms":…,
 *         "tput_avg_gbps":…,"busbw_avg_gbps":…,"exact":true,"works":…,"works_ms":…,"overlapped_ms":…,
 *         "straggler":{"count":…,"total_comm_ms":…,"total_straggler_ms":…,"avg_comm_ms":…,
 *                      "avg_straggler_ms":…}}]}],
 *      "groups":[{"group":"world",…,"paired":…,"mutual":…,
 *                 "last":[{"rank":3,"calls":…,"waited_ms":…}],…}],"unpaired":[…]}
 *
 * With debug "function" is beside "op". "straggler", "groups" and "unpaired" only with show_straggler.
 */
#include "base/json.h"
#include "prof/summary/figures.h"
#include "prof/summary/summary.h"

static void put_double(struct msi_json_out *out, const char *key, double value) {
    msi_json_member_double(out, key, value, 6);
}

static void put_ms(struct msi_json_out *out, const char *key, uint64_t ns) {
    msi_json_member_scaled(out, key, ns > INT64_MAX ? INT64_MAX : (int64_t)ns, 6);
}

static void put_paired(struct msi_json_out *out, struct msi_paired *paired) {
    msi_json_member_object(out, "straggler");
    msi_json_member_uint(out, "count", paired->count);
    put_ms(out, "total_comm_ms", paired->comm_ns);
    put_ms(out, "total_straggler_ms", paired->straggler_ns);
    put_double(out, "avg_comm_ms", msi_histogram_means(&paired->comm).ns / 1e6);
    put_double(out, "avg_straggler_ms", msi_histogram_means(&paired->straggler).ns / 1e6);
    msi_json_put_object_end(out);
}

/* The members of a row's object. */
static void put_row(struct msi_json_out *out, struct msi_op_stats_row *row, int ranks) {
    char size[MSI_SIZE_TEXT];
    struct msi_summary_averages averages = msi_summary_averages(row, ranks);
    msi_json_member_uint(out, "bytes", row->bytes);
    msi_json_member_string(out, "size", msi_size_text(row->bytes, size));
    msi_json_member_uint(out, "count", row->count);
    msi_json_member_uint(out, "failed", row->failed);
    put_ms(out, "total_ms", row->total_ns);
    put_double(out, "avg_ms", averages.ns / 1e6);
    put_ms(out, "least_ms", row->least_ns);
    put_ms(out, "most_ms", row->most_ns);
    put_double(out, "tput_avg_gbps", averages.algbw);
    put_double(out, "busbw_avg_gbps", averages.busbw);
    msi_json_member_bool(out, "exact", !row->histogram.buckets);
    msi_json_member_uint(out, "works", row->works);
    put_ms(out, "works_ms", row->works_ns);
    put_ms(out, "overlapped_ms", row->works_ns - row->waited_ns);
}

static void put_group_names(struct msi_json_out *out, const struct msi_prof_group *group) {
    msi_json_member_string(out, "group", group->name);
    msi_json_member_string(out, "group_id", group->id);
    msi_json_member_uint(out, "group_size", (uint64_t)group->size);
}

static void put_operation(struct msi_json_out *out, const struct msi_summary *s,
                          const struct msi_summary_op *op) {
    const struct msi_op_stats_row *row = s->lines[op->first].row;
    const struct msi_prof_group *group = s->groups[op->group].is;
    msi_json_put_object(out);
    msi_json_member_string(out, "op", row->name);
    if (row->function) msi_json_member_string(out, "function", row->function);
    msi_json_member_string(out, "call", row->call);
    put_group_names(out, group);
    msi_json_member_uint(out, "rank", (uint64_t)op->rank);
    msi_json_member_array(out, "rows");
    for (size_t l = op->first; l < op->first + op->count; l++) {
        msi_json_put_object(out);
        put_row(out, s->lines[l].row, group->size);
        if (s->lines[l].paired.count) put_paired(out, &s->lines[l].paired);
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

static void put_other(struct msi_json_out *out, struct msi_op_stats_row *other) {
    if (!other->count && !other->failed) return;
    msi_json_member_object(out, "other");
    put_row(out, other, 1);
    msi_json_put_object_end(out);
}

static void put_missing(struct msi_json_out *out, const struct msi_summary *s) {
    msi_json_member_array(out, "missing");
    for (int r = 0; r < s->n; r++)
        if (!s->stats[r]) msi_json_put_int(out, r);
    msi_json_put_array_end(out);
    msi_json_member_array(out, "late");
    for (int r = 0; r < s->n; r++)
        if (!s->stats[r] && s->late && s->late[r]) msi_json_put_int(out, r);
    msi_json_put_array_end(out);
}

static void put_group(struct msi_json_out *out, const struct msi_summary_group *group) {
    msi_json_put_object(out);
    put_group_names(out, group->is);
    msi_json_member_uint(out, "paired", group->paired);
    msi_json_member_uint(out, "mutual", group->mutual);
    msi_json_member_uint(out, "clashes", group->clashes);
    msi_json_member_uint(out, "forgotten", group->forgotten);
    msi_json_member_uint(out, "first_seq", group->first_seq);
    msi_json_member_array(out, "last");
    for (int i = 0; i < group->member_count; i++) {
        msi_json_put_object(out);
        msi_json_member_uint(out, "rank", (uint64_t)group->members[i].rank);
        msi_json_member_uint(out, "calls", group->members[i].last);
        put_ms(out, "waited_ms", group->members[i].waited_ns);
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

static void put_note(struct msi_json_out *out, const struct msi_summary *s,
                     const struct msi_summary_note *note) {
    msi_json_put_object(out);
    msi_json_member_string(out, "op", note->row->name);
    put_group_names(out, s->groups[note->group].is);
    msi_json_member_uint(out, "calls", note->count);
    msi_json_member_uint(out, "fewest_rank", (uint64_t)note->few_rank);
    msi_json_member_uint(out, "fewest", note->few);
    msi_json_member_uint(out, "most_rank", (uint64_t)note->many_rank);
    msi_json_member_uint(out, "most", note->many);
    msi_json_put_object_end(out);
}

static void put_stragglers(struct msi_json_out *out, const struct msi_summary *s) {
    msi_json_member_array(out, "groups");
    for (size_t g = 0; g < s->group_count; g++) put_group(out, &s->groups[g]);
    msi_json_put_array_end(out);
    msi_json_member_array(out, "unpaired");
    for (size_t i = 0; i < s->note_count; i++) put_note(out, s, &s->notes[i]);
    msi_json_put_array_end(out);
    msi_json_member_uint(out, "unpaired_unnamed", s->unnamed);
}

void msi_summary_json(const struct msi_summary *s, struct msi_buf *to) {
    struct msi_json_out out = msi_json_to(to);
    msi_json_put_object(&out);
    msi_json_member_uint(&out, "version", 1);
    msi_json_member_uint(&out, "ranks", (uint64_t)s->n);
    msi_json_member_uint(&out, "rank", (uint64_t)s->first);
    put_missing(&out, s);
    put_ms(&out, "total_ms", s->total_ns);
    msi_json_member_uint(&out, "calls", s->calls);
    msi_json_member_uint(&out, "failed", s->failed);
    msi_json_member_uint(&out, "lost", s->stats[s->first]->lost);
    msi_json_member_array(&out, "operations");
    for (size_t i = 0; i < s->op_count; i++) {
        msi_buf_add_u8(to, '\n');
        put_operation(&out, s, &s->ops[i]);
    }
    msi_json_put_array_end(&out);
    put_other(&out, &s->stats[s->first]->other);
    if (s->show_straggler) put_stragglers(&out, s);
    msi_json_put_object_end(&out);
    msi_buf_add_u8(to, '\n');
}
