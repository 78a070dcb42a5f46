/*
 * launch.c - see launch.h.
 *
 * The launchers of MPIs start daemons and put ranks into their own process groups, so killing one group would
 * not reach all of them. Instead this process adopts the orphans among its descendants
 * (PR_SET_CHILD_SUBREAPER). Once it has no children left, no process is left behind.
 */
#include "bench/launch.h"
#include "os/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_MS = 5000, KILL_MS = 10000, POLL_MS = 20 };

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

static void send_kill(void) {
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
        if (kill_them) send_kill();
        int64_t next = msi_deadline(POLL_MS);
        next_signal(next < deadline ? next : deadline);
    }
}

void launch_kill_children(void) {
    reap_all(msi_deadline(KILL_MS), true);
}

/* Is this a shared-memory file of an MPI or of OpenMP, created since then and no longer in use? */
static bool is_stale(int dir, const char *name, time_t since) {
    static const char openmp[] = "__KMP_REGISTERED_LIB_";
    static const char *const segments[] = {"vader_segment.", "sm_segment.", "mpich_shar_tmp",
                                           "ucx_shm_posix_"};
    struct stat info;
    bool segment = false;
    if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_uid != getuid() ||
        info.st_ctime < since)
        return false;
    if (strncmp(name, openmp, sizeof openmp - 1) == 0) { /* the pid of its process follows */
        long pid = strtol(name + sizeof openmp - 1, NULL, 10);
        return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
    }
    for (size_t i = 0; i < sizeof segments / sizeof segments[0]; i++)
        segment |= strncmp(name, segments[i], strlen(segments[i])) == 0;
    int fd = segment ? openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0) return false;
    bool unused = fcntl(fd, F_SETLEASE, F_WRLCK) == 0; /* fails while any process has it open or mapped */
    close(fd);
    return unused;
}

/* Killed ranks leave their shared memory behind. */
static void remove_segments(time_t since) {
    DIR *dir = opendir("/dev/shm");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        if (is_stale(dirfd(dir), entry->d_name, since)) unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) closedir(dir);
}

/* Starts argv with its output in a file. Returns its process, or -1. */
static pid_t start(const char *const *argv, int output) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0) return pid;
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, &original, NULL);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_FAILURE);
}

static enum launch_end wait_for(pid_t pid, int64_t deadline) {
    for (;;) {
        int status, number;
        if (waitpid(pid, &status, WNOHANG) == pid) return status == 0 ? LAUNCH_DONE : LAUNCH_FAILED;
        number = next_signal(deadline);
        if (number == 0) return LAUNCH_TIME_UP;
        if (number == SIGCHLD) continue;
        stopped_by = number;
        return LAUNCH_INTERRUPTED;
    }
}

static void read_output(FILE *output, struct launch_result *result) {
    char line[LAUNCH_WHY_MAX];
    rewind(output);
    result->text[fread(result->text, 1, sizeof result->text - 1, output)] = '\0';
    rewind(output);
    while (fgets(line, sizeof line, output)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[strspn(line, " \t-=")] != '\0') snprintf(result->why, sizeof result->why, "%s", line);
    }
}

void launch_run(const char *const *argv, double limit, struct launch_result *result) {
    int fd = memfd_create("output", MFD_CLOEXEC);
    FILE *output = fd >= 0 ? fdopen(fd, "r") : NULL;
    time_t since = time(NULL);
    int64_t begin = msi_now();
    pid_t pid = output ? start(argv, fd) : -1;
    *result = (struct launch_result){.end = LAUNCH_FAILED, .why = "no output"};
    if (pid > 0) {
        result->end = wait_for(pid, begin + (int64_t)(limit * 1e9));
        result->wall = (double)(msi_now() - begin) / 1e9;
        if (result->end > LAUNCH_FAILED) kill(pid, SIGTERM); /* lets a launcher clean up */
        if (!reap_all(msi_deadline(EXIT_MS), false)) launch_kill_children();
        if (result->end != LAUNCH_DONE) remove_segments(since);
        read_output(output, result);
    }
    if (result->end == LAUNCH_TIME_UP)
        snprintf(result->why, sizeof result->why, "did not finish within %g s", limit);
    if (output) fclose(output);
}
