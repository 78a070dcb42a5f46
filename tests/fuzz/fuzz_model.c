/* fuzz_model.c - files of prices. What is taken is within its limits; what is refused leaves the model alone. */
#include "coll/cost/model.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_model model, untouched;
    memset(&model, 0x5a, sizeof model);
    untouched = model;
    mst_status st = msi_model_parse((const char *)data, size, "prices", &model);
    assert(st == MST_OK || st == MST_ERR_CONFIG);
    if (st != MST_OK) assert(!memcmp(&model, &untouched, sizeof model));
    for (int i = 0; i < MSI_PRICES && st == MST_OK; i++)
        assert(isfinite(model.prices[i]) && model.prices[i] > 0 && model.prices[i] <= 60);
    if (st == MST_OK) assert(model.chunk <= 1 << 30);
    return 0;
}
