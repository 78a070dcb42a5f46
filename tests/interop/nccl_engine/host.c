/* host.c - the host's side of the table, over a directory that the ranks share. */
#include "kit.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

mst_backend_host host;
char last_error[512];
static int global[RANKS_MAX];

int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void path_of(const char *key, char path[256]) {
    snprintf(path, 256, "%s/%s", (const char *)host.context, key);
}

static mst_status host_set(const mst_backend_host *self, const char *key, const void *value, size_t len) {
    char path[256], draft[270];
    (void)self;
    path_of(key, path);
    snprintf(draft, sizeof draft, "%s.draft", path);
    FILE *file = fopen(draft, "w");
    if (!file || fwrite(value, 1, len, file) != len || fclose(file) || rename(draft, path))
        return MST_ERR_SYSTEM;
    return MST_OK;
}

static mst_status host_get(const mst_backend_host *self, const char *key, int64_t deadline,
                           mst_bytes *value) {
    char path[256];
    FILE *file;
    (void)self;
    path_of(key, path);
    while (!(file = fopen(path, "r"))) {
        if (now_ns() > deadline) return MST_ERR_TIMEOUT;
        usleep(200);
    }
    value->data = calloc(1, 1024);
    value->len = value->data ? fread(value->data, 1, 1023, file) : 0;
    fclose(file);
    return value->data ? MST_OK : MST_ERR_MEMORY;
}

static mst_status host_fail(const mst_backend_host *self, mst_status status, int culprit, const char *remedy,
                            const char *what) {
    (void)self;
    (void)culprit;
    snprintf(last_error, sizeof last_error, "%s%s%s", what, remedy ? "; " : "", remedy ? remedy : "");
    return status;
}

static void host_log(const mst_backend_host *self, char level, const char *line) {
    (void)self;
    fprintf(stderr, "rank %d: %c %s\n", me, level, line);
}

void host_init(const char *directory, int timeout_ms) {
    static char context[200];
    for (int r = 0; r < RANKS_MAX; r++) global[r] = r;
    snprintf(context, sizeof context, "%.199s", directory);
    host = (mst_backend_host){.size = sizeof host,
                              .context = context,
                              .rank = me,
                              .ranks = n,
                              .global = global,
                              .world_rank = me,
                              .world_size = n,
                              .local_rank = me,
                              .name = "world",
                              .deadline = now_ns() + (int64_t)timeout_ms * 1000000,
                              .address = "127.0.0.1",
                              .one_host = true,
                              .set = host_set,
                              .get = host_get,
                              .fail = host_fail,
                              .log = host_log};
}
