/* trace_read.c - reads one trace line by line: see report.h. A crash leaves a file that ends anywhere; what is whole counts. */
#include "report/report.h"
#include "report/trace_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* THREADS_APART: the how many-th thread it is, without what keeps its number from being a rank (prof/trace/trace.c). */
enum { THREADS_APART = 100000, TEXT_MOST = 4096, ALIKE_MOST = 1000, CALLS = 64 };

/* call: its number plus 1. */
struct known_call {
    uint32_t call, class;
};

/* A trace that is being read. groups and works: numbers of this file, and what they are in the job. */
struct source {
    struct page_job *job;
    struct page_rank *rank;
    int wanted; /* the rank that the file's name says */
    int version, size;
    struct page_set group_numbers, named, open_ids;
    uint32_t *groups;
    struct page_event *open_works;
    size_t groups_capacity, works_capacity;
    struct known_call calls[CALLS];
    bool described, bracket; /* "muster" was read, "]" was read */
    struct page_lines *lines;
};

/* The text's number; number 0, the empty one, stands for what is missing. */
static uint32_t keep(struct source *s, struct msi_json_text text) {
    char value[TEXT_MOST];
    size_t len = text.n;

    if (text.n == 0) return 0;
    if (text.escaped || len >= sizeof value) {
        msi_json_copy(text, value, sizeof value);
        text.p = value;
        len = strlen(value);
    }
    uint32_t number = page_set_add(&s->job->strings, text.p, len);
    if (number == PAGE_SET_FULL) s->job->failed = true;
    return number == PAGE_SET_FULL ? 0 : number;
}

static struct msi_json_text plain(const char *text) {
    return (struct msi_json_text){.p = text, .n = strlen(text)};
}

/* A group of the job, known by its ranks, its name, what distinguishes it, and the how many-th such of its file it is. */
static uint32_t add_group(struct source *s, struct msi_json_text name, struct msi_json_text id,
                          int32_t *ranks, int n) {
    struct page_job *job = s->job;
    size_t bytes = (size_t)n * sizeof *ranks, len = 2 * sizeof(uint32_t) + bytes;
    uint32_t *key = malloc(len + sizeof *key), words[2] = {keep(s, name), keep(s, id)};

    if (key == NULL) goto failed;
    memcpy(key, words, sizeof words);
    if (n > 0) memcpy(key + 2, ranks, bytes);
    /* The same without an id may come twice: two groups of the same ranks. */
    uint32_t times = 0;
    memcpy((char *)key + len, &times, sizeof times);
    while (id.p == NULL && times < ALIKE_MOST &&
           page_set_find(&s->named, key, len + sizeof times) != PAGE_SET_FULL) {
        times++;
        memcpy((char *)key + len, &times, sizeof times);
    }
    if (page_set_add(&s->named, key, len + sizeof times) == PAGE_SET_FULL) goto failed;
    uint32_t number = page_set_add(&job->group_keys, key, len + sizeof times);
    free(key);
    key = NULL;
    if (number == PAGE_SET_FULL) goto failed;
    if (number < job->n_groups) {
        free(ranks);
        return number;
    }
    if (!page_room(job, &job->groups, job->n_groups, &job->groups_capacity, sizeof *job->groups)) goto failed;
    job->groups[job->n_groups++] = (struct page_group){words[0], n, ranks};
    return number;

failed:
    job->failed = true;
    free(key);
    free(ranks);
    return 0;
}

static void name_group(struct source *s, int64_t number, uint32_t group) {
    uint32_t at = page_set_add(&s->group_numbers, &number, sizeof number);

    if (at == PAGE_SET_FULL || !page_room(s->job, &s->groups, at, &s->groups_capacity, sizeof *s->groups))
        s->job->failed = true;
    else
        s->groups[at] = group;
}

static bool read_group(struct source *s, const struct page_line *line) {
    if (line->group == PAGE_UNKNOWN || line->size < 1 || line->size > PAGE_RANKS_MOST ||
        line->ranks.p == NULL)
        return false;
    int32_t *ranks = calloc((size_t)line->size, sizeof *ranks);
    if (ranks == NULL) {
        s->job->failed = true;
        return true;
    }
    if (!page_line_numbers(line->ranks, (int)line->size, PAGE_RANKS_MOST - 1, ranks)) {
        free(ranks);
        return false;
    }
    if (line->group == 0 &&
        page_set_find(&s->group_numbers, &line->group, sizeof line->group) != PAGE_SET_FULL) {
        free(ranks); /* the world, once more */
        return true;
    }
    name_group(s, line->group, add_group(s, line->title, line->group_id, ranks, (int)line->size));
    return true;
}

