/* test_schedule_faults.c - a schedule that was tampered with is found out, and which action it was. */
#include "schedule_kit.h"

#include "pipeline/schedule/insert_messages.h"

static const struct msi_schedule_spec specs[] = {
    {.kind = MSI_GPIPE, .stages = 3, .micros = 3},
    {.kind = MSI_GPIPE, .stages = 1, .micros = 2},
    {.kind = MSI_1F1B, .stages = 4, .micros = 6},
    {.kind = MSI_1F1B, .stages = 2, .micros = 1},
    {.kind = MSI_INTERLEAVED, .stages = 3, .micros = 6, .chunks = 2},
    {.kind = MSI_INTERLEAVED, .stages = 2, .micros = 5, .chunks = 3},
    {.kind = MSI_INTERLEAVED, .stages = 1, .micros = 2, .chunks = 2},
    {.kind = MSI_STREAM, .stages = 3, .micros = 2, .inner = 2, .batches = 3, .tokens = 3},
    {.kind = MSI_STREAM, .stages = 1, .batches = 2, .tokens = 2},
    {.kind = MSI_FORWARD_ALL, .stages = 2, .micros = 3},
};

/* The same with space for one more action at each stage. */
static struct msi_schedule copy(const struct msi_schedule *s) {
    struct msi_schedule c = {s->spec, malloc((size_t)s->spec.stages * sizeof *c.stages)};
    assert_non_null(c.stages);
    for (int k = 0; k < s->spec.stages; k++) {
        c.stages[k] = s->stages[k];
        c.stages[k].actions = malloc((s->stages[k].n + 1) * sizeof *c.stages[k].actions);
        assert_non_null(c.stages[k].actions);
        memcpy(c.stages[k].actions, s->stages[k].actions, s->stages[k].n * sizeof *c.stages[k].actions);
    }
    return c;
}

static bool is_message(const struct msi_action *a) {
    return a->kind == MSI_ACT_SEND || a->kind == MSI_ACT_RECEIVE;
}

/* Indices still refer to the same actions; only that one is missing or doubled. */
static void shift(struct msi_stage_list *list, uint32_t from, int by) {
    for (uint32_t i = 0; i < list->n; i++) {
        struct msi_action *a = &list->actions[i];
        uint32_t *all[] = {&a->input, &a->output, &a->reuses, &a->forward};
        for (size_t k = 0; k < COUNT_OF(all); k++)
            if (*all[k] != MSI_NO_ACTION && *all[k] > from) *all[k] += (uint32_t)by;
    }
}

static void drop(struct msi_stage_list *list, uint32_t i) {
    memmove(&list->actions[i], &list->actions[i + 1], (--list->n - i) * sizeof *list->actions);
    shift(list, i, -1);
}

static void duplicate(struct msi_stage_list *list, uint32_t i) {
    memmove(&list->actions[i + 1], &list->actions[i], (list->n++ - i) * sizeof *list->actions);
    shift(list, i, 1);
}

static void exchange(struct msi_stage_list *list, uint32_t i, uint32_t k) {
    struct msi_action first = list->actions[i];
    list->actions[i] = list->actions[k];
    list->actions[k] = first;
}

struct count {
    int found, missed;
};

static void must_be_found(const struct msi_schedule *s, struct count *count, const char *what, int stage,
                          uint32_t i) {
    if (msi_schedule_check(s) == MST_ERR_INVALID) {
        assert_contains(mst_error(), "stage");
        count->found++;
        return;
    }
    char text[200];
    print_error("not found: %s, %s, stage %d, action %u (%s)\n", msi_schedule_name(s->spec.kind), what, stage,
                i, msi_action_text(&s->spec, &s->stages[stage].actions[i], text, sizeof text));
    count->missed++;
}

