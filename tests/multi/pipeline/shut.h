/* shut.h - a backend that one rank cannot open. See ../pipeline.c. */
#ifndef SHUT_H
#define SHUT_H

#include <muster/backend.h>
#include <muster/muster.h>

/* A group of all ranks over it; the one with that number cannot open it. */
mst_group *make_shut(int rank);

#endif
