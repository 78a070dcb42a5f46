/*
 * fail_calls.c - fails the 1st, 2nd, ... allocation or system call of a rank, and checks how the ranks fail.
 *
 *   fail_calls [OPTION…] PHASE ARMED threads|hosted:PORT|served:PORT|file:PATH|launched
 *
 * In round N three ranks, with a joiner four, open a world, carry out the phase and close the world. The N-th
 * intercepted call that rank ARMED makes in the phase fails. Rounds go on until the rank makes fewer calls.
 * The ranks are threads, or processes: rank 0 hosts the store, or it runs already, or is a file, of which
 * PATH is the beginning. With launched, this process is one of three ranks that `muster run` has started: it
 * runs only round FIRST, and prints how it ended.
 *
 * Required of each round:
 *  - No rank crashes, gets a wrong result, or takes long. None leaves a descriptor, thread, segment or block.
 *  - If the phase fails on rank ARMED, its message contains the cause, and messages of other ranks that fail
 *    name rank ARMED. If it succeeds there, it succeeds on all ranks.
 *
 * Options:
 *   -a         rank ARMED repeats a step that failed, without failing calls
 *   -l         the calls after the N-th one fail, too
 *   -k HOSTS   simulates that many hosts
 *   -f FIRST   the first round
 *   -n LAST    the last round
 *   -c COUNT   about that many rounds, spread over all calls
 *   -v         prints each round
 *
 * Prints each requirement that is not met, and then "calls N, failed F, tolerated T, bad B". Exits with 1 if
 * B is not 0. `fail_calls list` prints the phases.
 */
#include "fail_calls/intercept.h"
#include "fail_calls/phases.h"
#include "os/clock.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RANKS = 3,
    MOST = RANKS + 1,
    VICTIM = RANKS - 1,
    LONG_MS = 8000,
    EARLY_MS = 1500,
    JOIN_MS = 5000, /* for a joiner that may fail */
    GONE_MS = 5000,
    ROUND_S = 50,
    TEXT = 1000,
    SITES = 40
};

static const struct phase *phase;
static int armed_rank, hosts = 1, round_number;
static bool again, lasting, verbose;
static const char *layout, *place; /* place: PORT or PATH */
static mst_store *shared_store;    /* of threads */

/* What a process has open. */
struct usage {
    int fds, threads, segments;
};

/* How a rank ended. It is in memory that the processes share. */
struct outcome {
    _Atomic bool finished; /* the phase */
    _Atomic bool died;
    bool ended;
    mst_status status, second; /* second: of the repeated step */
    int culprit, calls, error;
    int64_t ms;
    bool wrong;
    char failed[24]; /* the call; "": none */
    char message[TEXT], second_message[TEXT];
    struct usage left;
    char threads[100]; /* the names of its threads, if some are left */
    struct blocks blocks[SITES];
    int n_blocks;
};
static struct outcome *outcomes;   /* of this round */
static struct outcome usual[MOST]; /* what ranks leave in a round without failures */
static pid_t pids[MOST];           /* 0: none, or it has ended */
static _Atomic int timed_out;      /* in this round; set by a signal handler */

static int count_ranks(void) {
    if (!strcmp(layout, "launched")) return 0; /* the outcomes are not shared */
    return phase->joiner ? MOST : RANKS;
}

static int count_entries(const char *path) {
    int n = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

static int count_segments(void) {
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) n += strstr(line, "/memfd:muster") != NULL;
    if (maps) fclose(maps);
    return n;
}

static struct usage count_usage(void) {
    return (struct usage){count_entries("/proc/self/fd"), count_entries("/proc/self/task"), count_segments()};
}

/*
 * ThreadSanitizer starts a thread of its own with the first one of a process, also of a process that was
 * forked. A rank without threads in the first round would seem to leave it later.
 */
static void *tell_thread(void *path) {
    snprintf(path, 64, "/proc/self/task/%d", (int)gettid());
    return NULL;
}
static void start_foreign_threads(void) {
    pthread_t thread;
    char path[64];
    if (pthread_create(&thread, NULL, tell_thread, path)) abort();
    pthread_join(thread, NULL);
    while (!access(path, F_OK)) usleep(100);
}

