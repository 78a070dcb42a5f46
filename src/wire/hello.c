/* hello.c - the handshake of a connection between two ranks. See hello.h. */
#include "wire/hello.h"
#include "wire/cursor.h"

#define MAGIC 0x4c54534du /* "MSTL" */

void msi_hello_write(const struct msi_hello *hello, uint8_t out[MSI_HELLO_BYTES]) {
    struct msi_buf to = {out, 0, MSI_HELLO_BYTES, false};
    msi_put_u32(&to, MAGIC);
    msi_put_u32(&to, MSI_HELLO_PROTOCOL);
    msi_put_u64(&to, hello->world);
    msi_put_u64(&to, hello->group);
    msi_put_u32(&to, hello->from);
    msi_put_u32(&to, hello->to);
    msi_put_uint(&to, hello->channel, 2);
    msi_buf_add_u8(&to, hello->stream);
    msi_buf_add_u8(&to, hello->streams);
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
#define TEXT(number, name, text) [number] = (text),
    static const char *const texts[] = {[0] = NULL, MSI_HELLO_ANSWERS(TEXT)};
    bool known = answer < sizeof texts / sizeof *texts && texts[answer];
    return known ? texts[answer] : "its answer is malformed";
}