/* Calls f with every action of every schedule. */
static void with_every_action(void (*f)(const struct msi_schedule *, int, uint32_t, struct count *)) {
    struct count count = {0};
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct msi_schedule s = {0};
        assert_ok(msi_schedule_make(&specs[i], &s));
        assert_ok(msi_schedule_check(&s));
        for (int k = 0; k < s.spec.stages; k++)
            for (uint32_t n = 0; n < s.stages[k].n; n++) f(&s, k, n, &count);
        msi_schedule_free(&s);
    }
    print_message("%d found\n", count.found);
    assert_true(count.found > 0);
    assert_int_equal(count.missed, 0);
}

static void try_drop(const struct msi_schedule *s, int stage, uint32_t i, struct count *count) {
    struct msi_schedule c = copy(s);
    drop(&c.stages[stage], i);
    must_be_found(&c, count, "dropped", stage, i);
    msi_schedule_free(&c);
}

static void try_duplicate(const struct msi_schedule *s, int stage, uint32_t i, struct count *count) {
    struct msi_schedule c = copy(s);
    duplicate(&c.stages[stage], i);
    must_be_found(&c, count, "doubled", stage, i);
    msi_schedule_free(&c);
}

/* Streaming may take batches in another order, as long as messages go along. */
static void try_exchange(const struct msi_schedule *s, int stage, uint32_t i, struct count *count) {
    for (uint32_t k = i + 1; k < s->stages[stage].n; k++) {
        const struct msi_action *all = s->stages[stage].actions;
        bool harmless = s->spec.kind == MSI_STREAM && !is_message(&all[i]) && !is_message(&all[k]);
        if (harmless) continue;
        struct msi_schedule c = copy(s);
        exchange(&c.stages[stage], i, k);
        must_be_found(&c, count, "exchanged", stage, i);
        msi_schedule_free(&c);
    }
}

static void try_one_field(const struct msi_schedule *s, int stage, uint32_t i, size_t at, size_t size, int by,
                          struct count *count) {
    struct msi_schedule c = copy(s);
    char *field = (char *)&c.stages[stage].actions[i] + at;
    int64_t value = 0;
    memcpy(&value, field, size); /* little-endian; what is cut off again does no harm */
    value += by;
    memcpy(field, &value, size);
    must_be_found(&c, count, "changed", stage, i);
    msi_schedule_free(&c);
}

static void try_fields(const struct msi_schedule *s, int stage, uint32_t i, struct count *count) {
#define FIELD(name) offsetof(struct msi_action, name), sizeof((struct msi_action *)0)->name
    static const struct {
        size_t at, size;
    } of_all[] = {{FIELD(kind)}, {FIELD(chunk)}, {FIELD(batch)}, {FIELD(token)}, {FIELD(micro)}},
      of_messages[] = {{FIELD(channel)}, {FIELD(peer)}, {FIELD(number)}},
      of_turns[] = {{FIELD(input)}, {FIELD(output)}, {FIELD(reuses)}};
    const struct msi_action *a = &s->stages[stage].actions[i];
    for (int by = -1; by <= 1; by += 2) {
        for (size_t k = 0; k < COUNT_OF(of_all); k++)
            try_one_field(s, stage, i, of_all[k].at, of_all[k].size, by, count);
        for (size_t k = 0; is_message(a) && k < COUNT_OF(of_messages); k++)
            try_one_field(s, stage, i, of_messages[k].at, of_messages[k].size, by, count);
        for (size_t k = 0; !is_message(a) && k < COUNT_OF(of_turns); k++)
            try_one_field(s, stage, i, of_turns[k].at, of_turns[k].size, by, count);
        if (is_message(a))
            try_one_field(s, stage, i, FIELD(slot), 1000 * by, count); /* the next may be free, too */
        if (a->kind == MSI_ACT_BACKWARD) {
            try_one_field(s, stage, i, FIELD(forward), by, count);
            try_one_field(s, stage, i, FIELD(keep), by, count);
        }
    }
}

static void dropped(void **state) {
    (void)state;
    with_every_action(try_drop);
}

static void doubled(void **state) {
    (void)state;
    with_every_action(try_duplicate);
}

static void exchanged(void **state) {
    (void)state;
    with_every_action(try_exchange);
}

static void changed(void **state) {
    (void)state;
    with_every_action(try_fields);
}

