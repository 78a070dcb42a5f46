/* torch_request.h - the requests of PyTorch's protocol, as the model of torch_model.h reads them. */
#ifndef MST_TESTS_TORCH_REQUEST_H
#define MST_TESTS_TORCH_REQUEST_H

#include "torch_model.h"
#include "wire/cursor.h"

/* By the numbers of the newer dialect. WATCH_KEY exists in the older one alone. */
enum {
    VALIDATE,
    SET,
    COMPARE_SET,
    GET,
    ADD,
    CHECK,
    WAIT,
    NUM_KEYS,
    DELETE_KEY,
    APPEND,
    MULTI_GET,
    MULTI_SET,
    CANCEL_WAIT,
    PING,
    PUSH,
    POP,
    LENGTH,
    LIST_KEYS,
    BARRIER,
    WATCH_KEY,
    NONE
};

struct request {
    int op;
    struct msi_str key, values[2];
    int64_t number;
    size_t n;
    struct msi_str keys[MODEL_ITEMS], items[MODEL_ITEMS];
};

enum model_parsed { WHOLE, PARTIAL, WRONG };

/* The operation of an opcode; NONE: there is none. */
int model_find_op(bool newer, uint8_t opcode);
/* Reads the fields of req->op, and moves the reader behind them. WRONG: one exceeds a limit. */
enum model_parsed model_parse(struct msi_reader *r, struct request *req);

#endif
