/* flight_write.c - see flight_write.h. */
#include "prof/flight_write.h"
#include "base/json.h"
#include "os/write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <muster/dtype.h>
#include <stdio.h>
#include <unistd.h>

static void put_int(struct msi_json_out *out, const char *key, int64_t value) {
    msi_json_put_key(out, key);
    msi_json_put_int(out, value);
}

/* Readers have 63 bits. */
static void put_count(struct msi_json_out *out, const char *key, uint64_t value) {
    put_int(out, key, value <= INT64_MAX ? (int64_t)value : INT64_MAX);
}

static void put_string(struct msi_json_out *out, const char *key, const char *value) {
    if (!value || !*value) return;
    msi_json_put_key(out, key);
    msi_json_put_string(out, value);
}

static void put_time(struct msi_json_out *out, const char *key, int64_t ns) {
    if (ns == MSI_FLIGHT_UNKNOWN) return;
    msi_json_put_key(out, key);
    msi_json_put_scaled(out, ns, 3);
}

static void put_who(struct msi_json_out *out, const struct msi_flight_who *who) {
    put_int(out, "rank", who->rank);
    put_int(out, "size", who->size);
    put_string(out, "host", who->host);
    put_int(out, "pid", who->pid);
    put_string(out, "reason", who->reason);
    if (who->error != MST_OK) put_string(out, "error", mst_status_name(who->error));
    if (who->culprit >= 0) put_int(out, "culprit", who->culprit);
}

static void put_group(struct msi_json_out *out, const struct msi_flight_op *op) {
    char id[24];
    if (!op->team->size) return; /* there was no room for it */
    snprintf(id, sizeof id, "%016llx", (unsigned long long)op->team->id);
    put_int(out, "group", op->group);
    put_string(out, "group_name", op->team->name);
    put_string(out, "group_id", id);
    put_int(out, "group_size", op->team->size);
}

static void put_site(struct msi_json_out *out, const struct msi_flight_site *site) {
    char text[MSI_FLIGHT_FILE + 16];
    if (!site->file[0]) return;
    int n = snprintf(text, sizeof text, "%s", site->file);
    if (site->line) snprintf(text + n, sizeof text - (size_t)n, ":%d", site->line);
    put_string(out, "site", text);
    put_string(out, "function", site->function);
}

static void put_operation(struct msi_json_out *out, const struct msi_flight_op *op) {
    static const char *const states[] = {
        [MSI_FLIGHT_QUEUED] = "queued",
        [MSI_FLIGHT_STARTED] = "started",
        [MSI_FLIGHT_DONE] = "done",
        [MSI_FLIGHT_FAILED] = "done",
    };
    msi_json_put_object(out);
    put_count(out, "n", op->number);
    put_string(out, "name", msi_flight_plain_name(op));
    put_group(out, op);
    put_count(out, "seq", op->seq);
    put_count(out, "count", op->count);
    if (op->dtype) put_string(out, "dtype", mst_dtype_name((mst_dtype)op->dtype));
    put_site(out, op->site);
    put_string(out, "state", states[op->state]);
    if (op->state == MSI_FLIGHT_FAILED) {
        msi_json_put_key(out, "failed");
        msi_json_put_bool(out, true);
    }
    put_time(out, "begin_us", op->begin);
    put_time(out, "end_us", op->end);
    if (msi_flight_is_message(op)) put_int(out, "peer", op->peer >= 0 ? op->peer : -1);
    msi_json_put_object_end(out);
}

void msi_flight_write(const struct msi_flight_view *view, const struct msi_flight_who *who,
                      struct msi_buf *to) {
    struct msi_json_out out = msi_json_to(to);
    msi_json_put_object(&out);
    put_int(&out, "version", 1);
    put_who(&out, who);
    if (view->unix_ns) put_int(&out, "unix_ns", view->unix_ns);
    put_time(&out, "now_us", view->now);
    msi_json_put_key(&out, "operations");
    msi_json_put_array(&out);
    for (int i = 0; i < view->n; i++) {
        msi_buf_add(to, "\n", 1);
        put_operation(&out, &view->ops[i]);
    }
    msi_buf_add(to, "\n", 1);
    msi_json_put_array_end(&out);
    msi_json_put_object_end(&out);
    msi_buf_add(to, "\n", 1);
}

int msi_flight_save(const char *path, const struct msi_buf *text) {
    char beside[PATH_MAX];
    if (text->failed) return ENOMEM;
    if (snprintf(beside, sizeof beside, "%s.%d", path, (int)getpid()) >= (int)sizeof beside)
        return ENAMETOOLONG;
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return errno;
    int error = msi_write_all(fd, text->data, text->len);
    if (close(fd) != 0 && !error) error = errno;
    if (!error && rename(beside, path) != 0) error = errno;
    if (error) unlink(beside);
    return error;
}
