/* launcher.c - see launcher.h. */
#include "launcher.h"

#include <stdbool.h>
#include <stdlib.h>

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

/* Under muster run or torchrun, the variables of an outer mpirun belong to another process. */
static bool has_agent(void) {
    return is_set("RANK") && is_set("WORLD_SIZE") && is_set("TORCHELASTIC_RUN_ID");
}

/* srun --mpi=pmix sets PMIX_RANK. srun --mpi=pmi2 also serves PMI-1 and sets Hydra's variables. */
enum msm_launcher msm_launcher(void) {
    if (has_agent()) return MSM_LAUNCHER_NONE;
    if (is_set("OMPI_COMM_WORLD_RANK") || is_set("PMIX_RANK")) return MSM_LAUNCHER_OPENMPI;
    if (is_set("PMI_FD") || is_set("PMI_PORT")) return MSM_LAUNCHER_MPICH;
    return MSM_LAUNCHER_NONE;
}

const char *msm_launcher_job(void) {
    static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"};
    if (msm_launcher() == MSM_LAUNCHER_NONE) return "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_set(names[i])) return getenv(names[i]);
    return "unnamed"; /* Hydra provides no name */
}
