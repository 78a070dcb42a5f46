/*
 * fuzz_prof_config.c - configurations of the comms logger. What is taken has names within their limits; what
 * is refused leaves the configuration alone.
 */
#include "prof/record/config.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_prof_config config, untouched;
    memset(&config, 0x5a, sizeof config);
    untouched = config;
    mst_status st = msi_prof_config_parse((const char *)data, size, "ds.json", &config);
    assert(st == MST_OK || st == MST_ERR_CONFIG);
    if (st != MST_OK) {
        assert(!memcmp(&config, &untouched, sizeof config));
        return 0;
    }
    assert(config.n_ops >= 0 && config.n_ops <= MSI_PROF_OPS_MOST);
    for (int i = 0; i < config.n_ops; i++)
        assert(config.ops[i][0] && memchr(config.ops[i], 0, MSI_PROF_NAME_MAX));
    return 0;
}
