/* torch_request.c - see torch_request.h. */
#include "torch_request.h"

enum { OLD_WATCH = 7, OLD_DELETE = 8 }; /* opcodes */

static const char *const fields[] = {
    [VALIDATE] = "u",  [SET] = "kv",      [COMPARE_SET] = "kvv", [GET] = "k",        [ADD] = "ki",
    [CHECK] = "K",     [WAIT] = "K",      [NUM_KEYS] = "",       [DELETE_KEY] = "k", [APPEND] = "kv",
    [MULTI_GET] = "K", [MULTI_SET] = "P", [CANCEL_WAIT] = "",    [PING] = "u",       [PUSH] = "kv",
    [POP] = "k",       [LENGTH] = "k",    [LIST_KEYS] = "",      [BARRIER] = "ki",   [WATCH_KEY] = "k",
};

int model_find_op(bool newer, uint8_t opcode) {
    if (newer) return opcode < WATCH_KEY ? opcode : NONE;
    if (opcode == OLD_WATCH) return WATCH_KEY;
    if (opcode == OLD_DELETE) return DELETE_KEY;
    return opcode < OLD_WATCH ? opcode + 1 : NONE;
}

const char *model_fields(bool newer, uint8_t opcode) {
    int op = model_find_op(newer, opcode);
    return op == NONE ? NULL : fields[op];
}

static enum model_parsed parse_str(struct msi_reader *r, size_t most, struct msi_str *s) {
    struct msi_reader length = *r;
    uint64_t n = msi_read_u64(&length);
    if (length.bad) return PARTIAL;
    if (n > most) return WRONG;
    *s = msi_read_str(r);
    return r->bad ? PARTIAL : WHOLE;
}

static enum model_parsed parse_list(struct msi_reader *r, bool pairs, struct request *req) {
    uint64_t n = msi_read_u64(r);
    enum model_parsed got = r->bad ? PARTIAL : n > MODEL_ITEMS ? WRONG : WHOLE;
    for (req->n = 0; got == WHOLE && req->n < n; req->n++) {
        got = parse_str(r, MODEL_KEY, &req->keys[req->n]);
        if (got == WHOLE && pairs) got = parse_str(r, MODEL_VALUE, &req->items[req->n]);
    }
    return got;
}

enum model_parsed model_parse(struct msi_reader *r, struct request *req) {
    enum model_parsed got = WHOLE;
    int values = 0;
    for (const char *f = fields[req->op]; *f && got == WHOLE; f++) {
        if (*f == 'k')
            got = parse_str(r, MODEL_KEY, &req->key);
        else if (*f == 'v')
            got = parse_str(r, MODEL_VALUE, &req->values[values++]);
        else if (*f == 'i')
            req->number = (int64_t)msi_read_u64(r);
        else if (*f == 'u')
            req->number = (int64_t)msi_read_u32(r);
        else
            got = parse_list(r, *f == 'P', req);
        if (got == WHOLE && r->bad) got = PARTIAL;
    }
    return got;
}
