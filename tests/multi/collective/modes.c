/* modes.c - the cases of each mode. The number of a case does not depend on which cases are skipped. */
#include "suite.h"

#include "os/clock.h"

#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

/* Sanitizers keep freed memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum {
    LARGE = 64 * 1024 + 1,
    HUGE_COUNT = 5 * 1000 * 1000,
    ALL_FIRST = 1000000, /* the cases of --quick start at 0 */
    SOAK_FIRST = 2000000,
    WARM_FIRST = 1500000,
    COUNT_FIRST = 3000000,
    SOAK_CHUNK = 128,          /* cases between two checks of the clock */
    GROWTH_CHECK_FROM = 50000, /* cases; growth of a shorter soak is ignored */
    /* Limit of a soak's growth after its first tenth. */
    GROWTH_KIB = 8 << 10,
    GROWTH_DESCRIPTORS = 4,
    /* Limit of the total: each group has a region, and keeps some memory of each other rank mapped. */
    SHARED_KIB_OF_RANK = 1500,
    MAPPED_OF_RANK = 128,
    MAPPED_BESIDES = 400,
    WHOLE_MAX = 256 << 20, /* bytes of the largest buffer of a case */
};

static uint64_t next_id;

static bool has_pair(const struct operation *operation, mst_dtype dtype, mst_op op) {
    if (operation->traits & BYTES_ONLY && dtype != MST_U8) return false;
    return operation->traits & REDUCES ? op_applies(dtype, op) : op == MST_SUM;
}

/* Calls body for each valid combination of operation, dtype and op. */
static void each_pair(void (*body)(const struct operation *operation, mst_dtype dtype, mst_op op)) {
    for (const struct operation *o = next_operation(NULL); o; o = next_operation(o))
        for (int dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
            for (int op = 0; op < MST_OP_COUNT; op++)
                if (has_pair(o, (mst_dtype)dtype, (mst_op)op)) body(o, (mst_dtype)dtype, (mst_op)op);
}

static void one_drawn(const struct operation *operation, mst_dtype dtype, mst_op op) {
    struct shape shape = shape_of(next_id++, operation, dtype, op);
    run_case(&shape);
}

static void with_count(const struct operation *operation, mst_dtype dtype, mst_op op, size_t count,
                       bool blocking, bool in_place) {
    struct shape shape = shape_of(next_id++, operation, dtype, op);
    shape.count = count;
    if (blocking) shape.how = BLOCKING;
    if (!blocking && shape.how == BLOCKING && !(operation->traits & BLOCKS_ONLY)) shape.how = WAITED;
    shape.in_place = in_place && operation->traits & IN_PLACE;
    if (count >= HUGE_COUNT) shape.layout = 0;
    if (count >= HUGE_COUNT) shape.root = (int)(shape.id % (unsigned)suite.size);
    if (count >= HUGE_COUNT) shape.last = true;
    run_case(&shape);
}

/*
 * Every combination once with random arguments, then every operation with every count in the world, blocking
 * and not.
 */
void run_quick(void) {
    static const size_t counts[] = {0, 1, 3, 17, 1024, LARGE};
    next_id = 0;
    each_pair(one_drawn);
    for (const struct operation *o = next_operation(NULL); o; o = next_operation(o))
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int way = 0; way < 2; way++)
                with_count(o,
                           o->traits & BYTES_ONLY ? MST_U8
                           : way                  ? MST_F32
                                                  : MST_BF16,
                           MST_SUM, counts[c], way, (int)c % 2 == way);
    end_batch();
}

