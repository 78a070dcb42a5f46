/* kit.h - shared by the files of the program backends. */
#ifndef BACKENDS_KIT_H
#define BACKENDS_KIT_H

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, mst_error());                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define OK(call) CHECK((call) == MST_OK)

extern int me, size;

/* Checks an all_reduce in the group; NULL: the world. */
void check_sum(mst_group *group);

/* engines.c: the program's own backend, and a copy of it without a required function; */
extern mst_backend own_table;
mst_status own_begin(mst_backend_engine *engine);
/* the actions of these names; */
void own(void);
void batches(void);
void streams(void);
void memories(void);
void refused(void);
/* the example as "minimal2", which fails, and as "copy", which works. */
void register_second(void);
void register_copy(void);

#endif
