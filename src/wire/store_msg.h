/*
 * store_msg.h - the messages of the TCP store: PyTorch's TCPStore protocol, and muster's own additions to it.
 *
 * One table describes every operation: its opcode in each dialect and the fields of its request and reply.
 * Encoder, scanner and decoder follow the table. Pure.
 *
 *   dialect A   PyTorch 1.13: no handshake.
 *   dialect C   PyTorch 2.2 and later: the connection begins with VALIDATE; later versions only add
 *               operations.
 *   dialect M   muster to muster: a C connection that sent HELLO. The opcodes of C and some more. Every
 *               reply, also of operations without a reply in C, begins with a status byte; if that is 0, the
 *               reply of C follows.
 *
 * Letters of a signature:
 *   k  key: u64 length and bytes      v  value, likewise      i  i64      u  u32      c  one byte
 *   K  u64 n and n keys               P  i64 n and n pairs of key and value
 *   L  i64 n and n keys               V  as many values as the request named keys
 *   p  i64 and, if it is above 0, a value
 */
#ifndef MSI_WIRE_STORE_MSG_H
#define MSI_WIRE_STORE_MSG_H

#include "base/buf.h"
#include "base/str.h"

/* X(name, opcode in A, opcode in C and M, request, reply, may wait, once); -1: not in that dialect. Once: it
 * changes the store, and must not be executed again when a connection was lost before its reply arrived. */
#define MSI_STORE_OPS(X)                                                                                     \
    X(VALIDATE, -1, 0, "u", "", false, false)                                                                \
    X(SET, 0, 1, "kv", "", false, true)                                                                      \
    X(COMPARE_SET, 1, 2, "kvv", "v", false, true)                                                            \
    X(GET, 2, 3, "k", "v", false, false)                                                                     \
    X(ADD, 3, 4, "ki", "i", false, true)                                                                     \
    X(CHECK, 4, 5, "K", "c", false, false)                                                                   \
    X(WAIT, 5, 6, "K", "c", true, false)                                                                     \
    X(NUM_KEYS, 6, 7, "", "i", false, false)                                                                 \
    X(WATCH_KEY, 7, -1, "k", "c", false, false)                                                              \
    X(DELETE_KEY, 8, 8, "k", "i", false, true)                                                               \
    X(APPEND, -1, 9, "kv", "", false, true)                                                                  \
    X(MULTI_GET, -1, 10, "K", "V", false, false)                                                             \
    X(MULTI_SET, -1, 11, "P", "", false, true)                                                               \
    X(CANCEL_WAIT, -1, 12, "", "c", false, false)                                                            \
    X(PING, -1, 13, "u", "u", false, false)                                                                  \
    X(QUEUE_PUSH, -1, 14, "kv", "", false, true)                                                             \
    X(QUEUE_POP, -1, 15, "k", "p", false, true)                                                              \
    X(QUEUE_LEN, -1, 16, "k", "i", false, false)                                                             \
    X(LIST_KEYS, -1, 17, "", "L", false, false)                                                              \
    X(BARRIER, -1, 18, "ki", "c", true, true)                                                                \
    X(HELLO, -1, 64, "i", "i", false, false)                                                                 \
    X(ON_DISCONNECT, -1, 65, "kvv", "", false, false)                                                        \
    X(GUARD, -1, 66, "ki", "", false, false)                                                                 \
    X(WAIT_GET, -1, 67, "K", "V", true, false)                                                               \
    X(SESSION, -1, 68, "ki", "", false, false)                                                               \
    X(BATCH, -1, 69, "i", "", false, false)                                                                  \
    X(REPLICATE, -1, 70, "", "", false, false)                                                               \
    X(RECORD, -1, 71, "v", "", false, false)                                                                 \
    X(FINISH, -1, 72, "", "", false, false)
