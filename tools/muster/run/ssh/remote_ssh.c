/*
 * remote_ssh.c - see remote_ssh.h. Runs on the main thread.
 *
 *   an agent that reads nothing:        script in a memfd ----------------------------> ssh's stdin
 *   the one that has the launcher's:    script, then our stdin --feeder process--pipe--> ssh's stdin
 *
 * The feeder is a process because reading may block whatever our stdin is, a file, a pipe or a terminal. It stays in the
 * launcher's process group, or a terminal would not let it read.
 */
#include "run/ssh/remote_ssh.h"

#include "run/ssh/agent_script.h"

#include "os/write.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * No questions; ten seconds to connect; a host that has gone is noticed within two minutes; no process that serves other
 * connections and would stay behind; none of the forwardings that the user's configuration may ask for. Where a command of
 * the user's says otherwise, it comes first and counts.
 */
static const char *const ssh_options[] = {
    "-T", "-x",
    "-o", "BatchMode=yes",
    "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=30",
    "-o", "ControlMaster=no",
    "-o", "ClearAllForwardings=yes",
    NULL,
};

/* Is the first word of the command ssh, whose options we know? */
static bool is_ssh(const char *command) {
    size_t blanks = strspn(command, " \t"), len = strcspn(command + blanks, " \t");
    const char *end = command + blanks + len;

    return (len == 3 && memcmp(end - 3, "ssh", 3) == 0) || (len > 3 && memcmp(end - 4, "/ssh", 4) == 0);
}

/* execve changes nothing, and yet wants strings that may be changed. */
static char *word(const char *text) {
    return (char *)(uintptr_t)text;
}

static void make_words(const char *shell_line, const char *ssh, const char *host, const char *command,
                       char *words[REMOTE_SSH_WORDS]) {
    size_t n = 0;

    if (shell_line != NULL) {
        words[n++] = word("sh");
        words[n++] = word("-c");
        words[n++] = word(shell_line);
    }
    words[n++] = word("ssh");
    if (ssh == NULL || is_ssh(ssh))
        for (size_t i = 0; ssh_options[i] != NULL; i++) words[n++] = word(ssh_options[i]);
    words[n++] = word(host);
    words[n++] = word(command);
    words[n] = NULL;
}

static bool write_all(int fd, const void *data, size_t len) {
    errno = msi_write_all(fd, data, len);
    return errno == 0;
}

static int script_file(const struct msi_buf *script, int *fd) {
    int made = memfd_create("muster-agent", MFD_CLOEXEC);

    if (made < 0) return -errno;
    if (!write_all(made, script->data, script->len) || lseek(made, 0, SEEK_SET) != 0) {
        int rc = -errno;
        close(made);
        return rc;
    }
    *fd = made;
    return 0;
}

/* A copy of the launcher that may have lost its threads: it makes system calls and nothing else. */
_Noreturn static void feed(const struct msi_buf *script, int to, pid_t launcher, const sigset_t *mask) {
    char buffer[4096];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);
    for (int i = 0; i < SPAWN_SIGNALS; i++) signal(spawn_signals[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    dup2(to, STDOUT_FILENO);
    syscall(SYS_close_range, 3U, ~0U, 0U);
    bool taken = write_all(STDOUT_FILENO, script->data, script->len);
    while (taken) {
        ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);

        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        taken = write_all(STDOUT_FILENO, buffer, (size_t)n);
    }
    _exit(0);
}

static int start_feeder(const struct msi_buf *script, int *fd, pid_t *feeder) {
    pid_t launcher = getpid();
    sigset_t all, before;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) feed(script, ends[1], launcher, &before);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -error;
    }
    *fd = ends[0];
    *feeder = pid;
    return 0;
}

static int open_input(const struct remote_agent *agent, int *fd, pid_t *feeder) {
    bool ours = !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();

    if (agent->reads_stdin && ours) return start_feeder(&agent->script, fd, feeder);
    return script_file(&agent->script, fd);
}

int remote_ssh_start(const struct remote_options *options, int index, int error_fd, int out, int err,
                     pid_t *pid, pid_t *feeder) {
    const struct remote_agent *agent = &options->agents[index];
    struct msi_buf command = {0}, line = {0};
    char *words[REMOTE_SSH_WORDS];
    int in = -1, rc = -ENOMEM;

    agent_script_command(agent->script.len, &command);
    if (options->ssh != NULL) msi_buf_add_format(&line, "exec %s \"$@\"", options->ssh);
    if (command.failed || line.failed) goto free_texts;
    rc = open_input(agent, &in, feeder);
    if (rc != 0) goto free_texts;
    make_words(options->ssh ? msi_buf_text(&line) : NULL, options->ssh, agent->host, msi_buf_text(&command),
               words);
    struct spawn spawn = {
        .program = options->ssh != NULL ? "/bin/sh" : options->program,
        .argv = words,
        .envp = environ,
        .rank = index,
        .files = {in, out, err},
        .error_fd = error_fd,
        .open_files = options->files,
        .group = &options->slots[index].group,
    };
    pid_t started = spawn_worker(&spawn);
    close(in);
    rc = started > 0 ? 0 : (int)started;
    if (rc == 0) *pid = started;

free_texts:
    msi_buf_free(&command);
    msi_buf_free(&line);
    return rc;
}
