/*
 * bench_coll.c - "muster bench coll": how long collectives and messages take, beside Open MPI, MPICH and torch's gloo.
 * Reads the command line and lets the sides take turns, again and again, so that whatever else the machine does
 * disturbs all alike.
 */
#include "bench_coll.h"
#include "bench.h"
#include "bench_launch.h"
#include "commands.h"
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct coll_op coll_ops[COLL_OPS] = {
    {"all_reduce", "all_reduce", false, 2, 2},
    {"all_gather", "all_gather_into_tensor", true, 1, 1},
    {"reduce_scatter", "reduce_scatter_tensor", true, 1, 1},
    {"broadcast", "broadcast", false, 1, 0},
    {"all_to_all", "all_to_all_single", true, 1, 1},
    {"send_recv", "send_recv", false, 1, 0},
    {"barrier", "barrier", false, 0, 0},
};

static const size_t biggest = (size_t)4 << 30, usual_cache = 32 << 20;

struct coll_options {
    const char *ranks, *peers, *ops, *min, *max, *buffers, *python, *csv;
    long step, rounds;
    double budget, limit;
    bool alloc, tcp, bind, bandwidth;
};

#define AT(field) offsetof(struct coll_options, field)

static const struct opt options[] = {
    {"ranks", 'n', OPT_STRING, "LIST", "numbers of ranks (default 2)", AT(ranks), 0, 0},
    {"peers", 'p', OPT_STRING, "LIST", "some of muster,openmpi,mpich,torch (default muster,openmpi,mpich)",
     AT(peers), 0, 0},
    {"ops", 'o', OPT_STRING, "LIST",
     "some of all_reduce,all_gather,reduce_scatter,broadcast,\nall_to_all,send_recv,barrier (default: all)",
     AT(ops), 0, 0},
    {"min", 0, OPT_STRING, "BYTES", "the smallest size, as 4 or 64K (default 4)", AT(min), 0, 0},
    {"max", 0, OPT_STRING, "BYTES", "the largest size (default 64M)", AT(max), 0, 0},
    {"step", 0, OPT_NUMBER, "N", "each size is so many times the one before (default 4)", AT(step), 2, 1024},
    {"buffers", 'b', OPT_STRING, "WHICH",
     "hot: the same in each call; rotating: sets beyond the cache;\nboth (default hot)", AT(buffers), 0, 0},
    {"alloc", 0, OPT_FLAG, NULL, "muster a second time, with buffers from mst_alloc", AT(alloc), 0, 0},
    {"tcp", 0, OPT_FLAG, NULL, "everyone over TCP, as if each rank had a host of its own", AT(tcp), 0, 0},
    {"bind", 0, OPT_FLAG, NULL, "each rank stays on one processor, whoever's it is", AT(bind), 0, 0},
    {"bandwidth", 0, OPT_FLAG, NULL, "also show bus bandwidth", AT(bandwidth), 0, 0},
    {"rounds", 'r', OPT_NUMBER, "N", "how often everyone has a turn (default 3)", AT(rounds), 1,
     COLL_ROUNDS_MOST},
    {"seconds", 's', OPT_SECONDS, "SECONDS", "how long one size is measured in a turn (default 0.1)",
     AT(budget), 0, 3600},
    {"limit", 0, OPT_SECONDS, "SECONDS", "a turn that takes longer is given up (default 120)", AT(limit), 1,
     86400},
    {"python", 0, OPT_STRING, "PATH", "the interpreter that has torch (default /usr/bin/python3)", AT(python),
     0, 0},
    {"csv", 0, OPT_STRING, "FILE", "also write the figures to this file", AT(csv), 0, 0},
};

static const struct opt_command command = {
    "muster bench coll",
    "",
    "Measures collectives and messages beside the MPIs and torch's gloo in one run.",
    options,
    sizeof options / sizeof *options,
    false,
};

static int read_ranks(struct coll_bench *b, const char *list) {
    char word[32];
    long long n;

    while (peers_next_word(&list, word)) {
        if (!opt_read_number(word, 2, COLL_RANKS_MOST, &n))
            return opt_mistake(&command, "--ranks takes numbers from 2 to %d, not '%s'", COLL_RANKS_MOST,
                               word);
        if (b->n_ranks == COLL_LIST_MOST)
            return opt_mistake(&command, "--ranks takes at most %d numbers", COLL_LIST_MOST);
        b->ranks[b->n_ranks++] = (int)n;
    }
    return b->n_ranks > 0 ? OPT_PROCEED : opt_mistake(&command, "--ranks needs a number");
}

