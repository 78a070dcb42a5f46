/* test_loop.c - the event loop: order of timers, wake-ups, and callbacks that take things out of it. */
#include "harness.h"

#include "os/clock.h"
#include "os/loop.h"

#include <muster/status.h>

static struct msi_loop *open_loop(void) {
    struct msi_loop *loop;
    assert_int_equal(msi_loop_open(&loop), MST_OK);
    return loop;
}

/* Timers that write down in which order they fired. */
struct alarm {
    struct msi_timer timer;
    int id;
    struct msi_loop *loop;
    struct alarm *victim; /* cleared when this one fires */
    int again;            /* how often to set itself anew */
};

static int fired[64], n_fired;

static void note(struct msi_timer *timer) {
    struct alarm *alarm = msi_container(timer, struct alarm, timer);
    assert_false(msi_timer_is_set(timer));
    fired[n_fired++] = alarm->id;
    if (alarm->victim) msi_timer_clear(&alarm->victim->timer);
    if (alarm->again-- > 0) msi_timer_set(alarm->loop, timer, msi_now() + 1000000);
}

static void make_alarms(struct msi_loop *loop, struct alarm *alarms, int n) {
    n_fired = 0;
    for (int i = 0; i < n; i++) {
        alarms[i] = (struct alarm){.id = i, .loop = loop};
        msi_timer_init(&alarms[i].timer, note);
    }
}

static void run_until_fired(struct msi_loop *loop, int n) {
    int64_t limit = msi_deadline(20000);
    while (n_fired < n && msi_now() < limit) msi_loop_run_once(loop);
    assert_int_equal(n_fired, n);
}

static void timers_fire_in_order_of_time_then_of_setting(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    struct alarm alarms[6];
    static const int delay_ms[6] = {30, 10, 20, 10, 0, 30}, order[6] = {4, 1, 3, 2, 0, 5};
    make_alarms(loop, alarms, 6);
    int64_t now = msi_now();
    for (int i = 0; i < 6; i++) msi_timer_set(loop, &alarms[i].timer, now + delay_ms[i] * 1000000);
    run_until_fired(loop, 6);
    assert_memory_equal(fired, order, sizeof order);
    assert_true(ms_since(now) >= 30);
    msi_loop_close(loop);
}

static void a_timer_never_fires_early(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    struct alarm alarm;
    for (int i = 0; i < 20; i++) {
        make_alarms(loop, &alarm, 1);
        int64_t at = msi_now() + 300000 + i * 70000;
        msi_timer_set(loop, &alarm.timer, at);
        run_until_fired(loop, 1);
        assert_true(msi_now() >= at);
    }
    msi_loop_close(loop);
}

static void setting_again_moves_and_clearing_ends_it(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    struct alarm alarms[3];
    make_alarms(loop, alarms, 3);
    int64_t now = msi_now();
    msi_timer_set(loop, &alarms[0].timer, now + 1000000);
    msi_timer_set(loop, &alarms[1].timer, now + 5000000);
    msi_timer_set(loop, &alarms[2].timer, now + 2000000);
    msi_timer_set(loop, &alarms[0].timer, now + 9000000);
    assert_true(msi_timer_is_set(&alarms[2].timer));
    msi_timer_clear(&alarms[2].timer);
    msi_timer_clear(&alarms[2].timer);
    assert_false(msi_timer_is_set(&alarms[2].timer));
    run_until_fired(loop, 2);
    assert_int_equal(fired[0], 1);
    assert_int_equal(fired[1], 0);
    msi_loop_close(loop);
}

static void a_timer_may_clear_another_and_set_itself(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    struct alarm alarms[3];
    static const int order[] = {0, 2, 0, 0};
    make_alarms(loop, alarms, 3);
    alarms[0].victim = &alarms[1];
    alarms[0].again = 2;
    int64_t now = msi_now();
    for (int i = 0; i < 3; i++) msi_timer_set(loop, &alarms[i].timer, now);
    run_until_fired(loop, 4);
    assert_memory_equal(fired, order, sizeof order);
    msi_loop_close(loop);
}

static int64_t last_at;

static void not_before_the_last(struct msi_timer *timer) {
    assert_true(timer->at >= last_at);
    last_at = timer->at;
    n_fired++;
}

