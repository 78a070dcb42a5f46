/*
 * discover.h - what the launcher around this process says: its rank, the world's size, and where rank 0 is.
 *
 * mst_init asks by itself; these calls are for programs that want to know before, or to tell others. Known are torchrun,
 * muster run and DeepSpeed, AzureML, SageMaker, Open MPI, MPICH and Intel MPI, MVAPICH, Slurm, LSF, PALS, Flux,
 * Kubernetes' indexed Jobs and Kubeflow's PyTorchJob; docs/launch.md has the order and the variables.
 */
#ifndef MUSTER_DISCOVER_H
#define MUSTER_DISCOVER_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What is not known is -1, 0 or "". For each value the variable that it came from, or for people why it is so; these
 * strings live for ever, and are "" where the value is not known.
 */
typedef struct mst_discovery {
    const char *launcher; /* "slurm"; "none" for a process that nobody launched, which is rank 0 of 1 */
    const char *title;    /* the same for people */
    int rank;
    int world_size;
    int local_rank; /* as the launcher says; mst_get_local_rank tells what was proved */
    int local_size;
    int master_port;
    char master_addr[256]; /* rank 0's host; "" where the ranks must agree first, see mst_mpi_discovery */
    const char *rank_from, *world_size_from, *local_rank_from, *local_size_from;
    const char *master_addr_from, *master_port_from;
} mst_discovery;

typedef struct mst_discover_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(bool no_discovery); /* go by RANK and WORLD_SIZE alone */
    MST_OPTION(bool verbose);      /* say in one line on standard error what was found */
    /* Set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as far as they are known; no other thread may
       use the environment meanwhile. */
    MST_OPTION(bool set_env);
} mst_discover_options;

/*
 * Reads the environment and talks to nobody, but may load the launcher's PMIx library to see whether it could be asked.
 * MST_ERR_CONFIG lists the variables that are malformed or contradict each
 * other, with their values.
 */
mst_status mst_discover_with(mst_discovery *found, const mst_discover_options *options);

/*
 * DeepSpeed's mpi_discovery, without MPI: finds everything that mst_discover does, agrees with the other ranks through
 * the launcher (PMI, PMIx) on rank 0's address where only that can tell, and sets the variables that are listed at .set_env
 * above. All ranks call it, before mst_init, which then finds the variables. port 0 lets muster choose: the
 * launcher's, one that goes with the job's number, or 29500. verbose says in one line what was found.
 */
mst_status mst_mpi_discovery(int port, bool verbose);

/* DeepSpeed's questions: is this a job of AzureML, of SageMaker, of DLTS? */
bool mst_in_aml(void);
bool mst_in_aws_sm(void);
bool mst_in_dlts(void);

#ifdef __cplusplus
}
inline mst_status mst_discover(mst_discovery *found, mst_discover_options options = {}, MST_SITE_PARAMETERS) {
    return mst_discover_with(found, MST_FILL_OPTIONS(options));
}
#else
#define mst_discover(...)                                                                                    \
    mst_discover_with(MST_LAST_POSITIONAL(__VA_ARGS__), MST_OPTIONS_AFTER(mst_discover_options, __VA_ARGS__))
#endif
#endif
