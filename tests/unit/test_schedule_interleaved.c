/* test_schedule_interleaved.c - several chunks on each stage: right, as quick as the formula says, and in
 * Megatron's order. */
#include "schedule_kit.h"

static void one_and_two_chunks(void **state) {
    (void)state;
    sweep(MSI_INTERLEAVED, 1);
    sweep(MSI_INTERLEAVED, 2);
}

static void three_chunks(void **state) {
    (void)state;
    sweep(MSI_INTERLEAVED, 3);
}

static void four_chunks(void **state) {
    (void)state;
    sweep(MSI_INTERLEAVED, 4);
}

/* Megatron finds chunk and micro-batch of the k-th forward by division; so where its condition holds, this
 * must be the same. */
static bool is_megatrons(const struct msi_schedule *s, int stage) {
    int p = s->spec.stages, v = s->spec.chunks, m = s->spec.micros, total = m * v, k[2] = {0, 0}, n = 0;
    int warm_up = (p - stage - 1) * 2 + (v - 1) * p;
    if (warm_up > total) warm_up = total;
    for (uint32_t i = 0; i < s->stages[stage].n; i++) {
        const struct msi_action *a = &s->stages[stage].actions[i];
        if (a->kind == MSI_ACT_RECEIVE || a->kind == MSI_ACT_SEND) continue;
        bool backward = a->kind == MSI_ACT_BACKWARD;
        bool steady = n >= warm_up && n < 2 * total - warm_up;
        bool expected = steady ? (n - warm_up) % 2 : n >= warm_up;
        int at = k[backward]++, chunk = at % (p * v) / p;
        if (backward) chunk = v - 1 - chunk;
        if (backward != expected || a->chunk != chunk || a->micro != at / (p * v) * p + at % p) return false;
        n++;
    }
    return n == 2 * total;
}

static void interleaved_is_megatrons(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    for (int p = 2; p <= 16; p++)
        for (int m = p; m <= 64; m += p)
            for (int v = 2; v <= 4; v++) {
                struct msi_schedule_spec spec = {
                    .kind = MSI_INTERLEAVED, .stages = p, .micros = m, .chunks = v};
                assert_ok(msi_schedule_make(&spec, &s));
                for (int stage = 0; stage < p; stage++) assert_true(is_megatrons(&s, stage));
            }
    msi_schedule_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_and_two_chunks),
        cmocka_unit_test(three_chunks),
        cmocka_unit_test(four_chunks),
        cmocka_unit_test(interleaved_is_megatrons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
