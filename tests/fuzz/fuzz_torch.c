/*
 * fuzz_torch.c - compares the store server with a model of PyTorch's protocol (torch_model.h), in both
 * dialects: every connection must receive the bytes that the model says, and end when the model says so.
 *
 * Input: items. The lowest bits of the first byte are the connection, the next two what is sent, and the
 * upper four where it is cut into two pieces (0: not at all).
 *
 *   RAW       u8 n and n bytes. The seeds torch_* are recorded conversations in this form.
 *   REQUEST   an opcode; its top bit opens a new connection with VALIDATE, the next one alters a byte, which
 *             two bytes name and change. Then its fields in a short form.
 *   HELD      a request that is sent together with the next one of the connection.
 *   REOPEN    the client closes the connection and opens another one.
 */
#include "server_rig.h"
#include "torch_model.h"
#include "wire/cursor.h"

#include <errno.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RAW, REQUEST, HELD, REOPEN };
enum { INPUT_MOST = 4096, TOTAL = 64 << 20, ROUNDS_MOST = 1000, ALTERED = 0x40, OPENS = 0x80 };

static const struct msi_store_limits limits = {
    .max_key = MODEL_KEY, .max_value = MODEL_VALUE, .max_items = MODEL_ITEMS, .max_message = 64 << 10};

struct client {
    int fd;
    bool ended;
    struct msi_buf held, got;
};

struct pair {
    struct msi_server *server;
    struct model *model;
    struct client clients[MODEL_CONNECTIONS];
};

