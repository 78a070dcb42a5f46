/* kit.h - what the files of the program backends share. */
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

/* All ranks of the group add up; NULL: the world. */
void check_sum(mst_group *group);

/* engines.c: the program's own backend, and a function that it lacks; */
extern mst_backend own_table;
mst_status own_begin(mst_backend_engine *engine);
/* what main calls by these names … */
void own(void);
void batches(void);
void streams(void);
void memories(void);
void refused(void);
/* … and the sample once more: as "minimal2", which does not work, and as "copy", which does. */
void register_second(void);
void register_copy(void);

#endif