/* Writes the names of the threads but the first. */
static void name_threads(char *out, size_t size) {
    char path[300], name[32];
    DIR *dir = opendir("/proc/self/task");
    size_t used = 0;
    for (struct dirent *at; dir && (at = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/self/task/%.200s/comm", at->d_name);
        FILE *file = at->d_name[0] != '.' && atoi(at->d_name) != getpid() ? fopen(path, "r") : NULL;
        if (file && fscanf(file, "%31s", name) == 1 && used < size)
            used += (size_t)snprintf(out + used, size - used, " %s", name);
        if (file) fclose(file);
    }
    if (dir) closedir(dir);
}

/*
 * Counts what is more than before, when made blocks had been allocated. A thread that was joined is listed
 * until the kernel has ended it, which takes some time if all processors are busy.
 */
static void count_left(const struct usage *before, int made, struct outcome *out) {
    struct usage now = count_usage();
    for (int i = 0; i < GONE_MS && now.threads > before->threads; i++) {
        usleep(1000);
        now = count_usage();
    }
    if (now.threads > before->threads) name_threads(out->threads, sizeof out->threads);
    out->left =
        (struct usage){now.fds - before->fds, now.threads - before->threads, now.segments - before->segments};
    out->n_blocks = intercept_list(made, out->blocks, SITES);
}

static mst_status keep(struct outcome *out, mst_status status) {
    if (status == MST_OK || out->status != MST_OK) return status;
    out->status = status;
    out->culprit = mst_last_error()->culprit;
    snprintf(out->message, sizeof out->message, "%s", mst_error());
    return status;
}

static void arm(bool here) {
    if (here) intercept_arm(round_number, lasting);
}

static void disarm(bool here, struct outcome *out) {
    if (!here) return;
    out->calls = intercept_disarm();
    const char *name = intercept_failed(&out->error);
    if (name) snprintf(out->failed, sizeof out->failed, "%s", name);
}

static mst_status open_world(int index, struct rank *rank) {
    char method[200] = ""; /* the environment */
    if (!strcmp(layout, "hosted")) snprintf(method, sizeof method, "tcp://127.0.0.1:%s", place);
    if (!strcmp(layout, "file")) snprintf(method, sizeof method, "file://%s.%d", place, round_number);
    bool joins = index >= RANKS;
    bool given = !joins && strcmp(layout, "served") != 0 && strcmp(layout, "launched") != 0;
    /* The others know nothing of a rank that fails before it has reached the store. */
    bool fails_early = round_number && !strcmp(phase->name, "init");
    mst_init_options options = {.size = sizeof options,
                                .init_method = method[0] ? method : NULL,
                                .store = shared_store,
                                .rank = given ? index : 0,
                                .world_size = given ? RANKS : 0,
                                .timeout_ms = fails_early ? EARLY_MS : TIMEOUT_MS,
                                .join = joins};
    mst_status st = mst_world_open(&options, &rank->world);
    rank->rank = index;
    rank->size = RANKS;
    rank->grow_ms = armed_rank < RANKS ? TIMEOUT_MS : JOIN_MS;
    rank->call = (mst_call){.size = sizeof rank->call, .group = rank->world, .timeout_ms = TIMEOUT_MS};
    return st;
}

static mst_status run_step(int index, struct rank *rank) {
    if (index < RANKS) return phase->run(rank);
    int one = 1; /* the joiner takes part in the check of the others */
    return mst_all_reduce_with(&one, 1, MST_I32, &rank->call);
}

static void run_phase(int index, struct rank *rank, struct outcome *out) {
    bool here = index == armed_rank && index < RANKS; /* a joiner's calls fail while it joins */
    bool warm = phase->death || phase->joiner;
    mst_status st = MST_OK;
    if (warm && index < RANKS) st = phase_warm_up(rank);
    if (phase->death && index == VICTIM) {
        out->died = true;
        if (!shared_store) raise(SIGKILL);
        return; /* a thread leaves */
    }
    if (st != MST_OK && !phase->death) {
        keep(out, st);
        return;
    }
    arm(here);
    st = keep(out, run_step(index, rank));
    disarm(here, out);
    if (st == MST_OK || !again || !here) return;
    out->second = run_step(index, rank);
    if (out->second != MST_OK) snprintf(out->second_message, TEXT, "%s", mst_error());
}

/* A rank that leaves while others are in their calls would be a cause of failures, too. */
static void await_others(void) {
    int64_t end = msi_now() + (int64_t)LONG_MS * 1000000;
    for (int r = 0; r < count_ranks() && msi_now() < end; r++)
        while (!outcomes[r].finished && !outcomes[r].died && msi_now() < end) usleep(500);
}

static void run_rank(int index, struct outcome *out) {
    struct rank rank = {.rank = index};
    bool here = index == armed_rank, init = !strcmp(phase->name, "init") || index >= RANKS;
    bool closes = !strcmp(phase->name, "close");
    int64_t begin = msi_now();
    arm(here && init);
    mst_status st = keep(out, open_world(index, &rank));
    disarm(here && init, out);
    if (st == MST_OK) {
        phase->run ? run_phase(index, &rank, out) : (void)keep(out, phase_warm_up(&rank));
        out->ms = (msi_now() - begin) / 1000000;
        out->finished = true;
        /* A receive from any source waits as long as there is a rank that may send, survivors for a loss. */
        if (out->status == MST_OK && !out->died && strcmp(phase->name, "any_source") != 0) await_others();
        phase_free(&rank);
        arm(here && closes);
        keep(out, mst_destroy_process_group(rank.world));
        disarm(here && closes, out);
    } else {
        out->ms = (msi_now() - begin) / 1000000;
        out->finished = true;
    }
    out->wrong = rank.wrong;
    out->ended = true;
}

static void *run_thread(void *context) {
    struct outcome *out = context;
    run_rank((int)(out - outcomes), out);
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[RANKS];
    start_foreign_threads();
    struct usage before = count_usage();
    int made = intercept_made();
    if (mst_store_open("hash://", &shared_store) != MST_OK) abort();
    for (int r = 0; r < RANKS; r++)
        if (pthread_create(&threads[r], NULL, run_thread, &outcomes[r])) abort();
    for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
    mst_store_free(shared_store);
    count_left(&before, made, &outcomes[0]);
}

static void run_process(int index) {
    char text[200];
    if (hosts > 1) {
        snprintf(text, sizeof text, "host%d", index % hosts);
        setenv("MUSTER_FORCE_HOST", text, 1);
    }
    if (!strcmp(layout, "served")) {
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", place, 1);
        setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
        snprintf(text, sizeof text, "%s.%d.%d", phase->name, (int)getppid(), round_number);
        setenv("TORCHELASTIC_RUN_ID", text, 1);
        snprintf(text, sizeof text, "%d", index);
        if (index < RANKS) setenv("RANK", text, 1);
        snprintf(text, sizeof text, "%d", RANKS);
        if (index < RANKS) setenv("WORLD_SIZE", text, 1);
    }
    start_foreign_threads();
    struct usage before = count_usage();
    int made = intercept_made();
    run_rank(index, &outcomes[index]);
    count_left(&before, made, &outcomes[index]);
}

/* Prints "ended RANK STATUS culprit C, left FDS THREADS SEGMENTS SITES, call CALL: MESSAGE". */
static int run_launched(void) {
    const char *rank = getenv("RANK");
    int index = rank ? atoi(rank) : 0;
    run_process(index);
    const struct outcome *out = &outcomes[index];
    printf("ended %d %s culprit %d, left %d %d %d %d, call %s: %s\n", index, mst_status_name(out->status),
           out->culprit, out->left.fds, out->left.threads, out->left.segments, out->n_blocks,
           out->failed[0] ? out->failed : "-", out->wrong ? "wrong result" : out->message);
    return 0;
}

static void on_alarm(int number) {
    (void)number;
    timed_out = 1;
    for (int i = 0; i < MOST; i++)
        if (pids[i]) kill(pids[i], SIGKILL);
}

static int processes(void) {
    return !strcmp(layout, "threads") ? 1 : count_ranks();
}

static int bad_lines;
static void bad(int rank, const char *why, const char *text) {
    const struct outcome *out = &outcomes[armed_rank];
    printf("%s %s rank %d%s%s, round %d (%s): rank %d %s: %s\n", phase->name, layout, armed_rank,
           hosts > 1 ? " hosts" : "",
           again     ? " again"
           : lasting ? " lasting"
                     : "",
           round_number, out->failed[0] ? out->failed : "no call", rank, why, text);
    bad_lines++;
}

static void start_round(void) {
    fflush(stdout);
    memset(outcomes, 0, MOST * sizeof *outcomes);
    timed_out = 0;
    for (int i = 0; i < processes(); i++) {
        pids[i] = fork();
        if (pids[i] < 0) abort();
        if (pids[i]) continue;
        alarm(0);
        signal(SIGALRM, SIG_DFL);
        !strcmp(layout, "threads") ? run_threads() : run_process(i);
        _exit(0);
    }
    alarm(ROUND_S);
}

static void end_round(void) {
    char text[64];
    for (int i = 0; i < processes(); i++) {
        int status;
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) continue;
        pids[i] = 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        if (outcomes[i].died) continue;
        snprintf(text, sizeof text, "wait status %#x", (unsigned)status);
        bad(i, timed_out ? "hangs" : "crashed", text);
    }
    alarm(0);
}

