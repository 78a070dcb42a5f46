/* signals.h - the signals on which a launcher ends its job, as --signals-to-handle names them. */
#ifndef MUSTER_TOOL_RUN_RANKS_SIGNALS_H
#define MUSTER_TOOL_RUN_RANKS_SIGNALS_H

#include <muster/status.h>

#include <signal.h>

enum { SIGNALS_MOST = 64 };

#define SIGNALS_DEFAULT "SIGTERM,SIGINT,SIGHUP,SIGQUIT"

/* Reads names and numbers such as "SIGTERM,INT,10". On failure signals is unchanged. */
mst_status signals_read(const char *text, sigset_t *signals);

#endif