static int read_peers(struct coll_bench *b, const char *list) {
    static const enum coll_side sides[] = {COLL_MUSTER, COLL_OPENMPI, COLL_MPICH, COLL_TORCH};
    enum { N = sizeof sides / sizeof sides[0] };
    char word[32];

    while (peers_next_word(&list, word)) {
        int i = 0;
        while (i < N && strcmp(b->peers[sides[i]].name, word) != 0) i++;
        if (i == N)
            return opt_mistake(&command, "--peers takes some of muster,openmpi,mpich,torch, not '%s'", word);
        b->peers[sides[i]].wanted = true;
    }
    return OPT_PROCEED;
}

static int read_ops(struct coll_bench *b, const char *list) {
    char word[32];

    while (peers_next_word(&list, word)) {
        int i = 0;
        while (i < COLL_OPS && strcmp(coll_ops[i].name, word) != 0 && strcmp(coll_ops[i].title, word) != 0)
            i++;
        if (i == COLL_OPS)
            return opt_mistake(&command, "--ops takes operations such as all_reduce, not '%s'", word);
        b->ops[i] = true;
    }
    return OPT_PROCEED;
}

/* Bytes as 4, 64K, 1M or 1G. */
static int read_bytes(const char *name, const char *text, size_t *bytes) {
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;

    if (unit != NULL) end++;
    if (end == text || *end != '\0' || text[0] == '-' || errno != 0 || value > biggest >> shift ||
        value << shift < 4)
        return opt_mistake(&command, "--%s takes bytes from 4 to 4G, as 64K, not '%s'", name, text);
    *bytes = value << shift;
    return OPT_PROCEED;
}

static int read_sizes(struct coll_bench *b, const struct coll_options *o) {
    int status = read_bytes("min", o->min, &b->min);

    if (status == OPT_PROCEED) status = read_bytes("max", o->max, &b->max);
    if (status == OPT_PROCEED && b->min > b->max)
        return opt_mistake(&command, "--min %s is more than --max %s", o->min, o->max);
    b->step = (size_t)o->step;
    return status;
}

static int read_options(struct coll_bench *b, const struct coll_options *o) {
    static const struct bench_peer all[COLL_SIDES] = {
        [COLL_MUSTER] = {.name = "muster", .label = "muster"},
        [COLL_ALLOC] = {.name = "muster-alloc", .label = "muster alloc"},
        [COLL_OPENMPI] = {.name = "openmpi", .label = "Open MPI"},
        [COLL_MPICH] = {.name = "mpich", .label = "MPICH"},
        [COLL_TORCH] = {.name = "torch", .label = "torch gloo"},
    };

    memcpy(b->peers, all, sizeof all);
    b->peers[COLL_ALLOC].wanted = o->alloc;
    b->rounds = (int)o->rounds;
    b->tcp = o->tcp;
    b->bind = o->bind;
    b->bandwidth = o->bandwidth;
    b->budget = o->budget;
    b->limit = o->limit;
    b->hot = strcmp(o->buffers, "rotating") != 0;
    b->rotating = strcmp(o->buffers, "hot") != 0;
    if (b->hot && b->rotating && strcmp(o->buffers, "both") != 0)
        return opt_mistake(&command, "--buffers takes hot, rotating or both, not '%s'", o->buffers);
    if (!(b->budget > 0)) return opt_mistake(&command, "--seconds must be more than 0");
    int status = read_ranks(b, o->ranks);
    if (status == OPT_PROCEED) status = read_peers(b, o->peers);
    if (status == OPT_PROCEED) status = read_ops(b, o->ops);
    return status == OPT_PROCEED ? read_sizes(b, o) : status;
}

/* Bytes of the last-level cache. */
static size_t find_cache(void) {
    size_t most = 0;

    for (int index = 0; index < 8; index++) {
        char path[80], text[32] = "";
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        FILE *file = fopen(path, "re");
        if (file == NULL) break;
        if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
        fclose(file);
        size_t kib = strtoull(text, NULL, 10); /* as 32768K */
        if (kib << 10 > most) most = kib << 10;
    }
    return most > 0 ? most : usual_cache;
}

/* The sizes of a table, in whole elements and, where it has them, whole blocks; two that become one are one. */
static void list_sizes(const struct coll_bench *b, struct coll_table *t) {
    size_t unit = sizeof(float) * (t->op->blocks ? (size_t)t->ranks : 1);

    for (size_t bytes = b->min; bytes <= b->max && t->n_sizes < COLL_SIZES_MOST; bytes *= b->step) {
        size_t whole = bytes < unit ? unit : bytes / unit * unit;
        if (t->n_sizes == 0 || t->bytes[t->n_sizes - 1] != whole) t->bytes[t->n_sizes++] = whole;
    }
    if (t->op->bus > 0) return;
    t->bytes[0] = 0;
    t->n_sizes = 1;
}

