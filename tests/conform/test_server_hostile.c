/*
 * test_server_hostile.c - hostile clients of the store server: broken, half, senseless and hostile bytes.
 * Each such connection ends with a logged reason; a client that behaves well notices nothing.
 */
#include "server_kit.h"

static struct served server;

static int start(void **state) {
    (void)state;
    server = SERVE("MUSTER_STORE_STALL_MS", "300");
    return 0;
}

static int stop(void **state) {
    (void)state;
    end_server(&server);
    return 0;
}

static void half_a_message_then_the_end(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    put_request(&out,
                (struct msi_store_req){.op = MSI_OP_SET, .key = msi_cstr("k"), .value = msi_cstr("value")});
    out.len -= 2;
    send_buf(fd, &out);
    close(fd);
    assert_logged(&server, "it closed the connection in the middle of a message");
    assert_serves_others(&server);
}

static void half_a_message_then_silence(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
    } parts[] = {
        {"\0", 1}, {"\0\xce\xf7\x85", 4}, {"\0\xce\xf7\x85\x3c\3\4\0\0", 9}, {"\3\2\0\0\0\0\0\0\0/k", 11}};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        int fd = connect_raw(&server);
        int64_t begin = msi_now();
        send_bytes(fd, parts[i].bytes, parts[i].n);
        assert_ended(fd);
        assert_in_range(ms_since(begin), 250, 10000);
        assert_serves_others(&server);
    }
    assert_logged(&server, "it sent only a part of a message");
}

static void a_silent_client_may_stay_and_speak_later(void **state) {
    (void)state;
    int silent = connect_raw(&server), idle = connect_c(&server), stalled = connect_raw(&server);
    send_bytes(stalled, "\0", 1);
    assert_ended(stalled); /* so that more than the patience of store_stall_ms has passed */
    assert_quiet(silent);
    assert_quiet(idle);
    send_bytes(silent, "\6", 1);
    send_bytes(idle, "\15\1\2\3\4", 5);
    receive(idle, "\1\2\3\4");
    char count[8];
    assert_int_equal(recv(silent, count, 8, MSG_WAITALL), 8);
    close(silent);
    close(idle);
}

static void a_slow_client_is_served_byte_by_byte(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_raw(&server);
    put_validate(&out);
    put_request(&out,
                (struct msi_store_req){.op = MSI_OP_SET, .key = msi_cstr("slow"), .value = msi_cstr("v")});
    put_request(&out, (struct msi_store_req){.op = MSI_OP_GET, .key = msi_cstr("slow")});
    for (size_t i = 0; i < out.len; i++) {
        send_bytes(fd, out.data + i, 1);
        if (i % 8 == 0) assert_serves_others(&server); /* takes a round trip: the byte has arrived alone */
    }
    receive(fd, "\1\0\0\0\0\0\0\0v");
    msi_buf_free(&out);
    close(fd);
}

/* Sends an opcode and up to two strings of which the last has the given length and no bytes. */
static void send_length(bool validate, uint8_t opcode, int strings_before, uint64_t length) {
    struct msi_buf out = {0};
    int fd = connect_raw(&server);
    if (validate) put_validate(&out);
    msi_buf_add_u8(&out, opcode);
    for (int i = 0; i < strings_before; i++) msi_put_str(&out, msi_cstr("k"));
    msi_put_u64(&out, length);
    send_buf(fd, &out);
    assert_ended(fd);
}

static void lengths_that_cannot_be(void **state) {
    (void)state;
    static const uint64_t lengths[] = {(uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 8, UINT64_MAX - 16,
                                       (64u << 20) + 1};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        send_length(false, 0, 0, lengths[i]); /* SET in A: key */
        send_length(false, 0, 1, lengths[i]); /* value */
        send_length(false, 5, 0, lengths[i]); /* WAIT in A: keys */
        send_length(true, 1, 1, lengths[i]);  /* SET */
        send_length(true, 2, 2, lengths[i]);  /* COMPARE_SET: desired */
        send_length(true, 6, 0, lengths[i]);  /* WAIT */
        send_length(true, 10, 0, lengths[i]); /* MULTI_GET */
        send_length(true, 11, 0, lengths[i]); /* MULTI_SET */
        send_length(true, 14, 1, lengths[i]); /* QUEUE_PUSH */
    }
    send_length(true, 3, 0, 8193);
    assert_logged(&server, "SET with a key beyond the limit");
    assert_logged(&server, "SET with a value beyond the limit");
    assert_logged(&server, "WAIT with more items than the limit");
}

static void operations_that_do_not_exist(void **state) {
    (void)state;
    for (int opcode = 0; opcode < 256; opcode++) {
        struct msi_buf out = {0};
        int fd;
        if (msi_op_find(MSI_DIALECT_A, (uint8_t)opcode) == MSI_OP_COUNT) {
            fd = connect_raw(&server);
            msi_buf_add_u8(&out, (uint8_t)opcode);
            send_buf(fd, &out);
            assert_ended(fd);
        }
        if (msi_op_find(MSI_DIALECT_C, (uint8_t)opcode) == MSI_OP_COUNT) {
            fd = connect_c(&server);
            msi_buf_add_u8(&out, (uint8_t)opcode);
            send_buf(fd, &out);
            assert_ended(fd);
        }
    }
    assert_logged(&server, ": 9 is not an operation of the store's protocol");
    assert_logged(&server, "further bad connections to the store are not logged");
}

