/* store_msg.c - encoding, scanning and decoding store messages by the table in store_msg.h. */
#include "wire/store_msg.h"
#include "wire/cursor.h"

#define ROW(name, a, c, request, reply, waits, once)                                                         \
    [MSI_OP_##name] = {#name, {a, c}, request, reply, waits, once},
const struct msi_op_row msi_ops[MSI_OP_COUNT] = {MSI_STORE_OPS(ROW)};

enum { FIRST_OWN_OPCODE = 64 };

static int opcode_of(enum msi_store_op op, enum msi_dialect dialect) {
    int opcode = msi_ops[op].opcode[dialect != MSI_DIALECT_A];
    bool own = opcode >= FIRST_OWN_OPCODE && op != MSI_OP_HELLO;
    return own && dialect != MSI_DIALECT_M ? -1 : opcode;
}

enum msi_store_op msi_op_find(enum msi_dialect dialect, uint8_t opcode) {
    enum msi_store_op guess = opcode + (dialect == MSI_DIALECT_A); /* right for common operations */
    if (guess < MSI_OP_WATCH_KEY && opcode_of(guess, dialect) == opcode) return guess;
    for (int op = 0; op < MSI_OP_COUNT; op++)
        if (opcode_of(op, dialect) == opcode) return op;
    return MSI_OP_COUNT;
}

static void encode_list(struct msi_buf *out, const struct msi_store_req *req, bool pairs) {
    msi_put_u64(out, req->n);
    for (size_t i = 0; i < req->n; i++) {
        msi_put_str(out, req->keys[i]);
        if (pairs) msi_put_str(out, req->values[i]);
    }
}

bool msi_store_encode(struct msi_buf *out, enum msi_dialect dialect, const struct msi_store_req *req) {
    int opcode = opcode_of(req->op, dialect);
    if (opcode < 0) return false;
    msi_buf_add_u8(out, (uint8_t)opcode);
    const struct msi_str *value = &req->value;
    for (const char *s = msi_ops[req->op].request; *s; s++) {
        switch (*s) {
        case 'k':
            msi_put_str(out, req->key);
            break;
        case 'v':
            msi_put_str(out, *value);
            value = &req->desired;
            break;
        case 'i':
            msi_put_u64(out, (uint64_t)req->number);
            break;
        case 'u':
            msi_put_u32(out, (uint32_t)req->number);
            break;
        default:
            encode_list(out, req, *s == 'P');
            break;
        }
    }
    return true;
}

static enum msi_scan_result bad(struct msi_scan *scan, const char *why) {
    scan->why = why;
    return MSI_SCAN_BAD;
}

/* Skips n bytes if they are available and within the limit of the message. */
static enum msi_scan_result pass(struct msi_scan *scan, uint64_t n, const struct msi_store_limits *limits,
                                 size_t have) {
    if (n > limits->max_message || scan->at > limits->max_message - n)
        return bad(scan, "a message beyond the limit");
    if (scan->at + n > have) {
        scan->need = scan->at + (size_t)n;
        return MSI_SCAN_MORE;
    }
    scan->at += (size_t)n;
    return MSI_SCAN_DONE;
}

static uint64_t u64_at(const uint8_t *p) {
    struct msi_reader r = msi_reader(p, 8);
    return msi_read_u64(&r);
}

static enum msi_scan_result scan_string(struct msi_scan *scan, bool key,
                                        const struct msi_store_limits *limits, const uint8_t *p, size_t n) {
    if (n - scan->at < 8) return pass(scan, 8, limits, n);
    uint64_t len = u64_at(p + scan->at);
    if (len > (key ? limits->max_key : limits->max_value))
        return bad(scan, key ? "a key beyond the limit" : "a value beyond the limit");
    return pass(scan, 8 + len, limits, n);
}

/* A list: reads the count once, then skips the strings one by one. */
static enum msi_scan_result scan_list(struct msi_scan *scan, char kind, uint64_t n_values,
                                      const struct msi_store_limits *limits, const uint8_t *p, size_t n) {
    if (!scan->in_list) {
        uint64_t count = n_values;
        if (kind != 'V') {
            enum msi_scan_result got = pass(scan, 8, limits, n);
            if (got != MSI_SCAN_DONE) return got;
            count = u64_at(p + scan->at - 8);
        }
        if (count > limits->max_items) return bad(scan, "more items than the limit");
        scan->items = kind == 'P' ? 2 * count : count;
        scan->in_list = true;
    }
    for (; scan->items; scan->items--) {
        bool key = kind == 'K' || kind == 'L' || (kind == 'P' && scan->items % 2 == 0);
        enum msi_scan_result got = scan_string(scan, key, limits, p, n);
        if (got != MSI_SCAN_DONE) return got;
    }
    scan->in_list = false;
    return MSI_SCAN_DONE;
}

/* A number, followed by a value if it is positive. */
static enum msi_scan_result scan_popped(struct msi_scan *scan, const struct msi_store_limits *limits,
                                        const uint8_t *p, size_t n) {
    size_t start = scan->at;
    enum msi_scan_result got = pass(scan, 8, limits, n);
    if (got == MSI_SCAN_DONE && (int64_t)u64_at(p + start) > 0) got = scan_string(scan, false, limits, p, n);
    if (got != MSI_SCAN_DONE) scan->at = start;
    return got;
}

enum msi_scan_result msi_store_scan(struct msi_scan *scan, const char *signature, uint64_t n_values,
                                    const struct msi_store_limits *limits, const uint8_t *p, size_t n) {
    for (char kind; (kind = signature[scan->field]); scan->field++) {
        enum msi_scan_result got;
        switch (kind) {
        case 'k':
        case 'v':
            got = scan_string(scan, kind == 'k', limits, p, n);
            break;
        case 'i':
            got = pass(scan, 8, limits, n);
            break;
        case 'u':
            got = pass(scan, 4, limits, n);
            break;
        case 'c':
            got = pass(scan, 1, limits, n);
            break;
        case 'p':
            got = scan_popped(scan, limits, p, n);
            break;
        default:
            got = scan_list(scan, kind, n_values, limits, p, n);
            break;
        }
        if (got != MSI_SCAN_DONE) return got;
    }
    return MSI_SCAN_DONE;
}

static bool decode_list(struct msi_reader *r, bool pairs, struct msi_buf *views, struct msi_store_req *req) {
    uint64_t count = msi_read_u64(r);
    size_t each = pairs ? 2 : 1;
    if (count > r->left / (8 * each)) r->bad = true;
    views->len = 0;
    /* One more than needed: an empty list needs an array too. */
    if (r->bad || !msi_buf_reserve(views, ((size_t)count * each + 1) * sizeof(struct msi_str))) return false;
    struct msi_str *keys = (struct msi_str *)(void *)views->data, *values = keys + count;
    for (size_t i = 0; i < count; i++) {
        keys[i] = msi_read_str(r);
        if (pairs) values[i] = msi_read_str(r);
    }
    req->n = (size_t)count;
    req->keys = keys;
    req->values = pairs ? values : NULL;
    return true;
}

/* Decodes the fields of an operation. views: as in msi_store_decode; NULL: fails if there is a list. */
static bool decode(enum msi_store_op op, struct msi_reader *r, struct msi_buf *views,
                   struct msi_store_req *req) {
    *req = (struct msi_store_req){.op = op};
    struct msi_str *value = &req->value;
    for (const char *s = msi_ops[op].request; *s && !r->bad; s++) {
        switch (*s) {
        case 'k':
            req->key = msi_read_str(r);
            break;
        case 'v':
            *value = msi_read_str(r);
            value = &req->desired;
            break;
        case 'i':
            req->number = (int64_t)msi_read_u64(r);
            break;
        case 'u':
            req->number = (int64_t)msi_read_u32(r);
            break;
        default:
            if (!views || !decode_list(r, *s == 'P', views, req)) return false;
        }
    }
    return !r->bad;
}

bool msi_store_decode(enum msi_store_op op, const uint8_t *p, size_t n, struct msi_buf *views,
                      struct msi_store_req *req) {
    struct msi_reader r = msi_reader(p, n);
    return decode(op, &r, views, req);
}

size_t msi_store_read(enum msi_store_op op, const uint8_t *p, size_t n, const struct msi_store_limits *limits,
                      struct msi_store_req *req) {
    struct msi_reader r = msi_reader(p + 1, n - 1);
    if (n > limits->max_message || !decode(op, &r, NULL, req)) return 0;
    bool fits = req->key.n <= limits->max_key && req->value.n <= limits->max_value &&
                req->desired.n <= limits->max_value;
    return fits ? n - r.left : 0;
}
