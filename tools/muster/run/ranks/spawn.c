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
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CANNOT_EXEC = 127 };

const int spawn_signals[SPAWN_SIGNALS] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                          SIGUSR2, SIGTSTP, SIGCHLD, SIGPIPE, SIGXFSZ};

static struct sigaction inherited[_NSIG]; /* by signal number */

void spawn_prepare(void) {
    for (int number = 1; number < _NSIG; number++) sigaction(number, NULL, &inherited[number]);
}

int spawn_was_ignored(int signal) {
    return signal > 0 && signal < _NSIG && inherited[signal].sa_handler == SIG_IGN;
}

_Noreturn static void fail(const struct spawn *s) {
    struct spawn_error error = {.rank = s->rank, .error = errno};
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
    for (int i = 0; i < SPAWN_SIGNALS; i++) sigaction(spawn_signals[i], &inherited[spawn_signals[i]], NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
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
