/*
 * discover.c - one rank that prints what discovery finds. The drivers start it under real and recorded
 * launchers.
 *
 *   discover action ...
 *
 * Actions: find, find_alone (.no_discovery), find_set (.set_env), mpi=PORT (mst_mpi_discovery), init,
 * init_set (.set_env), init_loud (.verbose), init_alone (.no_discovery), cancelled (mst_init, cancelled after
 * a second), sum (of rank + 1 over all ranks), destroy, env (the six variables), in (which cloud), port=PORT
 * (sets MASTER_PORT), fork (a child that exits at once; its exit status). Each writes one line: its name and
 * its result. The first that fails ends the program with 1.
 */
#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static mst_status find(const char *action) {
    mst_discovery found;
    mst_status st = mst_discover(&found, .no_discovery = !strcmp(action, "find_alone"),
                                 .set_env = !strcmp(action, "find_set"));
    if (st != MST_OK) return st;
    dprintf(STDOUT_FILENO, "find %s %d %d %d %d '%s' %d | %s | %s | %s | %s | %s | %s\n", found.launcher,
            found.rank, found.world_size, found.local_rank, found.local_size, found.master_addr,
            found.master_port, found.rank_from, found.world_size_from, found.local_rank_from,
            found.local_size_from, found.master_addr_from, found.master_port_from);
    return st;
}

static mst_status init(const char *action) {
    mst_status st = mst_init(.set_env = !strcmp(action, "init_set"), .verbose = !strcmp(action, "init_loud"),
                             .no_discovery = !strcmp(action, "init_alone"));
    if (st == MST_OK)
        dprintf(STDOUT_FILENO, "init %d %d %d\n", mst_get_rank(NULL), mst_get_world_size(NULL),
                mst_get_host_count(NULL));
    return st;
}

static void *fire_later(void *cancel) {
    sleep(1);
    mst_cancel_fire(cancel);
    return NULL;
}

/* Succeeds if mst_init fails. */
static mst_status cancelled(void) {
    mst_cancel *cancel;
    pthread_t thread;
    mst_status st = mst_cancel_new(&cancel);
    if (st != MST_OK) return st;
    if (pthread_create(&thread, NULL, fire_later, cancel)) abort();
    st = mst_init(.cancel = cancel);
    dprintf(STDOUT_FILENO, "cancelled %s %s\n", mst_status_name(st), mst_error());
    pthread_join(thread, NULL);
    mst_cancel_free(cancel);
    return st == MST_ERR_CANCELLED ? MST_OK : st;
}

static mst_status sum(void) {
    float x = (float)(mst_get_rank(NULL) + 1);
    mst_status st = mst_all_reduce(&x, 1, MST_F32);
    if (st == MST_OK) dprintf(STDOUT_FILENO, "sum %g\n", (double)x);
    return st;
}

static void show_env(void) {
    static const char *const names[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK",        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR", "MASTER_PORT", "NCCL_SOCKET_IFNAME"};
    char line[1024] = "env";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s", value ? value : "-");
    }
    dprintf(STDOUT_FILENO, "%s\n", line);
}

static void fork_child(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(1); /* the exit must not block */
        exit(0);
    }
    waitpid(child, &status, 0);
    dprintf(STDOUT_FILENO, "fork %d\n", status);
}

static mst_status act(const char *action) {
    if (!strncmp(action, "find", 4)) return find(action);
    if (!strncmp(action, "init", 4)) return init(action);
    if (!strcmp(action, "cancelled")) return cancelled();
    if (!strcmp(action, "sum")) return sum();
    if (!strcmp(action, "destroy")) return mst_destroy_process_group(NULL);
    if (!strncmp(action, "mpi=", 4)) return mst_mpi_discovery((int)strtol(action + 4, NULL, 10), true);
    if (!strncmp(action, "port=", 5)) setenv("MASTER_PORT", action + 5, 1);
    if (!strcmp(action, "env")) show_env();
    if (!strcmp(action, "fork")) fork_child();
    if (!strcmp(action, "in"))
        dprintf(STDOUT_FILENO, "in %d %d %d\n", mst_in_aml(), mst_in_aws_sm(), mst_in_dlts());
    return MST_OK;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        mst_status st = act(argv[i]);
        if (st == MST_OK) continue;
        dprintf(STDOUT_FILENO, "failed %s %s %s\n", argv[i], mst_status_name(st), mst_error());
        return 1;
    }
    return 0;
}