/* The group of an event: described before, the world, or one of which nothing is known. */
static uint32_t group_of(struct source *s, int64_t number) {
    uint32_t at = page_set_find(&s->group_numbers, &number, sizeof number);
    char name[32];

    if (at != PAGE_SET_FULL) return s->groups[at];
    int n = number == 0 ? s->size : 0;
    int32_t *ranks = n > 0 ? calloc((size_t)n, sizeof *ranks) : NULL;
    if (n > 0 && ranks == NULL) s->job->failed = true;
    for (int i = 0; i < n && ranks != NULL; i++) ranks[i] = i;
    if (number == 0)
        snprintf(name, sizeof name, "world");
    else
        snprintf(name, sizeof name, "group %lld", (long long)number);
    uint32_t group = add_group(s, plain(name), (struct msi_json_text){0}, ranks, ranks ? n : 0);
    name_group(s, number, group);
    return group;
}

static bool read_description(struct source *s, const struct page_line *line) {
    if (line->version != 1 || line->rank == PAGE_UNKNOWN || line->size < 1 || line->size > PAGE_RANKS_MOST ||
        line->rank >= line->size || s->described)
        return false;
    s->described = true;
    s->size = (int)line->size;
    *s->rank = (struct page_rank){
        .rank = (int)line->rank, .host = keep(s, line->host), .program = keep(s, line->program)};
    s->rank->pid = line->pid;
    s->rank->unix_ns = line->unix_ns;
    return true;
}

static bool read_about(struct source *s, const struct page_line *line) {
    struct page_rank *r = s->rank;

    if (msi_json_is(line->name, "muster")) return read_description(s, line);
    if (!s->described) return true;
    if (msi_json_is(line->name, "muster_group")) return read_group(s, line);
    if (msi_json_is(line->name, "muster_clock")) {
        if (line->error_ns == PAGE_UNKNOWN) return false;
        if (line->error_ns > r->clock_error) r->clock_error = line->error_ns;
    } else if (msi_json_is(line->name, "muster_end")) {
        r->ended = true;
        if (line->end != PAGE_UNKNOWN && line->end > r->end) r->end = line->end;
        if (line->dropped != PAGE_UNKNOWN) r->dropped = line->dropped;
    }
    return true;
}

/* Looking at the name takes longer than all the rest, so what was found lately is kept. */
static uint32_t class_of(struct source *s, uint32_t call) {
    struct known_call *known = &s->calls[call % CALLS];

    if (known->call != call + 1)
        *known = (struct known_call){call + 1, page_class_of(page_string(s->job, call))};
    return known->class;
}

static uint32_t way_of(const struct page_line *line) {
    if (line->dir.p == NULL) return PAGE_OTHER;
    return msi_json_is(line->dir, "send")   ? PAGE_SEND
           : msi_json_is(line->dir, "recv") ? PAGE_RECV
                                            : PAGE_OTHER;
}

static bool make_event(struct source *s, const struct page_line *line, bool work, struct page_event *event) {
    struct page_job *job = s->job;

    if (line->ts == PAGE_UNKNOWN || line->name.p == NULL || line->group == PAGE_UNKNOWN ||
        (!work && (line->dur == PAGE_UNKNOWN || line->dur < 0)))
        return false;
    bool message = line->cat.p != NULL && msi_json_is(line->cat, "message");
    if (line->seq == PAGE_UNKNOWN && !message) return false;
    uint32_t call = keep(s, line->call.p ? line->call : line->name);
    struct page_kind kind = {
        .name = keep(s, line->name),
        .call = call,
        .dtype = keep(s, line->dtype),
        .op = keep(s, line->op),
        .backend = keep(s, line->backend),
        .algorithm = keep(s, line->algorithm),
        .site = keep(s, line->site),
        .function = keep(s, line->function),
        .status = keep(s, line->status),
        .group = group_of(s, line->group),
        .tid = line->tid == PAGE_UNKNOWN ? 0 : (uint32_t)(line->tid % THREADS_APART),
        .class = message ? way_of(line) : class_of(s, call),
        .message = message,
        .work = work,
    };
    struct page_shape shape = {
        .bytes = line->bytes == PAGE_UNKNOWN ? 0 : line->bytes, .peer = PAGE_NONE, .tag = PAGE_NONE};
    if (message && line->peer != PAGE_UNKNOWN) shape.peer = (int32_t)line->peer;
    if (message && line->tag != PAGE_UNKNOWN) shape.tag = (int32_t)line->tag;
    *event = (struct page_event){
        .begin = line->ts,
        .took = work ? 0 : line->dur,
        .queued = line->queued,
        .waited = line->waited,
        .device = line->device,
        .seq = line->seq,
        .arrived = PAGE_UNKNOWN,
        .kind = page_set_add(&job->kinds, &kind, sizeof kind),
        .shape = page_set_add(&job->shapes, &shape, sizeof shape),
    };
    if (event->kind == PAGE_SET_FULL || event->shape == PAGE_SET_FULL) job->failed = true;
    return true;
}

