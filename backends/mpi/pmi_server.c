/*
 * pmi_server.c - a PMI-1 server. MPICH asks it for its rank, its job and the addresses of the other ranks
 * during MPI_Init.
 *
 * A thread of each rank serves the MPICH of that rank over a socket pair. The ranks exchange data through the
 * group's keys. After MPI_Init the keys are not used; the thread answers the remaining requests locally. The
 * thread runs until MPICH closes the socket or the process exits. A failed fence gets no answer, because
 * MPICH would abort the process on an error: the thread that called MPI_Init detects the deadline or the loss
 * of a rank.
 */
#include "engine.h"
#include "pmi_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEY_MAX = 64,
    VALUE_MAX = 1024,
    JOB_MAX = 64
}; /* the limits of Hydra; MPICH has lines of 1024 bytes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const mst_backend_host *group; /* NULL once MPI has started. Under the lock. */
static int size;
static char job[JOB_MAX], mapping[VALUE_MAX];

/* Identifies a host with shared memory: the boot id and the file system of /dev/shm. */
static void name_host(char *text, size_t capacity) {
    char boot[64] = "?";
    struct stat shm = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof boot, file)) boot[0] = 0;
        fclose(file);
    }
    boot[strcspn(boot, "\n")] = 0;
    stat("/dev/shm", &shm);
    const char *forced = getenv("MUSTER_FORCE_HOST");
    snprintf(text, capacity, "%s-%llu-%.40s", boot, (unsigned long long)shm.st_dev, forced ? forced : "");
}

static mst_status put_self(const mst_backend_host *host) {
    char key[KEY_MAX], text[160], random[2 * 8 + 1] = "";
    unsigned char bytes[8] = {0};
    snprintf(key, sizeof key, "muster-host-%d", host->rank);
    name_host(text, sizeof text);
    bool ok = msm_pmi_put(key, text);
    if (host->rank == 0) {
        if (getrandom(bytes, sizeof bytes, 0) < 0) snprintf((char *)bytes, sizeof bytes, "%d", (int)getpid());
        for (int i = 0; i < 8; i++) snprintf(random + 2 * i, 3, "%02x", bytes[i]);
        ok &= msm_pmi_put("muster-job", random);
    }
    return ok ? msm_pmi_fence(host)
              : host->fail(host, MST_ERR_MEMORY, -1, NULL, "out of memory while starting MPI");
}

/* Numbers the hosts in the order of their first ranks. */
static void number_hosts(int n, int *nodes) {
    char(*names)[160] = calloc((size_t)n, sizeof *names);
    int known = 0;
    for (int r = 0; names && r < n; r++) {
        char key[KEY_MAX];
        snprintf(key, sizeof key, "muster-host-%d", r);
        const char *name = msm_pmi_get(key);
        int i = 0;
        while (i < known && strcmp(names[i], name ? name : "") != 0) i++;
        if (i == known) snprintf(names[known++], sizeof *names, "%s", name ? name : "");
        nodes[r] = i;
    }
    free(names);
}

/*
 * "(vector,(0,4,2))" means: 4 nodes from node 0 on, with 2 ranks each. Writes one entry for each run of ranks
 * on one host. If that is too long, writes nothing, and MPICH compares the host names.
 */
static void map_hosts(int n) {
    int *nodes = calloc((size_t)n, sizeof *nodes);
    size_t at = (size_t)snprintf(mapping, sizeof mapping, "(vector");
    if (nodes) number_hosts(n, nodes);
    for (int r = 0; nodes && r < n && at < sizeof mapping - 200;) {
        int run = 1;
        while (r + run < n && nodes[r + run] == nodes[r]) run++;
        at += (size_t)snprintf(mapping + at, sizeof mapping - at, ",(%d,1,%d)", nodes[r], run);
        r += run;
    }
    if (at < sizeof mapping - 200 && nodes)
        snprintf(mapping + at, sizeof mapping - at, ")");
    else
        mapping[0] = 0;
    free(nodes);
}

/* Reads the field "name=value" of a line. The value ends at a blank, or with last at the end of the line. */
static bool field(const char *line, const char *name, bool last, char *value, size_t capacity) {
    size_t len = strlen(name);
    for (const char *at = line; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, len) != 0 || at[len] != '=') continue;
        const char *from = at + len + 1;
        size_t n = last ? strlen(from) : strcspn(from, " ");
        if (n >= capacity) return false;
        memcpy(value, from, n);
        value[n] = 0;
        return true;
    }
    return false;
}