static void receive(struct client *client) {
    uint8_t bytes[4096];
    ssize_t n;
    while ((n = recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        msi_buf_add(&client->got, bytes, (size_t)n);
    client->ended |= n == 0 || (errno != EAGAIN && errno != EINTR);
}

/* Both list the same keys. */
static void compare_lists(struct msi_str expected, struct msi_str got) {
    struct msi_reader wanted = msi_reader(expected.p, expected.n);
    msi_read_u64(&wanted);
    assert(!memcmp(expected.p, got.p, 8));
    while (wanted.left) {
        struct msi_str key = msi_read_str(&wanted);
        struct msi_reader r = msi_reader(got.p + 8, got.n - 8);
        bool found = false;
        while (r.left && !found) found = msi_str_equal(msi_read_str(&r), key);
        assert(found);
    }
}

static void compare(struct client *client, struct model_conn *expected) {
    assert(client->got.len == expected->out.len);
    for (size_t i = 0; i < expected->n_lists; i++) {
        struct model_span list = expected->lists[i];
        compare_lists(msi_str(expected->out.data + list.at, list.len),
                      msi_str(client->got.data + list.at, list.len));
        memcpy(client->got.data + list.at, expected->out.data + list.at, list.len);
    }
    assert(!client->got.len || !memcmp(client->got.data, expected->out.data, client->got.len));
    assert(client->ended == expected->ended);
    client->got.len = expected->out.len = expected->n_lists = 0;
}

/* Are there more bytes to come? */
static bool is_due(const struct pair *pair) {
    for (int i = 0; i < MODEL_CONNECTIONS; i++) {
        const struct model_conn *expected = model_conn(pair->model, i);
        const struct client *client = &pair->clients[i];
        if (client->got.len < expected->out.len || client->ended != expected->ended) return true;
    }
    return false;
}

/* The client sends a piece, and all receive their replies. False: it left the model. */
static bool deliver(struct pair *pair, int number, const uint8_t *p, size_t n) {
    struct client *client = &pair->clients[number];
    if (client->ended || n == 0) return true;
    ssize_t sent = send(client->fd, p, n, MSG_NOSIGNAL);
    assert(sent == (ssize_t)n);
    model_send(pair->model, number, p, n);
    for (int i = 0; i < MODEL_CONNECTIONS; i++)
        if (model_conn(pair->model, i)->left) return false;
    for (int round = 0; round == 0 || (is_due(pair) && round < ROUNDS_MOST); round++) {
        rig_round(pair->server);
        for (int i = 0; i < MODEL_CONNECTIONS; i++) receive(&pair->clients[i]);
    }
    for (int i = 0; i < MODEL_CONNECTIONS; i++) compare(&pair->clients[i], model_conn(pair->model, i));
    return true;
}

static void connect_client(struct pair *pair, int number) {
    pair->clients[number] = (struct client){.fd = rig_connect(pair->server)};
}

static void close_client(struct client *client) {
    close(client->fd);
    msi_buf_free(&client->held);
    msi_buf_free(&client->got);
}

static void reopen(struct pair *pair, int number) {
    size_t before = pair->server->n_conns;
    bool open = !pair->clients[number].ended;
    close_client(&pair->clients[number]);
    for (int i = 0; open && pair->server->n_conns == before && i < ROUNDS_MOST; i++) rig_round(pair->server);
    model_reopen(pair->model, number);
    connect_client(pair, number);
}

static void take_key(struct msi_reader *in, struct msi_buf *out) {
    static const char *const keys[] = {"/k", "/n", "init/", "", "/q", "/pfx/k", "\001muster/store/3", "/b"};
    msi_put_str(out, msi_cstr(keys[msi_read_u8(in) % 8]));
}

/* Up to n bytes, as many as are left. */
static struct msi_str take_bytes(struct msi_reader *in, size_t n) {
    if (n > in->left) n = in->left;
    const uint8_t *p = msi_read_bytes(in, n);
    return msi_str(p, p ? n : 0);
}

static void take_value(struct msi_reader *in, struct msi_buf *out) {
    msi_put_str(out, take_bytes(in, msi_read_u8(in) % 16));
}

static void take_list(struct msi_reader *in, struct msi_buf *out, bool pairs) {
    size_t n = msi_read_u8(in) % 8;
    msi_put_u64(out, n);
    for (size_t i = 0; i < n; i++) {
        take_key(in, out);
        if (pairs) take_value(in, out);
    }
}

/* A number is small, or the largest or least one. */
static void take_number(struct msi_reader *in, struct msi_buf *out) {
    int8_t n = (int8_t)msi_read_u8(in);
    msi_put_u64(out, (uint64_t)(n == INT8_MAX ? INT64_MAX : n == INT8_MIN ? INT64_MIN : n));
}

/* Appends a request to what the connection sends next. */
static void take_request(struct msi_reader *in, bool newer, uint8_t opcode, struct msi_buf *out) {
    size_t start = out->len;
    msi_buf_add_u8(out, opcode & 0x1F);
    const char *fields = model_fields(newer, opcode & 0x1F);
    for (const char *f = fields ? fields : ""; *f; f++) {
        if (*f == 'k')
            take_key(in, out);
        else if (*f == 'v')
            take_value(in, out);
        else if (*f == 'i')
            take_number(in, out);
        else if (*f == 'u')
            msi_put_u32(out, opcode & 0x1F ? msi_read_u8(in) : 0x3C85F7CE);
        else
            take_list(in, out, *f == 'P');
    }
    if (!(opcode & ALTERED)) return;
    size_t at = msi_read_u8(in);
    out->data[start + at % (out->len - start)] ^= msi_read_u8(in);
}

static void assemble(struct pair *pair, int number, struct msi_reader *in) {
    static const uint8_t opening[] = {0x00, 0xCE, 0xF7, 0x85, 0x3C};
    const struct model_conn *c = model_conn(pair->model, number);
    struct msi_buf *out = &pair->clients[number].held;
    uint8_t opcode = msi_read_u8(in);
    bool is_new = !c->known && c->in.len == 0 && out->len == 0;
    if (is_new && opcode & OPENS) msi_buf_add(out, opening, sizeof opening);
    bool newer = c->known ? c->newer : out->len && !memcmp(out->data, opening, 1);
    take_request(in, newer, opcode, out);
}

/* One item; false: the connection left the model. */
static bool take_item(struct pair *pair, struct msi_reader *in) {
    uint8_t head = msi_read_u8(in);
    int number = head % MODEL_CONNECTIONS, kind = head >> 2 & 3;
    struct client *client = &pair->clients[number];
    if (kind == REOPEN) {
        reopen(pair, number);
        return true;
    }
    if (kind == RAW) {
        struct msi_str bytes = take_bytes(in, msi_read_u8(in));
        msi_buf_add(&client->held, bytes.p, bytes.n);
    } else {
        assemble(pair, number, in);
    }
    if (kind == HELD || client->held.len == 0) return true;
    size_t n = client->held.len, cut = n * (head >> 4) / 16;
    bool stays = deliver(pair, number, client->held.data, cut) &&
                 deliver(pair, number, client->held.data + cut, n - cut);
    client->held.len = 0;
    return stays;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pair pair = {.server = rig_open(TOTAL, &limits), .model = model_new()};
    struct msi_reader in = msi_reader(data, size < INPUT_MOST ? size : INPUT_MOST);
    for (int i = 0; i < MODEL_CONNECTIONS; i++) connect_client(&pair, i);
    while (in.left && take_item(&pair, &in)) in.bad = false;
    for (int i = 0; i < MODEL_CONNECTIONS; i++) close_client(&pair.clients[i]);
    model_free(pair.model);
    rig_close(pair.server);
    return 0;
}