static void add_event(struct source *s, const struct page_event *event) {
    struct page_rank *r = s->rank;
    int64_t end = event->begin + event->took;

    if (s->job->failed || !page_room(s->job, &r->events, r->n, &r->capacity, sizeof *r->events)) return;
    r->events[r->n++] = *event;
    if (end > r->end) r->end = end;
}

static bool begin_work(struct source *s, const struct page_line *line) {
    struct page_event event;

    if (line->id.p == NULL || !make_event(s, line, true, &event)) return false;
    uint32_t at = page_set_add(&s->open_ids, line->id.p, line->id.n);
    if (at == PAGE_SET_FULL ||
        !page_room(s->job, &s->open_works, at, &s->works_capacity, sizeof *s->open_works)) {
        s->job->failed = true;
        return true;
    }
    s->open_works[at] = event;
    s->rank->open++;
    return true;
}

static bool end_work(struct source *s, const struct page_line *line) {
    if (line->id.p == NULL || line->ts == PAGE_UNKNOWN) return false;
    uint32_t at = page_set_find(&s->open_ids, line->id.p, line->id.n);
    if (at == PAGE_SET_FULL || s->open_works[at].took < 0 || line->ts < s->open_works[at].begin) return false;
    struct page_event event = s->open_works[at];
    event.took = line->ts - event.begin;
    add_event(s, &event);
    s->open_works[at].took = -1; /* over */
    s->rank->open--;
    /* Nearly always the one that was begun last, so that nothing piles up. */
    if (s->rank->open == 0) page_set_clear(&s->open_ids);
    return true;
}

/* The end of a message's arrow, for viewers. */
static bool is_arrow(const struct page_line *line) {
    return line->cat.p != NULL && msi_json_is(line->cat, "arrow");
}

static bool read_line(void *context, const char *text, size_t len) {
    struct source *s = context;
    struct page_line line;
    struct page_event event;

    s->lines->stop = s->job->failed;
    if (!page_line_read(text, len, &line)) return false;
    if (line.phase.p == NULL) {
        s->bracket = s->bracket || (len > 0 && memchr(text, ']', len) != NULL);
        return true;
    }
    s->bracket = s->bracket || text[len - 1] == ']';
    if (line.phase.n != 1) return false;
    char phase = line.phase.p[0];
    if (phase == 'M') return line.name.p != NULL && read_about(s, &line);
    if (!s->described) return false;
    if (phase == 'b') return begin_work(s, &line);
    if (phase == 'e') return end_work(s, &line);
    if (phase != 'X' || is_arrow(&line)) return true; /* messages are paired by their numbers */
    if (!make_event(s, &line, false, &event)) return false;
    add_event(s, &event);
    return true;
}

static void say_why(const struct source *s, int error, char why[PAGE_WHY_MAX]) {
    why[0] = '\0';
    if (error != 0)
        snprintf(why, PAGE_WHY_MAX, "cannot be read: %s", strerror(error));
    else if (!s->described)
        snprintf(why, PAGE_WHY_MAX,
                 "does not say which rank wrote it, so it is no trace of muster or has lost its beginning");
    else if (s->rank->rank != s->wanted)
        snprintf(why, PAGE_WHY_MAX, "was written by rank %d", s->rank->rank);
    else if (s->job->size != 0 && s->size != s->job->size)
        snprintf(why, PAGE_WHY_MAX, "is of a world of %d ranks, the others are of one of %d", s->size,
                 s->job->size);
}

struct page_rank *page_read_trace(struct page_job *job, const char *path, int rank, char why[PAGE_WHY_MAX]) {
    struct source s = {.job = job, .wanted = rank};
    struct page_lines lines = {.take = read_line, .context = &s};
    int fd = page_open(path), error = fd < 0 ? errno : 0;

    s.rank = calloc(1, sizeof *s.rank);
    s.lines = &lines;
    if (s.rank == NULL) job->failed = true;
    if (error == 0 && s.rank != NULL) error = page_lines_read(fd, &lines);
    if (s.rank != NULL) say_why(&s, error, why);
    if (fd >= 0) close(fd);
    page_set_free(&s.group_numbers);
    page_set_free(&s.named);
    page_set_free(&s.open_ids);
    free(s.groups);
    free(s.open_works);
    if (s.rank == NULL || why[0] != '\0') {
        page_rank_free(s.rank);
        return NULL;
    }
    if (job->size == 0) job->size = s.size;
    s.rank->cut = !s.bracket || !lines.whole;
    s.rank->malformed = lines.malformed;
    return s.rank;
}

void page_rank_free(struct page_rank *rank) {
    if (rank != NULL) free(rank->events);
    free(rank);
}
