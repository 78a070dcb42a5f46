/* failing_backend.h - a backend that one rank cannot open. See ../pipeline.c. */
#ifndef FAILING_BACKEND_H
#define FAILING_BACKEND_H

#include <muster/backend.h>
#include <muster/muster.h>

/* A group of all ranks over this backend; the given rank cannot open it. */
mst_group *new_failing_group(int rank);

#endif
