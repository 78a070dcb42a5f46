/*
 * settings.h - every MUSTER_* variable, in one table: it makes the struct, the parser, `muster info --env`
 * and the manual. The environment is read while a world or a store is opened and at no other time.
 */
#ifndef MSI_BASE_SETTINGS_H
#define MSI_BASE_SETTINGS_H

#include <muster/status.h>
#include <stddef.h>
#include <stdint.h>

/* X(field, name, kind, default, least, most, help); numbers of kind SIZE take a K, M or G behind them,
 * of kind AUTO the word auto instead, which is 0. */
#define MSI_SETTINGS(X)                                                                                      \
    X(log, "MUSTER_LOG", TEXT, "warn", 0, 0,                                                                 \
      "Log level: off, error, warn, info or debug; per room as store=debug,warn.")                           \
    X(init_timeout_ms, "MUSTER_INIT_TIMEOUT_MS", NUMBER, "300000", 1, 86400000,                              \
      "Deadline for joining a world, in milliseconds.")                                                      \
    X(timeout_ms, "MUSTER_TIMEOUT_MS", NUMBER, "1800000", 1, 86400000,                                       \
      "Default deadline of every other wait, in milliseconds.")                                              \
    X(discovery, "MUSTER_DISCOVERY", NUMBER, "1", 0, 1,                                                      \
      "1: rank and size are found from the launcher around a program; 0: from RANK and WORLD_SIZE alone.")   \
    X(socket_ifname, "MUSTER_SOCKET_IFNAME", TEXT, "", 0, 0,                                                 \
      "Network interface whose address other hosts shall use; default: the one on the route to the master.") \
    X(advertise_addr, "MUSTER_ADVERTISE_ADDR", TEXT, "", 0, 0,                                               \
      "Address that other hosts shall use for this rank, where no interface here has it (NAT).")             \
    X(pmix_library, "MUSTER_PMIX_LIBRARY", TEXT, "libpmix.so.2", 0, 0,                                       \
      "Library of PMIx, which ranks on several hosts ask where to meet if their launcher has it.")           \
    X(backend, "MUSTER_BACKEND", TEXT, "auto", 0, 0,                                                         \
      "Who executes operations: native, mpi, gloo, nccl, one for each memory as cpu:native,cuda:nccl, or "   \
      "auto.")                                                                                               \
    X(backend_path, "MUSTER_BACKEND_PATH", TEXT, "", 0, 0,                                                   \
      "Directories with modules of backends, separated by colons, before the one that muster came with.")    \
    X(force_fallback, "MUSTER_FORCE_FALLBACK", TEXT, "", 0, 0,                                               \
      "Kinds of operations, as reduce_scatter,gather, that shall be composed even where the backend has "    \
      "them.")                                                                                               \
    X(nccl_library, "MUSTER_NCCL_LIBRARY", TEXT, "libnccl.so.2", 0, 0,                                       \
      "Library of NCCL, for the backend nccl.")                                                              \
    X(cudart_library, "MUSTER_CUDART_LIBRARY", TEXT, "", 0, 0,                                               \
      "Library of the CUDA runtime, for the backend nccl; default: libcudart.so of version 13, 12 or 11.")   \
    X(cuda_device, "MUSTER_CUDA_DEVICE", TEXT, "", 0, 0,                                                     \
      "Number of the device that this rank uses; default: its local rank, modulo the number of devices.")    \
    X(nccl_strict, "MUSTER_NCCL_STRICT", NUMBER, "0", 0, 1,                                                  \
      "1: MIN and MAX of floats and reductions of f8 on devices treat NaN and overflow as native does, by "  \
      "composition; 0: as NCCL does.")                                                                       \
    X(nccl_share_gpu, "MUSTER_NCCL_SHARE_GPU", NUMBER, "0", 0, 1,                                            \
      "1: ranks that share a GPU are made hosts to NCCL, which then works, slowly: for tests.")              \
    X(mpi, "MUSTER_MPI", TEXT, "", 0, 0,                                                                     \
      "Which MPI the backend mpi shall use, openmpi or mpich; default: the program's or the launcher's.")    \
    X(mpi_blocking, "MUSTER_MPI_BLOCKING", NUMBER, "0", 0, 1,                                                \
      "1: the backend mpi waits inside of MPI, which is faster, but ends neither at deadlines nor at "       \
      "deaths.")                                                                                             \
    X(mpi_limit, "MUSTER_MPI_LIMIT", NUMBER, "2147483647", 1, 2147483647,                                    \
      "From how many elements or bytes on the backend mpi splits operations; smaller only in tests.")        \
    X(check, "MUSTER_CHECK", NUMBER, "0", 0, 1,                                                              \
      "1: ranks compare what they call before a backend's engine begins it, which takes longer; alike on "   \
      "all ranks. native always compares.")                                                                  \
    X(stage, "MUSTER_STAGE", NUMBER, "0", 0, 1,                                                              \
      "1: a backend for devices takes buffers of the host, through copies; 0: they are refused.")            \
    X(algo, "MUSTER_ALGO", TEXT, "", 0, 0,                                                                   \
      "Algorithms between hosts, as all_reduce:ring,broadcast:tree; alike on all ranks.")                    \
    X(model, "MUSTER_MODEL", TEXT, "", 0, 0,                                                                 \
      "File with the prices by which algorithms are chosen, as `muster tune` writes it; alike on all "       \
      "ranks.")                                                                                              \
    X(tcp_streams, "MUSTER_TCP_STREAMS", AUTO, "auto", 1, 16,                                                \
      "Connections between two ranks of different hosts, or auto: 4 shared by a group's ranks on a host.")   \
    X(force_host, "MUSTER_FORCE_HOST", TEXT, "", 0, 0,                                                       \
      "Ranks with different values count as ranks of different hosts, even where they share memory.")        \
    X(prof, "MUSTER_PROF", NUMBER, "0", 0, 1,                                                                \
      "1: operations are recorded until the program says otherwise, all or those that MUSTER_CONFIG names.") \
    X(config, "MUSTER_CONFIG", TEXT, "", 0, 0,                                                               \
      "File in DeepSpeed's JSON whose comms_logger says which operations are recorded.")                     \
    X(trace, "MUSTER_TRACE", TEXT, "", 0, 0,                                                                 \
      "Directory where each rank writes a trace of its operations, for `muster report` and Perfetto.")       \
    X(flight, "MUSTER_FLIGHT", NUMBER, "1", 0, 1,                                                            \
      "1: the last 256 operations are kept, for reports of failures; 0: none.")                              \
    X(store_local, "MUSTER_STORE_LOCAL", NUMBER, "1", 0, 1,                                                  \
      "1: store clients on the server's host use a Unix socket instead of TCP; 0: they do not.")             \
    X(store_max_key, "MUSTER_STORE_MAX_KEY", SIZE, "8K", 64, 1048576,                                        \
      "Longest key the store server takes, in bytes.")                                                       \
    X(store_max_value, "MUSTER_STORE_MAX_VALUE", SIZE, "64M", 64, 4294967296,                                \
      "Longest value the store server takes, in bytes.")                                                     \
    X(store_max_total, "MUSTER_STORE_MAX_TOTAL", SIZE, "1G", 65536, 1099511627776,                           \
      "Most bytes the store server keeps, in all keys, values and unsent replies.")                          \
    X(store_stall_ms, "MUSTER_STORE_STALL_MS", NUMBER, "30000", 10, 86400000,                                \
      "How long a store client may leave a message half sent or a reply unread, in milliseconds.")           \
    X(store_silence_s, "MUSTER_STORE_SILENCE_S", NUMBER, "30", 2, 86400,                                     \
      "After so many seconds without a sign of life a host counts as cut off from the store.")               \
    X(store_linger_ms, "MUSTER_STORE_LINGER_MS", NUMBER, "30000", 0, 86400000,                               \
      "How long the rank that hosts the store waits at its end for others to leave, in milliseconds.")

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

/* One row of the table, for those who show it. */
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
 * Reads the settings from an environment (NULL: the process's) and sets the log levels. A malformed value is
 * MST_ERR_CONFIG; each MUSTER_* variable that no row has gets a warning, once per process.
 */
mst_status msi_settings_load(struct msi_settings *settings, char *const *environment);

#endif
