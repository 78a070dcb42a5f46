/* test_run_bind.c - how processors are shared out, on machines that are made up of files. */
#include "../tools/muster/run/ranks/bind.c"

#include "harness.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

/* Writes one line into a file below root, and makes the directories on the way. */
__attribute__((format(printf, 2, 3))) static void put(const char *path, const char *format, ...) {
    char whole[256];
    va_list args;

    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = '\0';
        mkdir(whole, 0700);
    }
    FILE *file = fopen(whole, "we");
    assert_non_null(file);
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

/* cores cores of two threads each, cpu c and c + cores, spread over nodes of as many cores each. */
static void make_machine(int cores, int nodes) {
    char path[64];
    int each = cores / nodes;

    snprintf(root, sizeof root, "/tmp/muster-sys-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("node/online", nodes > 1 ? "0-%d\n" : "%d\n", nodes - 1);
    for (int i = 0; i < nodes; i++) {
        snprintf(path, sizeof path, "node/node%d/cpulist", i);
        put(path, "%d-%d,%d-%d\n", i * each, i * each + each - 1, cores + i * each,
            cores + i * each + each - 1);
    }
    for (int i = 0; i < 2 * cores; i++) {
        snprintf(path, sizeof path, "cpu/cpu%d/topology/core_cpus_list", i);
        put(path, "%d,%d\n", i % cores, i % cores + cores);
        snprintf(path, sizeof path, "cpu/cpu%d/topology/physical_package_id", i);
        put(path, "%d\n", i % cores / each);
    }
}

static void remove_tree(const char *path) {
    DIR *dir = opendir(path);

    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char child[512];
        if (entry->d_name[0] == '.') continue;
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (unlink(child) != 0) remove_tree(child);
    }
    if (dir != NULL) closedir(dir);
    rmdir(path);
}

/* shares are the processors of each rank, as bind_describe writes them; the first n_cpus are allowed, but
 * for one. */
static void check(enum bind_how how, int n, int n_cpus, int but, const char *const *shares) {
    cpu_set_t allowed;
    struct bind bind;
    char text[256];

    CPU_ZERO(&allowed);
    for (int i = 0; i < n_cpus; i++)
        if (i != but) CPU_SET((size_t)i, &allowed);
    assert_int_equal(bind_share(&bind, how, n, root, &allowed, sizeof allowed), 0);
    for (int i = 0; i < n; i++) assert_string_equal(bind_describe(&bind, i, text, sizeof text), shares[i]);
    bind_close(&bind);
}

#define SHARES(...) ((const char *const[]){__VA_ARGS__})

static void cores_keep_their_threads(void **state) {
    (void)state;
    make_machine(4, 1);
    check(BIND_CORES, 2, 8, -1, SHARES("0-1,4-5", "2-3,6-7"));
    check(BIND_CORES, 4, 8, -1, SHARES("0,4", "1,5", "2,6", "3,7"));
    check(BIND_CORES, 3, 8, -1, SHARES("0,4", "1,5", "2-3,6-7"));
    check(BIND_CORES, 1, 8, -1, SHARES("0-7"));
    remove_tree(root);
}

static void only_what_the_launcher_may_use(void **state) {
    (void)state;
    make_machine(4, 1);
    check(BIND_CORES, 3, 8, 1, SHARES("0,4", "5", "2-3,6-7"));
    check(BIND_CORES, 2, 2, -1, SHARES("0", "1"));
    remove_tree(root);
}

static void more_ranks_than_cores(void **state) {
    (void)state;
    make_machine(2, 1);
    check(BIND_CORES, 5, 4, -1, SHARES("0,2", "0,2", "0,2", "1,3", "1,3"));
    remove_tree(root);
}

static void nodes(void **state) {
    (void)state;
    make_machine(8, 4);
    check(BIND_NUMA, 4, 16, -1, SHARES("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"));
    check(BIND_NUMA, 2, 16, -1, SHARES("0-3,8-11", "4-7,12-15"));
    check(BIND_NUMA, 8, 4, -1, SHARES("0-1", "0-1", "0-1", "0-1", "2-3", "2-3", "2-3", "2-3"));
    check(BIND_CORES, 4, 16, -1, SHARES("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"));
    remove_tree(root);
}

/* Processors of one node need not have neighbouring numbers. */
static void a_share_of_cores_stays_in_its_node(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/muster-sys-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("node/online", "0,2\n");
    put("node/node0/cpulist", "0,2\n");
    put("node/node2/cpulist", "1,3\n");
    check(BIND_CORES, 2, 4, -1, SHARES("0,2", "1,3"));
    check(BIND_NUMA, 2, 4, -1, SHARES("0,2", "1,3"));
    remove_tree(root);
}

static void a_system_that_tells_nothing(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/nowhere");
    check(BIND_CORES, 2, 4, -1, SHARES("0-1", "2-3"));
    check(BIND_NUMA, 2, 4, -1, SHARES("0-3", "0-3"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_keep_their_threads),
        cmocka_unit_test(only_what_the_launcher_may_use),
        cmocka_unit_test(more_ranks_than_cores),
        cmocka_unit_test(nodes),
        cmocka_unit_test(a_share_of_cores_stays_in_its_node),
        cmocka_unit_test(a_system_that_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
