/*
 * torch_model.h - a reference model of a server of PyTorch's TCPStore protocol, for fuzz_torch.c. It does
 * what the table of the protocol says with plain lists and no I/O, and shares neither the table of operations
 * nor the map of keys with the library. Input that exceeds a limit, or that no client sends, ends a
 * connection.
 *
 * The protocol leaves one thing open, which the model does as the server: clients whose wait ends with one
 * change continue in the order in which they began to wait.
 */
#ifndef MST_TESTS_TORCH_MODEL_H
#define MST_TESTS_TORCH_MODEL_H

#include "base/buf.h"

enum {
    MODEL_CONNECTIONS = 4,
    MODEL_KEY = 64, /* limits: bytes of a key and of a value, items of a list */
    MODEL_VALUE = 1024,
    MODEL_ITEMS = 16,
    MODEL_LISTS = 512, /* replies to LIST_KEYS in one out */
};

struct model_span {
    size_t at, len;
};

struct model_conn {
    struct msi_buf in, out;               /* out: what the client must receive; the caller drops it */
    struct model_span lists[MODEL_LISTS]; /* replies in out that list keys, which may have any order */
    size_t n_lists;
    bool known, newer;      /* its dialect: 2.2 or later, else 1.13 */
    bool ended;             /* the server has closed it */
    bool left;              /* it uses muster's own protocol now, which the model does not know */
    struct msi_buf missing; /* keys that it waits for */
    struct msi_str barrier;
    int64_t threshold;
    enum { RUNS, WAITS, ARRIVES, READY } state;
    unsigned long since; /* when the wait began */
    struct msi_buf watched;
};

struct model;

/* Fields of the request with an opcode: k key, v value, i i64, u u32, K keys, P pairs; NULL: none has it. */
const char *model_fields(bool newer, uint8_t opcode);

struct model *model_new(void);
void model_free(struct model *model);
struct model_conn *model_conn(struct model *model, int number);
/* The client sends some bytes. */
void model_send(struct model *model, int number, const void *p, size_t n);
/* The client closes its connection, and opens another one. */
void model_reopen(struct model *model, int number);

#endif
