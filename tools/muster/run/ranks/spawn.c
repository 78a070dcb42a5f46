/*
 * spawn.c - starts one worker with vfork and exec. See spawn.h. Until the exec the child runs in the
 * launcher's memory, so it makes system calls only.
 *
 * vfork copies nothing: 256 workers start in three quarters of the time that fork takes. The launcher does
 * not wait for each exec. A child whose exec fails writes the error to a pipe that all share.
 */
#include "run/ranks/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_EXEC = 127 };

static struct sigaction inherited[_NSIG]; /* by signal number */

void spawn_prepare(void) {
    for (int number = 1; number < _NSIG; number++) sigaction(number, NULL, &inherited[number]);
}

void spawn_restore_signals(const sigset_t *mask) {
    for (int number = 1; number < _NSIG; number++) sigaction(number, &inherited[number], NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
}

int spawn_was_ignored(int signal) {
    return signal > 0 && signal < _NSIG && inherited[signal].sa_handler == SIG_IGN;
}

_Noreturn static void fail(const struct spawn *s) {
    struct spawn_error error = {.index = s->index, .error = errno};
    if (write(s->error_fd, &error, sizeof error) < 0) _exit(CANNOT_EXEC);
    _exit(CANNOT_EXEC);
}

/*
 * Moves the process into its own process group and detaches it from the terminal. A session of its own would
 * do both, but Linux schedules processes by session (autogroup): ranks in separate sessions that yield to
 * each other would yield to all other processes, for milliseconds at a time.
 */
static void leave_terminal(void) {
    setpgid(0, 0);
    int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0) return;
    ioctl(terminal, TIOCNOTTY); /* affects this process only, because it does not lead the session */
    close(terminal);
}

_Noreturn static void become_worker(const struct spawn *s, pid_t launcher, const sigset_t *mask) {
    leave_terminal();
    atomic_store_explicit(s->group, (int)getpid(), memory_order_relaxed);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(CANNOT_EXEC); /* the launcher died before the prctl */
    for (int fd = 0; fd < 3; fd++)
        if (s->files[fd] != fd && dup2(s->files[fd], fd) < 0) fail(s);
    setrlimit(RLIMIT_NOFILE, s->open_files);
    if (s->cpus && sched_setaffinity(0, s->cpus_size, s->cpus) != 0) fail(s);
    spawn_restore_signals(mask);
    execve(s->program, s->argv, s->envp);
    fail(s);
}

pid_t spawn_worker(const struct spawn *spawn) {
    pid_t launcher = getpid();
    sigset_t all, before;
    /* The launcher's signal handlers must not run in the child. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0) become_worker(spawn, launcher, &before);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid > 0 ? pid : -error;
}

int spawn_open_pipes(int out[2], int err[2]) {
    if (pipe2(out, O_CLOEXEC) != 0) return -errno;
    if (pipe2(err, O_CLOEXEC) == 0) return 0;
    int rc = -errno;
    close(out[0]);
    close(out[1]);
    return rc;
}

void spawn_signal(pid_t pid, int signal) {
    if (kill(-pid, signal) != 0) kill(pid, signal);
}

bool spawn_has_exited(pid_t pid, siginfo_t *info) {
    *info = (siginfo_t){0};
    return waitid(P_PID, (id_t)pid, info, WEXITED | WNOHANG | WNOWAIT) == 0 && info->si_pid != 0;
}

/* The reaper must not kill the group of another process: once the child is reaped, its number is free. */
void spawn_reap(pid_t pid, _Atomic int *group) {
    while (waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
    atomic_store_explicit(group, 0, memory_order_relaxed);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}
