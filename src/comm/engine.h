/*
 * engine.h - the interface between a communicator and the engine that executes its operations.
 *
 * There are three engines: shared memory among the ranks of one host (engine/shm), plans over links between
 * hosts (engine/net), and loaded backends such as mpi, gloo and nccl (engine/module). group/ picks one when
 * it creates a communicator. comm/ knows this table only; an engine keeps its state behind comm->state, and
 * what it keeps for one operation behind work->state.
 *
 *  1. The engine borrows everything that it is passed. Buffers in an operation's description belong to the
 *     program until msi_comm_end has been called for the operation.
 *  2. Slots do not block unless they say so. They are called by one thread at a time: with the communicator's
 *     lock held once it has a thread, else by the only thread that uses it. A slot that has to ask the store
 *     lets go of the lock (msi_comm_unlock) and must expect that queues have changed when it has it again.
 *  3. A slot reports that an operation fails with msi_comm_fail, or as its comment says. Failing one
 *     operation normally ends the communicator (comm.h, rule 3).
 *  4. A slot that is marked optional may be NULL.
 */
#ifndef MSI_COMM_ENGINE_H
#define MSI_COMM_ENGINE_H

#include "comm/comm.h"

#include <poll.h>

/* The result of one step of an operation. */
enum msi_advance {
    MSI_BLOCKED, /* must wait for another rank */
    MSI_MOVED,
    MSI_DONE,
    MSI_FAILED, /* work->fault says how */
};

struct msi_engine {
    /* Bytes of state for the communicator and for one operation. Both are zeroed when they are allocated. */
    size_t (*state_bytes)(const struct msi_comm *comm);
    size_t (*op_bytes)(const struct msi_comm *comm);
    /* Sets up work->state once, when an operation is allocated; it is used for many operations. Optional. */
    void (*op_init)(struct mst_work *work);

    /*
     * Joins the ranks of the group, for the first operation that needs them. May block, at most until wait
     * ends; no lock is held. Is called again after it failed. On success comm->traits is filled in. Errors:
     * MST_ERR_STALLED, TIMEOUT, CANCELLED (not all ranks have arrived), PEER_LOST, MISMATCH, MEMORY, SYSTEM,
     * …
     */
    mst_status (*open)(struct msi_comm *comm, const struct mst_work *first, const struct msi_wait *wait);

    /* Frees what open has created. Drops operations that are under way. Is called once, also if open failed
     * or was never called. Must not wait for other ranks. */
    void (*close)(struct msi_comm *comm);

    /* Begins a message, before it is first advanced. If it fails, nothing has happened. Optional. */
    mst_status (*begin)(struct mst_work *work);

    /*
     * The fast path of a small blocking collective, which needs no operation; nothing else is under way.
     * suits_now tells whether a description suits it, but for its buffers. begin_now announces it; false:
     * nothing has happened, and it goes through the queue. finish_now spins for a moment; true: it is over.
     * Else resume makes the operation, whose description is complete, continue it, before it is queued. All
     * of them or none.
     */
    bool (*suits_now)(const struct msi_comm *comm, const struct msi_op *op);
    bool (*begin_now)(struct msi_comm *comm, const struct msi_op *op);
    bool (*finish_now)(struct msi_comm *comm, const struct msi_op *op);
    void (*resume)(struct mst_work *work);
    /* The same for a blocking message. False: nothing has happened. Optional. */
    bool (*message_now)(struct msi_comm *comm, struct msi_op *op);

    /*
     * The next collective was rejected because of its arguments: takes its number without moving data, now
     * or before the next operation, so that ranks that all reject a call stay in step. Is also called before
     * open. Optional: without it a rejected call ends the communicator.
     */
    void (*skip)(struct msi_comm *comm, const struct msi_op *op);

    /* Advances the operations under way and calls msi_comm_end for those that are over. True if anything
     * moved or ended. */
    bool (*progress)(struct msi_comm *comm);

    /* Does the collective still need something from that rank? */
    bool (*waits_for)(const struct mst_work *work, int rank);
    /* The ranks that have not reached the collective, as far as the engine knows: writes at most max and
     * returns how many there are. */
    int (*missing)(const struct mst_work *work, int *ranks, int max);
    /*
     * A rank whose process has ended although it had announced no failure, so that others may have
     * ended because of it; -1: none. Optional: for ranks that announce failures before they end.
     */
    int (*find_victim)(const struct msi_comm *comm);
    /* The global rank because of which the last call of a rank has failed, waits: or for which it waits, as
     * far as it has told this rank; -1: none. Optional. */
    int (*cause_of)(const struct msi_comm *comm, int rank, bool waits);
    /* Changes when ranks of this host fail or recover, perhaps in another group, so that the store knows
     * more. 0: none has. Optional. */
    uint64_t (*news)(const struct msi_comm *comm);
    /* Is that rank known to wait for others itself? Optional. */
    bool (*is_waiting)(const struct msi_comm *comm, int rank);
    /* What a rank called, if ranks disagree on the collective. Optional. */
    const struct msi_call_signature *(*signature_of)(const struct mst_work *work, int rank);

    /* Can bytes still arrive that a rank of another host sent before it left? If so, the rank counts as
     * lost when its connection ends. Optional. */
    bool (*may_arrive)(const struct mst_work *work, int rank);
    /* Has that rank destroyed the group? Optional. */
    bool (*has_left)(const struct msi_comm *comm, int rank);
    /* Has another rank announced that the group has failed? Then fails it here too and returns true.
     * Optional. */
    bool (*hear_failure)(struct msi_comm *comm);
    /* Has a rank from which the collective expects nothing called something else? Then sets work->fault.
     * Optional. */
    bool (*overhear)(struct mst_work *work);
    /* Does the operation need the store, because ranks that it needs have not found each other? Optional. */
    bool (*needs_store)(const struct mst_work *work);
    /* Accepts the links that other ranks have offered meanwhile. Called from time to time during a wait.
     * Optional. */
    void (*accept)(struct msi_comm *comm);
    /* The operation has failed here: tells the other ranks. Optional; failures also go through the store
     * if traits.uses_store. */
    void (*announce_failure)(const struct mst_work *work);

    /* This rank aborts the group, as it has written to the store: tells the other ranks. Optional. */
    void (*announce_abort)(struct msi_comm *comm);

    /* Prepares a sleep: makes other ranks wake this one. False: this rank cannot sleep now. Optional. */
    bool (*sleep_begin)(struct msi_comm *comm, const struct mst_work *work);
    /* Writes the descriptors that end the sleep, at most traits.max_fds; returns how many. */
    int (*poll_fds)(struct msi_comm *comm, struct pollfd *fds);
    void (*sleep_end)(struct msi_comm *comm);
    /* Ends the sleep of the communicator's thread, because it has something new to wait for. Optional. */
    void (*wake)(struct msi_comm *comm);

    /* Fills in the profiler's record: backend, algorithm, time on the device. */
    void (*describe)(struct mst_work *work, struct msi_record *record);
    /* How many collectives have a number, or get one before the next operation begins. */
    uint64_t (*count)(const struct msi_comm *comm);

    /*
     * Optional: orders the operation on its stream. *enqueued true: it is there, and the communicator does
     * not use it any more; false: it goes through the queue. The communicator's thread is running.
     */
    mst_status (*enqueue)(struct mst_work *work, bool *enqueued);
    /* The communicator's thread has no operation: checks those on streams. False: there are none.
     * Optional. */
    bool (*watch_streams)(struct msi_comm *comm);
};

#endif
