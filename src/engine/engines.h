/* engines.h - the engines, for group/, which picks one for each communicator. See comm/engine.h. */
#ifndef MSI_ENGINE_ENGINES_H
#define MSI_ENGINE_ENGINES_H

#include "comm/engine.h"

extern const struct msi_engine msi_shm_engine;    /* the ranks share one host */
extern const struct msi_engine msi_net_engine;    /* they are on several hosts */
extern const struct msi_engine msi_module_engine; /* a loaded backend: config.backend */

#endif
