/* fuzz_model.c - cost model files. Accepted values are within their limits; a rejected file leaves the
 * model unchanged. */
#include "coll/cost/model.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_model model, untouched;
    memset(&model, 0x5a, sizeof model);
    untouched = model;
    mst_status st = msi_model_parse((const char *)data, size, "model", &model);
    assert(st == MST_OK || st == MST_ERR_CONFIG);
    if (st != MST_OK) assert(!memcmp(&model, &untouched, sizeof model));
    for (int i = 0; i < MSI_COST_TERMS && st == MST_OK; i++)
        assert(isfinite(model.costs[i]) && model.costs[i] > 0 && model.costs[i] <= 60);
    if (st == MST_OK) assert(model.chunk <= 1 << 30);
    return 0;
}