static void a_thousand_timers_set_in_random_order_fire_in_order(void **state) {
    (void)state;
    enum { N = 1000 };
    struct msi_loop *loop = open_loop();
    static struct msi_timer timers[N];
    uint32_t random = 12345;
    n_fired = 0;
    last_at = 0;
    int64_t now = msi_now();
    for (int i = 0; i < N; i++) {
        msi_timer_init(&timers[i], not_before_the_last);
        random = random * 1664525 + 1013904223;
        msi_timer_set(loop, &timers[i], now + (random >> 8) % 5000000);
    }
    run_until_fired(loop, N);
    msi_loop_close(loop);
}

struct pipe_source {
    struct msi_source source;
    struct msi_loop *loop;
    int write_end, calls;
    struct pipe_source *victim; /* removed, closed and overwritten when this one is ready */
};

static void close_source(struct pipe_source *p) {
    msi_loop_remove(p->loop, &p->source);
    close(p->source.fd);
    close(p->write_end);
    p->source = (struct msi_source){NULL, -1};
}

static void on_pipe(struct msi_source *source, uint32_t events) {
    struct pipe_source *p = msi_container(source, struct pipe_source, source);
    char byte;
    p->calls++;
    assert_true(events & EPOLLIN);
    assert_int_equal(read(source->fd, &byte, 1), 1);
    if (p->victim) close_source(p->victim);
}

static void open_source(struct pipe_source *p, struct msi_loop *loop) {
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    *p = (struct pipe_source){.source = {on_pipe, fds[0]}, .loop = loop, .write_end = fds[1]};
    assert_int_equal(msi_loop_add(loop, &p->source, EPOLLIN), MST_OK);
}

static void a_callback_may_remove_another_that_is_ready_too(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    struct pipe_source a, b;
    open_source(&a, loop);
    open_source(&b, loop);
    a.victim = &b;
    b.victim = &a;
    assert_int_equal(write(a.write_end, "x", 1), 1);
    assert_int_equal(write(b.write_end, "x", 1), 1);
    msi_loop_run_once(loop);
    assert_int_equal(a.calls + b.calls, 1); /* whichever came first ended the other, whose event was due */
    close_source(a.calls ? &a : &b);
    msi_loop_close(loop);
}

static void a_callback_may_remove_and_free_itself(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    struct pipe_source a;
    open_source(&a, loop);
    a.victim = &a;
    assert_int_equal(write(a.write_end, "x", 1), 1);
    msi_loop_run_once(loop);
    assert_int_equal(a.calls, 1);
    msi_loop_wake(loop);
    msi_loop_run_once(loop);
    assert_int_equal(a.calls, 1);
    msi_loop_close(loop);
}

static void events_can_be_changed(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    struct pipe_source a;
    open_source(&a, loop);
    msi_loop_change(loop, &a.source, 0);
    assert_int_equal(write(a.write_end, "x", 1), 1);
    msi_loop_wake(loop);
    msi_loop_run_once(loop);
    assert_int_equal(a.calls, 0);
    msi_loop_change(loop, &a.source, EPOLLIN);
    msi_loop_run_once(loop);
    assert_int_equal(a.calls, 1);
    close_source(&a);
    msi_loop_close(loop);
}

static void *wake_it(void *context) {
    msi_loop_wake(context);
    return NULL;
}

static void a_wake_ends_the_current_or_the_next_round(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    msi_loop_wake(loop);
    msi_loop_wake(loop);
    msi_loop_run_once(loop); /* would wait for ever */
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start_thread(wake_it, loop);
        msi_loop_run_once(loop);
        join_thread(thread);
    }
    msi_loop_close(loop);
}

static void a_descriptor_that_cannot_be_watched_is_an_error(void **state) {
    (void)state;
    struct msi_loop *loop = open_loop();
    struct msi_source source = {on_pipe, -1};
    assert_int_equal(msi_loop_add(loop, &source, EPOLLIN), MST_ERR_SYSTEM);
    msi_loop_close(loop);
    msi_loop_close(NULL);
}

int main(void) {
    alarm(50);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_of_time_then_of_setting),
        cmocka_unit_test(a_timer_never_fires_early),
        cmocka_unit_test(setting_again_moves_and_clearing_ends_it),
        cmocka_unit_test(a_timer_may_clear_another_and_set_itself),
        cmocka_unit_test(a_thousand_timers_set_in_random_order_fire_in_order),
        cmocka_unit_test(a_callback_may_remove_another_that_is_ready_too),
        cmocka_unit_test(a_callback_may_remove_and_free_itself),
        cmocka_unit_test(events_can_be_changed),
        cmocka_unit_test(a_wake_ends_the_current_or_the_next_round),
        cmocka_unit_test(a_descriptor_that_cannot_be_watched_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