static bool contains_cause(const struct outcome *out) {
    if (strstr(out->message, strerror(out->error))) return true;
    if (!strcmp(out->failed, "send")) return true; /* a connection may break because that rank has left */
    if (out->error == EMFILE && !strcmp(phase->name, "any_source")) return true; /* the same */
    /* After a record could not be written, all calls on the file fail. */
    if (!strcmp(layout, "file")) return true;
    if (out->error == EADDRINUSE && strstr(out->message, "the port is taken")) return true;
    return out->error == ENOMEM && strcasestr(out->message, "memory");
}

static bool names_rank(const struct outcome *out, int rank) {
    char text[16];
    snprintf(text, sizeof text, "rank %d", rank);
    return out->culprit == rank || strstr(out->message, text);
}

/*
 * Does the message name the armed rank? It may name another rank that has failed: in messages, if the armed
 * rank cannot report its failure, and with a file, in which a rank that reacts may write its end first.
 */
static bool names_cause(const struct outcome *out) {
    /* A rank that never came is not known. A receive from any source ends when the last sender has left. */
    if (armed_rank >= RANKS && strstr(out->message, "new processes came in time")) return true;
    bool found =
        names_rank(out, armed_rank) || !strcmp(phase->name, "init") || !strcmp(phase->name, "any_source");
    for (int r = 0; r < MOST && (phase->messages || lasting || !strcmp(layout, "file")); r++)
        found |= &outcomes[r] != out && outcomes[r].status != MST_OK && names_rank(out, r);
    return found;
}

