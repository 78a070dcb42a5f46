/* fuzz_pmi.c - lines of PMI. A field lies inside its line and holds no blank. */
#include "wire/pmi.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"cmd", "rc", "value", "kvsname", ""};
    struct msi_str line = msi_str(data, size);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct msi_str field = msi_pmi_field(line, names[i]);
        if (!field.p) continue;
        assert(field.p >= line.p && field.p + field.n <= line.p + line.n);
        assert(!field.n || !memchr(field.p, ' ', field.n));
    }
    if (msi_pmi_is(line, "get_result")) assert(line.n >= 14);
    msi_pmi_succeeded(line);
    return 0;
}