static void a_wrong_validate(void **state) {
    (void)state;
    int fd = connect_c(&server);
    send_bytes(fd, "\0\xce\xf7\x85\x3c\15zzzz", 10); /* again, and right */
    receive(fd, "zzzz");
    send_bytes(fd, "\0\xce\xf7\x85\x3d\15zzzz", 10);
    assert_ended(fd);
    assert_logged(&server, "its VALIDATE has the wrong number");
    fd = connect_raw(&server);
    send_bytes(fd, "\0\1\0\0\0\15zzzz", 10); /* in dialect A the start of a key of 10^18 bytes */
    assert_ended(fd);
}

static void other_protocols(void **state) {
    (void)state;
    static const char *const greetings[] = {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                            "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02\x01\x01",
                                            "EHLO example.org\r\n", "*1\r\n$4\r\nPING\r\n"};
    for (size_t i = 0; i < COUNT_OF(greetings); i++) {
        int fd = connect_raw(&server);
        send_bytes(fd, greetings[i], strlen(greetings[i]));
        assert_ended(fd);
        assert_serves_others(&server);
    }
    assert_logged(&server, "71 is not an operation of the store's protocol");
}

static void requests_that_cannot_be_met(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    put_request(&out, (struct msi_store_req){.op = MSI_OP_GET, .key = msi_cstr("nowhere")});
    send_buf(fd, &out);
    assert_ended(fd);
    assert_logged(&server, "GET of 'nowhere': no such key");
    fd = connect_c(&server);
    put_request(&out,
                (struct msi_store_req){.op = MSI_OP_SET, .key = msi_cstr("w"), .value = msi_cstr("word")});
    put_request(&out, (struct msi_store_req){.op = MSI_OP_ADD, .key = msi_cstr("w"), .number = 1});
    send_buf(fd, &out);
    assert_ended(fd);
    assert_logged(&server, "ADD of 'w'");
}

static void numbers_at_the_edge(void **state) {
    (void)state;
    static const int64_t numbers[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        struct msi_buf out = {0};
        int fd = connect_c(&server);
        put_request(&out,
                    (struct msi_store_req){.op = MSI_OP_BARRIER, .key = msi_cstr("b"), .number = numbers[i]});
        send_buf(fd, &out);
        assert_serves_others(&server);
        close(fd);
    }
}

static void connections_that_come_and_go(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        int fd = connect_raw(&server);
        struct linger reset = {1, 0};
        if (i % 3 == 0) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        if (i % 2) send_bytes(fd, "\0\xce\xf7\x85\x3c", 5);
        close(fd);
        if (i % 200 == 0) assert_serves_others(&server);
    }
}

static uint32_t random_state = 20240607;
static uint32_t random_below(uint32_t n) {
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % n;
}

/* Bytes at random; half the time behind a proper opening and with small lengths, to get further in. */
static void put_garbage(struct msi_buf *out) {
    bool opened = random_below(2);
    if (opened) put_validate(out);
    for (uint32_t n = 1 + random_below(6); n; n--) {
        uint8_t byte = (uint8_t)random_below(opened ? 19 : 256);
        if (opened && random_below(4) == 0) msi_buf_add(out, "\100\1\0\0\0", 5); /* HELLO */
        msi_buf_add_u8(out, byte);
        for (uint32_t fields = random_below(4); fields; fields--) {
            uint32_t length = random_below(12);
            if (random_below(3)) msi_put_u64(out, random_below(20) ? length : UINT64_MAX >> random_below(64));
            for (uint32_t i = 0; i < length; i++) msi_buf_add_u8(out, (uint8_t)random_below(256));
        }
    }
}

static void ten_thousand_rounds_of_garbage(void **state) {
    (void)state;
    for (int i = 0; i < 10000; i++) {
        struct msi_buf out = {0};
        char replies[4096];
        int fd = connect_raw(&server);
        put_garbage(&out);
        size_t cut = random_below((uint32_t)out.len + 1);
        send(fd, out.data, cut, MSG_NOSIGNAL);
        if (random_below(8) == 0) recv(fd, replies, sizeof replies, MSG_DONTWAIT);
        send(fd, out.data + cut, out.len - cut, MSG_NOSIGNAL);
        msi_buf_free(&out);
        close(fd);
        if (i % 500 == 0) assert_serves_others(&server);
    }
}

int main(void) {
    alarm(110);
    signal(SIGPIPE, SIG_IGN);
#define with_server(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        with_server(half_a_message_then_the_end),
        with_server(half_a_message_then_silence),
        with_server(a_silent_client_may_stay_and_speak_later),
        with_server(a_slow_client_is_served_byte_by_byte),
        with_server(lengths_that_cannot_be),
        with_server(operations_that_do_not_exist),
        with_server(a_wrong_validate),
        with_server(other_protocols),
        with_server(requests_that_cannot_be_met),
        with_server(numbers_at_the_edge),
        with_server(connections_that_come_and_go),
        with_server(ten_thousand_rounds_of_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
