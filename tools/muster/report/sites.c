/* sites.c - time by call site, for all ranks and for each. */
#include "report/table.h"

#include <stdlib.h>

enum { SITES_MOST = 2000, SITE_CELLS_MOST = 400000 };

static uint32_t site_of(struct page_job *job, const struct page_event *e) {
    const struct page_kind *kind = page_kind_of(job, e);
    struct page_site site = {kind->site, kind->function, kind->name, kind->call};
    static const struct page_site rest = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    uint32_t at = page_set_find(&job->sites, &site, sizeof site);

    if (at != PAGE_SET_FULL) return at;
    at = job->sites.n < SITES_MOST ? page_set_add(&job->sites, &site, sizeof site)
                                   : page_set_add(&job->sites, &rest, sizeof rest);
    if (at == PAGE_SET_FULL) job->failed = true;
    return at;
}

static void add(const struct page_job *job, struct page_site_cell *cell, const struct page_event *e) {
    if (page_failed(job, e)) {
        cell->failed++;
        return;
    }
    cell->count++;
    cell->total += page_lasted(e);
    cell->waited += page_ready(job, e) - e->begin;
}

/* The first of the cells are those of all ranks, then follow those of each rank that used the site. */
void page_sites(struct page_job *job) {
    size_t all = SITES_MOST + 1, capacity = all;
    struct page_site_cell *own = calloc(all, sizeof *own);

    job->site_cells = calloc(all, sizeof *job->site_cells);
    if (own == NULL || job->site_cells == NULL) job->failed = true;
    for (int i = 0; i < job->n_ranks && !job->failed; i++)
        for (size_t k = 0; k < job->ranks[i]->n && !job->failed; k++) site_of(job, &job->ranks[i]->events[k]);
    job->n_site_cells = job->sites.n;
    for (size_t s = 0; s < job->sites.n && !job->failed; s++)
        job->site_cells[s] = (struct page_site_cell){.site = (int32_t)s, .rank = PAGE_NONE};
    for (int i = 0; i < job->n_ranks && !job->failed; i++) {
        for (size_t s = 0; s < job->sites.n; s++)
            own[s] = (struct page_site_cell){.site = (int32_t)s, .rank = job->ranks[i]->rank};
        for (size_t k = 0; k < job->ranks[i]->n && !job->failed; k++) {
            uint32_t s = site_of(job, &job->ranks[i]->events[k]);
            add(job, &own[s], &job->ranks[i]->events[k]);
            add(job, &job->site_cells[s], &job->ranks[i]->events[k]);
        }
        for (size_t s = 0; s < job->sites.n && job->n_site_cells < SITE_CELLS_MOST; s++)
            if (own[s].count + own[s].failed > 0 &&
                page_room(job, &job->site_cells, job->n_site_cells, &capacity, sizeof *own))
                job->site_cells[job->n_site_cells++] = own[s];
    }
    free(own);
}
