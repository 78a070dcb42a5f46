/* launchers.c - the table of launchers. See launchers.h. */
#include "bootstrap/launchers.h"

#define NUMBER(...)                                                                                          \
    {                                                                                                        \
        { __VA_ARGS__, MSI_HOW_NUMBER }                                                                      \
    }
#define NUMBERS(first, second)                                                                               \
    {                                                                                                        \
        {first, MSI_HOW_NUMBER}, {                                                                           \
            second, MSI_HOW_NUMBER                                                                           \
        }                                                                                                    \
    }
#define SINGLE                                                                                               \
    {                                                                                                        \
        { "one process per pod", MSI_HOW_SINGLE }                                                            \
    }
#define HERE                                                                                                 \
    { .name = "all ranks are on this host" }

#define TORCH_NUMBERS                                                                                        \
    .rank = NUMBER("RANK"), .size = NUMBER("WORLD_SIZE"), .local_rank = NUMBER("LOCAL_RANK"),                \
    .local_size = NUMBERS("LOCAL_WORLD_SIZE", "LOCAL_SIZE")
#define OMPI_NUMBERS                                                                                         \
    .rank = NUMBER("OMPI_COMM_WORLD_RANK"), .size = NUMBER("OMPI_COMM_WORLD_SIZE"),                          \
    .local_rank = NUMBER("OMPI_COMM_WORLD_LOCAL_RANK"), .local_size = NUMBER("OMPI_COMM_WORLD_LOCAL_SIZE")