static enum coll_verdict run_table(struct coll_bench *b) {
    struct coll_table *t = &b->table;
    enum coll_verdict verdict = COLL_FINE;

    for (int round = 0; round < b->rounds; round++)
        for (int side = 0; side < COLL_SIDES; side++) {
            if (!coll_shown(b, side) || t->why[side][0] != '\0' || t->unsupported[side][0] != '\0') continue;
            if (isatty(STDERR_FILENO))
                fprintf(stderr, "\r\033[K%s, %d ranks, round %d of %d: %s", t->op->title, t->ranks, round + 1,
                        b->rounds, b->peers[side].label);
            verdict = coll_turn(b, (enum coll_side)side);
            if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
            if (verdict == COLL_WRONG)
                fprintf(stderr, "muster bench coll: the result of %s by %s is wrong: %s\n", t->op->title,
                        b->peers[side].label, t->why[side]);
            if (verdict != COLL_FINE) return verdict;
        }
    coll_print_table(b);
    return COLL_FINE;
}

/* All tables; *failed if muster could not be measured, other than for lack of support. */
static enum coll_verdict run_all(struct coll_bench *b, bool *failed) {
    struct coll_table *t = &b->table;

    for (int n = 0; n < b->n_ranks; n++)
        for (int kind = 0; kind < 2; kind++)
            for (int op = 0; op < COLL_OPS; op++) {
                if (!(kind == 0 ? b->hot : b->rotating) || !b->ops[op]) continue;
                if (kind == 1 && b->hot && coll_ops[op].bus == 0) continue; /* a barrier has no buffers */
                memset(t, 0, sizeof *t);
                t->op = &coll_ops[op];
                t->ranks = b->ranks[n];
                t->rotating = kind == 1;
                list_sizes(b, t);
                enum coll_verdict verdict = run_table(b);
                if (verdict != COLL_FINE) return verdict;
                for (int ours = 0; ours < COLL_PEERS; ours++)
                    if (t->why[ours][0] != '\0' && t->unsupported[ours][0] == '\0') *failed = true;
            }
    return COLL_FINE;
}

static int measure(struct coll_bench *b, const char *python) {
    enum coll_verdict verdict = COLL_STOPPED;
    bool failed = false;

    launch_open();
    if (coll_prepare(b, python)) {
        coll_print_head(b);
        verdict = run_all(b, &failed);
    }
    peers_remove_dir(b->dir);
    launch_close();
    if (verdict == COLL_STOPPED) {
        fprintf(stderr, "muster bench coll: interrupted\n");
        return EXIT_SIGNAL + launch_signal();
    }
    if (verdict == COLL_WRONG) return EXIT_FAILED;
    coll_print_summary(b);
    return failed ? EXIT_FAILED : EXIT_DONE;
}

int bench_coll(int argc, char **argv) {
    struct coll_options o = {
        .ranks = "2",
        .peers = "muster,openmpi,mpich",
        .ops = "all_reduce,all_gather,reduce_scatter,broadcast,all_to_all,send_recv,barrier",
        .min = "4",
        .max = "64M",
        .buffers = "hot",
        .python = "/usr/bin/python3",
        .step = 4,
        .rounds = 3,
        .budget = 0.1,
        .limit = 120};
    static struct coll_bench b;
    char **operands;
    int n;

    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return coll_worker(argc, argv);
    int status = opt_parse(&command, argc, argv, &o, &operands, &n);
    if (status != OPT_PROCEED) return status;
    if (n > 0) return opt_mistake(&command, "'%s' is not expected here", operands[0]);
    status = read_options(&b, &o);
    if (status != OPT_PROCEED) return status;
    b.cache = find_cache();
    if (readlink("/proc/self/exe", b.self, sizeof b.self - 1) < 0)
        return opt_mistake(&command, "cannot find this program: %s", strerror(errno));
    b.csv = o.csv != NULL ? fopen(o.csv, "we") : NULL;
    if (o.csv != NULL && b.csv == NULL)
        return opt_mistake(&command, "cannot write to %s: %s", o.csv, strerror(errno));
    if (peers_open_dir(b.dir))
        status = measure(&b, o.python);
    else
        status = opt_mistake(&command, "cannot make %s: %s", b.dir, strerror(errno));
    if (b.csv != NULL) fclose(b.csv);
    return status;
}
