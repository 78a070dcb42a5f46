/* launcher.h - which MPI launcher started this process. Used by picker.c and the engines. */
#ifndef MSM_LAUNCHER_H
#define MSM_LAUNCHER_H

enum msm_launcher {
    MSM_LAUNCHER_NONE, /* muster run, torchrun, or none */
    MSM_LAUNCHER_OPENMPI,
    MSM_LAUNCHER_MPICH,
};

enum msm_launcher msm_launcher(void);

/* The name of the launcher's job; "" without a launcher. */
const char *msm_launcher_job(void);

#endif
