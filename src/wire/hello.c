/* hello.c - the handshake of a connection between two ranks. See hello.h. */
#include "wire/hello.h"
#include "wire/cursor.h"

#define MAGIC 0x4c54534du /* "MSTL" */

static uint8_t *put(uint8_t *p, uint64_t value, size_t bytes) {
    value = htole64(value);
    memcpy(p, &value, bytes);
    return p + bytes;
}

void msi_hello_write(const struct msi_hello *hello, uint8_t out[MSI_HELLO_BYTES]) {
    uint8_t *p = put(out, MAGIC, 4);
    p = put(p, MSI_HELLO_PROTOCOL, 4);
    p = put(p, hello->world, 8);
    p = put(p, hello->group, 8);
    p = put(p, hello->from, 4);
    p = put(p, hello->to, 4);
    p = put(p, hello->channel, 2);
    p = put(p, hello->stream, 1);
    put(p, hello->streams, 1);
}

enum msi_hello_answer msi_hello_read(const void *bytes, size_t n, struct msi_hello *hello) {
    struct msi_reader r = msi_reader(bytes, n);
    if (n != MSI_HELLO_BYTES || msi_read_u32(&r) != MAGIC) return MSI_HELLO_MALFORMED;
    if (msi_read_u32(&r) != MSI_HELLO_PROTOCOL) return MSI_HELLO_VERSION;
    struct msi_hello read;
    read.world = msi_read_u64(&r);
    read.group = msi_read_u64(&r);
    read.from = msi_read_u32(&r);
    read.to = msi_read_u32(&r);
    read.channel = (uint16_t)msi_read_uint(&r, 2);
    read.stream = msi_read_u8(&r);
    read.streams = msi_read_u8(&r);
    if (read.stream >= read.streams || read.streams > MSI_HELLO_STREAMS_MOST) return MSI_HELLO_MALFORMED;
    *hello = read;
    return MSI_HELLO_WELCOME;
}

enum msi_hello_answer msi_hello_judge(const struct msi_hello *hello, uint64_t world, uint32_t rank,
                                      uint32_t size) {
    if (hello->world != world) return MSI_HELLO_WORLD;
    return hello->to == rank && hello->from < size ? MSI_HELLO_WELCOME : MSI_HELLO_RANK;
}

const char *msi_hello_answer_text(unsigned answer) {
    switch (answer) {
#define MSI_HELLO_ANSWER_TEXT(number, name, text)                                                            \
    case number:                                                                                             \
        return text;
        MSI_HELLO_ANSWERS(MSI_HELLO_ANSWER_TEXT)
#undef MSI_HELLO_ANSWER_TEXT
    default:
        return "its answer is malformed";
    }
}
