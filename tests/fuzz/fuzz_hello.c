/* fuzz_hello.c - the first words on a connection. What is read as a hello must give the same bytes again. */
#include "wire/hello.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_hello hello = {.world = 1, .from = 2}, untouched = hello;
    uint8_t again[MSI_HELLO_BYTES];
    enum msi_hello_answer got = msi_hello_read(data, size, &hello);
    assert(msi_hello_answer_text(got));
    if (got != MSI_HELLO_WELCOME) {
        assert(got == MSI_HELLO_MALFORMED || got == MSI_HELLO_VERSION);
        assert(!memcmp(&hello, &untouched, sizeof hello));
        return 0;
    }
    assert(size == MSI_HELLO_BYTES && hello.stream < hello.streams);
    msi_hello_write(&hello, again);
    assert(!memcmp(again, data, size));
    enum msi_hello_answer verdict = msi_hello_judge(&hello, 7, 1, 4);
    assert((verdict == MSI_HELLO_WELCOME) == (hello.world == 7 && hello.to == 1 && hello.from < 4));
    return 0;
}