const struct msi_launcher msi_launchers[] = {
    {
        .name = "torchrun",
        .title = "torchrun or muster run",
        .needs = {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
        .depth = MSI_DEPTH_AGENT,
        TORCH_NUMBERS,
    },
    {
        .name = "kubeflow",
        .title = "Kubeflow PyTorchJob",
        .needs = {"RANK", "WORLD_SIZE", "KUBERNETES_SERVICE_HOST"},
        .without = {"LOCAL_RANK"},
        .depth = MSI_DEPTH_GIVEN,
        .rank = NUMBER("RANK"),
        .size = NUMBER("WORLD_SIZE"),
        .local_rank = SINGLE,
        .local_size = SINGLE,
    },
    {
        .name = "env",
        .title = "DeepSpeed or by hand",
        .needs = {"RANK", "WORLD_SIZE"},
        .depth = MSI_DEPTH_GIVEN,
        TORCH_NUMBERS,
    },
    {
        .name = "azureml",
        .title = "AzureML",
        .needs = {"AZUREML_EXPERIMENT_ID", "OMPI_COMM_WORLD_RANK"},
        .without = {"DLTS_JOB_ID"},
        .depth = MSI_DEPTH_MPI,
        OMPI_NUMBERS,
        .host = {{"AZ_BATCH_MASTER_NODE", msi_hosts_port, 0, 6105, true, false},
                 {"AZ_BATCHAI_MPI_MASTER_NODE", msi_hosts_plain, 0, 54965, false, false}},
        .advice = "AzureML sets AZ_BATCH_MASTER_NODE where a job has several nodes; or set MASTER_ADDR",
    },
    {
        .name = "sagemaker",
        .title = "SageMaker with MPI",
        .needs = {"SM_TRAINING_ENV", "OMPI_COMM_WORLD_RANK"},
        .depth = MSI_DEPTH_MPI,
        OMPI_NUMBERS,
        .host = {HERE, {"SM_HOSTS", msi_hosts_json, 0, 0, false, false}},
        .job = {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"},
        .advice = "SageMaker sets SM_HOSTS; or pass MASTER_ADDR to all ranks: mpirun -x MASTER_ADDR=HOST",
    },
    {
        .name = "openmpi",
        .title = "Open MPI",
        .needs = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        .depth = MSI_DEPTH_MPI,
        OMPI_NUMBERS,
        .host = {HERE, {"OMPI_MCA_orte_hnp_uri", msi_hosts_orte, .guess = true}}, /* mpirun's host */
        .job = {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"},
        .advice = "pass rank 0's host to all ranks: mpirun -x MASTER_ADDR=HOST",
    },
    {
        .name = "mvapich",
        .title = "MVAPICH",
        .needs = {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
        .depth = MSI_DEPTH_MPI,
        .pmi = true,
        .rank = NUMBER("MV2_COMM_WORLD_RANK"),
        .size = NUMBER("MV2_COMM_WORLD_SIZE"),
        .local_rank = NUMBER("MV2_COMM_WORLD_LOCAL_RANK"),
        .local_size = NUMBER("MV2_COMM_WORLD_LOCAL_SIZE"),
        .host = {HERE},
        .advice = "pass rank 0's host to all ranks: mpirun_rsh -np N MASTER_ADDR=HOST program",
    },
    {
        .name = "mpich",
        .title = "MPICH or Intel MPI",
        .needs = {"PMI_RANK", "PMI_SIZE"},
        .depth = MSI_DEPTH_MPI,
        .pmi = true,
        .generic = true,
        .rank = NUMBER("PMI_RANK"),
        .size = NUMBER("PMI_SIZE"),
        .local_rank = NUMBERS("MPI_LOCALRANKID", "PMI_LOCAL_RANK"),
        .local_size = NUMBERS("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
        .host = {HERE},
        .advice = "pass rank 0's host to all ranks: mpiexec -genv MASTER_ADDR HOST",
    },
    {
        .name = "mpich",
        .title = "MPICH with -pmi-port",
        .needs = {"PMI_ID", "PMI_PORT"},
        .without = {"PMI_RANK", "MV2_COMM_WORLD_RANK"},
        .depth = MSI_DEPTH_MPI,
        .pmi = true,
        .rank = NUMBER("PMI_ID"),
        .size = NUMBER("WORLD_SIZE"),
        .local_rank = NUMBER("MPI_LOCALRANKID"),
        .local_size = NUMBER("MPI_LOCALNRANKS"),
        .host = {HERE},
        .advice = "pass rank 0's host to all ranks: mpiexec -genv MASTER_ADDR HOST",
    },
    {
        .name = "flux",
        .title = "Flux",
        .needs = {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
        .depth = MSI_DEPTH_MANAGER,
        .pmi = true,
        .rank = NUMBER("FLUX_TASK_RANK"),
        .size = NUMBER("FLUX_JOB_SIZE"),
        .local_rank = NUMBER("FLUX_TASK_LOCAL_ID"),
        .local_size = {{"FLUX_JOB_NNODES", MSI_HOW_ALL}},
        .host = {HERE},
        .job = {"FLUX_JOB_ID"},
        .advice = "pass rank 0's host to all ranks: flux run --env=MASTER_ADDR=HOST",
    },
    {
        .name = "pals",
        .title = "PALS",
        .needs = {"PALS_RANKID"},
        .depth = MSI_DEPTH_MANAGER,
        .rank = NUMBER("PALS_RANKID"),
        .size = NUMBERS("PALS_SIZE", "PMI_SIZE"),
        .local_rank = NUMBERS("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"),
        .local_size = NUMBERS("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        .host = {HERE},
        .job = {"PALS_APID"},
        .advice = "in the job script: export MASTER_ADDR=$(head -n 1 $PBS_NODEFILE)",
    },
    {
        .name = "lsf",
        .title = "LSF's jsrun",
        .needs = {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
        .depth = MSI_DEPTH_MANAGER,
        .rank = NUMBER("JSM_NAMESPACE_RANK"),
        .size = NUMBER("JSM_NAMESPACE_SIZE"),
        .local_rank = NUMBER("JSM_NAMESPACE_LOCAL_RANK"),
        .local_size = NUMBER("JSM_NAMESPACE_LOCAL_SIZE"),
        /* The first host runs the job script and no ranks. */
        .host = {HERE, {"LSB_MCPU_HOSTS", msi_hosts_lsf, 1, 0, false, false}},
        .job = {"LSB_JOBID", "JSM_NAMESPACE_ID"},
        .advice = "LSF sets LSB_MCPU_HOSTS; or pass rank 0's host to all ranks: jsrun -E MASTER_ADDR=HOST",
    },
    {
        .name = "slurm",
        .title = "Slurm's srun",
        .needs = {"SLURM_PROCID", "SLURM_STEP_ID"},
        .step = "SLURM_STEP_ID",
        .depth = MSI_DEPTH_MANAGER,
        .rank = NUMBER("SLURM_PROCID"),
        .size = NUMBERS("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        .local_rank = NUMBER("SLURM_LOCALID"),
        .local_size = {{"SLURM_STEP_TASKS_PER_NODE", MSI_HOW_TASKS}, {"SLURM_TASKS_PER_NODE", MSI_HOW_TASKS}},
        .host = {HERE,
                 {"SLURM_STEP_NODELIST", msi_hosts_slurm, 0, 0, false, false},
                 {"SLURM_JOB_NODELIST", msi_hosts_slurm, 0, 0, false, false}},
        .job = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
        .advice = "srun sets SLURM_STEP_NODELIST; or export MASTER_ADDR before srun",
    },
    {
        .name = "sagemaker",
        .title = "SageMaker",
        .needs = {"SM_TRAINING_ENV", "SM_HOSTS", "SM_CURRENT_HOST"},
        .depth = MSI_DEPTH_MANAGER,
        .rank = {{"SM_HOSTS", MSI_HOW_INDEX}},
        .size = {{"SM_HOSTS", MSI_HOW_COUNT}},
        .local_rank = {{"one process per host", MSI_HOW_SINGLE}},
        .local_size = {{"one process per host", MSI_HOW_SINGLE}},
        .host = {{"SM_HOSTS", msi_hosts_json, 0, 0, false, false}},
    },
    {
        .name = "kubeflow",
        .title = "Kubeflow Trainer",
        .needs = {"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR"},
        .depth = MSI_DEPTH_MANAGER,
        .rank = NUMBER("PET_NODE_RANK"),
        .size = NUMBER("PET_NNODES"),
        .local_rank = SINGLE,
        .local_size = SINGLE,
        .host = {{"PET_MASTER_ADDR", msi_hosts_plain, 0, 0, false, false}},
    },
    {
        .name = "kubernetes",
        .title = "Kubernetes indexed Job",
        .needs = {"JOB_COMPLETION_INDEX"},
        .depth = MSI_DEPTH_MANAGER,
        .rank = NUMBER("JOB_COMPLETION_INDEX"),
        .size = NUMBER("WORLD_SIZE"),
        .local_rank = SINGLE,
        .local_size = SINGLE,
        .advice =
            "set WORLD_SIZE and MASTER_ADDR=JOB-0.SERVICE in the pod template, SERVICE being its headless "
            "service and subdomain; or MUSTER_DISCOVERY=0 where the pods are no world",
    },
    {.name = "none", .title = "no launcher", .depth = MSI_DEPTH_GIVEN, TORCH_NUMBERS},
};
const size_t msi_launcher_count = sizeof msi_launchers / sizeof *msi_launchers;
