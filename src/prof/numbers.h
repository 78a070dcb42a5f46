/*
 * numbers.h - counts messages: the so many-th between two ranks, with a tag, in a group, each way. They come in the order in which
 * they were sent, so the counts of both sides name the same message.
 */
#ifndef MSI_PROF_NUMBERS_H
#define MSI_PROF_NUMBERS_H

#include "prof/record.h"

#include <stddef.h>

struct msi_number;

struct msi_numbers {
    struct msi_number *slots; /* NULL: none yet */
    size_t room, used;
};

/* From 0 up. Where memory runs out, 0. */
uint64_t msi_numbers_next(struct msi_numbers *numbers, const struct msi_record *message);
void msi_numbers_free(struct msi_numbers *numbers);

#endif
