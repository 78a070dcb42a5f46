/*
 * reaper.c - kills the process groups of the ranks when the launcher dies. See reaper.h. The launcher's main
 * thread owns the struct. Each rank writes its process group into the shared memory before it execs, so the
 * reaper knows it at all times. The launcher clears it before it reaps the rank, because then the number
 * may be reused.
 */
#include "run/ranks/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "the array is shared between processes");

static void release_files(void) {
    int null = open("/dev/null", O_RDWR);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (null >= 0) dup2(null, fd);
    if (null > STDERR_FILENO) close(null);
    if (chdir("/") != 0) return; /* the file system of the working directory stays busy */
}

_Noreturn static void watch(int lifeline, const _Atomic int *groups, int n) {
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
    char byte;
    setsid();
    prctl(PR_SET_NAME, "muster-reaper");
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) signal(ignored[i], SIG_IGN);
    release_files();
    while (read(lifeline, &byte, 1) < 0 && errno == EINTR) continue;
    for (int i = 0; i < n; i++) {
        int group = atomic_load_explicit(&groups[i], memory_order_relaxed);
        if (group > 1) kill(-group, SIGKILL);
    }
    _exit(0);
}

int reaper_open(struct reaper *reaper, int n) {
    size_t size = (size_t)n * sizeof reaper->groups[0];
    int ends[2], rc;
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return -errno;
    *reaper = (struct reaper){.n = n, .groups = shared};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        rc = -errno;
        goto unmap;
    }
    reaper->pid = fork();
    if (reaper->pid < 0) {
        rc = -errno;
        goto close_pipe;
    }
    if (reaper->pid == 0) {
        close(ends[1]);
        watch(ends[0], reaper->groups, n);
    }
    close(ends[0]);
    reaper->lifeline = ends[1];
    return 0;

close_pipe:
    close(ends[0]);
    close(ends[1]);
unmap:
    munmap(shared, size);
    return rc;
}

void reaper_close(struct reaper *reaper) {
    if (reaper->pid <= 0) return;
    close(reaper->lifeline);
    while (waitpid(reaper->pid, NULL, 0) < 0 && errno == EINTR) continue;
    munmap(reaper->groups, (size_t)reaper->n * sizeof reaper->groups[0]);
}
