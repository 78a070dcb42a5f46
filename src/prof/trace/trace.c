/* trace.c - see trace.h. */
#include "prof/trace/trace.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "os/file.h"
#include "prof/record/event_ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FLUSH_AT = 64 << 10, GROUPS_MOST = 4096, FILES_MOST = 100000 };

/*
 * Perfetto takes thread 0 for the main thread and gives it the number of the process, which is the rank. If
 * two threads have one number it drops events that overlap. So the numbers of other threads are no ranks.
 */
enum { FIRST_OTHER_TID = 100000 };

/* The last call of a thread in the trace, and its end in ticks. */
struct last_call {
    int64_t begin, end;
    uint64_t tick;
};

struct msi_trace {
    int rank;
    bool broken;      /* the file cannot be written any more */
    uint64_t pending; /* operations in the buffer */
    uint64_t dropped; /* operations that are not in the file */
    uint64_t works;   /* ids of works so far */
    int64_t last;     /* the end of the last event */
    int fd;
    off_t written;      /* bytes of whole events in the file */
    uint64_t complete;  /* number of these events */
    uint64_t events;    /* with those in the buffer */
    struct msi_buf buf; /* events that are not in the file */
    char path[4096 + 64];
    bool thread_known[MSI_PROF_THREADS];
    struct last_call last_calls[MSI_PROF_THREADS];
    bool group_known[GROUPS_MOST];
};

/* Begins an event; the caller ends the object. */
static struct msi_json_out begin_event(struct msi_trace *t, const char *phase, const char *name) {
    if (t->events++) msi_buf_add(&t->buf, ",\n", 2);
    struct msi_json_out out = msi_json_to(&t->buf);
    msi_json_put_object(&out);
    msi_json_member_string(&out, "ph", phase);
    msi_json_member_int(&out, "pid", t->rank);
    msi_json_member_string(&out, "name", name);
    return out;
}

/* In microseconds. */
static void put_time(struct msi_json_out *out, const char *key, int64_t ns) {
    msi_json_member_scaled(out, key, ns, 3);
}

/* Begins an event with metadata in "args"; end_args ends it. */
static struct msi_json_out begin_metadata(struct msi_trace *t, const char *name) {
    struct msi_json_out out = begin_event(t, "M", name);
    msi_json_member_object(&out, "args");
    return out;
}

static void end_args(struct msi_json_out *out) {
    msi_json_put_object_end(out);
    msi_json_put_object_end(out);
}

static void add_process(struct msi_trace *t, const struct msi_rank_id *id, int64_t unix_ns) {
    char name[320];
    struct msi_json_out out = begin_metadata(t, "muster");
    msi_json_member_int(&out, "version", 1);
    msi_json_member_int(&out, "rank", id->rank);
    msi_json_member_int(&out, "size", id->size);
    msi_json_member_string(&out, "host", id->host);
    msi_json_member_int(&out, "pid", id->pid);
    msi_json_member_string(&out, "program", program_invocation_short_name);
    msi_json_member_int(&out, "unix_ns", unix_ns);
    end_args(&out);
    snprintf(name, sizeof name, "rank %d (host %s, pid %d)", id->rank, id->host, (int)id->pid);
    out = begin_metadata(t, "process_name");
    msi_json_member_string(&out, "name", name);
    end_args(&out);
    out = begin_metadata(t, "process_sort_index");
    msi_json_member_int(&out, "sort_index", id->rank);
    end_args(&out);
}

static int tid_of(int thread) {
    return thread ? FIRST_OTHER_TID + thread : 0;
}

static void add_thread(struct msi_trace *t, int thread) {
    if (thread >= MSI_PROF_THREADS || t->thread_known[thread]) return;
    t->thread_known[thread] = true;
    struct msi_json_out out = begin_event(t, "M", "thread_name");
    msi_json_member_int(&out, "tid", tid_of(thread));
    msi_json_member_object(&out, "args");
    msi_json_member_string(&out, "name", msi_event_ring_thread(thread).text);
    end_args(&out);
}

