/* flight_kit.h - flight recorders made by hand. A tick is ten nanoseconds; recorders begin at second 100. */
#ifndef TESTS_UNIT_FLIGHT_KIT_H
#define TESTS_UNIT_FLIGHT_KIT_H

#include "prof/flight/view.h"

#include <muster/comm.h>
#include <string.h>

#define KIT_SECOND     UINT64_C(100000000) /* in ticks */
#define KIT_FIRST_TICK UINT64_C(5000)
#define KIT_FIRST_TIME (UINT64_C(100) * 1000000000)

/* A look at the clocks, so many seconds after the recorder began. */
static inline struct msi_tick_look kit_look(double seconds) {
    return (struct msi_tick_look){KIT_FIRST_TICK + (uint64_t)(seconds * (double)KIT_SECOND),
                                  (int64_t)(KIT_FIRST_TIME + (uint64_t)(seconds * 1e9))};
}

static inline void kit_begin(struct msi_flight *f) {
    memset(f, 0, sizeof *f);
    atomic_store(&f->magic, MSI_FLIGHT_MAGIC);
    atomic_store(&f->first_tick, KIT_FIRST_TICK);
    atomic_store(&f->first_time, KIT_FIRST_TIME);
    atomic_store(&f->unix_time, UINT64_C(1700000000000000000));
}

static inline void kit_site(struct msi_flight *f, int at, const char *operation, const char *file,
                            const char *function, uint32_t line) {
    strcpy(f->sites[at].operation, operation);
    strcpy(f->sites[at].file, file);
    strcpy(f->sites[at].function, function);
    atomic_store(&f->sites[at].line, line);
}

static inline void kit_group(struct msi_flight *f, int at, const char *name, uint64_t id, uint32_t size) {
    strcpy(f->groups[at].name, name);
    atomic_store(&f->groups[at].id, id);
    atomic_store(&f->groups[at].generation, 1);
    atomic_store(&f->groups[at].size, size);
}

struct kit_op {
    int site, group;
    uint64_t seq, count;
    double begin, end; /* seconds; end 0: not known */
    int dtype;
    enum msi_flight_type type;
    int peer, tag; /* of a message; peer as the entry has it, with 1 more */
};

/* Adds the next operation in a state. */
static inline void kit_add(struct msi_flight *f, enum msi_flight_state state, struct kit_op op) {
    uint64_t number = atomic_load(&f->next) + 1;
    struct msi_flight_entry *e = &f->entries[number % MSI_FLIGHT_ENTRIES];
    atomic_store(&f->next, number);
    atomic_store(&e->number_state, number << 3 | state);
    atomic_store(&e->seq, op.seq);
    atomic_store(&e->count, op.count);
    atomic_store(&e->begin, kit_look(op.begin).tick);
    atomic_store(&e->end, op.end > 0 ? kit_look(op.end).tick : 0);
    atomic_store(&e->site_group,
                 (uint64_t)(unsigned)op.site | (uint64_t)(unsigned)op.group << 32 | UINT64_C(1) << 48);
    atomic_store(&e->dtype_peer, (uint64_t)(unsigned)op.dtype | (uint64_t)(uint32_t)op.peer << 32);
    atomic_store(&e->tag_type, (uint64_t)(unsigned)op.tag | (uint64_t)op.type << 32);
}

#endif
