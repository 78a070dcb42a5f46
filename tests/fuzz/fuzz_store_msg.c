/*
 * fuzz_store_msg.c - the store's messages. Input: a byte for the dialect and the size of pieces, then
 * messages, one behind the other. Whatever comes, scanning in pieces and at once must agree, and what is
 * taken for a request must give the same bytes again.
 */
#include "wire/store_msg.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct msi_store_limits limits = {
    .max_key = 256, .max_value = 4096, .max_items = 64, .max_message = 8192};

/* Scans as the bytes come in, step by step; how long the message is goes into *length. */
static enum msi_scan_result scan_in_pieces(const char *signature, uint64_t n_values, const uint8_t *p,
                                           size_t n, size_t step, size_t *length) {
    struct msi_scan scan = {.at = 1};
    for (size_t have = 1;; have = n - have < step ? n : have + step) {
        enum msi_scan_result got = msi_store_scan(&scan, signature, n_values, &limits, p, have);
        if (got == MSI_SCAN_BAD) assert(scan.why);
        if (got == MSI_SCAN_MORE) assert(scan.need > have && scan.need <= limits.max_message);
        *length = scan.at;
        if (got != MSI_SCAN_MORE || have == n) return got;
    }
}

static void check_same_bytes(enum msi_dialect dialect, const struct msi_store_req *req, const uint8_t *p,
                             size_t length) {
    struct msi_buf again = {0};
    assert(msi_store_encode(&again, dialect, req));
    assert(again.len == length && !memcmp(again.data, p, length));
    msi_buf_free(&again);
}

/* One message at p; its length, or 0 if it is bad or incomplete. */
static size_t take(enum msi_dialect dialect, const uint8_t *p, size_t n, size_t step, struct msi_buf *views) {
    enum msi_store_op op = msi_op_find(dialect, p[0]);
    size_t at_once, in_pieces;
    if (op == MSI_OP_COUNT) return 0;
    const char *fields = msi_ops[op].request;
    enum msi_scan_result got = scan_in_pieces(fields, 0, p, n, n, &at_once);
    enum msi_scan_result again = scan_in_pieces(fields, 0, p, n, step, &in_pieces);
    assert(got == again);
    struct msi_store_req req;
    if (got != MSI_SCAN_DONE) {
        msi_store_decode(op, p + 1, n - 1, views,
                         &req); /* must not read past the end without a scan either */
        return 0;
    }
    assert(at_once == in_pieces && at_once <= n);
    assert(msi_store_decode(op, p + 1, at_once - 1, views, &req));
    check_same_bytes(dialect, &req, p, at_once);
    return at_once;
}

/* The same bytes as a reply of each shape. */
static void scan_replies(const uint8_t *p, size_t n, size_t step) {
    for (int op = 0; op < MSI_OP_COUNT; op++) {
        size_t at_once, in_pieces;
        enum msi_scan_result got = scan_in_pieces(msi_ops[op].reply, p[0] % 8, p, n, n, &at_once);
        enum msi_scan_result again = scan_in_pieces(msi_ops[op].reply, p[0] % 8, p, n, step, &in_pieces);
        assert(got == again);
        if (got == MSI_SCAN_DONE) assert(at_once == in_pieces && at_once <= n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    struct msi_buf views = {0};
    enum msi_dialect dialect = (enum msi_dialect)(data[0] % 3);
    size_t step = 1 + data[0] / 3 % 16;
    scan_replies(data + 1, size - 1, step);
    for (size_t at = 1, length; at < size; at += length) {
        length = take(dialect, data + at, size - at, step, &views);
        if (length == 0) break;
    }
    msi_buf_free(&views);
    return 0;
}
