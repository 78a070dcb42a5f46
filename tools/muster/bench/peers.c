/* peers.c - finds the installed peers and builds their programs. See peers.h. */
#include "bench/peers.h"
#include "bench/launch.h"
#include "run/ranks/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { PREPARE_SECONDS = 120, FILES_AT_ONCE = 64, NEW_SECONDS = 60, OUTPUT_MAX = 4096 };

/*
 * The creator locks its directory as long as it lives. A pid in the name would mean nothing in another
 * container.
 */
static const char parent[] = "/tmp", prefix[] = "muster-bench.";

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *position) {
    (void)info;
    (void)kind;
    (void)position;
    return remove(path);
}

static int lock_dir(int at, const char *name) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

/* Removes directories of killed benchmarks, but not new ones, whose owner may not have locked them yet. */
static void remove_leftovers(void) {
    DIR *all = opendir(parent);
    const struct dirent *entry;
    while (all && (entry = readdir(all)) != NULL) {
        struct stat info;
        char path[PATH_MAX];
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0) continue;
        int fd = lock_dir(dirfd(all), entry->d_name);
        if (fd < 0) continue;
        snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
        if (fstat(fd, &info) == 0 && info.st_uid == getuid() && info.st_mtime + NEW_SECONDS < time(NULL))
            nftw(path, remove_entry, FILES_AT_ONCE, FTW_DEPTH | FTW_PHYS);
        close(fd);
    }
    if (all) closedir(all);
}

static int own_lock = -1;

bool peers_open_dir(char dir[BENCH_DIR_MAX]) {
    remove_leftovers();
    snprintf(dir, BENCH_DIR_MAX, "%s/%sXXXXXX", parent, prefix);
    if (!mkdtemp(dir)) return false;
    own_lock = lock_dir(AT_FDCWD, dir);
    return true;
}

void peers_remove_dir(const char *dir) {
    nftw(dir, remove_entry, FILES_AT_ONCE, FTW_DEPTH | FTW_PHYS);
    if (own_lock >= 0) close(own_lock);
    own_lock = -1;
}

void peers_add_args(struct bench_argv *argv, const char *const *args) {
    for (; *args && argv->n < BENCH_ARGV_MOST - 1; args++) argv->args[argv->n++] = *args;
    argv->args[argv->n] = NULL;
}

void peers_set_environment(const char *dir) {
    setenv("TMPDIR", dir, 1); /* so that the session files of Open MPI are removed, too */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false",
           0); /* not used on one host, but Open MPI fails without ssh */
}

static bool write_sources(struct bench_peer *peer, const char *dir, const struct bench_source *sources) {
    char path[PATH_MAX];
    for (; sources->name; sources++) {
        snprintf(path, sizeof path, "%s/%s", dir, sources->name);
        FILE *file = fopen(path, "we");
        bool written = file && fputs(sources->text, file) >= 0;
        if (file && fclose(file) != 0) written = false;
        if (!written) {
            snprintf(peer->why_not, sizeof peer->why_not, "cannot write to %.200s", path);
            return false;
        }
    }
    return true;
}

/* Finds a program in PATH, or sets why_not with the package to install. */
static bool find(struct bench_peer *peer, const char *name, const char *package, char path[PATH_MAX]) {
    char *found;
    if (program_find(name, &found) != MST_OK) {
        snprintf(peer->why_not, sizeof peer->why_not, "%.200s (Debian: %s)", mst_last_error()->message,
                 package);
        return false;
    }
    snprintf(path, PATH_MAX, "%s", found);
    free(found);
    return true;
}

/*
 * Runs a command and reads the beginning of its output; sets why_not if it fails. False: the user interrupts.
 */
static bool run_command(struct bench_peer *peer, const char *dir, const char *const *argv,
                        char text[OUTPUT_MAX]) {
    char output[PATH_MAX], line[BENCH_WHY_MAX];
    snprintf(output, sizeof output, "%s/output", dir);
    struct launch_result result = launch_run(argv, output, PREPARE_SECONDS);
    FILE *file = fopen(output, "re");
    text[file ? fread(text, 1, OUTPUT_MAX - 1, file) : 0] = '\0';
    if (file) fclose(file);
    if (result.end != LAUNCH_ENDED || result.status != 0)
        snprintf(peer->why_not, sizeof peer->why_not, "%.120s fails: %.150s", argv[0],
                 launch_last_line(output, line, sizeof line));
    return result.end != LAUNCH_INTERRUPTED;
}

