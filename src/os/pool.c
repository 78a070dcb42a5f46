/* pool.c - see pool.h. */
#include "os/pool.h"
#include "os/thread.h"

#include <stdlib.h>

struct thread {
    pthread_t id;
    struct thread *next;
};

struct msi_pool {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work, idle;
    struct msi_job *first, **last; /* jobs that no thread has begun */
    struct thread *threads;
    int queued, sleeping, running;
    bool ending;
};

struct msi_pool *msi_pool_new(void) {
    struct msi_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->idle, NULL);
    pool->last = &pool->first;
    return pool;
}

static struct msi_job *take(struct msi_pool *pool) {
    struct msi_job *job = pool->first;
    if (!job) return NULL;
    pool->first = job->next;
    if (!pool->first) pool->last = &pool->first;
    pool->queued--;
    return job;
}

/* Under the lock, which is released meanwhile. */
static void run_jobs(struct msi_pool *pool) {
    struct msi_job *job;
    while ((job = take(pool))) {
        pool->running++;
        pthread_mutex_unlock(&pool->lock);
        job->run(job);
        pthread_mutex_lock(&pool->lock);
        pool->running--;
    }
    if (!pool->running) pthread_cond_broadcast(&pool->idle);
}

static void *run_thread(void *context) {
    struct msi_pool *pool = context;
    pthread_setname_np(pthread_self(), "muster-callback");
    pthread_mutex_lock(&pool->lock);
    for (run_jobs(pool); !pool->ending; run_jobs(pool)) {
        pool->sleeping++;
        pthread_cond_wait(&pool->work, &pool->lock);
        pool->sleeping--;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static bool add_thread(struct msi_pool *pool) {
    struct thread *thread = malloc(sizeof *thread);
    if (!thread) return false;
    if (msi_thread_start(&thread->id, run_thread, pool)) {
        free(thread);
        return false;
    }
    thread->next = pool->threads;
    pool->threads = thread;
    return true;
}

bool msi_pool_run(struct msi_pool *pool, struct msi_job *job) {
    job->next = NULL;
    pthread_mutex_lock(&pool->lock);
    bool enough = pool->queued < pool->sleeping || add_thread(pool) || pool->threads;
    if (enough) {
        *pool->last = job;
        pool->last = &job->next;
        pool->queued++;
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
    return enough;
}

void msi_pool_drain(struct msi_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    while (pool->first || pool->running) pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void msi_pool_free(struct msi_pool *pool) {
    if (!pool) return;
    msi_pool_drain(pool);
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    while (pool->threads) {
        struct thread *thread = pool->threads;
        pool->threads = thread->next;
        pthread_join(thread->id, NULL);
        free(thread);
    }
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
