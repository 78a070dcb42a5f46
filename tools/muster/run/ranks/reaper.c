/*
 * reaper.c - see reaper.h. The launcher's main thread owns the struct; ranks enter their process group into
 * the shared array themselves before they exec, so there is no moment in which one is unknown; the launcher
 * takes it out before it reaps the rank, after which the number could come to mean somebody else.
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

static void let_go_of_files(void) {
    int null = open("/dev/null", O_RDWR);

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (null >= 0) dup2(null, fd);
    if (null > STDERR_FILENO) close(null);
    if (chdir("/") != 0) return; /* then a file system stays busy for as long as the launcher runs */
}

_Noreturn static void watch(int lifeline, const struct warden_slot *slots, int n) {
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
    char byte;

    setsid();
    prctl(PR_SET_NAME, "muster-warden");
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) signal(ignored[i], SIG_IGN);
    let_go_of_files();
    while (read(lifeline, &byte, 1) < 0 && errno == EINTR) continue;
    for (int i = 0; i < n; i++) {
        int group = atomic_load_explicit(&slots[i].group, memory_order_relaxed);
        if (group > 1) kill(-group, SIGKILL);
    }
    _exit(0);
}

int warden_open(struct warden *warden, int n) {
    size_t size = (size_t)n * sizeof warden->slots[0];
    int ends[2], rc;

    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return -errno;
    *warden = (struct warden){.n = n, .slots = shared};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        rc = -errno;
        goto unmap;
    }
    warden->pid = fork();
    if (warden->pid < 0) {
        rc = -errno;
        goto close_pipe;
    }
    if (warden->pid == 0) {
        close(ends[1]);
        watch(ends[0], warden->slots, n);
    }
    close(ends[0]);
    warden->lifeline = ends[1];
    return 0;

close_pipe:
    close(ends[0]);
    close(ends[1]);
unmap:
    munmap(shared, size);
    return rc;
}

void warden_close(struct warden *warden) {
    if (warden->pid == 0) return;
    close(warden->lifeline);
    while (waitpid(warden->pid, NULL, 0) < 0 && errno == EINTR) continue;
    munmap(warden->slots, (size_t)warden->n * sizeof warden->slots[0]);
    *warden = (struct warden){0};
}