static void all_counts(const struct operation *operation, mst_dtype dtype, mst_op op) {
    static const size_t counts[] = {0, 1, 3, 17, 1024, LARGE, HUGE_COUNT};
    bool large = op == MST_SUM || dtype == MST_F32;
    bool huge = op == MST_SUM && (dtype == MST_F32 || dtype == MST_BF16 || dtype == MST_U8);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t bytes = counts[c] * mst_dtype_size(dtype) * (unsigned)suite.size;
        for (int way = 0; way < 4; way++) {
            bool skipped =
                (counts[c] == LARGE && !large) ||
                (counts[c] == HUGE_COUNT && (!huge || way != 1 + (int)dtype % 2 || bytes > WHOLE_MAX));
            if (skipped)
                next_id++;
            else
                with_count(operation, dtype, op, counts[c], way & 1, way & 2);
        }
    }
}

/* Every operation with this many elements: in each kind of memory, blocking and not, in and out of place. */
void run_count(size_t count) {
    next_id = COUNT_FIRST;
    for (const struct operation *o = next_operation(NULL); o; o = next_operation(o))
        for (int i = 0; i < 2 * MEMORIES; i++) {
            struct shape shape = shape_of(next_id++, o, o->traits & BYTES_ONLY ? MST_U8 : MST_F32, MST_SUM);
            shape.count = count;
            shape.layout = 0;
            shape.memory = (enum memory)(i / 2);
            shape.how = i % 2 || o->traits & BLOCKS_ONLY ? BLOCKING : WAITED;
            shape.in_place = i % 2 == i / 2 % 2 && o->traits & IN_PLACE;
            shape.root = (int)(shape.id % (unsigned)suite.size);
            shape.last = true;
            run_case(&shape);
        }
    end_batch();
}

void run_all(void) {
    run_quick();
    next_id = ALL_FIRST;
    each_pair(all_counts);
    end_batch();
}

static void random_case(uint64_t id) {
    uint64_t state = mix(suite.seed + 1, id);
    const struct operation *operation = NULL;
    mst_dtype dtype;
    mst_op op;
    do {
        uint64_t skip = draw(&state, 64);
        for (uint64_t i = 0; i <= skip; i++) operation = next_operation(operation);
        if (suite.only)
            while (!operation || strcmp(operation->name, suite.only)) operation = next_operation(operation);
        if (!operation) operation = next_operation(NULL);
        dtype = (mst_dtype)(1 + draw(&state, MST_DTYPE_COUNT - 1));
        op = (mst_op)draw(&state, MST_OP_COUNT);
        if (!(operation->traits & REDUCES)) op = MST_SUM;
        if (operation->traits & BYTES_ONLY) dtype = MST_U8;
    } while (!has_pair(operation, dtype, op));
    struct shape shape = shape_of(id, operation, dtype, op);
    if (draw(&state, 64) == 0) shape.count = draw(&state, LARGE);
    if (draw(&state, 4)) shape.last = false;
    run_case(&shape);
}

/* The resources of this process. */
struct usage {
    long own_kib, shared_kib; /* resident */
    long descriptors, mappings;
};

static long count_descriptors(void) {
    long n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory)) n++;
    if (directory) closedir(directory);
    return n - 3; /* ., .. and the directory itself */
}

static struct usage usage(void) {
    struct usage now = {.descriptors = count_descriptors()};
    char line[256];
    malloc_trim(0); /* freed memory of the cases does not count */
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "RssAnon: %ld", &now.own_kib);
        sscanf(line, "RssShmem: %ld", &now.shared_kib);
    }
    if (file) fclose(file);
    file = fopen("/proc/self/maps", "r");
    for (int c; file && (c = getc(file)) != EOF;) now.mappings += c == '\n';
    if (file) fclose(file);
    return now;
}

/* Prints a line for each tenth of the run. */
static struct usage show_usage(double part) {
    struct usage now = usage();
    mst_printf("collective: soak: %3.0f %%, %llu cases: %ld KiB resident of its own and %ld shared, %ld "
               "descriptors, %ld mappings\n",
               100 * part, (unsigned long long)suite.cases, now.own_kib, now.shared_kib, now.descriptors,
               now.mappings);
    return now;
}

