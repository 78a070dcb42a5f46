/*
 * discover.h - reads from the launcher's environment: the rank of this process, the world size, the address
 * of rank 0.
 *
 * mst_init calls this itself. Programs call it to know these values earlier, or to pass them on. The known
 * launchers are torchrun, muster run and DeepSpeed, AzureML, SageMaker, Open MPI, MPICH and Intel MPI,
 * MVAPICH, Slurm, LSF, PALS, Flux, Kubernetes indexed Jobs and Kubeflow PyTorchJob. docs/launch.md has the
 * order and the variables.
 */
#ifndef MUSTER_DISCOVER_H
#define MUSTER_DISCOVER_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Unknown values are -1, 0 or "". The _from strings name the variable that a value came from, or explain it;
 * they are "" for unknown values and stay valid forever.
 */
typedef struct mst_discovery {
    const char *launcher; /* "slurm"; "none" without a launcher: rank 0 of 1 */
    const char *title;    /* a readable name of the launcher */
    int rank;
    int world_size;
    int local_rank; /* as the launcher says; mst_get_local_rank returns the verified one */
    int local_size;
    int master_port;
    char master_addr[256]; /* the host of rank 0; "": see mst_mpi_discovery */
    const char *rank_from, *world_size_from, *local_rank_from, *local_size_from;
    const char *master_addr_from, *master_port_from;
} mst_discovery;

#define mst_discover_options_fields                                                                          \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(bool no_discovery); /* use only RANK and WORLD_SIZE */                                        \
    MST_OPTION(bool verbose);      /* print the result on standard error in one line */                      \
    /* Set the known ones of RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT. */    \
    /* No other thread may use the environment during the call. */                                           \
    MST_OPTION(bool set_env);
typedef struct mst_discover_options {
    mst_discover_options_fields
} mst_discover_options;

/*
 * Fills in *found from the environment. Does not communicate, but may load the launcher's PMIx library to
 * check whether it is usable. MST_ERR_CONFIG lists the variables that are malformed or contradictory, with
 * their values.
 */
mst_status mst_discover_with(mst_discovery *found, const mst_discover_options *options);

/*
 * DeepSpeed's mpi_discovery without MPI: does what mst_discover does, exchanges the address of rank 0 through
 * the launcher (PMI, PMIx) if necessary, and sets the variables listed at .set_env. All ranks call it before
 * mst_init, which then uses the variables; it blocks until the other ranks have called. port 0 selects the
 * launcher's port, one derived from the job id, or 29500. verbose prints the result in one line.
 */
mst_status mst_mpi_discovery(int port, bool verbose);

/* As in DeepSpeed: is this a job of AzureML, SageMaker or DLTS? */
bool mst_in_aml(void);
bool mst_in_aws_sm(void);
bool mst_in_dlts(void);

#ifdef __cplusplus
}
#endif

MST_WRAP_1(mst_discover, mst_discover_options, mst_discovery *)

#define mst_discover(...) MST_CALL_1(mst_discover, mst_discover_options, __VA_ARGS__)
#endif
