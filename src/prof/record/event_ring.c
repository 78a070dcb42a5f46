/* event_ring.c - see event_ring.h. */
#include "prof/record/event_ring.h"

#include <pthread.h>
#include <stdlib.h>

/* Stored (release) by add, loaded (acquire) by msi_event_ring_all. */
static _Atomic(struct msi_event_ring *) all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t on_exit_key; /* its value is the thread's ring; the destructor releases it */
static _Thread_local struct msi_event_ring *own;
/* Under the lock: */
static int threads; /* numbers given so far */
static struct msi_event_ring_name names[MSI_PROF_THREADS];

struct msi_event_ring *msi_event_ring_all(void) {
    return atomic_load_explicit(&all, memory_order_acquire);
}

static void release(void *ring) {
    own = NULL;
    atomic_store_explicit(&((struct msi_event_ring *)ring)->taken, false,
                          memory_order_release); /* for acquire_ring */
}

static void make_key(void) {
    pthread_key_create(&on_exit_key, release);
}

static struct msi_event_ring *add(void) {
    struct msi_event_ring *ring = aligned_alloc(64, sizeof *ring);
    if (!ring) return NULL;
    struct msi_event_ring *first = msi_event_ring_all();
    *ring = (struct msi_event_ring){.next = first, .number = -1};
    atomic_store_explicit(&all, ring, memory_order_release);
    return ring;
}

/* Under the lock, by the new owner of the ring. */
static void number_thread(struct msi_event_ring *ring) {
    if (ring->number < 0 || threads < MSI_PROF_THREADS) ring->number = threads++;
    if (ring->number >= MSI_PROF_THREADS) return;
    struct msi_event_ring_name *name = &names[ring->number];
    pthread_getname_np(pthread_self(), name->text, sizeof name->text);
}

static struct msi_event_ring *acquire_ring(void) {
    pthread_once(&once, make_key);
    pthread_mutex_lock(&lock);
    struct msi_event_ring *ring = msi_event_ring_all();
    while (ring && atomic_load_explicit(&ring->taken, memory_order_acquire)) ring = ring->next;
    if (!ring) ring = add();
    if (ring) {
        number_thread(ring);
        atomic_store_explicit(&ring->taken, true, memory_order_relaxed);
        pthread_setspecific(on_exit_key, ring);
    }
    pthread_mutex_unlock(&lock);
    return ring;
}

static inline struct msi_event_ring *own_ring(void) {
    if (__builtin_expect(!own, 0)) own = acquire_ring();
    return own;
}

int msi_event_ring_own_number(void) {
    struct msi_event_ring *ring = own_ring();
    return ring ? ring->number : 0;
}

struct msi_event_ring_name msi_event_ring_thread(int number) {
    struct msi_event_ring_name name = {""};
    if (number < 0 || number >= MSI_PROF_THREADS) return name;
    pthread_mutex_lock(&lock);
    name = names[number];
    pthread_mutex_unlock(&lock);
    return name;
}

bool msi_event_ring_push(const struct msi_record *record) {
    struct msi_event_ring *ring = own_ring();
    if (!ring) return false;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - ring->known_tail == MSI_RING_RECORDS) {
        ring->known_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->known_tail == MSI_RING_RECORDS) return false;
    }
    ring->records[head % MSI_RING_RECORDS] = *record;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

const struct msi_record *msi_event_ring_peek(struct msi_event_ring *ring) {
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (atomic_load_explicit(&ring->head, memory_order_acquire) == tail) return NULL;
    return &ring->records[tail % MSI_RING_RECORDS];
}

void msi_event_ring_pop(struct msi_event_ring *ring) {
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}
