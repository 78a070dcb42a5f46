/*
 * summary_json.c - the summary as JSON: the tables with full precision. See summary.h.
 *
 *     {"version":2,"ranks":4,"rank":0,"missing":[],"late":[],"calls":…,"failed":…,"lost":0,
 *      "times":[{"rank":0,"run_ms":…,"communication_ms":…,"share":…,"waiting_ms":…,"transfer_ms":…,
 *                "waited_for_ms":…}],
 *      "operations":[{"op":"all_reduce","call":"all_reduce","group":"world","group_id":…,"group_size":4,
 *        "rank":0,"rows":[
 *        {"bytes":4096,"size":"4.0 KB","count":…,"failed":0,"communication_ms":…,"waiting_ms":…,
 *         "transfer_ms":…,"matched":…,"total_ms":…,"avg_ms":…,"least_ms":…,"most_ms":…,"tput_avg_gbps":…,
 *         "busbw_avg_gbps":…,"exact":true,"works":…,"works_ms":…,"overlapped_ms":…}]}],
 *      "groups":[{"group":"world",…,"matched":…,"ordered":…,"last":[{"rank":3,"calls":…}],…}],
 *      "unmatched":[…],"sample":1}
 *
 * total_ms and avg_ms are the times of the calls, in flight or on the device. With debug "function" is beside
 * "op". The fields of waiting, "matched", "groups", "unmatched" and "sample" (of so many calls one is
 * matched) only with show_straggler.
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

/* Communication time and its parts. */
static void put_times(struct msi_json_out *out, uint64_t comm, uint64_t waiting, bool has_waiting) {
    if (waiting > comm) waiting = comm;
    put_ms(out, "communication_ms", comm);
    if (!has_waiting) return;
    put_ms(out, "waiting_ms", waiting);
    put_ms(out, "transfer_ms", comm - waiting);
}

static void put_ranks(struct msi_json_out *out, const struct msi_summary *s) {
    msi_json_member_array(out, "times");
    for (int i = 0; i < s->rank_count; i++) {
        const struct msi_rank_times *times = &s->ranks[i];
        msi_json_put_object(out);
        msi_json_member_int(out, "rank", times->rank);
        put_ms(out, "run_ms", (uint64_t)times->run_ns);
        put_double(out, "share", msi_run_share(times, times->comm_ns));
        put_times(out, (uint64_t)times->comm_ns, (uint64_t)times->waiting_ns, s->show_straggler);
        if (s->show_straggler) put_ms(out, "waited_for_ms", (uint64_t)times->waited_for_ns);
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
}

/* The members of a row's object. */
static void put_row(struct msi_json_out *out, const struct msi_summary *s,
                    const struct msi_summary_line *line, int ranks) {
    struct msi_op_stats_row *row = line->row;
    char size[MSI_SIZE_TEXT];
    struct msi_summary_averages averages = msi_summary_averages(row, ranks);
    msi_json_member_uint(out, "bytes", row->bytes);
    msi_json_member_string(out, "size", msi_size_text(row->bytes, size));
    msi_json_member_uint(out, "count", row->count);
    msi_json_member_uint(out, "failed", row->failed);
    put_times(out, row->comm_ns, line->waiting_ns, s->show_straggler);
    if (s->show_straggler) msi_json_member_uint(out, "matched", line->matched);
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
        put_row(out, s, &s->lines[l], group->size);
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

static void put_other(struct msi_json_out *out, const struct msi_summary *s) {
    struct msi_op_stats_row *other = &s->stats[s->first]->other;
    if (!other->count && !other->failed) return;
    msi_json_member_object(out, "other");
    put_row(out, s, &(struct msi_summary_line){.row = other, .waiting_ns = other->failed_ns}, 1);
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
    msi_json_member_uint(out, "matched", group->matched);
    msi_json_member_uint(out, "ordered", group->ordered);
    msi_json_member_uint(out, "clashes", group->clashes);
    msi_json_member_array(out, "last");
    for (int i = 0; i < group->member_count; i++) {
        msi_json_put_object(out);
        msi_json_member_uint(out, "rank", (uint64_t)group->members[i].rank);
        msi_json_member_uint(out, "calls", group->members[i].last);
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
    msi_json_member_array(out, "unmatched");
    for (size_t i = 0; i < s->note_count; i++) put_note(out, s, &s->notes[i]);
    msi_json_put_array_end(out);
    msi_json_member_uint(out, "unmatched_unnamed", s->unnamed);
    msi_json_member_uint(out, "sample", 1ull << s->sample_bits);
}

void msi_summary_json(const struct msi_summary *s, struct msi_buf *to) {
    struct msi_json_out out = msi_json_to(to);
    msi_json_put_object(&out);
    msi_json_member_uint(&out, "version", 2);
    msi_json_member_uint(&out, "ranks", (uint64_t)s->n);
    msi_json_member_uint(&out, "rank", (uint64_t)s->first);
    put_missing(&out, s);
    msi_json_member_uint(&out, "calls", s->calls);
    msi_json_member_uint(&out, "failed", s->failed);
    msi_json_member_uint(&out, "lost", s->stats[s->first]->lost);
    put_ranks(&out, s);
    msi_json_member_array(&out, "operations");
    for (size_t i = 0; i < s->op_count; i++) {
        msi_buf_add_u8(to, '\n');
        put_operation(&out, s, &s->ops[i]);
    }
    msi_json_put_array_end(&out);
    put_other(&out, s);
    if (s->show_straggler) put_stragglers(&out, s);
    msi_json_put_object_end(&out);
    msi_buf_add_u8(to, '\n');
}
