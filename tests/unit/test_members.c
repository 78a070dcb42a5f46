/* test_members.c - a list of members for which there is too little memory. */
#include "harness.h"

#include "base/error.h"
#include "bootstrap/report.h"

#include <muster/muster.h>
#include <sys/resource.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LIMITED = false }; /* a sanitizer reserves more memory than the limit */
#else
enum { LIMITED = true };
#endif

enum { LIMIT = 64 << 20 };

/* Builds the members of a world with a limit of 64 MiB; returns the status. */
static int build_limited(int size) {
    struct rlimit limit = {LIMIT, LIMIT};
    struct msi_members members;
    if (setrlimit(RLIMIT_AS, &limit)) return -1;
    return (int)msi_members_build(msi_str(NULL, 0), msi_str(NULL, 0), size, &members);
}

/* With the first size the locations of the ranks still fit, but not the members; with the second none fit. */
static void too_little_memory_is_reported(void **state) {
    (void)state;
    static const int sizes[] = {4 << 20, 1 << 28};
    if (!LIMITED) skip();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        pid_t child = fork();
        if (child == 0) _exit(build_limited(sizes[i]));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), MST_ERR_MEMORY);
    }
}

static void missing_ranks_are_reported(void **state) {
    (void)state;
    struct msi_members members;
    assert_status(msi_members_build(msi_str(NULL, 0), msi_str(NULL, 0), 2, &members), MST_ERR_PROTOCOL);
    assert_contains(mst_error(), "has 0 of 2 ranks");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_little_memory_is_reported),
        cmocka_unit_test(missing_ranks_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
