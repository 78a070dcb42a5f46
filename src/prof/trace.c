/* trace.c - see trace.h. */
#include "prof/trace.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MOST = 512, FLUSH_AT = 256 << 10, THREADS_MOST = 256, GROUPS_MOST = 4096 };

struct msi_trace {
    int fd, rank;
    bool broken;      /* it cannot be written to any more */
    off_t written;    /* bytes of whole events */
    uint64_t events;  /* in the file or the buffer, … */
    uint64_t dropped; /* … and that are not */
    uint64_t works;   /* ids of works so far */
    int64_t last;     /* the end of the last event */
    struct msi_buf buf;
    bool thread_known[THREADS_MOST];
    bool group_known[GROUPS_MOST];
    char path[PATH_MOST];
};

/* An event up to its own keys; ended by end_event. */
static struct msi_json_out begin_event(struct msi_trace *t, const char *phase, const char *name) {
    if (t->events++) msi_buf_add(&t->buf, ",\n", 2);
    struct msi_json_out out = msi_json_to(&t->buf);
    msi_json_put_object(&out);
    msi_json_put_key(&out, "ph");
    msi_json_put_string(&out, phase);
    msi_json_put_key(&out, "pid");
    msi_json_put_int(&out, t->rank);
    msi_json_put_key(&out, "name");
    msi_json_put_string(&out, name);
    return out;
}

static void put_int(struct msi_json_out *out, const char *key, int64_t value) {
    msi_json_put_key(out, key);
    msi_json_put_int(out, value);
}

static void put_string(struct msi_json_out *out, const char *key, const char *value) {
    msi_json_put_key(out, key);
    msi_json_put_string(out, value);
}

/* Nanoseconds as microseconds. */
static void put_time(struct msi_json_out *out, const char *key, int64_t ns) {
    msi_json_put_key(out, key);
    msi_json_put_scaled(out, ns, 3);
}

static void begin_args(struct msi_json_out *out) {
    msi_json_put_key(out, "args");
    msi_json_put_object(out);
}

static void end_event(struct msi_json_out *out) {
    msi_json_put_object_end(out);
}

static void end_args(struct msi_json_out *out) {
    msi_json_put_object_end(out);
    end_event(out);
}

static void introduce(struct msi_trace *t, const struct msi_trace_who *who) {
    char name[160];
    struct msi_json_out out = begin_event(t, "M", "muster");
    begin_args(&out);
    put_int(&out, "version", 1);
    put_int(&out, "rank", who->rank);
    put_int(&out, "size", who->size);
    put_string(&out, "host", who->host);
    put_int(&out, "pid", who->pid);
    put_string(&out, "program", who->program);
    put_int(&out, "unix_ns", who->unix_ns);
    end_args(&out);
    snprintf(name, sizeof name, "rank %d (host %s, pid %d)", who->rank, who->host, who->pid);
    out = begin_event(t, "M", "process_name");
    begin_args(&out);
    put_string(&out, "name", name);
    end_args(&out);
    out = begin_event(t, "M", "process_sort_index");
    begin_args(&out);
    put_int(&out, "sort_index", who->rank);
    end_args(&out);
}

static void introduce_thread(struct msi_trace *t, int thread, const char *name) {
    if (thread >= THREADS_MOST || t->thread_known[thread]) return;
    t->thread_known[thread] = true;
    struct msi_json_out out = begin_event(t, "M", "thread_name");
    put_int(&out, "tid", thread);
    begin_args(&out);
    put_string(&out, "name", name);
    end_args(&out);
}

static void introduce_group(struct msi_trace *t, const struct msi_prof_group *group) {
    if (group->number >= GROUPS_MOST || t->group_known[group->number]) return;
    t->group_known[group->number] = true;
    struct msi_json_out out = begin_event(t, "M", "muster_group");
    begin_args(&out);
    put_int(&out, "group", group->number);
    put_string(&out, "id", group->id);
    put_string(&out, "name", group->name);
    put_int(&out, "size", group->size);
    msi_json_put_key(&out, "ranks");
    msi_json_put_array(&out);
    for (int r = 0; r < group->size; r++) msi_json_put_int(&out, group->ranks[r]);
    msi_json_put_array_end(&out);
    end_args(&out);
}

