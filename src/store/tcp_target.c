/* tcp_target.c - the server of a store client and its standbys. See tcp_conn.h. */
#include "base/error.h"
#include "store/tcp_conn.h"

#include <string.h>

mst_status msi_store_target_init(struct msi_store_target *target, const struct msi_address *address,
                                 const struct msi_settings *settings) {
    target->places[0] = *address;
    target->local = settings->store_local;
    target->open = settings->store_open;
    target->limits = msi_store_limits(settings);
    target->limits.max_items = target->limits.max_message = (size_t)settings->store_max_total;
    atomic_init(&target->n_places, 1);
    atomic_init(&target->place, 0);
    atomic_init(&target->dialect, -1);
    atomic_init(&target->identity, 0);
    atomic_init(&target->first_term, 0);
    atomic_init(&target->term, 0);
    atomic_init(&target->restoring, 0);
    atomic_init(&target->silent, false);
    atomic_init(&target->lost, false);
    return msi_auth_init(&target->auth, settings);
}

void msi_store_target_end(struct msi_store_target *target) {
    msi_auth_end(&target->auth);
}

void msi_store_target_add(struct msi_store_target *target, const struct msi_address *standby) {
    int n = atomic_load_explicit(&target->n_places, memory_order_relaxed);
    if (n == MSI_STORE_PLACES) return;
    for (int i = 0; i < n; i++)
        if (target->places[i].port == standby->port && !strcmp(target->places[i].host, standby->host)) return;
    target->places[n] = *standby;
    atomic_store_explicit(&target->n_places, n + 1,
                          memory_order_release); /* loaded by msi_store_target_has_next */
}

bool msi_store_target_has_next(const struct msi_store_target *target, int place) {
    return place + 1 < atomic_load_explicit(&target->n_places, memory_order_acquire);
}

const struct msi_address *msi_store_target_address(struct msi_store_target *target) {
    return &target->places[atomic_load_explicit(&target->place, memory_order_relaxed)];
}

mst_status msi_store_fail_lost(struct msi_store_target *target, const char *why) {
    char where[MSI_ADDRESS_TEXT_MAX];
    msi_address_format(msi_store_target_address(target), where);
    /* Stored before lost; only chooses the text. */
    if (atomic_load_explicit(&target->silent, memory_order_relaxed))
        return msi_fail(MST_ERR_STORE_LOST, "check that host and the network",
                        "lost the store at %s: its host does not answer", where);
    return msi_fail(MST_ERR_STORE_LOST,
                    "see the log of the process that hosts it: it ended, or it closed this connection",
                    "lost the store at %s (%s)", where, why);
}
