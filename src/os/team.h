/*
 * team.h - threads that help a thread with a large copy or reduction.
 *
 *  1. A job has parts, which the caller and the team's threads take one by one. The caller takes all of them
 *     if no thread comes: a thread that sleeps or has no processor delays nobody.
 *  2. The threads start with the first job. They poll for a short time after each job and then sleep.
 *  3. A team has one job at a time. Another thread that comes meanwhile does its own job alone.
 *  4. If a thread takes a part and loses its processor, the team rests for a while.
 */
#ifndef MSI_OS_TEAM_H
#define MSI_OS_TEAM_H

#include <stdbool.h>
#include <stddef.h>

struct msi_team;

enum { MSI_TEAM_MOST = 64 };

/* Does one part of a job, on any thread of the team. Only reads and writes memory. */
typedef void (*msi_team_job)(void *context, int part, int parts);

/* A team of that many threads with the caller. NULL if that is one, or without memory. fixed: no limit lowers
 * the number. */
struct msi_team *msi_team_new(int threads, bool fixed);
/* Ends the threads; accepts NULL. Not during a job. */
void msi_team_free(struct msi_team *team);
/* From now on at most that many threads work at a time. Any thread may call it. */
void msi_team_limit(struct msi_team *team, int threads);
/* From now on jobs of the calling thread use half of the threads, unless the number is fixed: it works while
 * the program computes, which needs processors too. */
void msi_team_spare_processors(void);
/* How many threads would share a job of the caller now, with the caller; 1 for NULL. */
int msi_team_threads(const struct msi_team *team);
/* Does all parts of a job; team may be NULL. */
void msi_team_run(struct msi_team *team, int parts, msi_team_job job, void *context);

/* How many threads a job is worth: one for each grain of its bytes, as far as the team has them. */
int msi_team_parts(const struct msi_team *team, size_t bytes, size_t grain);
/* Where a part of n bytes or elements begins, at a multiple of grain; the end for part == parts. */
static inline size_t msi_team_start(size_t n, int part, int parts, size_t grain) {
    return part == parts ? n : n / grain * (size_t)part / (size_t)parts * grain;
}
/* memcpy by the team; nt_stores: msi_nt_copy. */
void msi_team_copy(struct msi_team *team, void *to, const void *from, size_t bytes, bool nt_stores);

/* The number of threads for each of some ranks of this host, as far as this process's processors allow. */
int msi_team_share(int ranks);

#endif