static void add_group(struct msi_trace *t, const struct msi_prof_group *group) {
    if (group->number >= GROUPS_MOST || t->group_known[group->number]) return;
    t->group_known[group->number] = true;
    struct msi_json_out out = begin_metadata(t, "muster_group");
    msi_json_member_int(&out, "group", group->number);
    msi_json_member_string(&out, "id", group->id);
    msi_json_member_string(&out, "name", group->name);
    msi_json_member_int(&out, "size", group->size);
    msi_json_member_array(&out, "ranks");
    for (int r = 0; r < group->size; r++) msi_json_put_int(&out, group->ranks[r]);
    msi_json_put_array_end(&out);
    end_args(&out);
}

/* Begins an event of an operation; the caller adds the category. */
static struct msi_json_out begin_timed(struct msi_trace *t, const char *phase, const char *name,
                                       const struct msi_record *r, int64_t at) {
    struct msi_json_out out = begin_event(t, phase, name);
    msi_json_member_int(&out, "tid", tid_of(r->thread));
    put_time(&out, "ts", at);
    return out;
}

static void put_category(struct msi_json_out *out, const struct msi_record *r) {
    msi_json_member_string(out, "cat", r->flags & MSI_RECORD_MESSAGE ? "message" : "collective");
}

static void put_site(struct msi_json_out *out, const struct msi_record *r) {
    char site[160];
    if (!r->file) return;
    snprintf(site, sizeof site, "%s:%d", msi_base_name(r->file), r->line);
    msi_json_member_string(out, "site", site);
    if (r->function) msi_json_member_string(out, "function", r->function);
}

static void put_args(struct msi_json_out *out, const struct msi_record *r, const struct msi_times *times) {
    bool reduces = r->share == MSI_SHARE_TWICE || !strncmp(r->call, "reduce", 6);
    msi_json_member_object(out, "args");
    if (strcmp(r->name, r->call) != 0) msi_json_member_string(out, "call", r->call);
    msi_json_member_int(out, "group", r->group->number);
    if (r->seq <= INT64_MAX)
        msi_json_member_int(out, "seq", (int64_t)r->seq); /* else the message was never issued */
    msi_json_member_int(out, "bytes", (int64_t)r->bytes);
    if (r->dtype) msi_json_member_string(out, "dtype", mst_dtype_name((mst_dtype)r->dtype));
    if (reduces) msi_json_member_string(out, "op", mst_op_name((mst_op)r->op));
    msi_json_member_string(out, "backend", r->backend);
    if (r->algorithm) msi_json_member_string(out, "algorithm", r->algorithm);
    put_site(out, r);
    put_time(out, "queued", times->queued);
    put_time(out, "waited", times->waited);
    if (r->device) put_time(out, "device", (int64_t)r->device);
    if (r->flags & MSI_RECORD_MESSAGE) {
        msi_json_member_int(out, "peer", r->peer);
        msi_json_member_int(out, "tag", r->tag);
        msi_json_member_string(out, "dir", r->flags & MSI_RECORD_SEND ? "send" : "recv");
    }
    if (r->flags & MSI_RECORD_WORK) msi_json_member_bool(out, "work", true);
    if (r->status != MST_OK) msi_json_member_string(out, "status", mst_status_name((mst_status)r->status));
    end_args(out);
}

/*
 * The arrow from a send to its receive; each end is in the trace of its rank. Perfetto takes only ids of 64
 * bits, draws arrows only between slices, and only forward in time. An early receive begins before the send,
 * so its end of the arrow is a slice of its own at the end of the receive.
 */
static bool has_arrow(const struct msi_record *r, bool send) {
    return r->flags & MSI_RECORD_MESSAGE && r->peer >= 0 && r->status == MST_OK &&
           send == !!(r->flags & MSI_RECORD_SEND);
}

static void put_arrow(struct msi_json_out *out, const struct msi_trace *t, const struct msi_record *r) {
    static const uint64_t seed[2] = {0x6d7573746572, 2};
    bool send = r->flags & MSI_RECORD_SEND;
    char text[160], id[32];
    int n = snprintf(text, sizeof text, "%s.%d.%d.%d.%llu", r->group->id, r->tag, send ? t->rank : r->peer,
                     send ? r->peer : t->rank, (unsigned long long)r->seq);
    if (n >= (int)sizeof text) n = (int)sizeof text - 1;
    snprintf(id, sizeof id, "0x%llx", (unsigned long long)msi_hash(text, (size_t)n, seed));
    msi_json_member_string(out, "bind_id", id);
    msi_json_member_bool(out, send ? "flow_out" : "flow_in", true);
}

