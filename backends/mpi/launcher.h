/* launcher.h - whose launcher started this process, as far as MPI is concerned. Shared by the picker and the engines. */
#ifndef MSM_LAUNCHER_H
#define MSM_LAUNCHER_H

enum msm_launcher {
    MSM_LAUNCHER_NONE, /* nobody's: muster run, torchrun, by hand */
    MSM_LAUNCHER_OPENMPI,
    MSM_LAUNCHER_MPICH,
};

enum msm_launcher msm_launcher(void);

/* What tells the jobs of a launcher apart; "" where there is none. */
const char *msm_launcher_job(void);

#endif
