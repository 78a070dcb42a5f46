/* signals.h - the signals on which a launcher ends its job, as the command line names them. */
#ifndef MUSTER_TOOL_RUN_RANKS_SIGNALS_H
#define MUSTER_TOOL_RUN_RANKS_SIGNALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIGNALS_MOST = 64 };

/* A bit for each number from 1 on. */
struct signals {
    uint64_t bits;
};

#define SIGNALS_DEFAULT "SIGTERM,SIGINT,SIGHUP,SIGQUIT"

/* Reads "SIGTERM,INT,10". 0, or -1 with why set. */
int signals_read(const char *text, struct signals *signals, char *why, size_t why_size);
bool signals_have(const struct signals *signals, int number);

#endif