static bool put(const char *line) {
    char key[KEY_MAX + 1], value[VALUE_MAX + 1];
    return field(line, "key", false, key, sizeof key) && field(line, "value", true, value, sizeof value) &&
           msm_pmi_put(key, value);
}

static void get(const char *line, char *reply, size_t capacity) {
    char key[KEY_MAX + 1];
    const char *value = NULL;
    if (field(line, "key", false, key, sizeof key))
        value = !strcmp(key, "PMI_process_mapping") ? (mapping[0] ? mapping : NULL) : msm_pmi_get(key);
    if (value)
        snprintf(reply, capacity, "cmd=get_result rc=0 msg=success value=%s\n", value);
    else
        snprintf(reply, capacity, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

/* Returns false if it failed and must not be answered. */
static bool fence(void) {
    pthread_mutex_lock(&lock);
    mst_status st = group ? msm_pmi_fence(group) : MST_OK;
    pthread_mutex_unlock(&lock);
    return st == MST_OK;
}

/* Answers a line. Returns false to stop serving without an answer. */
static bool answer(const char *line, char *reply, size_t capacity) {
    char cmd[40] = "";
    field(line, "cmd", false, cmd, sizeof cmd);
    if (!strcmp(cmd, "init"))
        snprintf(reply, capacity, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    else if (!strcmp(cmd, "get_maxes"))
        snprintf(reply, capacity, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n", 256, KEY_MAX,
                 VALUE_MAX);
    else if (!strcmp(cmd, "get_appnum"))
        snprintf(reply, capacity, "cmd=appnum appnum=0\n");
    else if (!strcmp(cmd, "get_universe_size"))
        snprintf(reply, capacity, "cmd=universe_size size=%d rc=0\n", size);
    else if (!strcmp(cmd, "get_my_kvsname"))
        snprintf(reply, capacity, "cmd=my_kvsname kvsname=muster-%s\n", job);
    else if (!strcmp(cmd, "put"))
        snprintf(reply, capacity, "cmd=put_result %s\n",
                 put(line) ? "rc=0 msg=success" : "rc=-1 msg=refused");
    else if (!strcmp(cmd, "get"))
        get(line, reply, capacity);
    else if (!strcmp(cmd, "barrier_in")) {
        if (!fence()) return false;
        snprintf(reply, capacity, "cmd=barrier_out\n");
    } else if (!strcmp(cmd, "finalize"))
        snprintf(reply, capacity, "cmd=finalize_ack\n");
    else
        snprintf(reply, capacity, "cmd=%s_result rc=-1 msg=muster_does_not_serve_this\n", cmd);
    return true;
}

static bool send_text(int fd, const char *p) {
    size_t n = strlen(p);
    while (n) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Serves until MPICH closes its end. */
static void *serve(void *given) {
    char in[MSM_PMI_LINE_MAX + 1], reply[MSM_PMI_LINE_MAX];
    int fd = (int)(intptr_t)given;
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(fd, in + n, sizeof in - 1 - n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n += (size_t)got;
        in[n] = 0;
        for (char *end; (end = strchr(in, '\n'));) {
            *end = 0;
            if (!answer(in, reply, sizeof reply))
                return NULL; /* keeps the socket open, because MPICH must not see its end */
            if (!send_text(fd, reply)) goto close_fd;
            n -= (size_t)(end + 1 - in);
            memmove(in, end + 1, n + 1);
        }
        if (n == sizeof in - 1) break;
    }
close_fd:
    close(fd);
    return NULL;
}

static mst_status start_thread(const mst_backend_host *host, int fd) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd))
        return host->fail(host, MST_ERR_SYSTEM, -1, NULL, "cannot start a thread");
    pthread_detach(thread);
    return MST_OK;
}

mst_status msm_pmi_serve(const mst_backend_host *host, int *fd) {
    int pair[2];
    msm_pmi_reset();
    mst_status st = put_self(host);
    if (st != MST_OK) return st;
    const char *name = msm_pmi_get("muster-job");
    snprintf(job, sizeof job, "%s", name ? name : "");
    map_hosts(host->ranks);
    size = host->ranks;
    group = host;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return host->fail(host, MST_ERR_SYSTEM, -1, NULL, "cannot create a socket pair");
    st = start_thread(host, pair[1]);
    if (st != MST_OK) {
        close(pair[0]);
        close(pair[1]);
        return st;
    }
    *fd = pair[0];
    return MST_OK;
}

void msm_pmi_detach(void) {
    pthread_mutex_lock(&lock);
    group = NULL;
    pthread_mutex_unlock(&lock);
}

const char *msm_pmi_job(void) {
    return job;
}
