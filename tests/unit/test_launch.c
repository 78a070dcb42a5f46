/* test_launch.c - values that several launchers give, and what is reported if some are missing. */
#include "harness.h"

#include "base/error.h"
#include "bootstrap/discover.h"
#include "bootstrap/launchers.h"

#include <muster/muster.h>

extern char **environ;

/* Discovery with these variables and no others; the list ends with NULL. */
static struct msi_launch find(const char *variables[]) {
    struct msi_launch launch;
    char **before = environ;
    environ = (char **)(uintptr_t)variables; /* only read */
    mst_status st = msi_launch_find(true, &launch);
    environ = before;
    assert_ok(st);
    return launch;
}

#define FIND(...) find((const char *[]){__VA_ARGS__, NULL})
#define OMPI_ON_TWO_HOSTS                                                                                    \
    "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2",                      \
        "OMPI_MCA_ess_base_jobid=7", "OMPI_MCA_orte_hnp_uri=7.0;tcp://10.0.0.1:4000"
#define SLURM_ON_TWO_NODES                                                                                   \
    "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_PROCID=3", "SLURM_NODEID=1", "SLURM_STEP_NUM_TASKS=4",       \
        "SLURM_STEP_TASKS_PER_NODE=2(x2)", "SLURM_STEP_NODELIST=n[1-2]"

/* mpirun's host is a guess, Slurm's first node is not. */
static void a_guess_yields_to_pmix(void **state) {
    (void)state;
    assert_int_equal(FIND(OMPI_ON_TWO_HOSTS, "PMIX_NAMESPACE=a", "PMIX_RANK=3").source,
                     MSI_ADDRESS_FROM_PMIX);
    assert_int_equal(FIND(OMPI_ON_TWO_HOSTS, "PMIX_NAMESPACE=a", "PMIX_RANK=2").source, MSI_ADDRESS_FROM_ENV);
    struct msi_launch launch = FIND(SLURM_ON_TWO_NODES, "PMIX_NAMESPACE=a", "PMIX_RANK=3");
    assert_int_equal(launch.source, MSI_ADDRESS_FROM_ENV);
    assert_string_equal(launch.host, "n1");
}

static void without_pmix_the_guess_is_used(void **state) {
    (void)state;
    struct msi_launch launch = FIND(OMPI_ON_TWO_HOSTS, "PMIX_NAMESPACE=a", "PMIX_RANK=3");
    assert_int_equal(launch.port.value, -1);
    msi_launch_forgo_pmix(&launch);
    assert_int_equal(launch.source, MSI_ADDRESS_FROM_ENV);
    assert_string_equal(launch.host, "10.0.0.1");
    assert_string_equal(launch.port.from, "the job's number");
}

static void the_launchers_pmi_is_used(void **state) {
    (void)state;
    struct msi_launch launch =
        FIND("FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=4", "FLUX_JOB_NNODES=2", "FLUX_JOB_ID=f", "PMI_FD=7");
    assert_string_equal(launch.launcher->name, "flux");
    assert_int_equal(launch.source, MSI_ADDRESS_FROM_PMI);
}

/* RANK and WORLD_SIZE name no host: it comes from the launcher that agrees with them. */
static void values_come_from_a_launcher_that_agrees(void **state) {
    (void)state;
    struct msi_launch launch = FIND("RANK=1", "WORLD_SIZE=4", "PMI_RANK=1", "PMI_SIZE=4", "PMI_FD=7");
    assert_string_equal(launch.launcher->name, "env");
    assert_int_equal(launch.source, MSI_ADDRESS_FROM_PMI);
    launch = FIND("RANK=2", "WORLD_SIZE=4", "PMI_RANK=1", "PMI_SIZE=4", "PMI_FD=7");
    assert_int_equal(launch.source, MSI_ADDRESS_FROM_ENV);
}

static void a_manager_is_preferred_to_its_pmi(void **state) {
    (void)state;
    struct msi_launch launch = FIND(SLURM_ON_TWO_NODES, "PMI_RANK=3", "PMI_SIZE=4", "PMI_FD=7");
    assert_string_equal(launch.launcher->name, "slurm");
    assert_int_equal(launch.source, MSI_ADDRESS_FROM_ENV);
    assert_string_equal(launch.host, "n1");
}

/* A process is alone only if nothing at all is known. */
static void any_value_is_of_a_world(void **state) {
    (void)state;
    struct msi_launch unknown = {.rank.value = -1, .size.value = -1, .port.value = -1};
    struct msi_launch launch = unknown;
    msi_discover_alone(&launch);
    assert_int_equal(launch.rank.value, 0);
    assert_int_equal(launch.size.value, 1);
    for (int i = 0; i < 4; i++) {
        launch = unknown;
        if (i == 0) launch.rank.value = 0;
        if (i == 1) launch.size.value = 0;
        if (i == 2) launch.port.value = 0;
        if (i == 3) strcpy(launch.host, "a");
        msi_discover_alone(&launch);
        assert_null(launch.rank.from);
    }
}

/* The launcher's advice is about the host alone. */
static void a_missing_host_has_its_own_remedy(void **state) {
    (void)state;
    struct msi_launch launch = FIND("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2");
    assert_status(msi_discover_missing(&launch, 0, 2), MST_ERR_CONFIG);
    assert_contains(mst_error(), "not set: MASTER_ADDR");
    assert_contains(mst_error(), "mpirun -x MASTER_ADDR=HOST");
    launch = FIND("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "MASTER_ADDR=a");
    assert_ok(msi_discover_missing(&launch, 0, 2));
    assert_status(msi_discover_missing(&launch, 0, -1), MST_ERR_CONFIG);
    assert_contains(mst_error(), "not set: WORLD_SIZE");
    assert_contains(mst_error(), "set them for all ranks");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guess_yields_to_pmix),
        cmocka_unit_test(without_pmix_the_guess_is_used),
        cmocka_unit_test(the_launchers_pmi_is_used),
        cmocka_unit_test(values_come_from_a_launcher_that_agrees),
        cmocka_unit_test(a_manager_is_preferred_to_its_pmi),
        cmocka_unit_test(any_value_is_of_a_world),
        cmocka_unit_test(a_missing_host_has_its_own_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
