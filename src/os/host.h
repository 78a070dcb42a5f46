/* host.h - this machine: names, processors, network interfaces. */
#ifndef MSI_OS_HOST_H
#define MSI_OS_HOST_H

#include "base/address.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>

/* The host's name; returns out. */
const char *msi_host_name(char out[MSI_HOST_MAX]);

/*
 * A text that is equal in processes that may be able to share memory through /proc: same boot, same pid
 * namespace, same user. Mapping a segment proves it. Returns out.
 */
enum { MSI_HOST_KEY_MAX = 160 };
const char *msi_host_key(char out[MSI_HOST_KEY_MAX]);

/* The number of forks since the first call: differs in a child. Cheaper than getpid. */
int msi_forks(void);
/* The same without a call, valid after msi_forks(). Changes only in a child, before it has threads. */
__attribute__((visibility("hidden"))) extern int msi_forks_known;
/* A random number of this process, which its forks do not share. */
uint64_t msi_process_token(void);
/* The process id, without a system call. */
int msi_pid(void);

/* Is the process of this host stopped by a signal or a debugger? */
bool msi_process_is_stopped(int pid);

/* The instruction sets that reductions use, as "avx2 avx512f"; returns out. */
const char *msi_cpu_features(char *out, size_t size);
/* The processor's name, or its architecture; returns out. */
const char *msi_cpu_name(char *out, size_t size);

struct msi_netif {
    char name[32];
    char address[64];
    bool up, loopback, six;
};
/* Lists at most max interfaces with their addresses; returns their number. */
int msi_netif_list(struct msi_netif *list, int max);

/* Lists at most most TCP addresses that a process of this user listens on, as "host:port"; returns their
 * number. */
enum { MSI_LISTENING_TEXT = 64 };
int msi_listening_list(int pid, char (*list)[MSI_LISTENING_TEXT], int most);

/* Does a name other than localhost resolve to loopback addresses only? Other hosts cannot reach it. */
bool msi_host_is_loopback(const char *name);

/*
 * The address that other hosts use for this process: advertise, else that of the interface ifname, else the
 * one on the route to target (may be NULL), else that of the first interface that is up. *why names the
 * choice for messages. MST_ERR_CONFIG: ifname has no address.
 */
mst_status msi_netif_choose(const char *advertise, const char *ifname, const struct msi_address *target,
                            char out[64], const char **why);

#endif
