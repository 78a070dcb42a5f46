/*
 * remote_ssh.c - one ssh process: its arguments, its standard input, its start; see remote.h. Runs on the
 * main thread.
 *
 *   most agents:                          script in a memfd -----------------------------------> ssh's stdin
 *   the agent that gets our stdin:        script, then our stdin --feeder process--pipe--------> ssh's stdin
 *
 * The feeder is a process because reading our stdin, which may be a file, a pipe or a terminal, can block. It
 * stays in the launcher's process group, because a terminal lets only the foreground group read.
 */
#include "run/ssh/remote.h"

#include "run/ranks/spawn.h"
#include "run/ssh/agent_script.h"

#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SSH_ARGV_MAX = 24 };

/*
 * No prompts; ten seconds to connect; a dead host is detected within two minutes; no shared connection that
 * would outlive the agent; no forwarding that the user's configuration may ask for. Options of the user's own
 * command come first and win.
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

/* Is the first word of the command ssh? Only ssh takes ssh_options. */
static bool is_ssh(const char *command) {
    size_t blanks = strspn(command, " \t"), len = strcspn(command + blanks, " \t");
    const char *end = command + blanks + len;
    return (len == 3 && memcmp(end - 3, "ssh", 3) == 0) || (len > 3 && memcmp(end - 4, "/ssh", 4) == 0);
}

/* execve takes strings that are not const, but does not change them. */
static char *arg(const char *text) {
    return (char *)(uintptr_t)text;
}

static void make_argv(const char *shell_line, const char *ssh, const char *host, const char *command,
                      char *argv[SSH_ARGV_MAX]) {
    size_t n = 0;
    if (shell_line) {
        argv[n++] = arg("sh");
        argv[n++] = arg("-c");
        argv[n++] = arg(shell_line);
    }
    argv[n++] = arg("ssh");
    if (!ssh || is_ssh(ssh))
        for (size_t i = 0; ssh_options[i]; i++) argv[n++] = arg(ssh_options[i]);
    argv[n++] = arg(host);
    argv[n++] = arg(command);
    argv[n] = NULL;
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

/* Runs after fork in a process with threads: only system calls are allowed. */
_Noreturn static void feed(const struct msi_buf *script, int to, pid_t launcher, const sigset_t *mask) {
    char buffer[4096];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);
    spawn_restore_signals(mask);
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

int remote_ssh_start(struct remote_host *h, int error_fd, int out, int err) {
    const struct remote_options *o = &h->all->options;
    const struct remote_agent *agent = &o->agents[h->index];
    struct msi_buf command = {0}, line = {0};
    char *argv[SSH_ARGV_MAX];
    int in = -1, rc = -ENOMEM;
    agent_script_command(agent->script.len, &command);
    if (o->ssh) msi_buf_add_format(&line, "exec %s \"$@\"", o->ssh);
    if (command.failed || line.failed) goto free_texts;
    rc = open_input(agent, &in, &h->feeder);
    if (rc != 0) goto free_texts;
    make_argv(o->ssh ? msi_buf_text(&line) : NULL, o->ssh, agent->host, msi_buf_text(&command), argv);
    struct spawn spawn = {
        .program = o->ssh ? "/bin/sh" : o->program,
        .argv = argv,
        .envp = environ,
        .index = h->index,
        .files = {in, out, err},
        .error_fd = error_fd,
        .open_files = o->files,
        .group = &o->groups[h->index],
    };
    pid_t started = spawn_worker(&spawn);
    close(in);
    rc = started > 0 ? 0 : (int)started;
    if (rc == 0) h->pid = started;

free_texts:
    msi_buf_free(&command);
    msi_buf_free(&line);
    return rc;
}