/* "F0 B0 …" as steps. */
static size_t steps_from(const char *text, struct msi_action *steps) {
    size_t n = 0;
    for (; *text; text += 2 + (text[2] == ' '))
        steps[n++] = (struct msi_action){.kind = text[0] == 'F' ? MSI_ACT_FORWARD : MSI_ACT_BACKWARD,
                                         .micro = text[1] - '0'};
    return n;
}

/* Each message fits, but stage 0 wants a gradient that stage 1 only has after what stage 0 sends later. */
static void orders_that_lock(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    struct msi_action steps[8];
    assert_ok(
        msi_schedule_make(&(struct msi_schedule_spec){.kind = MSI_GPIPE, .stages = 2, .micros = 2}, &s));
    size_t n = steps_from("F0 B0 F1 B1", steps);
    assert_ok(msi_insert_messages(&s.spec, 0, steps, n, &s.stages[0]));
    assert_status(msi_schedule_check(&s), MST_ERR_INVALID);
    assert_contains(mst_error(), "waits forever");
    assert_ok(msi_insert_messages(&s.spec, 1, steps, n, &s.stages[1]));
    assert_ok(msi_schedule_check(&s));
    msi_schedule_free(&s);
}

/* Each RECEIVE only right before its reader. */
static void receive_late(struct msi_stage_list *list) {
    struct msi_action *late = malloc(list->n * sizeof *late);
    uint32_t *now = malloc(list->n * sizeof *now), n = 0;
    assert_true(late && now);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct msi_action *a = &list->actions[i];
        if (a->kind == MSI_ACT_RECEIVE) continue;
        if (!is_message(a) && a->input != MSI_NO_ACTION) {
            now[a->input] = n;
            late[n++] = list->actions[a->input];
        }
        now[i] = n;
        late[n++] = *a;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *all[] = {&late[i].input, &late[i].output, &late[i].reuses, &late[i].forward};
        for (size_t k = 0; k < COUNT_OF(all); k++)
            if (*all[k] != MSI_NO_ACTION) *all[k] = now[*all[k]];
    }
    memcpy(list->actions, late, n * sizeof *late);
    free(late);
    free(now);
}

/* Two stages that send to each other and both wait until the other receives: what early receives are good
 * for. */
static void late_receives_lock_blocking_sends(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    struct msi_timing timing = {0};
    assert_ok(msi_schedule_make(&(struct msi_schedule_spec){.kind = MSI_1F1B, .stages = 2, .micros = 4}, &s));
    receive_late(&s.stages[0]);
    receive_late(&s.stages[1]);
    assert_status(msi_schedule_check(&s), MST_ERR_INVALID);
    assert_contains(mst_error(), "waits forever if sends block");
    assert_ok(msi_schedule_time(&s, MSI_SENDS_START, NULL, &timing));
    assert_ok(msi_schedule_time(&s, MSI_SENDS_BUFFER, NULL, &timing));
    msi_schedule_free(&s);
    msi_timing_free(&timing);
}

/* 1F1B that runs ahead as gpipe does is right in all but what it keeps. */
static void more_than_may_be_kept(void **state) {
    (void)state;
    struct msi_schedule s = {0};
    assert_ok(
        msi_schedule_make(&(struct msi_schedule_spec){.kind = MSI_GPIPE, .stages = 2, .micros = 4}, &s));
    assert_ok(msi_schedule_check(&s));
    s.spec.kind = MSI_1F1B;
    assert_status(msi_schedule_check(&s), MST_ERR_INVALID);
    s.stages[0].keeps = 2;
    s.stages[1].keeps = 1;
    assert_status(msi_schedule_check(&s), MST_ERR_INVALID);
    assert_contains(mst_error(), "keep index 2 does not exist");
    msi_schedule_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropped),
        cmocka_unit_test(doubled),
        cmocka_unit_test(exchanged),
        cmocka_unit_test(changed),
        cmocka_unit_test(orders_that_lock),
        cmocka_unit_test(late_receives_lock_blocking_sends),
        cmocka_unit_test(more_than_may_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