/*
 * HELLO          begins dialect M. Both numbers are the server's identity; the client's is 0 while it does
 *                not know it. The last byte of the reply is the term: how often a standby has taken over. A
 *                server that is not the one meant answers MST_ERR_STORE_ENDED and nothing else
 *                on that connection.
 * ON_DISCONNECT  append the value to the key when this connection ends; a later one replaces it, an empty one
 *                removes it. The second value, if not empty, replaces the first if the client's host does not
 *                answer any more.
 * GUARD          the next request that waits fails with MST_ERR_PEER_LOST once the key's value is longer than
 *                the number.
 * WAIT_GET       WAIT and MULTI_GET in one.
 * SESSION        follows HELLO: names the connection by a random key. A client whose connection was lost
 *                opens another one with the same key. It continues the first one: the server has kept its
 *                on_disconnect value and the replies of its last batch. MST_ERR_NOT_FOUND: the session should
 *                exist and does not. MST_ERR_STATE: it cannot be continued. The connection ends then.
 * BATCH          has no reply, and begins a number of requests that are executed once. With the same number
 *                again, those that were executed are answered as before. The number 0 ends the session.
 * REPLICATE      this connection becomes the stream to a standby server. After its reply the server sends
 *                requests that make the standby's state equal to its own, HELLO with its identity, and then
 *                every request that changes the state. SESSION tells whose request follows. See
 *                store/server_replica.c. Clients do not send what follows.
 * RECORD         the replies of the session's batch, as far as it was executed.
 * FINISH         the server ends in order, and so does its standby.
 */

#define MSI_STORE_OP_ID(name, a, c, request, reply, waits, once) MSI_OP_##name,
enum msi_store_op { MSI_STORE_OPS(MSI_STORE_OP_ID) MSI_OP_COUNT };
#undef MSI_STORE_OP_ID

enum msi_dialect { MSI_DIALECT_A, MSI_DIALECT_C, MSI_DIALECT_M };

#define MSI_STORE_MAGIC 0x3C85F7CEu
/* Every muster server reports that this key exists; clients detect it so. The number is the version of
 * dialect M: clients of another version use dialect C. */
#define MSI_STORE_MARK_KEY "\001muster/store/4"

struct msi_op_row {
    const char *name;
    int opcode[2]; /* by dialect A, and C or M */
    const char *request, *reply;
    bool waits, once;
};
enum { MSI_TERM_MASK = 0xFF };   /* of the number of HELLO; the rest is the identity */
enum { MSI_SESSION_BYTES = 16 }; /* of the key of SESSION */
/* The number of SESSION. */
enum { MSI_SESSION_NEW, MSI_SESSION_EXISTS, MSI_SESSION_MAY_EXIST };
/* The number of BATCH before the client closes the connection. */
enum { MSI_BATCH_LAST = 0 };
extern const struct msi_op_row msi_ops[MSI_OP_COUNT];

struct msi_store_limits {
    size_t max_key, max_value; /* bytes of one */
    size_t max_items;          /* keys in one message */
    size_t max_message;        /* bytes of a whole message */
};

/* One request. The operation's signature tells which fields it uses. Views are borrowed. */
struct msi_store_req {
    enum msi_store_op op;
    struct msi_str key;
    struct msi_str value;   /* COMPARE_SET: the expected one */
    struct msi_str desired; /* COMPARE_SET; ON_DISCONNECT: the second one */
    int64_t number;         /* i or u */
    size_t n;               /* K, P */
    const struct msi_str *keys, *values;
};

/* The operation of an opcode in a dialect; MSI_OP_COUNT: none. */
enum msi_store_op msi_op_find(enum msi_dialect dialect, uint8_t opcode);

/* Appends a request; false if the dialect does not have the operation. */
bool msi_store_encode(struct msi_buf *out, enum msi_dialect dialect, const struct msi_store_req *req);

/* Finds the end of a message that arrives in pieces. Begin with a zeroed scan. */
enum msi_scan_result { MSI_SCAN_MORE, MSI_SCAN_DONE, MSI_SCAN_BAD };
struct msi_scan {
    size_t at;      /* bytes scanned; after DONE, the length of the message */
    size_t need;    /* after MORE: the number of bytes needed to continue */
    size_t field;   /* index into the signature */
    uint64_t items; /* strings left in the current list */
    bool in_list;
    const char *why; /* after BAD */
};

/* Scans the fields of a signature; n_values: the count of V. */
enum msi_scan_result msi_store_scan(struct msi_scan *scan, const char *signature, uint64_t n_values,
                                    const struct msi_store_limits *limits, const uint8_t *p, size_t n);

/* Scans and decodes a complete request without lists; its length, or 0: use msi_store_scan. */
size_t msi_store_read(enum msi_store_op op, const uint8_t *p, size_t n, const struct msi_store_limits *limits,
                      struct msi_store_req *req);

/* Decodes a request that msi_store_scan found complete. views: scratch memory for lists, kept by the
 * caller; false without memory. */
bool msi_store_decode(enum msi_store_op op, const uint8_t *p, size_t n, struct msi_buf *views,
                      struct msi_store_req *req);

#endif