/* Blocks that are left without failures, too, are no leak. */
static void check_blocks(int r, const struct blocks *blocks) {
    char text[100];
    for (int i = 0; i < usual[r].n_blocks; i++)
        if (usual[r].blocks[i].site == blocks->site) return;
    snprintf(text, sizeof text, "%d blocks, %zu bytes, allocated at %#zx", blocks->n, blocks->bytes,
             intercept_offset(blocks->site));
    bad(r, "leaves memory", text);
}

static void check_rank(int r, bool failed) {
    const struct outcome *out = &outcomes[r];
    const struct usage *left = &out->left, *most = &usual[r].left;
    if (out->died || !out->ended) return;
    if (out->wrong) bad(r, "has a wrong result", "");
    /* Connecting is repeated until the deadline. A message that was sent twice is not received. */
    bool waits = lasting || (again && phase->messages);
    if (out->ms > LONG_MS && !waits) bad(r, "took long", out->message);
    if (out->status != MST_OK && !out->message[0]) bad(r, "failed without a message", "");
    if (out->status == MST_ERR_INTERNAL) bad(r, "has an internal error", out->message);
    if (r == armed_rank && out->status != MST_OK && !lasting && !contains_cause(out))
        bad(r, "does not tell the cause", out->message);
    if (r != armed_rank && out->status != MST_OK && !failed) bad(r, "alone failed", out->message);
    if (r != armed_rank && out->status != MST_OK && !names_cause(out))
        bad(r, "names another rank", out->message);
    if (again && out->second != MST_OK && !out->second_message[0])
        bad(r, "failed again without a message", "");
    if (left->fds > most->fds) bad(r, "leaves a descriptor", "");
    if (left->threads > most->threads) bad(r, "leaves a thread", out->threads);
    if (left->segments > most->segments) bad(r, "leaves a segment", "");
    for (int i = 0; i < out->n_blocks; i++) check_blocks(r, &out->blocks[i]);
}