/* Where and when an event is. */
static void put_place(struct msi_json_out *out, int thread, int64_t at, const char *category) {
    put_int(out, "tid", thread);
    put_time(out, "ts", at);
    put_string(out, "cat", category);
}

static void put_site(struct msi_json_out *out, const struct msi_record *r) {
    char site[160];
    if (!r->file) return;
    const char *slash = strrchr(r->file, '/');
    snprintf(site, sizeof site, "%s:%d", slash ? slash + 1 : r->file, r->line);
    put_string(out, "site", site);
    if (r->function) put_string(out, "function", r->function);
}

static void put_args(struct msi_json_out *out, const struct msi_record *r, const struct msi_times *times) {
    bool reduces = r->share == MSI_SHARE_TWICE || !strncmp(r->call, "reduce", 6);
    begin_args(out);
    if (strcmp(r->name, r->call) != 0) put_string(out, "call", r->call);
    put_int(out, "group", r->group->number);
    if (r->seq <= INT64_MAX) put_int(out, "seq", (int64_t)r->seq); /* else it was never issued */
    put_int(out, "bytes", (int64_t)r->bytes);
    if (r->dtype) put_string(out, "dtype", mst_dtype_name((mst_dtype)r->dtype));
    if (reduces) put_string(out, "op", mst_op_name((mst_op)r->op));
    put_string(out, "backend", r->backend);
    if (r->algorithm) put_string(out, "algorithm", r->algorithm);
    put_site(out, r);
    put_time(out, "queued", times->queued);
    put_time(out, "waited", times->waited);
    if (r->device) put_time(out, "device", (int64_t)r->device);
    if (r->flags & MSI_RECORD_MESSAGE) {
        put_int(out, "peer", r->peer);
        put_int(out, "tag", r->tag);
        put_string(out, "dir", r->flags & MSI_RECORD_SEND ? "send" : "recv");
    }
    if (r->flags & MSI_RECORD_WORK) {
        msi_json_put_key(out, "work");
        msi_json_put_bool(out, true);
    }
    if (r->status != MST_OK) put_string(out, "status", mst_status_name((mst_status)r->status));
    end_args(out);
}

static const char *category(const struct msi_record *r) {
    return r->flags & MSI_RECORD_MESSAGE ? "message" : "collective";
}

static void add_call(struct msi_trace *t, const struct msi_record *r, const struct msi_times *times,
                     int thread) {
    struct msi_json_out out = begin_event(t, "X", r->name);
    put_place(&out, thread, times->begin, category(r));
    put_time(&out, "dur", times->lasted);
    put_args(&out, r, times);
}

static void add_work(struct msi_trace *t, const struct msi_record *r, const struct msi_times *times,
                     int thread) {
    char id[48];
    snprintf(id, sizeof id, "%d.%llu", t->rank, (unsigned long long)t->works++);
    struct msi_json_out out = begin_event(t, "b", r->name);
    put_place(&out, thread, times->begin, category(r));
    put_string(&out, "id", id);
    put_args(&out, r, times);
    out = begin_event(t, "e", r->name);
    put_place(&out, thread, times->begin + times->lasted, category(r));
    put_string(&out, "id", id);
    end_event(&out);
}

/* One end of the arrow from a send to its receive. It must lie within the event that it leaves or reaches. */
static void add_flow(struct msi_trace *t, const struct msi_record *r, const struct msi_times *times,
                     int thread) {
    char id[160];
    bool send = r->flags & MSI_RECORD_SEND;
    if (r->peer < 0 || r->status != MST_OK) return;
    snprintf(id, sizeof id, "%s.%d.%d.%d.%llu", r->group->id, r->tag, send ? t->rank : r->peer,
             send ? r->peer : t->rank, (unsigned long long)r->seq);
    struct msi_json_out out = begin_event(t, send ? "s" : "f", "message");
    put_place(&out, thread, send ? times->begin : times->begin + times->lasted, "message");
    put_string(&out, "id", id);
    if (!send) put_string(&out, "bp", "e");
    end_event(&out);
}

