/*
 * forked.c - a process that rank 0 forks is not a rank: its calls fail, it cannot end the parent's world, and
 * the parent continues. Each rank prints "done" on success.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(void) {
    bool refused = mst_barrier(.timeout_ms = 60000) == MST_ERR_STATE;
    return refused && mst_destroy_process_group(NULL) == MST_ERR_STATE && mst_get_rank(NULL) == -1 ? 0 : 1;
}

int main(void) {
    int status = 0;
    if (mst_init() != MST_OK) return 1;
    if (mst_get_rank(NULL) == 0) {
        pid_t pid = fork();
        if (pid == 0) _exit(child());
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return 1;
    }
    if (mst_barrier(.timeout_ms = 60000) != MST_OK) {
        fprintf(stderr, "%s\n", mst_error());
        return 1;
    }
    mst_printf_all("done\n");
    return mst_destroy_process_group(NULL) == MST_OK ? 0 : 1;
}