/*
 * Ticks tell which of two calls came first. Without ticks, or if threads share a number, two calls overlap if
 * neither is inside the other.
 */
static bool seems_to_overlap(const struct last_call *last, const struct msi_record *r,
                             const struct msi_times *times) {
    if (times->begin >= last->end) return false;
    if (r->begin && last->tick && r->begin >= last->tick) return true;
    return times->begin > last->begin && times->begin + times->lasted > last->end;
}

/*
 * Two successive calls of a thread may seem to overlap a little, since the conversion of ticks to times is
 * adjusted at each drain and the clock of another host is corrected. Viewers would drop the second call, so
 * it begins when the first ends. It keeps at least half of its duration, so that a sequence of such calls
 * catches up with the real time.
 */
static struct msi_times set_apart(struct msi_trace *t, const struct msi_record *r,
                                  const struct msi_times *times) {
    struct msi_times is = *times;
    if (r->thread >= MSI_PROF_THREADS) return is;
    struct last_call *last = &t->last_calls[r->thread];
    if (seems_to_overlap(last, r, times)) {
        int64_t left = is.begin + is.lasted - last->end;
        is.begin = last->end;
        is.lasted = left > is.lasted / 2 ? left : is.lasted / 2;
    }
    *last = (struct last_call){is.begin, is.begin + is.lasted, r->end};
    return is;
}

static void add_call(struct msi_trace *t, const struct msi_record *r, const struct msi_times *measured) {
    struct msi_times is = set_apart(t, r, measured), *times = &is;
    struct msi_json_out out = begin_timed(t, "X", r->name, r, times->begin);
    put_category(&out, r);
    put_time(&out, "dur", times->lasted);
    if (has_arrow(r, true)) put_arrow(&out, t, r);
    put_args(&out, r, times);
    if (!has_arrow(r, false)) return;
    int64_t last = times->lasted > 0; /* the last nanosecond of the receive */
    out = begin_timed(t, "X", "arrived", r, times->begin + times->lasted - last);
    msi_json_member_string(&out, "cat", "arrow");
    put_time(&out, "dur", last);
    put_arrow(&out, t, r);
    msi_json_put_object_end(&out);
}

/* Begins an event of a work. */
static struct msi_json_out begin_work(struct msi_trace *t, const char *phase, const char *name,
                                      const struct msi_record *r, int64_t at) {
    char id[48];
    struct msi_json_out out = begin_timed(t, phase, name, r, at);
    snprintf(id, sizeof id, "%d.%llu", t->rank, (unsigned long long)t->works);
    put_category(&out, r);
    msi_json_member_string(&out, "id", id);
    return out;
}

static void add_work(struct msi_trace *t, const struct msi_record *r, const struct msi_times *times) {
    int64_t end = times->begin + times->lasted;
    struct msi_json_out out = begin_work(t, "b", r->name, r, times->begin);
    if (has_arrow(r, true)) put_arrow(&out, t, r);
    put_args(&out, r, times);
    if (has_arrow(r, false)) {
        out = begin_work(t, "n", "arrived", r, end);
        put_arrow(&out, t, r);
        msi_json_put_object_end(&out);
    }
    out = begin_work(t, "e", r->name, r, end);
    msi_json_put_object_end(&out);
    t->works++;
}

void msi_trace_add(struct msi_trace *t, const struct msi_record *r, const struct msi_times *times) {
    if (t->broken) {
        t->dropped++;
        return;
    }
    add_thread(t, r->thread);
    add_group(t, r->group);
    if (r->flags & MSI_RECORD_WORK)
        add_work(t, r, times);
    else
        add_call(t, r, times);
    t->pending++;
    if (times->begin + times->lasted > t->last) t->last = times->begin + times->lasted;
    if (t->buf.len >= FLUSH_AT) msi_trace_flush(t);
}

void msi_trace_clock(struct msi_trace *t, int64_t at, int64_t offset, int64_t error) {
    if (t->broken) return;
    struct msi_json_out out = begin_metadata(t, "muster_clock");
    put_time(&out, "ts", at);
    msi_json_member_int(&out, "offset_ns", offset);
    msi_json_member_int(&out, "error_ns", error);
    end_args(&out);
}