void msi_trace_add(struct msi_trace *t, const struct msi_record *r, const struct msi_times *times, int thread,
                   const char *thread_name) {
    bool message = r->flags & MSI_RECORD_MESSAGE;
    if (t->broken) {
        t->dropped++;
        return;
    }
    introduce_thread(t, thread, thread_name);
    introduce_group(t, r->group);
    if (r->flags & MSI_RECORD_WORK)
        add_work(t, r, times, thread);
    else
        add_call(t, r, times, thread);
    if (message) add_flow(t, r, times, thread);
    if (times->begin + times->lasted > t->last) t->last = times->begin + times->lasted;
    if (t->buf.len >= FLUSH_AT) msi_trace_flush(t);
}

void msi_trace_clock(struct msi_trace *t, int64_t at, int64_t offset, int64_t error) {
    if (t->broken) return;
    struct msi_json_out out = begin_event(t, "M", "muster_clock");
    begin_args(&out);
    put_time(&out, "ts", at);
    put_int(&out, "offset_ns", offset);
    put_int(&out, "error_ns", error);
    end_args(&out);
}

/* What was written in part is taken back: the file ends with a whole event. */
static void give_up(struct msi_trace *t, int error) {
    msi_log(prof, WARN, "cannot write to %s: %s; the trace ends here, and the program goes on", t->path,
            strerror(error));
    t->broken = true;
    if (ftruncate(t->fd, t->written) != 0) return; /* readers drop what is cut off */
}

void msi_trace_flush(struct msi_trace *t) {
    size_t done = 0;
    if (t->buf.failed && !t->broken) give_up(t, ENOMEM);
    while (!t->broken && done < t->buf.len) {
        ssize_t n = write(t->fd, t->buf.data + done, t->buf.len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            give_up(t, n == 0 ? ENOSPC : errno);
    }
    if (!t->broken) t->written += (off_t)done;
    msi_buf_drop(&t->buf, t->buf.len);
}

static mst_status open_file(struct msi_trace *t, const char *directory) {
    int n = snprintf(t->path, sizeof t->path, "%s/rank-%d.trace.json", directory, t->rank);
    if (n < 0 || n >= (int)sizeof t->path)
        return msi_fail(MST_ERR_CONFIG, "choose a shorter one",
                        "the directory of traces has a name of %d characters", n);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return msi_fail_errno(errno, "cannot make the directory of traces, %s", directory);
    t->fd = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return t->fd >= 0 ? MST_OK : msi_fail_errno(errno, "cannot write the trace %s", t->path);
}

mst_status msi_trace_open(const char *directory, const struct msi_trace_who *who, struct msi_trace **trace) {
    struct msi_trace *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->rank = who->rank;
    mst_status st = open_file(made, directory);
    if (st != MST_OK) {
        free(made);
        return st;
    }
    msi_buf_add(&made->buf, "[", 1);
    introduce(made, who);
    msi_trace_flush(made);
    *trace = made;
    return MST_OK;
}

void msi_trace_close(struct msi_trace *t) {
    if (!t) return;
    if (!t->broken) {
        struct msi_json_out out = begin_event(t, "M", "muster_end");
        begin_args(&out);
        put_time(&out, "ts", t->last);
        put_int(&out, "events", (int64_t)t->events);
        put_int(&out, "dropped", (int64_t)t->dropped);
        end_args(&out);
        msi_buf_add(&t->buf, "\n]\n", 3);
        msi_trace_flush(t);
    }
    close(t->fd);
    msi_buf_free(&t->buf);
    free(t);
}
