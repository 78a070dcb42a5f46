/*
 * launch.c - see launch.h.
 *
 * The launchers of MPIs start daemons and put ranks into their own process groups, so killing one group would
 * not reach all of them. Instead this process adopts the orphans among its descendants
 * (PR_SET_CHILD_SUBREAPER). Once it has no children left, no process is left behind.
 */
#include "bench/launch.h"
#include "bench/peers.h"
#include "os/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_MS = 5000, KILL_MS = 10000, POLL_MS = 20, CANNOT_EXEC = 127 };

static sigset_t awaited, original; /* the signals to wait for; the mask of commands */
static int stopped_by;             /* the signal that interrupted a wait */

void launch_open(void) {
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    sigemptyset(&awaited);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) sigaddset(&awaited, numbers[i]);
    sigprocmask(SIG_BLOCK, &awaited, &original);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void launch_close(void) {
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    sigprocmask(SIG_SETMASK, &original, NULL);
}

int launch_signal(void) {
    return stopped_by;
}

/* Waits for a signal. Returns its number, or 0 at the deadline. */
static int next_signal(int64_t deadline) {
    for (;;) {
        int64_t left = deadline - msi_now();
        if (left < 0) left = 0;
        struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        int number = sigtimedwait(&awaited, NULL, &timeout);
        if (number > 0) return number;
        if (errno != EINTR) return 0;
    }
}

bool launch_wait_a_moment(void) {
    int number = next_signal(msi_deadline(POLL_MS));
    if (number != 0 && number != SIGCHLD) stopped_by = number;
    return stopped_by != 0;
}

static void kill_children(void) {
    FILE *list = fopen("/proc/thread-self/children", "re");
    int pid;
    while (list && fscanf(list, "%d", &pid) == 1) kill(pid, SIGKILL);
    if (list) fclose(list);
}

/* Reaps children until none is left. False: the deadline has passed. */
static bool reap_all(int64_t deadline, bool kill_them) {
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) return true;
        if (pid > 0) continue;
        if (msi_now() >= deadline) return false;
        if (kill_them) kill_children();
        int64_t next = msi_deadline(POLL_MS);
        next_signal(next < deadline ? next : deadline);
    }
}

static void end_descendants(void) {
    if (!reap_all(msi_deadline(EXIT_MS), false)) reap_all(msi_deadline(KILL_MS), true);
}

/* Is this a shared-memory segment of an MPI, created since then and no longer in use? */
static bool is_stale_segment(int dir, const char *name, time_t since) {
    static const char *const prefixes[] = {"vader_segment.", "sm_segment.", "mpich_shar_tmp",
                                           "ucx_shm_posix_"};
    struct stat info;
    bool known = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) known = true;
    if (!known) return false;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    bool ours = fstat(fd, &info) == 0 && info.st_uid == getuid() && info.st_ctime >= since;
    bool unused =
        ours && fcntl(fd, F_SETLEASE, F_WRLCK) == 0; /* fails while any process has it open or mapped */
    close(fd);
    return unused;
}

/* Is this the registration of an OpenMP runtime whose process has ended? Its name contains the pid. */
static bool is_stale_registration(int dir, const char *name, time_t since) {
    static const char prefix[] = "__KMP_REGISTERED_LIB_";
    struct stat info;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    long pid = strtol(name + sizeof prefix - 1, NULL, 10);
    if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) return false;
    return fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_uid == getuid() &&
           info.st_ctime >= since;
}

/* Killed ranks leave their shared memory behind. */
static void remove_segments(time_t since) {
    DIR *dir = opendir("/dev/shm");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        if (is_stale_segment(dirfd(dir), entry->d_name, since) ||
            is_stale_registration(dirfd(dir), entry->d_name, since))
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) closedir(dir);
}

_Noreturn static void exec_command(const char *const *argv, int in, int out) {
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, &original, NULL);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(CANNOT_EXEC);
}

static pid_t start(const char *const *argv, const char *output) {
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    pid_t pid = -1;
    fflush(NULL);
    if (in >= 0 && out >= 0) pid = fork();
    if (pid == 0) exec_command(argv, in, out);
    if (in >= 0) close(in);
    if (out >= 0) close(out);
    return pid;
}

static enum launch_end wait_for(pid_t pid, int64_t deadline, int *status) {
    for (;;) {
        if (waitpid(pid, status, WNOHANG) == pid) return LAUNCH_ENDED;
        int number = next_signal(deadline);
        if (number == 0) return LAUNCH_TIME_UP;
        if (number == SIGCHLD) continue;
        stopped_by = number;
        return LAUNCH_INTERRUPTED;
    }
}

struct launch_result launch_run(const char *const *argv, const char *output, double limit) {
    struct launch_result result = {.end = LAUNCH_NOT_STARTED};
    time_t since = time(NULL);
    int64_t begin = msi_now();
    pid_t pid = start(argv, output);
    if (pid < 0) return result;
    result.end = wait_for(pid, begin + (int64_t)(limit * 1e9), &result.status);
    result.wall = (double)(msi_now() - begin) / 1e9;
    if (result.end != LAUNCH_ENDED) kill(pid, SIGTERM); /* lets a launcher clean up */
    end_descendants();
    if (result.end != LAUNCH_ENDED || result.status != 0) remove_segments(since);
    return result;
}

const char *launch_last_line(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    char line[BENCH_WHY_MAX];
    snprintf(out, size, "no output");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[strspn(line, " \t-=")] != '\0') snprintf(out, size, "%s", line);
    }
    if (file) fclose(file);
    return out;
}
