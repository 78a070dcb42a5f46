/*
 * op_stats_write.c - writes statistics as JSON. See op_stats.h; op_stats_read.c reads it.
 *
 *     {"version":1,"rank":3,"size":8,"host":"a","pid":4711,"debug":false,"lost":0,"groups":[
 *     {"number":0,"id":"w","name":"world","size":8,"rank":3,"floor":0,"forgotten":0,
 *      "ranks":[0,1,2,3,4,5,6,7]}],"rows":[
 *     {"name":"all_reduce","call":"all_reduce","group":0,"share":"twice","message":false,"bytes":4096,
 *      "count":3,"failed":0,"ns":6300,"least_ns":2000,"most_ns":2200,"works":0,"works_ns":0,"waited_ns":0,
 *      "durations":[2000,100,100]}],
 *     "other":{…},"calls":[0,17,2000,0,18,2100,0,19,2200]}
 *
 * durations ascend, each as its difference to the one before. A coarse histogram has
 * "buckets":[bucket,count,…] instead. calls are row, seq and ns, oldest first. With debug a row also has
 * "function".
 */
#include "base/json.h"
#include "prof/summary/figures.h"
#include "prof/summary/op_stats.h"

/* The reader takes at most 63 bits. */
static void put_number(struct msi_json_out *out, const char *key, uint64_t value) {
    msi_json_member_int(out, key, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void put_group(struct msi_json_out *out, const struct msi_op_stats_group *group) {
    const struct msi_prof_group *is = group->is;
    msi_json_put_object(out);
    put_number(out, "number", (uint64_t)is->number);
    msi_json_member_string(out, "id", is->id);
    msi_json_member_string(out, "name", is->name);
    put_number(out, "size", (uint64_t)is->size);
    put_number(out, "rank", (uint64_t)is->rank);
    put_number(out, "floor", group->floor);
    put_number(out, "forgotten", group->forgotten);
    msi_json_member_array(out, "ranks");
    for (int i = 0; i < is->size; i++) msi_json_put_int(out, is->ranks[i]);
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

static void put_histogram(struct msi_json_out *out, struct msi_histogram *histogram) {
    uint64_t before = 0;
    msi_histogram_sort(histogram);
    msi_json_member_array(out, histogram->buckets ? "buckets" : "durations");
    for (size_t i = 0; histogram->buckets && i < MSI_HISTOGRAM_BUCKETS; i++) {
        if (!histogram->buckets[i]) continue;
        msi_json_put_uint(out, i);
        msi_json_put_uint(out, histogram->buckets[i]);
    }
    for (uint64_t i = 0; !histogram->buckets && i < histogram->count; before = histogram->exact[i++])
        msi_json_put_uint(out, histogram->exact[i] - before);
    msi_json_put_array_end(out);
}

static void put_row(struct msi_json_out *out, struct msi_op_stats_row *row) {
    msi_json_put_object(out);
    msi_json_member_string(out, "name", row->name);
    msi_json_member_string(out, "call", row->call);
    if (row->function) msi_json_member_string(out, "function", row->function);
    if (row->group >= 0) put_number(out, "group", (uint64_t)row->group);
    msi_json_member_string(out, "share", msi_share_names[row->share]);
    msi_json_member_bool(out, "message", row->message);
    put_number(out, "bytes", row->bytes);
    put_number(out, "count", row->count);
    put_number(out, "failed", row->failed);
    put_number(out, "ns", row->total_ns);
    put_number(out, "least_ns", row->least_ns);
    put_number(out, "most_ns", row->most_ns);
    put_number(out, "works", row->works);
    put_number(out, "works_ns", row->works_ns);
    put_number(out, "waited_ns", row->waited_ns);
    put_histogram(out, &row->histogram);
    msi_json_put_object_end(out);
}

static void put_calls(struct msi_json_out *out, const struct msi_op_stats *stats) {
    for (size_t i = 0; i < stats->call_count; i++) {
        const struct msi_op_stats_call_ref *call = &stats->calls[(stats->calls_next + i) % stats->call_count];
        msi_json_put_uint(out, call->row);
        msi_json_put_uint(out, call->seq);
        msi_json_put_uint(out, call->ns);
    }
}

static void put_id(struct msi_json_out *out, const struct msi_rank_id *id) {
    put_number(out, "version", 1);
    put_number(out, "rank", (uint64_t)id->rank);
    put_number(out, "size", (uint64_t)id->size);
    msi_json_member_string(out, "host", id->host);
    put_number(out, "pid", (uint64_t)id->pid);
}

void msi_op_stats_write(struct msi_op_stats *stats, const struct msi_rank_id *id, struct msi_buf *to) {
    struct msi_json_out out = msi_json_to(to);
    msi_json_put_object(&out);
    put_id(&out, id);
    msi_json_member_bool(&out, "debug", stats->debug);
    put_number(&out, "lost", stats->lost);
    msi_json_member_array(&out, "groups");
    for (size_t i = 0; i < stats->group_count; i++) {
        msi_buf_add_u8(to, '\n');
        put_group(&out, &stats->groups[i]);
    }
    msi_json_put_array_end(&out);
    msi_json_member_array(&out, "rows");
    for (size_t i = 0; i < stats->row_count; i++) {
        msi_buf_add_u8(to, '\n');
        put_row(&out, &stats->rows[i]);
    }
    msi_json_put_array_end(&out);
    msi_json_put_key(&out, "other");
    put_row(&out, &stats->other);
    msi_json_member_array(&out, "calls");
    put_calls(&out, stats);
    msi_json_put_array_end(&out);
    msi_json_put_object_end(&out);
    msi_buf_add_u8(to, '\n');
}
