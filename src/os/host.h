/* host.h - what this process can say about its machine: names, processors, network interfaces. */
#ifndef MSI_OS_HOST_H
#define MSI_OS_HOST_H

#include "base/address.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>

/* The host's name; returns out. */
const char *msi_host_name(char out[MSI_HOST_MAX]);

/*
 * A text that is the same for processes which may be able to share memory through /proc: same boot of the
 * same kernel, same process namespace, same user. Whether they really can is for a segment to prove. Returns
 * out.
 */
enum { MSI_HOST_KEY_MAX = 160 };
const char *msi_host_key(char out[MSI_HOST_KEY_MAX]);

/*
 * How often this process's line was forked since it first asked: a child finds another number than its parent. Cheaper than
 * getpid, which is a system call.
 */
int msi_forks(void);
/* The same for who has asked before, in line: every call does. Changed in a child only, before it has threads. */
__attribute__((visibility("hidden"))) extern int msi_forks_known;
/* This process's, without a system call. */
int msi_pid(void);

/* The instruction sets that matter to reductions, as "avx2 avx512f"; returns out. */
const char *msi_cpu_features(char *out, size_t size);
/* The processor's name, or its architecture; returns out. */
const char *msi_cpu_name(char *out, size_t size);

struct msi_netif {
    char name[32];
    char address[64];
    bool up, loopback, six;
};
/* At most max interfaces with their addresses; returns how many. */
int msi_netif_list(struct msi_netif *list, int max);

/* Does a name other than localhost, which means it, stand for nothing but loopback here? No other host can come there. */
bool msi_shm_is_hidden(const char *name);

/*
 * The address that other hosts shall use for this process: advertise if it is given, else that of the
 * interface ifname if it is given, else the one on the route to target (may be NULL), else that of the first
 * interface that is up. *why says which, for people. MST_ERR_CONFIG if ifname has no address here.
 */
mst_status msi_netif_choose(const char *advertise, const char *ifname, const struct msi_address *target,
                            char out[64], const char **why);

#endif
