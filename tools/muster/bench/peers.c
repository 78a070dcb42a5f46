/* peers.c - finds the installed peers, builds their programs and their commands. See peers.h. */
#include "bench/peers.h"
#include "run/ranks/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <muster/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { PREPARE_SECONDS = 120, FILES_AT_ONCE = 64, NEW_SECONDS = 60 };

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

bool peers_open(struct bench_place *place, const char *python) {
    place->python = python;
    launch_open();
    remove_leftovers();
    snprintf(place->dir, sizeof place->dir, "%s/%sXXXXXX", parent, prefix);
    if (readlink("/proc/self/exe", place->self, sizeof place->self - 1) < 0 || !mkdtemp(place->dir)) {
        fprintf(stderr, "muster bench: cannot find this program or create %s: %s\n", place->dir,
                strerror(errno));
        return false;
    }
    lock_dir(AT_FDCWD, place->dir);  /* until this process ends */
    setenv("TMPDIR", place->dir, 1); /* so that the session files of Open MPI are removed, too */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false",
           0); /* not used on one host, but Open MPI fails without ssh */
    return true;
}

void peers_close(const struct bench_place *place) {
    nftw(place->dir, remove_entry, FILES_AT_ONCE, FTW_DEPTH | FTW_PHYS);
    launch_close();
}

void peers_add_args(struct bench_argv *argv, const char *const *args) {
    for (; *args && argv->n < BENCH_ARGV_MOST - 1; args++) argv->args[argv->n++] = *args;
    argv->args[argv->n] = NULL;
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
    peer->why_not[0] = '\0';
    return true;
}

/* Finds mpirun or mpicc of Open MPI or MPICH, with the name of the MPI appended or without. */
static bool find_mpi(struct bench_peer *peer, const char *tool, const char *package, char path[PATH_MAX]) {
    char name[32];
    snprintf(name, sizeof name, "%s.%s", tool, peer->openmpi ? "openmpi" : "mpich");
    return find(peer, name, package, path) || find(peer, tool, package, path);
}

/* Runs a command; sets why_not if it fails. False: the user interrupts. */
static bool run_command(struct bench_peer *peer, const char *const *argv, struct launch_result *result) {
    launch_run(argv, PREPARE_SECONDS, result);
    if (result->end != LAUNCH_DONE)
        snprintf(peer->why_not, sizeof peer->why_not, "%.120s fails: %.150s", argv[0], result->why);
    return result->end != LAUNCH_INTERRUPTED;
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

static bool find_mpirun(struct bench_peer *peer) {
    const char *package = peer->openmpi ? "openmpi-bin" : "mpich";
    struct launch_result result;
    if (!find_mpi(peer, "mpirun", package, peer->launcher)) return true;
    const char *query[] = {peer->launcher, "--version", NULL};
    bool proceed = run_command(peer, query, &result);
    if (peer->why_not[0] != '\0') return proceed;
    bool hydra = strstr(result.text, "HYDRA"); /* that of MPICH */
    if (hydra == peer->openmpi)
        snprintf(peer->why_not, sizeof peer->why_not, "%.200s does not belong to %s (Debian: %s)",
                 peer->launcher, peer->openmpi ? "Open MPI" : "MPICH", package);
    set_version(peer, result.text);
    return true;
}

/* Compiles the program. The version text begins with the name of the MPI, which identifies a plain mpicc. */
static bool prepare_mpi(struct bench_peer *peer, const char *dir, const struct bench_source *sources) {
    char source[PATH_MAX], compiler[PATH_MAX];
    struct launch_result result;
    snprintf(source, sizeof source, "%s/%s", dir, sources[0].name);
    snprintf(peer->program, sizeof peer->program, "%s/%s", dir, peer->name);
    if (!find_mpi(peer, "mpicc", peer->openmpi ? "libopenmpi-dev" : "libmpich-dev", compiler) ||
        !write_sources(peer, dir, sources))
        return true;
    const char *compile[] = {compiler, "-O2", "-o", peer->program, source, NULL};
    const char *query[] = {peer->program, NULL};
    bool proceed = run_command(peer, compile, &result);
    if (peer->why_not[0] == '\0') proceed = run_command(peer, query, &result);
    const char *expected = peer->openmpi ? "Open MPI" : "MPICH";
    if (peer->why_not[0] == '\0' && strncmp(result.text, expected, strlen(expected)) != 0)
        snprintf(peer->why_not, sizeof peer->why_not, "%.200s belongs to '%.*s'", compiler,
                 (int)strcspn(result.text, " \n"), result.text);
    return proceed;
}

static bool prepare_torch(struct bench_peer *peer, const struct bench_place *place,
                          const struct bench_source *sources) {
    struct launch_result result;
    snprintf(peer->program, sizeof peer->program, "%s/%s", place->dir, sources[0].name);
    if (!find(peer, place->python, "python3-torch", peer->launcher) ||
        !write_sources(peer, place->dir, sources))
        return true;
    const char *query[] = {peer->launcher, peer->program, NULL};
    bool proceed = run_command(peer, query, &result);
    if (peer->why_not[0] == '\0') set_version(peer, result.text);
    return proceed;
}

bool peers_prepare(struct bench_peer *peer, const struct bench_place *place, const struct bench_source *mpi,
                   const struct bench_source *torch) {
    bool proceed;
    switch (peer->kind) {
    case BENCH_MPI:
        return find_mpirun(peer) && (peer->why_not[0] != '\0' || prepare_mpi(peer, place->dir, mpi));
    case BENCH_TORCH:
        return prepare_torch(peer, place, torch);
    case BENCH_MUSTER_MPI:
        proceed = find_mpirun(peer);
        if (!proceed || peer->why_not[0] == '\0' || strchr(peer->name, ':')) return proceed;
        peer->openmpi = false; /* "mpi" is the first that is installed */
        peer->label = "muster over MPICH";
        return find_mpirun(peer);
    default:
        snprintf(peer->version, sizeof peer->version, "%s", mst_version());
        return true;
    }
}

/* Between simulated hosts the MPIs must use TCP. */
static void add_mpirun(struct bench_argv *argv, const struct bench_peer *peer, int hosts) {
    peers_add(argv, peer->launcher, "-n", argv->ranks);
    if (peer->openmpi) peers_add(argv, "--oversubscribe");
    if (hosts == 1 && peer->settings) peers_add_args(argv, peer->settings);
    if (hosts > 1 && peer->openmpi)
        peers_add(argv, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
                  "lo");
    else if (hosts > 1) /* UCX and libfabric would still use shared memory without their own settings */
        peers_add(argv, "-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "UCX_TLS", "tcp,self", "-genv",
                  "UCX_NET_DEVICES", "lo", "-genv", "FI_PROVIDER", "tcp");
}

void peers_add_launcher(struct bench_argv *argv, const struct bench_place *place,
                        const struct bench_peer *peer, int ranks, int hosts) {
    snprintf(argv->ranks, sizeof argv->ranks, "%d", ranks);
    if (peer->kind == BENCH_MPI || peer->kind == BENCH_MUSTER_MPI)
        add_mpirun(argv, peer, hosts);
    else
        peers_add(argv, place->self, "run", "-n", argv->ranks);
    if (peer->kind == BENCH_TORCH) peers_add(argv, peer->launcher);
    if (!peer->engine) peers_add(argv, peer->program);
}
