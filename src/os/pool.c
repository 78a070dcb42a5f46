/* pool.c - see pool.h. */
#include "os/pool.h"
#include "os/thread.h"

#include <errno.h>
#include <stdlib.h>

struct thread {
    pthread_t id;
    struct thread *next;
};

struct msi_pool {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work, over;
    struct msi_job *first, **last; /* jobs that no thread has begun */
    struct thread *threads;
    int queued, idle, running; /* jobs, threads without a job, jobs */
    bool ending;
};

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
    if (!pool->running) pthread_cond_broadcast(&pool->over);
}

static void *run_thread(void *context) {
    struct msi_pool *pool = context;
    pthread_setname_np(pthread_self(), "muster-callback");
    pthread_mutex_lock(&pool->lock);
    for (; !pool->ending; pool->idle++) {
        if (!pool->first) pthread_cond_wait(&pool->work, &pool->lock);
        pool->idle--;
        run_jobs(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Returns 0 or an errno. */
static int add_thread(struct msi_pool *pool) {
    struct thread *thread = malloc(sizeof *thread);
    if (!thread) return ENOMEM;
    int error = msi_thread_start(&thread->id, run_thread, pool);
    if (error) {
        free(thread);
        return error;
    }
    thread->next = pool->threads;
    pool->threads = thread;
    pool->idle++;
    return 0;
}

struct msi_pool *msi_pool_new(void) {
    struct msi_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->over, NULL);
    pool->last = &pool->first;
    int error = add_thread(pool);
    if (!error) return pool;
    msi_pool_free(pool);
    errno = error;
    return NULL;
}

void msi_pool_run(struct msi_pool *pool, struct msi_job *job) {
    job->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->queued >= pool->idle) add_thread(pool); /* if it fails, the job waits for a thread */
    *pool->last = job;
    pool->last = &job->next;
    pool->queued++;
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

bool msi_pool_drain(struct msi_pool *pool) {
    if (!pool) return false;
    bool any = false;
    pthread_mutex_lock(&pool->lock);
    for (; pool->first || pool->running; any = true) pthread_cond_wait(&pool->over, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return any;
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
    pthread_cond_destroy(&pool->over);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