static void check_growth(const struct usage *early, const struct usage *late) {
    long others = (long)n_layouts * suite.size;
    bool grew = late->own_kib > early->own_kib + GROWTH_KIB && !SANITIZED;
    grew |= late->shared_kib > early->shared_kib && late->shared_kib > others * SHARED_KIB_OF_RANK;
    grew |= late->descriptors > early->descriptors + GROWTH_DESCRIPTORS;
    grew |= late->mappings > early->mappings + MAPPED_BESIDES && late->mappings > others * MAPPED_OF_RANK;
    if (!grew) return;
    fprintf(stderr,
            "collective: FAILED: rank %d grew: from %ld and %ld KiB to %ld and %ld, from %ld to %ld "
            "descriptors, from %ld to %ld mappings\n",
            suite.me, early->own_kib, early->shared_kib, late->own_kib, late->shared_kib, early->descriptors,
            late->descriptors, early->mappings, late->mappings);
    exit(1);
}

/* Rank 0 decides, so that all ranks end at the same case. */
static bool continues(bool mine) {
    int word = mine;
    EXPECT_OK(mst_broadcast(&word, 1, MST_I32, .root = 0, .timeout_ms = TIMEOUT_MS));
    return word;
}

static void check_counts(void) {
    uint64_t counts[RANKS_MAX];
    EXPECT_OK(mst_all_gather_into_tensor(counts, &suite.cases, 1, MST_U64, .timeout_ms = TIMEOUT_MS));
    for (int r = 0; r < suite.size; r++) {
        if (counts[r] == suite.cases) continue;
        fprintf(stderr, "collective: FAILED: rank %d ran %llu cases, rank %d %llu\n", suite.me,
                (unsigned long long)suite.cases, r, (unsigned long long)counts[r]);
        exit(1);
    }
}

/* The largest case of every operation in every group, so that cached memory reaches its maximum. */
static void warm_up(void) {
    next_id = WARM_FIRST;
    for (int layout = 0; layout < n_layouts; layout++)
        for (const struct operation *o = next_operation(NULL); o; o = next_operation(o)) {
            struct shape shape = shape_of(next_id++, o, o->traits & BYTES_ONLY ? MST_U8 : MST_F64, MST_SUM);
            shape.layout = layout;
            shape.root = shape.root % layouts[layout].n;
            shape.count = LARGE;
            shape.memory = PLAIN;
            shape.uneven = o->traits & UNEVEN;
            shape.last = false;
            run_case(&shape);
        }
    end_batch();
    suite.cases = suite.calls = 0;
}

/* Runs the case of this number, of any mode. */
void run_one(uint64_t id) {
    if (id >= SOAK_FIRST)
        random_case(id);
    else if (id >= ALL_FIRST)
        run_all();
    else
        run_quick();
    end_batch();
}

/* Runs for so many seconds or, if calls is not 0, for so many cases. */
void run_soak(double seconds, uint64_t calls) {
    int64_t begin = msi_now();
    struct usage early = {0}, late = {0};
    double elapsed = 0, part = 0, shown = 0.1;
    if (calls >= GROWTH_CHECK_FROM) warm_up();
    for (uint64_t id = SOAK_FIRST; continues(part < 1); id += SOAK_CHUNK) {
        for (uint64_t i = 0; i < SOAK_CHUNK && !(calls && suite.cases >= calls); i++) random_case(id + i);
        end_batch();
        elapsed = (double)(msi_now() - begin) / 1e9;
        part = calls ? (double)suite.cases / (double)calls : elapsed / seconds;
        if (part < shown) continue;
        late = show_usage(part);
        if (!early.mappings) early = late;
        shown = part + 0.1;
    }
    check_counts();
    late = usage();
    if (calls >= GROWTH_CHECK_FROM) check_growth(&early, &late);
    mst_printf("collective: soak: %llu cases in %.1f s, %.0f calls per second on each rank\n",
               (unsigned long long)suite.cases, elapsed, (double)suite.calls / elapsed);
}
