/* test_schedule.c - every schedule up to 16 stages and 64 micro-batches is right and takes as long as its formula says. */
#include "schedule_kit.h"

static int count_wrong(const struct msi_schedule_spec *spec, const char *what) {
    print_error("%s: %s\n", spec_words(spec), what);
    return 1;
}

/* The formula's time, whatever sends do: receives are posted early enough. */
static int times_wrong(const struct msi_schedule *s, double backward, struct msi_timing *timing, long *played) {
    static struct even_costs even;
    double formula = msi_schedule_formula(&s->spec, 1, backward);
    double work = (double)(msi_schedule_units(&s->spec) * (size_t)s->spec.chunks) *
                  (msi_schedule_trains(s->spec.kind) ? 1 + backward : 1);
    char text[100];
    set_even(&even, 1, backward);
    for (int sending = 0; sending < MSI_SENDINGS; sending++) {
        assert_ok(msi_schedule_time(s, (enum msi_sending)sending, &even.costs, timing));
        ++*played;
        bool same = fabs(timing->makespan - formula) < 1e-9 * formula &&
                    fabs(timing->bubble - (1 - work / formula)) < 1e-9;
        if (same) continue;
        snprintf(text, sizeof text, "sending %d: takes %g, not %g", sending, timing->makespan, formula);
        return count_wrong(&s->spec, text);
    }
    return 0;
}

static void look(const struct msi_schedule_spec *spec, struct seen *seen) {
    static struct msi_schedule schedule;
    static struct msi_timing timing;
    assert_ok(msi_schedule_make(spec, &schedule));
    seen->schedules++;
    for (int s = 0; s < schedule.spec.stages; s++) {
        const struct msi_stage_list *list = &schedule.stages[s];
        seen->actions += list->n;
        if (list->keeps != msi_schedule_keeps_bound(&schedule.spec, s))
            seen->wrong += count_wrong(&schedule.spec, "does not keep what it may");
    }
    if (msi_schedule_check(&schedule) != MST_OK) seen->wrong += count_wrong(&schedule.spec, mst_error());
    else {
        seen->played += MSI_SENDINGS;
        seen->wrong += times_wrong(&schedule, 2, &timing, &seen->played);
    }
    msi_schedule_free(&schedule);
    msi_timing_free(&timing);
}

static void sweep(int kind, int chunks) {
    struct seen seen = {0};
    char what[40];
    for (int stages = 1; stages <= 16; stages++)
        for (int micros = 1; micros <= 64 && seen.wrong < 20; micros++)
            look(&(struct msi_schedule_spec){.kind = kind, .stages = stages, .micros = micros, .chunks = chunks}, &seen);
    snprintf(what, sizeof what, "%s, %d chunk%s", msi_schedule_name(kind), chunks, chunks == 1 ? "" : "s");
    say_seen(what, &seen);
}

static void gpipe(void **state) {
    (void)state;
    sweep(MSI_GPIPE, 1);
}

static void one_forward_one_backward(void **state) {
    (void)state;
    sweep(MSI_1F1B, 1);
}

static void forward_all(void **state) {
    (void)state;
    sweep(MSI_FORWARD_ALL, 1);
}

static void interleaved(void **state) {
    (void)state;
    for (int chunks = 1; chunks <= 4; chunks++) sweep(MSI_INTERLEAVED, chunks);
}

static void stream(void **state) {
    (void)state;
    struct seen seen = {0};
    for (int stages = 1; stages <= 16; stages++)
        for (int micros = 1; micros <= 4; micros++)
            for (int inner = 1; inner <= 17; inner += inner < 4 ? 1 : 4)
                for (int batches = 1; batches <= 40; batches += batches < 4 ? 1 : 9)
                    for (int tokens = 1; tokens <= 5 && seen.wrong < 20; tokens += tokens < 3 ? 1 : 2)
                        look(&(struct msi_schedule_spec){.kind = MSI_STREAM,
                                                         .stages = stages,
                                                         .micros = micros,
                                                         .inner = inner,
                                                         .batches = batches,
                                                         .tokens = tokens},
                             &seen);
    say_seen("stream", &seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_all), cmocka_unit_test(gpipe),  cmocka_unit_test(one_forward_one_backward),
        cmocka_unit_test(interleaved), cmocka_unit_test(stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
