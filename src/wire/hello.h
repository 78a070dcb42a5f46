/*
 * hello.h - the handshake of a connection between two ranks. Pure codecs.
 *
 *   hello    36 bytes: u32 magic, u32 version, u64 world, u64 group, u32 from, u32 to, u16 channel, u8
 *            stream, u8 streams
 *   answer   one byte; after WELCOME the connection belongs to the group, after any other it is closed
 */
#ifndef MSI_WIRE_HELLO_H
#define MSI_WIRE_HELLO_H

#include <stddef.h>
#include <stdint.h>

enum { MSI_HELLO_BYTES = 36, MSI_HELLO_PROTOCOL = 2, MSI_HELLO_STREAMS_MOST = 16 };

struct msi_hello {
    uint64_t world; /* random for each world */
    uint64_t group;
    uint32_t from, to; /* ranks in the world */
    uint16_t channel;
    uint8_t stream;  /* index of the connection … */
    uint8_t streams; /* … and number of connections of the channel */
};

/* X(number, name, text). No hello begins with one of these numbers: a socket may be connected to itself. */
#define MSI_HELLO_ANSWERS(X)                                                                                 \
    X(1, WELCOME, "welcome")                                                                                 \
    X(2, MALFORMED, "it does not recognise a muster connection")                                             \
    X(3, VERSION, "it uses another version of the protocol")                                                 \
    X(4, WORLD, "it belongs to another world")                                                               \
    X(5, RANK, "it is another rank, or it does not know this rank")                                          \
    X(6, BUSY, "it has too many pending connections")

#define MSI_HELLO_ANSWER_ID(number, name, text) MSI_HELLO_##name = (number),
enum msi_hello_answer { MSI_HELLO_ANSWERS(MSI_HELLO_ANSWER_ID) };
#undef MSI_HELLO_ANSWER_ID

void msi_hello_write(const struct msi_hello *hello, uint8_t out[MSI_HELLO_BYTES]);

/* WELCOME if the bytes are a hello; else MALFORMED or VERSION, and *hello is unchanged. */
enum msi_hello_answer msi_hello_read(const void *bytes, size_t n, struct msi_hello *hello);

/* The answer of a rank to a hello. */
enum msi_hello_answer msi_hello_judge(const struct msi_hello *hello, uint64_t world, uint32_t rank,
                                      uint32_t size);

/* The text of an answer for messages; never NULL. */
const char *msi_hello_answer_text(unsigned answer);

#endif
