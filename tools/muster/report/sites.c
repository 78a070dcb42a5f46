/* sites.c - times by call site, for all ranks and for each rank. */
#include "report/report.h"

#include <stdlib.h>

enum { SITES_MOST = 2000, SITE_CELLS_MOST = 400000 };

static uint32_t site_of(struct report_job *job, const struct report_event *e) {
    const struct report_kind *kind = report_kind_of(job, e);
    struct report_site site = {kind->site, kind->function, kind->name, kind->call};
    static const struct report_site rest = {UINT32_MAX, 0, UINT32_MAX, UINT32_MAX};
    uint32_t at = msi_table_find(&job->sites, &site, sizeof site);
    if (at != MSI_TABLE_NONE) return at;
    return report_add(&job->sites, job->sites.n < SITES_MOST ? &site : &rest, sizeof site);
}

static void add(const struct report_job *job, struct report_site_cell *cell, const struct report_event *e) {
    bool failed = report_failed(job, e);
    cell->failed += failed;
    cell->count += !failed;
    cell->comm += report_comm(job, e);
    cell->waiting += report_waiting(job, e);
}

/* The cells of all ranks come first, then those of each rank that used the site. */
void report_make_sites(struct report_job *job) {
    size_t all = SITES_MOST + 1, capacity = all;
    struct report_site_cell *own = report_alloc(all, sizeof *own);
    job->site_cells = report_alloc(all, sizeof *job->site_cells);
    for (int i = 0; i < job->n_ranks; i++)
        for (size_t k = 0; k < job->ranks[i]->n; k++) site_of(job, &job->ranks[i]->events[k]);
    job->n_site_cells = job->sites.n;
    for (size_t s = 0; s < job->sites.n; s++)
        job->site_cells[s] = (struct report_site_cell){.site = (int32_t)s, .rank = REPORT_NONE};
    for (int i = 0; i < job->n_ranks; i++) {
        for (size_t s = 0; s < job->sites.n; s++)
            own[s] = (struct report_site_cell){.site = (int32_t)s, .rank = job->ranks[i]->rank};
        for (size_t k = 0; k < job->ranks[i]->n; k++) {
            uint32_t s = site_of(job, &job->ranks[i]->events[k]);
            add(job, &own[s], &job->ranks[i]->events[k]);
            add(job, &job->site_cells[s], &job->ranks[i]->events[k]);
        }
        for (size_t s = 0; s < job->sites.n && job->n_site_cells < SITE_CELLS_MOST; s++) {
            if (own[s].count + own[s].failed == 0) continue;
            report_reserve(&job->site_cells, job->n_site_cells, &capacity, sizeof *own);
            job->site_cells[job->n_site_cells++] = own[s];
        }
    }
    free(own);
}
