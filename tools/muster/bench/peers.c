/* peers.c - finds the peers that are installed here and builds their programs; see peers.h. */
#include "bench/peers.h"
#include "bench/launch.h"
#include "os/host.h"
#include "run/ranks/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PREPARE_SECONDS = 120, FILES_AT_ONCE = 64, NEW_SECONDS = 60 };

/* Directories are locked by who made them, for as long as it lives: numbers of processes mean nothing in another container. */
static const char parent[] = "/tmp", prefix[] = "muster-bench.";

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static int lock_dir(int at, const char *name) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

/* Removes what benchmarks that were killed have left; not what may be about to be locked. */
static void remove_leftovers(void) {
    DIR *all = opendir(parent);
    const struct dirent *entry;

    while (all != NULL && (entry = readdir(all)) != NULL) {
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
    if (all != NULL) closedir(all);
}

static int own_lock = -1;

bool peers_open_dir(char dir[BENCH_DIR_MAX]) {
    remove_leftovers();
    snprintf(dir, BENCH_DIR_MAX, "%s/%sXXXXXX", parent, prefix);
    if (mkdtemp(dir) == NULL) return false;
    own_lock = lock_dir(AT_FDCWD, dir);
    return true;
}

void peers_remove_dir(const char *dir) {
    nftw(dir, remove_entry, FILES_AT_ONCE, FTW_DEPTH | FTW_PHYS);
    if (own_lock >= 0) close(own_lock);
    own_lock = -1;
}

void peers_set_environment(const char *dir) {
    setenv("TMPDIR", dir, 1); /* where Open MPI keeps its session: removed with the rest */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false", 0); /* never used on one host, yet missed without ssh */
}

static bool write_sources(struct bench_peer *peer, const char *dir, const struct bench_source *sources) {
    char path[PATH_MAX];

    for (; sources->name != NULL; sources++) {
        snprintf(path, sizeof path, "%s/%s", dir, sources->name);
        FILE *file = fopen(path, "we");
        bool written = file != NULL && fputs(sources->text, file) >= 0;
        if (file != NULL && fclose(file) != 0) written = false;
        if (!written) {
            snprintf(peer->why_not, sizeof peer->why_not, "cannot write to %.200s", path);
            return false;
        }
    }
    return true;
}

/* Finds a program in PATH, or says which package would bring it. */
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

/* Runs a command that prepares a peer; what it prints is left in output. */
static enum launch_end prepare_by(struct bench_peer *peer, const char *const *argv, const char *output) {
    struct launch_result result = launch_run(argv, output, PREPARE_SECONDS);
    bool fine = result.end == LAUNCH_ENDED && WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0;
    char line[BENCH_WHY_MAX];

    if (!fine)
        snprintf(peer->why_not, sizeof peer->why_not, "%.120s fails: %.150s", argv[0],
                 launch_last_line(output, line, sizeof line));
    return result.end;
}

/* The first word of the output that begins with a digit, or with v and a digit. */
static void take_version(struct bench_peer *peer, const char *output) {
    FILE *file = fopen(output, "re");
    char word[64];

    while (file != NULL && fscanf(file, "%63s", word) == 1) {
        const char *number = word + (word[0] == 'v');
        size_t len = strcspn(number, ",;+");
        if (number[0] < '0' || number[0] > '9') continue;
        snprintf(peer->version, sizeof peer->version, "%.*s", (int)len, number);
        break;
    }
    if (file != NULL) fclose(file);
}

/* An MPI's version begins with its name, which tells whose mpirun a plain mpirun is. */
static void take_mpi_version(struct bench_peer *peer, const char *output) {
    FILE *file = fopen(output, "re");
    char line[64] = "";

    if (file != NULL && fgets(line, sizeof line, file) == NULL) line[0] = '\0';
    if (file != NULL) fclose(file);
    if (strncmp(line, peer->label, strlen(peer->label)) != 0)
        snprintf(peer->why_not, sizeof peer->why_not, "mpirun is that of '%.20s'", line);
    else
        take_version(peer, output);
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

bool peers_prepare_mpi(struct bench_peer *peer, const char *dir, const struct bench_source *sources,
                       const char *package) {
    char source[PATH_MAX], output[PATH_MAX], compiler[PATH_MAX];

    snprintf(source, sizeof source, "%s/%s", dir, sources[0].name);
    snprintf(output, sizeof output, "%s/output", dir);
    snprintf(peer->program, sizeof peer->program, "%s/%s", dir, peer->name);
    if (!find_mpi(peer, package, compiler) || !write_sources(peer, dir, sources)) return true;
    const char *compile[] = {compiler, "-O2", "-o", peer->program, source, NULL};
    const char *ask[] = {peer->program, NULL};
    enum launch_end end = prepare_by(peer, compile, output);
    if (peer->why_not[0] == '\0') end = prepare_by(peer, ask, output);
    if (peer->why_not[0] == '\0') take_mpi_version(peer, output);
    return end != LAUNCH_STOPPED;
}

/* Is the launcher that was found of this family? MPICH's says that it is Hydra. */
static bool is_launcher_of(const char *output, const char *family) {
    FILE *file = fopen(output, "re");
    char line[BENCH_WHY_MAX];
    bool hydra = false;

    while (file != NULL && !hydra && fgets(line, sizeof line, file) != NULL)
        hydra = strstr(line, "HYDRA") != NULL;
    if (file != NULL) fclose(file);
    return hydra == (strcmp(family, "mpich") == 0);
}

bool peers_find_mpirun(struct bench_peer *peer, const char *family, const char *dir) {
    const char *package = strcmp(family, "openmpi") == 0 ? "openmpi-bin" : "mpich";
    char name[32], output[PATH_MAX];

    snprintf(name, sizeof name, "mpirun.%s", family);
    snprintf(output, sizeof output, "%s/output", dir);
    if (!find(peer, name, package, peer->launcher) && !find(peer, "mpirun", package, peer->launcher))
        return true;
    peer->why_not[0] = '\0';
    const char *ask[] = {peer->launcher, "--version", NULL};
    enum launch_end end = prepare_by(peer, ask, output);
    if (peer->why_not[0] != '\0') return end != LAUNCH_STOPPED;
    if (is_launcher_of(output, family))
        take_version(peer, output);
    else
        snprintf(peer->why_not, sizeof peer->why_not, "%.200s is not that of %s (Debian: %s)", peer->launcher,
                 family, package);
    return true;
}

bool peers_prepare_torch(struct bench_peer *peer, const char *dir, const struct bench_source *sources,
                         const char *python) {
    char output[PATH_MAX];

    snprintf(output, sizeof output, "%s/output", dir);
    snprintf(peer->program, sizeof peer->program, "%s/%s", dir, sources[0].name);
    if (!find(peer, python, "python3-torch", peer->launcher)) return true;
    if (!write_sources(peer, dir, sources)) return true;
    const char *ask[] = {peer->launcher, peer->program, NULL};
    enum launch_end end = prepare_by(peer, ask, output);
    if (peer->why_not[0] == '\0') take_version(peer, output);
    return end != LAUNCH_STOPPED;
}

bool peers_next_word(const char **list, char word[32]) {
    if (**list == '\0') return false;
    size_t len = strcspn(*list, ",");
    snprintf(word, 32, "%.*s", (int)len, *list);
    *list += len + ((*list)[len] == ',');
    return true;
}

void peers_write_machine(char *out, size_t size) {
    char cpu[128];
    struct utsname system = {0};

    uname(&system);
    snprintf(out, size, "%s (%s), %ld cores, %s %s", msi_cpu_name(cpu, sizeof cpu), system.machine,
             sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release);
}
