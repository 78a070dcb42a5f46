/* table.h - what the parts of the tables share: see report.h. */
#ifndef MUSTER_TOOL_REPORT_TABLE_H
#define MUSTER_TOOL_REPORT_TABLE_H

#include "report/report.h"

struct page_table {
    struct page_job *job;
    struct page_set names, sizes, rows;
    uint32_t *sizes_of; /* how many sizes a name has */
    size_t sizes_capacity;
    uint32_t *row_of; /* of each event, rank after rank */
    size_t n_events;
};

/* op_times.c: the figures of each operation, for all ranks and groups, and for each. */
void page_cells(const struct page_table *table);
/* sites.c */
void page_sites(struct page_job *job);

#endif