/* The first word of the text that begins with a digit, or with v and a digit. */
static void set_version(struct bench_peer *peer, const char *text) {
    static const char blanks[] = " \t\n";
    while (*text != '\0') {
        const char *number = text + (text[0] == 'v');
        if (number[0] >= '0' && number[0] <= '9') {
            snprintf(peer->version, sizeof peer->version, "%.*s", (int)strcspn(number, ",;+ \t\n"), number);
            return;
        }
        text += strcspn(text, blanks);
        text += strspn(text, blanks);
    }
}

static bool find_mpi(struct bench_peer *peer, const char *package, char compiler[PATH_MAX]) {
    char name[32];
    snprintf(name, sizeof name, "mpirun.%s", peer->name);
    if (find(peer, name, package, peer->launcher)) {
        snprintf(name, sizeof name, "mpicc.%s", peer->name);
        return find(peer, name, package, compiler);
    }
    if (!find(peer, "mpirun", package, peer->launcher) || !find(peer, "mpicc", package, compiler))
        return false;
    peer->why_not[0] = '\0';
    return true;
}

/* The version text begins with the name of the MPI, which identifies a plain mpirun. */
bool peers_prepare_mpi(struct bench_peer *peer, const char *dir, const struct bench_source *sources,
                       const char *package) {
    char source[PATH_MAX], compiler[PATH_MAX], text[OUTPUT_MAX];
    snprintf(source, sizeof source, "%s/%s", dir, sources[0].name);
    snprintf(peer->program, sizeof peer->program, "%s/%s", dir, peer->name);
    if (!find_mpi(peer, package, compiler) || !write_sources(peer, dir, sources)) return true;
    const char *compile[] = {compiler, "-O2", "-o", peer->program, source, NULL};
    const char *query[] = {peer->program, NULL};
    bool proceed = run_command(peer, dir, compile, text);
    if (peer->why_not[0] == '\0') proceed = run_command(peer, dir, query, text);
    if (peer->why_not[0] != '\0') return proceed;
    if (strncmp(text, peer->label, strlen(peer->label)) == 0)
        set_version(peer, text);
    else
        snprintf(peer->why_not, sizeof peer->why_not, "mpirun belongs to '%.*s'", (int)strcspn(text, " \n"),
                 text);
    return true;
}

bool peers_find_mpirun(struct bench_peer *peer, const char *family, const char *dir) {
    bool mpich = strcmp(family, "mpich") == 0;
    const char *package = mpich ? "mpich" : "openmpi-bin";
    char name[32], text[OUTPUT_MAX];
    snprintf(name, sizeof name, "mpirun.%s", family);
    if (!find(peer, name, package, peer->launcher) && !find(peer, "mpirun", package, peer->launcher))
        return true;
    peer->why_not[0] = '\0';
    const char *query[] = {peer->launcher, "--version", NULL};
    bool proceed = run_command(peer, dir, query, text), hydra = strstr(text, "HYDRA"); /* that of MPICH */
    if (peer->why_not[0] != '\0') return proceed;
    if (hydra == mpich)
        set_version(peer, text);
    else
        snprintf(peer->why_not, sizeof peer->why_not, "%.200s does not belong to %s (Debian: %s)",
                 peer->launcher, family, package);
    return true;
}

bool peers_prepare_torch(struct bench_peer *peer, const char *dir, const struct bench_source *sources,
                         const char *python) {
    char text[OUTPUT_MAX];
    snprintf(peer->program, sizeof peer->program, "%s/%s", dir, sources[0].name);
    if (!find(peer, python, "python3-torch", peer->launcher) || !write_sources(peer, dir, sources))
        return true;
    const char *query[] = {peer->launcher, peer->program, NULL};
    bool proceed = run_command(peer, dir, query, text);
    if (peer->why_not[0] == '\0') set_version(peer, text);
    return proceed;
}
