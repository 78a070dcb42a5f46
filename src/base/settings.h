/*
 * settings.h - every MUSTER_* variable in one table, from which the struct, the parser, `muster info --env`
 * and the manual are made. The environment is read only while a world or a store is opened.
 */
#ifndef MSI_BASE_SETTINGS_H
#define MSI_BASE_SETTINGS_H

#include <muster/status.h>
#include <stddef.h>
#include <stdint.h>

/* X(field, name, kind, default, least, most, help); a number of kind SIZE may end in K, M or G; AUTO may
 * be "auto", which is 0. */
#define MSI_SETTINGS(X)                                                                                      \
    X(log, "MUSTER_LOG", TEXT, "warn", 0, 0,                                                                 \
      "Log level: off, error, warn, info or debug; per module as store=debug,warn.")                         \
    X(init_timeout_ms, "MUSTER_INIT_TIMEOUT_MS", NUMBER, "300000", 1, 86400000,                              \
      "Deadline for joining a world, in milliseconds.")                                                      \
    X(timeout_ms, "MUSTER_TIMEOUT_MS", NUMBER, "1800000", 1, 86400000,                                       \
      "Default deadline of every other wait, in milliseconds.")                                              \
    X(slow_s, "MUSTER_SLOW_S", NUMBER, "10", 0, 86400,                                                       \
      "Seconds after which a rank that waits for others writes one line with their names; 0: never.")        \
    X(spin_us, "MUSTER_SPIN_US", AUTO, "auto", 1, 1000000,                                                   \
      "Microseconds for which a thread that waits polls before it sleeps; auto: 2000, or none while other "  \
      "threads need its processor.")                                                                         \
    X(threads, "MUSTER_THREADS", AUTO, "auto", 1, 64,                                                        \
      "Threads with which a rank copies and reduces large tensors on its host; auto: up to 8, as far as "    \
      "the ranks leave processors idle.")                                                                    \
    X(cma, "MUSTER_CMA", NUMBER, "1", 0, 2,                                                                  \
      "Do ranks read large blocks of ranks of their host from the other process (process_vm_readv)? 0: "     \
      "never; 1: where that is measured to be faster; 2: wherever it is permitted.")                         \
    X(nt_stores, "MUSTER_NT_STORES", NUMBER, "1", 0, 2,                                                      \
      "Do ranks write large blocks past their caches (non-temporal stores of x86-64)? 0: never; 1: where "   \
      "that is measured to be faster; 2: always, except in reductions and in groups of more than 64 ranks.") \
    X(shm_bytes, "MUSTER_SHM_BYTES", SIZE, "8M", 2097152, 1099511627776,                                     \
      "Shared memory that a rank holds for the data of all its groups and messages on its host, in bytes, "  \
      "as far as calls under way allow.")                                                                    \
    X(join, "MUSTER_JOIN", NUMBER, "0", 0, 1,                                                                \
      "1: the process joins a world that runs already, when its ranks call mst_grow_world.")                 \
    X(discovery, "MUSTER_DISCOVERY", NUMBER, "1", 0, 1,                                                      \
      "1: rank and size come from the launcher; 0: only from RANK and WORLD_SIZE.")                          \
    X(socket_ifname, "MUSTER_SOCKET_IFNAME", TEXT, "", 0, 0,                                                 \
      "Network interface whose address other hosts use; default: the one on the route to the master.")       \
    X(advertise_addr, "MUSTER_ADVERTISE_ADDR", TEXT, "", 0, 0,                                               \
      "Address that other hosts use for this rank, if no interface has it (NAT).")                           \
    X(pmix_library, "MUSTER_PMIX_LIBRARY", TEXT, "libpmix.so.2", 0, 0,                                       \
      "PMIx library, with which ranks on several hosts find rank 0 if their launcher has it.")               \
    X(backend, "MUSTER_BACKEND", TEXT, "auto", 0, 0,                                                         \
      "Backend for operations: native, mpi, gloo, nccl, one for each memory as cpu:native,cuda:nccl, or "    \
      "auto.")                                                                                               \
    X(backend_path, "MUSTER_BACKEND_PATH", TEXT, "", 0, 0,                                                   \
      "Directories with backend modules, separated by colons, searched before the installed one.")           \
    X(force_fallback, "MUSTER_FORCE_FALLBACK", TEXT, "", 0, 0,                                               \
      "Operations, as reduce_scatter,gather, that are composed of others even if the backend has "           \
      "them.")                                                                                               \
    X(nccl_library, "MUSTER_NCCL_LIBRARY", TEXT, "libnccl.so.2", 0, 0, "NCCL library of the backend nccl.")  \
    X(cudart_library, "MUSTER_CUDART_LIBRARY", TEXT, "", 0, 0,                                               \
      "CUDA runtime library of the backend nccl; default: libcudart.so of version 13, 12 or 11.")            \
    X(cuda_device, "MUSTER_CUDA_DEVICE", TEXT, "", 0, 0,                                                     \
      "Device number; default: that of the first buffer, else the local rank.")                              \
    X(torch_cuda, "MUSTER_TORCH_CUDA", TEXT, "auto", 0, 0,                                                   \
      "How bindings/torch uses tensors on a GPU: auto, nccl or stage; see docs/torch.md.")                   \
    X(nccl_strict, "MUSTER_NCCL_STRICT", NUMBER, "0", 0, 1,                                                  \
      "1: MIN and MAX of floats and reductions of f8 on devices treat NaN and overflow like native, by "     \
      "composition; 0: as NCCL does.")                                                                       \
    X(nccl_share_gpu, "MUSTER_NCCL_SHARE_GPU", NUMBER, "0", 0, 1,                                            \
      "1: NCCL treats ranks that share a GPU as different hosts; slow, for tests.")                          \
    X(mpi, "MUSTER_MPI", TEXT, "", 0, 0,                                                                     \
      "MPI library of the backend mpi, openmpi or mpich; default: the program's or the launcher's.")         \
    X(mpi_blocking, "MUSTER_MPI_BLOCKING", NUMBER, "0", 0, 1,                                                \
      "1: the backend mpi waits inside MPI, which is faster but ignores deadlines and dead "                 \
      "ranks.")                                                                                              \
    X(mpi_limit, "MUSTER_MPI_LIMIT", NUMBER, "2147483647", 1, 2147483647,                                    \
      "Largest number of elements or bytes of one MPI call; the backend mpi splits larger operations.")      \
    X(check, "MUSTER_CHECK", NUMBER, "0", 0, 1,                                                              \
      "1: ranks wait for each other in every collective to compare their calls, which is slower; must "      \
      "be equal on all ranks. 0: native does so only in the first call of each signature.")                  \
    X(stage, "MUSTER_STAGE", NUMBER, "0", 0, 1,                                                              \
      "1: a backend for devices accepts host buffers and copies them; 0: it rejects them.")                  \
    X(algo, "MUSTER_ALGO", TEXT, "", 0, 0,                                                                   \
      "Algorithms between hosts, as all_reduce:ring,broadcast:tree; must be equal on all ranks.")            \
    X(model, "MUSTER_MODEL", TEXT, "", 0, 0,                                                                 \
      "Cost model for the choice of algorithms, written by `muster tune`; must be equal on all "             \
      "ranks.")                                                                                              \
    X(tcp_streams, "MUSTER_TCP_STREAMS", AUTO, "auto", 1, 16,                                                \
      "Connections between two ranks of different hosts; auto: 4, shared by a group's ranks on a host.")     \
    X(tcp_timeout_s, "MUSTER_TCP_TIMEOUT_S", NUMBER, "30", 3, 86400,                                         \
      "Seconds without an answer from another host after which its ranks, or the store, count as lost; "     \
      "must be equal on all ranks.")                                                                         \
    X(force_host, "MUSTER_FORCE_HOST", TEXT, "", 0, 0,                                                       \
      "Ranks with different values count as different hosts, even if they could share memory.")              \
    X(prof, "MUSTER_PROF", NUMBER, "0", 0, 1,                                                                \
      "1: record operations from the start, all or those that MUSTER_CONFIG names.")                         \
    X(config, "MUSTER_CONFIG", TEXT, "", 0, 0,                                                               \
      "DeepSpeed JSON file whose comms_logger selects the operations to record.")                            \
    X(trace, "MUSTER_TRACE", TEXT, "", 0, 0,                                                                 \
      "Directory for a trace of each rank, for `muster report` and Perfetto.")                               \
    X(flight, "MUSTER_FLIGHT", NUMBER, "1", 0, 1,                                                            \
      "1: keep the last 256 operations for failure reports (flight recorder); 0: none.")                     \
    X(secret_file, "MUSTER_SECRET_FILE", TEXT, "", 0, 0,                                                     \
      "File with the secret of the job, of mode 0600; default: the launcher's, else "                        \
      "~/.config/muster/secret.")                                                                            \
    X(auth_addresses, "MUSTER_AUTH_ADDRESSES", NUMBER, "1", 0, 1,                                            \
      "1: both ends of a connection must see the same addresses, so that nobody can relay it; 0: for "       \
      "networks that translate addresses (NAT); must be equal on all ranks.")                                \
    X(tls, "MUSTER_TLS", NUMBER, "0", 0, 1,                                                                  \
      "1: TLS 1.3 on connections to the store and between ranks, with a key from the secret or with "        \
      "certificates; must be equal on all ranks.")                                                           \
    X(tls_cert, "MUSTER_TLS_CERT", TEXT, "", 0, 0,                                                           \
      "File with this host's certificate and its chain (PEM); default: TLS uses the secret.")                \
    X(tls_key, "MUSTER_TLS_KEY", TEXT, "", 0, 0, "File with the private key of the certificate (PEM).")      \
    X(tls_ca, "MUSTER_TLS_CA", TEXT, "", 0, 0,                                                               \
      "File with the authorities that sign the certificates of all hosts (PEM).")                            \
    X(tls_name, "MUSTER_TLS_NAME", TEXT, "", 0, 0,                                                           \
      "Name that the certificates of all hosts must have; default: a client expects the name or the "        \
      "address that it connects to.")                                                                        \
    X(store_open, "MUSTER_STORE_OPEN", NUMBER, "0", 0, 1,                                                    \
      "1: the store serves clients without authentication, and clients do not authenticate to it, as "       \
      "with PyTorch's; 0: both ends must prove that they have the secret.")                                  \
    X(store_local, "MUSTER_STORE_LOCAL", NUMBER, "1", 0, 1,                                                  \
      "1: store clients on the server's host use a Unix socket instead of TCP; 0: TCP.")                     \
    X(store_standby, "MUSTER_STORE_STANDBY", NUMBER, "1", 0, 1,                                              \
      "1: if rank 0 hosts the store, another rank keeps a copy, and serves it if rank 0 is lost; 0: none.")  \
    X(store_max_key, "MUSTER_STORE_MAX_KEY", SIZE, "8K", 64, 1048576,                                        \
      "Longest key of the store server, in bytes.")                                                          \
    X(store_max_value, "MUSTER_STORE_MAX_VALUE", SIZE, "64M", 64, 4294967296,                                \
      "Longest value of the store server, in bytes.")                                                        \
    X(store_max_total, "MUSTER_STORE_MAX_TOTAL", SIZE, "1G", 65536, 1099511627776,                           \
      "Memory limit of the store server, for keys, values and unsent replies, in bytes.")                    \
    X(store_stall_ms, "MUSTER_STORE_STALL_MS", NUMBER, "30000", 10, 86400000,                                \
      "How long a store client may leave a message incomplete or a reply unread, in milliseconds.")          \
    X(store_linger_ms, "MUSTER_STORE_LINGER_MS", NUMBER, "30000", 0, 86400000,                               \
      "How long the rank that hosts the store waits at the end for other ranks to leave, in milliseconds.")

