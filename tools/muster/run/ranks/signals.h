/* signals.h - the signals on which a launcher ends its job, as --signals-to-handle names them. */
#ifndef MUSTER_TOOL_RUN_RANKS_SIGNALS_H
#define MUSTER_TOOL_RUN_RANKS_SIGNALS_H

#include <muster/status.h>

#include <stdbool.h>
#include <stdint.h>

enum { SIGNALS_MOST = 64 };

/* Bit i stands for signal i + 1. */
struct signals {
    uint64_t bits;
};

#define SIGNALS_DEFAULT "SIGTERM,SIGINT,SIGHUP,SIGQUIT"

/* Reads names and numbers such as "SIGTERM,INT,10". */
mst_status signals_read(const char *text, struct signals *signals);
bool signals_have(const struct signals *signals, int number);

#endif
