/* write.c - see write.h. */
#include "prof/flight/write.h"
#include "base/json.h"
#include "os/file.h"

#include <errno.h>
#include <limits.h>
#include <muster/dtype.h>
#include <stdio.h>
#include <unistd.h>

/* Readers take at most 63 bits. */
static void put_count(struct msi_json_out *out, const char *key, uint64_t value) {
    msi_json_member_int(out, key, value <= INT64_MAX ? (int64_t)value : INT64_MAX);
}

static void put_string(struct msi_json_out *out, const char *key, const char *value) {
    if (!value || !*value) return;
    msi_json_member_string(out, key, value);
}

static void put_time(struct msi_json_out *out, const char *key, int64_t ns) {
    if (ns == MSI_FLIGHT_UNKNOWN) return;
    msi_json_member_scaled(out, key, ns, 3);
}

static void put_header(struct msi_json_out *out, const struct msi_rank_id *id,
                       const struct msi_flight_failure *failure) {
    msi_json_member_int(out, "version", 1);
    msi_json_member_int(out, "rank", id->rank);
    msi_json_member_int(out, "size", id->size);
    put_string(out, "host", id->host);
    msi_json_member_int(out, "pid", id->pid);
    put_string(out, "reason", failure->reason);
    if (failure->error != MST_OK) put_string(out, "error", mst_status_name(failure->error));
    if (failure->culprit >= 0) msi_json_member_int(out, "culprit", failure->culprit);
}

static void put_flag(struct msi_json_out *out, const char *key, bool value) {
    if (value) msi_json_member_bool(out, key, true);
}

static void put_id(struct msi_json_out *out, const char *key, uint64_t id) {
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)id);
    put_string(out, key, text);
}

static void put_op_group(struct msi_json_out *out, const struct msi_flight_view *view, int at) {
    const struct msi_flight_group *group = &view->groups[at];
    if (group->size) {
        msi_json_member_int(out, "group", at);
        put_string(out, "group_name", group->name);
        put_id(out, "group_id", group->id);
        msi_json_member_int(out, "group_size", group->size);
    }
    put_flag(out, "group_gone", group->gone);
}

static void put_members(struct msi_json_out *out, const struct msi_flight_group *group) {
    if (!group->known) return;
    msi_json_member_array(out, "ranks");
    for (int r = 0; r < MSI_FLIGHT_MEMBERS; r++)
        if (msi_flight_has_member(group, r)) msi_json_put_int(out, r);
    msi_json_put_array_end(out);
}

static void put_groups(struct msi_json_out *out, const struct msi_flight_view *view) {
    msi_json_member_array(out, "groups");
    for (int i = 0; i < view->n_groups; i++) {
        const struct msi_flight_group *group = &view->groups[i];
        if (!group->size) continue;
        msi_json_put_object(out);
        msi_json_member_int(out, "group", i);
        put_string(out, "name", group->name);
        put_id(out, "id", group->id);
        msi_json_member_int(out, "size", group->size);
        put_members(out, group);
        put_flag(out, "gone", group->gone);
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
}

static void put_operation(struct msi_json_out *out, const struct msi_flight_view *view,
                          const struct msi_flight_op *op) {
    static const char *const states[] = {
        [MSI_FLIGHT_QUEUED] = "queued",
        [MSI_FLIGHT_STARTED] = "started",
        [MSI_FLIGHT_DONE] = "done",
        [MSI_FLIGHT_FAILED] = "done",
    };
    msi_json_put_object(out);
    put_count(out, "n", op->number);
    put_string(out, "name", op->name);
    put_op_group(out, view, op->group);
    if (op->seq != MSI_FLIGHT_NO_NUMBER) put_count(out, "seq", op->seq);
    put_count(out, "count", op->count);
    if (op->dtype) put_string(out, "dtype", mst_dtype_name((mst_dtype)op->dtype));
    put_string(out, "site", op->site);
    if (op->site[0]) put_string(out, "function", op->function);
    put_string(out, "state", states[op->state]);
    put_flag(out, "failed", op->state == MSI_FLIGHT_FAILED);
    put_time(out, "begin_us", op->begin);
    put_time(out, "end_us", op->end);
    if (msi_flight_is_message(op)) {
        msi_json_member_int(out, "peer", op->peer);
        msi_json_member_int(out, "tag", op->tag);
        put_string(out, "dir", op->type == MSI_FLIGHT_SEND ? "send" : "recv");
    }
    msi_json_put_object_end(out);
}

void msi_flight_write(const struct msi_flight_view *view, const struct msi_rank_id *id,
                      const struct msi_flight_failure *failure, struct msi_buf *to) {
    struct msi_json_out out = msi_json_to(to);
    msi_json_put_object(&out);
    put_header(&out, id, failure);
    if (view->unix_ns) msi_json_member_int(&out, "unix_ns", view->unix_ns);
    put_time(&out, "now_us", view->now);
    put_groups(&out, view);
    msi_json_member_array(&out, "operations");
    for (int i = 0; i < view->n; i++) {
        msi_buf_add(to, "\n", 1);
        put_operation(&out, view, &view->ops[i]);
    }
    msi_buf_add(to, "\n", 1);
    msi_json_put_array_end(&out);
    msi_json_put_object_end(&out);
    msi_buf_add(to, "\n", 1);
}

int msi_flight_save(const char *path, const struct msi_buf *text) {
    char temporary[PATH_MAX];
    if (text->failed) return ENOMEM;
    if (snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid()) >= (int)sizeof temporary)
        return ENAMETOOLONG;
    if (msi_directory_is_foreign(path)) return EPERM;
    unlink(temporary); /* of an earlier process with this pid */
    int fd = msi_create_file(temporary);
    if (fd < 0) return errno;
    int error = msi_write_all(fd, text->data, text->len);
    if (close(fd) != 0 && !error) error = errno;
    if (!error && rename(temporary, path) != 0) error = errno;
    if (error) unlink(temporary);
    return error;
}
