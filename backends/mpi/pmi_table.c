/*
 * pmi_table.c - see pmi_table.h.
 *
 * The table is text with one "key value" line per entry. At a fence, rank 0 collects the puts of the others
 * and publishes them: each rank sets or gets one key of the store for each direction.
 */
#include "pmi_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *p;
    size_t n, capacity;
};

static struct text known; /* the puts of all ranks before the last fence */
static struct text fresh; /* this rank's puts since the last fence */
static unsigned fences;

static void empty(struct text *text) {
    text->n = 0;
    if (text->p) text->p[0] = 0;
}

void msm_pmi_reset(void) {
    empty(&known);
    empty(&fresh);
    fences = 0;
}

static bool append(struct text *text, const char *p, size_t n) {
    if (text->n + n + 1 > text->capacity) {
        size_t capacity = 2 * (text->n + n + 1);
        char *larger = realloc(text->p, capacity);
        if (!larger) return false;
        text->p = larger;
        text->capacity = capacity;
    }
    if (n) memcpy(text->p + text->n, p, n);
    text->n += n;
    text->p[text->n] = 0;
    return true;
}

bool msm_pmi_put(const char *key, const char *value) {
    char line[MSM_PMI_LINE_MAX + 2];
    int n = snprintf(line, sizeof line, "%s %s\n", key, value);
    return n > 0 && (size_t)n < sizeof line && append(&fresh, line, (size_t)n);
}

static const char *find(const struct text *text, const char *key) {
    static char value[MSM_PMI_LINE_MAX];
    size_t len = strlen(key);
    const char *line = text->p;
    while (line && *line) {
        const char *end = strchr(line, '\n');
        if (!strncmp(line, key, len) && line[len] == ' ') {
            snprintf(value, sizeof value, "%.*s", (int)(end - line - (ptrdiff_t)len - 1), line + len + 1);
            return value;
        }
        line = end + 1;
    }
    return NULL;
}

const char *msm_pmi_get(const char *key) {
    const char *value = find(&fresh, key);
    return value ? value : find(&known, key);
}

static mst_status no_memory(const mst_backend_host *host) {
    return host->fail(host, MST_ERR_MEMORY, -1, NULL, "out of memory for the PMI keys");
}

static mst_status append_value(const mst_backend_host *host, const char *key, struct text *text) {
    mst_bytes value = {NULL, 0};
    mst_status st = host->get(host, key, host->deadline, &value);
    if (st != MST_OK) return st;
    bool ok = append(text, value.data, value.len);
    free(value.data);
    return ok ? MST_OK : no_memory(host);
}

/* Rank 0: publishes the puts of all ranks in one value. */
static mst_status collect(const mst_backend_host *host, const char *key, struct text *all) {
    char from[40];
    mst_status st = append(all, fresh.n ? fresh.p : "", fresh.n) ? MST_OK : no_memory(host);
    for (int r = 1; r < host->ranks && st == MST_OK; r++) {
        snprintf(from, sizeof from, "pmi-%u-%d", fences, r);
        st = append_value(host, from, all);
    }
    return st == MST_OK ? host->set(host, key, all->p, all->n) : st;
}

mst_status msm_pmi_fence(const mst_backend_host *host) {
    char key[40], mine[40];
    struct text all = {NULL, 0, 0};
    mst_status st;
    snprintf(key, sizeof key, "pmi-%u", fences);
    snprintf(mine, sizeof mine, "pmi-%u-%d", fences, host->rank);
    if (host->rank == 0)
        st = collect(host, key, &all);
    else {
        st = host->set(host, mine, fresh.n ? fresh.p : "", fresh.n);
        if (st == MST_OK) st = append_value(host, key, &all);
    }
    if (st == MST_OK && all.n && !append(&known, all.p, all.n)) st = no_memory(host);
    free(all.p);
    fences++;
    empty(&fresh);
    return st;
}