/* Writes the buffer. On an error, an errno, drops its events and leaves the file as it was. */
static int write_buffer(struct msi_trace *t) {
    int error = t->buf.failed ? ENOMEM : msi_write_all(t->fd, t->buf.data, t->buf.len);
    if (!error) {
        t->written += (off_t)t->buf.len;
        t->complete = t->events;
        msi_buf_drop(&t->buf, t->buf.len);
    } else {
        /* The next write continues after the last whole event; readers ignore a cut one. */
        if (ftruncate(t->fd, t->written) != 0 || lseek(t->fd, t->written, SEEK_SET) < 0) error = errno;
        t->events = t->complete;
        t->dropped += t->pending;
        msi_buf_free(&t->buf);
    }
    t->pending = 0;
    return error;
}

void msi_trace_flush(struct msi_trace *t) {
    int error = t->broken ? 0 : write_buffer(t);
    if (!error) return;
    t->broken = true;
    msi_log(prof, WARN, "cannot write to %s: %s; the trace ends here and the program continues", t->path,
            strerror(error));
}

/* Opens the first name that is free, so that the files of earlier runs and worlds stay. 0, or an errno. */
static int open_file(struct msi_trace *t, const char *directory) {
    snprintf(t->path, sizeof t->path, "%s", directory);
    int error = msi_make_directory(directory);
    if (error) return error;
    for (int k = 1; k <= FILES_MOST; k++) {
        char number[16] = "";
        if (k > 1) snprintf(number, sizeof number, ".%d", k);
        int n = snprintf(t->path, sizeof t->path, "%s/rank-%d%s.trace.json", directory, t->rank, number);
        if (n < 0 || n >= (int)sizeof t->path) return ENAMETOOLONG;
        t->fd = msi_create_file(t->path);
        if (t->fd >= 0) return 0;
        if (errno != EEXIST) return errno;
    }
    return EEXIST;
}

static void close_file(struct msi_trace *t) {
    close(t->fd);
    msi_buf_free(&t->buf);
}

/* Opens the file and writes its first events; removes it on an error. */
static int begin_file(struct msi_trace *t, const char *directory, const struct msi_rank_id *id,
                      int64_t unix_ns) {
    int error = open_file(t, directory);
    if (error) return error;
    msi_buf_add(&t->buf, "[", 1);
    add_process(t, id, unix_ns);
    error = write_buffer(t);
    if (!error) return 0;
    close_file(t);
    unlink(t->path);
    return error;
}

/* An error in the setting, not a lack of space or permission. */
static bool is_mistake(int error) {
    return error == ENOENT || error == ENOTDIR || error == EPERM || error == ENAMETOOLONG || error == ELOOP;
}

mst_status msi_trace_open(const char *directory, const struct msi_rank_id *id, int64_t unix_ns,
                          struct msi_trace **trace) {
    struct msi_trace *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->rank = id->rank;
    int error = begin_file(made, directory, id, unix_ns);
    *trace = error ? NULL : made;
    if (!error) return MST_OK;
    mst_status st = MST_OK;
    if (is_mistake(error))
        st = msi_fail(MST_ERR_CONFIG, "set MUSTER_TRACE to a directory that exists or can be created",
                      "cannot write traces to the directory %.200s: %s", directory, msi_file_error(error));
    else
        msi_log(prof, WARN, "cannot write the trace %s: %s; the program continues without it", made->path,
                msi_file_error(error));
    free(made);
    return st;
}

/* Also tried after an error: a full disk may have space for this event. */
static void write_end(struct msi_trace *t) {
    struct msi_json_out out = begin_metadata(t, "muster_end");
    put_time(&out, "ts", t->last);
    msi_json_member_int(&out, "events", (int64_t)t->events);
    msi_json_member_int(&out, "dropped", (int64_t)t->dropped);
    end_args(&out);
    msi_buf_add(&t->buf, "\n]\n", 3);
    int error = write_buffer(t);
    if (error && !t->broken)
        msi_log(prof, WARN, "cannot write to %s: %s; the end of the trace is missing", t->path,
                strerror(error));
}

void msi_trace_close(struct msi_trace *t, uint64_t lost) {
    if (!t) return;
    t->dropped += lost;
    msi_trace_flush(t);
    write_end(t);
    if (t->dropped)
        msi_log(prof, WARN, "%llu operations are missing in %s", (unsigned long long)t->dropped, t->path);
    close_file(t);
    free(t);
}