/* One round; true if a call failed in it. */
static bool run_round(void) {
    start_round();
    end_round();
    const struct outcome *armed = &outcomes[armed_rank];
    int ranks = count_ranks();
    for (int r = 0; round_number && r < ranks; r++) check_rank(r, armed->status != MST_OK);
    for (int r = 0; verbose && r < ranks; r++)
        printf("%d %s rank %d: %s %d ms, left %d %d %d%s %s%s%s\n", round_number, armed->failed, r,
               mst_status_name(outcomes[r].status), (int)outcomes[r].ms, outcomes[r].left.fds,
               outcomes[r].left.threads, outcomes[r].left.segments, outcomes[r].threads, outcomes[r].message,
               outcomes[r].second_message[0] ? "; again: " : "", outcomes[r].second_message);
    return armed->failed[0];
}

static int list_phases(void) {
    for (int i = 0; phase_at(i); i++)
        printf("%s%s%s\n", phase_at(i)->name, phase_at(i)->death ? " death" : "",
               phase_at(i)->joiner ? " joiner" : "");
    return 0;
}

static bool read_layout(char *text) {
    char *colon = strchr(text, ':');
    if (colon) *colon = '\0';
    layout = text;
    place = colon ? colon + 1 : "";
    return !strcmp(text, "threads") || !strcmp(text, "launched") ||
           ((!strcmp(text, "hosted") || !strcmp(text, "served") || !strcmp(text, "file")) && colon);
}

int main(int argc, char **argv) {
    int first = 1, last = 1 << 20, count = 0;
    if (argc == 2 && !strcmp(argv[1], "list")) return list_phases();
    for (int option; (option = getopt(argc, argv, "alk:f:n:c:v")) != -1;) {
        if (option == 'a')
            again = true;
        else if (option == 'l')
            lasting = true;
        else if (option == 'k')
            hosts = atoi(optarg);
        else if (option == 'f')
            first = atoi(optarg);
        else if (option == 'n')
            last = atoi(optarg);
        else if (option == 'c')
            count = atoi(optarg);
        else if (option == 'v')
            verbose = true;
        else
            return 2;
    }
    phase = argc - optind == 3 ? phase_find(argv[optind]) : NULL;
    if (!phase || !read_layout(argv[optind + 2])) return 2;
    armed_rank = atoi(argv[optind + 1]);
    outcomes = mmap(NULL, MOST * sizeof *outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcomes == MAP_FAILED) abort();
    round_number = first;
    if (!strcmp(layout, "launched")) return run_launched();
    round_number = 0;
    signal(SIGALRM, on_alarm);
    run_round(); /* round 0: none fails */
    int ranks = count_ranks(), failed = 0, tolerated = 0;
    bad_lines = 0;
    for (int r = 0; r < ranks; r++) {
        usual[r] = outcomes[r];
        if (outcomes[r].status != MST_OK || outcomes[r].wrong || (!outcomes[r].ended && !outcomes[r].died))
            bad(r, "failed", outcomes[r].message);
    }
    int calls = outcomes[armed_rank].calls, bad_rounds = bad_lines;
    int step = count && calls > count ? calls / count : 1;
    if (count) first = 1 + step / 2;
    for (round_number = first; round_number <= last; round_number += step) {
        bad_lines = 0;
        if (bad_rounds && round_number == first) break; /* round 0 */
        bool fails = run_round();
        const struct outcome *armed = &outcomes[armed_rank];
        if (!fails && armed->calls > calls) calls = armed->calls; /* the number varies */
        if (!fails && round_number > calls) break;
        if (fails) armed->status == MST_OK ? tolerated++ : failed++;
        bad_rounds += bad_lines > 0;
    }
    printf("calls %d, failed %d, tolerated %d, bad %d\n", calls, failed, tolerated, bad_rounds);
    return bad_rounds > 0;
}