/* Set by a launcher for its ranks, not by users: auth/secret.h. */
#define MSI_SECRET_VARIABLE "MUSTER_SECRET_FD"

enum { MSI_SETTING_TEXT_MAX = 256 };
enum msi_setting_kind { MSI_SETTING_TEXT, MSI_SETTING_NUMBER, MSI_SETTING_SIZE, MSI_SETTING_AUTO };

typedef char msi_setting_TEXT[MSI_SETTING_TEXT_MAX];
typedef int64_t msi_setting_NUMBER;
typedef int64_t msi_setting_SIZE;
typedef int64_t msi_setting_AUTO;

#define MSI_SETTING_FIELD(field, name, kind, preset, least, most, help) msi_setting_##kind field;
struct msi_settings {
    MSI_SETTINGS(MSI_SETTING_FIELD)
};
#undef MSI_SETTING_FIELD

/* One row of the table. */
struct msi_setting_row {
    const char *name;
    enum msi_setting_kind kind;
    const char *preset;
    int64_t least, most;
    const char *help;
    size_t offset;
};
extern const struct msi_setting_row msi_setting_rows[];
extern const size_t msi_setting_count;

/*
 * Reads the settings from an environment (NULL: the process's) and sets the log levels. MST_ERR_CONFIG: a
 * malformed value. Warns once per process of each unknown MUSTER_* variable.
 */
mst_status msi_settings_load(struct msi_settings *settings, char *const *environment);

#endif
