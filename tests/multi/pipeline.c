/*
 * pipeline.c - pipelines of numbers. Part k turns x into 3x + k and a gradient g into 3g, so the content of
 * every message is known. Run it under a launcher; prints "ok" on success, or how a run failed.
 *
 *   pipeline train SCHEDULE MICROS CHUNKS STEPS
 *   pipeline exchange SCHEDULE MICROS CHUNKS BACKEND [group]
 *                                  trains, with "group" in a group; switches to BACKEND after a step
 *   pipeline stream BATCHES TOKENS INNER MICROS
 *   pipeline fail HOW STAGE STEP   in this step, the stage's forward of micro-batch 2 fails: "returns_error",
 *                                  "call_fails" (a call inside of it), "killed", or "times_out"
 *   pipeline new_fails HOW STAGE   mst_pipeline_new fails because the stage has "other_schedule", "no_shape",
 *                                  "no_memory", "no_backend", or comes "late": the others have timed out
 *   pipeline misuse                calls in a callback and in a forked child fail; the pipeline still works
 *   pipeline first_stage_leaves    forward only: stage 0 finishes and leaves, then stage 1 of 3 is killed
 *   pipeline wrong                 invalid arguments
 *   pipeline alone                 one rank
 *   pipeline ring PORT             initialization as in FlexLLMGen, and a message around the ring; rank and
 *                                  size come from the launcher
 *   pipeline ring_of_launcher      the same in the world of the launcher, over its backend
 */
#include "pipeline/pipeline.h"
#include "base/handles.h"
#include "pipeline/failing_backend.h"

#include <assert.h>
#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000, KEEPS = 256, PROMPT = 4 };

static int me, size;
static const char *new_backend; /* to switch to after a step; NULL: none */
static bool in_group;
static sigset_t term; /* SIGTERM */

struct model {
    int stages, parts, step;
    int forwards, backwards, taken;
    const char *how; /* how fails_stage fails in fails_step; NULL: it does not */
    int fails_stage, fails_step;
    int kept[KEEPS]; /* the micro-batch of each slot; -1: free */
    const int64_t *kept_in[KEEPS];
};

static void check(mst_status status, const char *what, int line) {
    if (status == MST_OK) return;
    fprintf(stderr, "rank %d: line %d: %s: %s: %s\n", me, line, what, mst_status_name(status), mst_error());
    exit(1);
}
#define CHECK(call) check(call, #call, __LINE__)

static void refuse(mst_status got, mst_status wanted, const char *part, int line) {
    if (got == wanted && strstr(mst_error(), part)) return;
    fprintf(stderr, "line %d: %s, '%s'; wanted %s, '%s'\n", line, mst_status_name(got), mst_error(),
            mst_status_name(wanted), part);
    exit(1);
}
#define REFUSE(call, status, part) refuse(call, status, part, __LINE__)

/* The input of part k: the data after k parts. */
static int64_t expected(int64_t x, int k) {
    for (int i = 0; i < k; i++) x = 3 * x + i;
    return x;
}

static int64_t data(const struct model *m, int micro, int i) {
    return 100 * m->step + 7 * micro + i;
}

static mst_status fail(const char *how) {
    int x;
    if (!strcmp(how, "killed")) raise(SIGKILL);
    for (int r = 0; r < size && !strcmp(how, "times_out"); r++) /* until all others have timed out */
        if (r != me) CHECK(mst_recv(&x, 1, MST_I32, r));
    if (!strcmp(how, "call_fails")) return mst_recv(&x, 1, MST_I32, (me + 1) % size, .timeout_ms = 100);
    return !strcmp(how, "returns_error") ? MST_ERR_INVALID : MST_OK;
}

static mst_status forward(const mst_pipeline_step *step, void *arg) {
    struct model *m = arg;
    const int64_t *in = step->in;
    int64_t *out = step->out;
    assert(step->part == me + step->chunk * m->stages && step->keep >= 0 && step->keep < KEEPS);
    assert(step->first == !in && step->first == (step->part == 0) &&
           step->last == (step->part == m->parts - 1));
    assert(step->last == !out);
    if (m->how && m->step == m->fails_step && step->micro == 2 && me == m->fails_stage) {
        mst_status st = fail(m->how);
        if (st != MST_OK) return st;
    }
    for (int i = 0; i < COUNT; i++) {
        int64_t x = data(m, step->micro, i);
        if (in) assert(in[i] == expected(x, step->part));
        if (out) out[i] = 3 * (in ? in[i] : x) + step->part;
    }
    assert(m->kept[step->keep] == -1);
    m->kept[step->keep] = step->micro;
    m->kept_in[step->keep] = in;
    m->forwards++;
    return MST_OK;
}

static mst_status forward_only(const mst_pipeline_step *step, void *arg) {
    struct model *m = arg;
    mst_status st = forward(step, arg);
    m->kept[step->keep] = -1;
    return st;
}

static mst_status backward(const mst_pipeline_step *step, void *arg) {
    struct model *m = arg;
    const int64_t *in = step->in, *kept = m->kept_in[step->keep];
    int64_t *out = step->out, gradient = 1;
    for (int k = step->part + 1; k < m->parts; k++) gradient *= 3;
    assert(step->last == !in && step->first == !out);
    assert(m->kept[step->keep] == step->micro);
    m->kept[step->keep] = -1;
    for (int i = 0; i < COUNT; i++) {
        if (kept) assert(kept[i] == expected(data(m, step->micro, i), step->part)); /* still intact */
        if (in) assert(in[i] == gradient);
        if (out) out[i] = 3 * (in ? in[i] : 1);
    }
    m->backwards++;
    return MST_OK;
}

/*
 * All ranks stay until each has failed, so that none fails because another left. Then everything else must
 * work.
 */
static void end_failed(mst_pipeline *p, mst_status st, const char *how, int stage) {
    printf("%s culprit %d: %s\n", mst_status_name(st), mst_last_error()->culprit, mst_error());
    fflush(stdout);
    REFUSE(mst_pipeline_run(p), MST_ERR_STATE, "has failed before");
    if (!strcmp(how, "killed")) {
        int signal_of_launcher;
        sigwait(&term, &signal_of_launcher);
        exit(1);
    }
    if (!strcmp(how, "times_out") && me != stage) CHECK(mst_send(&me, 1, MST_I32, stage));
    CHECK(mst_pipeline_free(p));
    REFUSE(mst_pipeline_free(p), MST_ERR_STATE, "was freed");
    CHECK(mst_barrier());
    CHECK(mst_destroy_process_group(NULL));
    exit(0);
}

static void exchange(mst_pipeline *p) {
    const struct mst_pipeline *inside = msi_handle_memory(p);
    CHECK(mst_set_backend(NULL, new_backend));
    assert(!strcmp(mst_get_backend(inside->pairs.succ), new_backend));
}

static void train(const char *schedule, int micros, int chunks, int steps, const char *how, int stage,
                  int step) {
    bool trains = strcmp(schedule, "forward") != 0;
    struct model m = {.stages = size,
                      .parts = size * (chunks ? chunks : 1),
                      .how = how,
                      .fails_stage = stage,
                      .fails_step = step};
    mst_pipeline *p;
    mst_group *group = NULL;
    int all[16];
    for (int i = 0; i < KEEPS; i++) m.kept[i] = -1;
    for (int r = 0; r < size; r++) all[r] = r;
    if (new_backend && in_group) CHECK(mst_new_group(all, size, &group));
    CHECK(mst_pipeline_new(&p, .schedule = schedule, .micros = micros, .chunks = chunks, .group = group,
                           .out = {MST_I64, 2, {10, COUNT / 10}}, .forward = trains ? forward : forward_only,
                           .backward = backward, .arg = &m,
                           .timeout_ms = how && !strcmp(how, "times_out") ? 1000 : 120000));
    assert(mst_pipeline_stage(p) == me && mst_pipeline_stages(p) == size && mst_pipeline_keeps(p) <= KEEPS);
    assert(mst_pipeline_in(p).n == (m.parts > 1 && (me > 0 || chunks > 1) ? 2 : 0));
    for (m.step = 0; m.step < steps; m.step++) {
        mst_status st = mst_pipeline_run(p);
        if (st != MST_OK) end_failed(p, st, how ? how : "", stage);
        mst_pipeline_times times = mst_pipeline_last_times(p);
        assert(times.computing + times.waiting <= times.whole);
        if (new_backend && m.step == 0) exchange(p);
    }
    assert(m.forwards == steps * micros * (m.parts / size) && m.backwards == (trains ? m.forwards : 0));
    mst_pipeline_free(p);
}

/*
 * A prompt has PROMPT numbers. A new token is the sum of all before it, passed through all parts, modulo a
 * prime.
 */
static int64_t next_token(int64_t sum, int parts) {
    return expected(sum % 9973, parts) % 9973;
}

static int64_t prompt_sum(const mst_pipeline_step *step) {
    return PROMPT * (100 * step->batch + 10 * step->micro) + PROMPT * (PROMPT - 1) / 2;
}

static mst_status stream_forward(const mst_pipeline_step *step, void *arg) {
    struct model *m = arg;
    const int64_t *in = step->in;
    int64_t *out = step->out, x;
    assert(step->out_shape->sizes[0] == (step->last ? 1 : step->token == 0 ? PROMPT : 1));
    if (step->first && step->token == 0)
        x = prompt_sum(step) % 9973;
    else if (step->first)
        x = (in[0] + step->token) % 9973;
    else
        x = in[0];
    x = 3 * x + step->part;
    for (size_t i = 0; i < step->out_shape->sizes[0]; i++) out[i] = step->last ? x % 9973 : x;
    m->forwards++;
    return MST_OK;
}

static mst_status take(const mst_pipeline_step *step, void *arg) {
    struct model *m = arg;
    const int64_t *in = step->in;
    int64_t token = next_token(prompt_sum(step), m->parts);
    assert(me == 0);
    for (int t = 1; t <= step->token; t++) token = next_token(token + t, m->parts);
    assert(in[0] == token);
    m->taken++;
    return MST_OK;
}

static void stream(int batches, int tokens, int inner, int micros) {
    static struct model m;
    mst_pipeline *p;
    m.stages = m.parts = size;
    CHECK(mst_pipeline_new(&p, .schedule = "stream", .batches = batches, .tokens = tokens, .inner = inner,
                           .micros = micros, .out = {MST_I64, 1, {1}}, .prompt = {MST_I64, 1, {PROMPT}},
                           .ids = {MST_I64, 1, {1}}, .forward = stream_forward, .take = take, .arg = &m));
    for (int i = 0; i < 3; i++) CHECK(mst_pipeline_run(p));
    assert(m.forwards == 3 * batches * tokens * micros);
    assert(m.taken == (me == 0 ? 3 * batches * micros : 0));
    mst_pipeline_free(p);
}

static void *allocate_none(size_t bytes, void *arg) {
    (void)bytes;
    (void)arg;
    return NULL;
}

static void release_none(void *memory, void *arg) {
    (void)arg;
    assert(!memory);
}

/* Tells the late stage that the others have timed out. */
static void notify(int stage) {
    int signal = 1;
    if (me == (stage ? 0 : 1)) CHECK(mst_send(&signal, 1, MST_I32, stage));
    if (me == stage) CHECK(mst_recv(&signal, 1, MST_I32, stage ? 0 : 1));
}

/* Creating the pipeline fails on all ranks; the next pipeline works. */
static void new_fails(const char *how, int stage) {
    mst_pipeline *p = NULL;
    struct model m = {0};
    bool other_schedule = !strcmp(how, "other_schedule") && me == stage,
         no_shape = !strcmp(how, "no_shape") && me == stage;
    bool no_memory = !strcmp(how, "no_memory") && me == stage;
    bool one_is_late = !strcmp(how, "late"), is_late = one_is_late && me == stage;
    CHECK(mst_barrier());
    if (is_late) notify(stage);
    mst_shape out = {MST_F32, no_shape ? 0 : 1, {4}};
    mst_group *group = !strcmp(how, "no_backend") ? new_failing_group(stage) : NULL;
    mst_status st = mst_pipeline_new(&p, .schedule = other_schedule ? "gpipe" : "1f1b", .micros = 4,
                                     .out = out, .group = group, .forward = forward, .backward = backward,
                                     .arg = &m, .timeout_ms = one_is_late && !is_late ? 1000 : 60000,
                                     .alloc = no_memory ? allocate_none : NULL,
                                     .release = no_memory ? release_none : NULL);
    assert(st != MST_OK && !p);
    if (one_is_late && !is_late) notify(stage);
    printf("%s culprit %d: %s\n", mst_status_name(st), mst_last_error()->culprit, mst_error());
    train("1f1b", 4, 0, 2, NULL, 0, 0);
}

static void run_in_callback(mst_status status, void *arg) {
    mst_pipeline *p = arg, *other = NULL;
    CHECK(status);
    REFUSE(mst_pipeline_run(p), MST_ERR_STATE, "a callback of a work cannot wait");
    REFUSE(mst_pipeline_free(p), MST_ERR_STATE, "a callback of a work cannot wait");
    REFUSE(mst_pipeline_new(&other, .forward = forward), MST_ERR_STATE, "a callback of a work cannot wait");
}

static void misuse(void) {
    struct model m = {.stages = size, .parts = size};
    mst_pipeline *p;
    mst_work *work;
    int status = 0, one = 1;
    for (int i = 0; i < KEEPS; i++) m.kept[i] = -1;
    CHECK(mst_pipeline_new(&p, .micros = 4, .out = {MST_I64, 1, {COUNT}}, .forward = forward,
                           .backward = backward, .arg = &m));
    CHECK(mst_all_reduce(&one, 1, MST_I32, .work = &work));
    CHECK(mst_work_on_done(work, run_in_callback, p));
    CHECK(mst_wait(work));
    pid_t child = fork();
    if (child == 0) {
        REFUSE(mst_pipeline_run(p), MST_ERR_STATE, "fork");
        REFUSE(mst_pipeline_free(p), MST_ERR_STATE, "fork");
        _exit(0);
    }
    assert(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(mst_pipeline_run(p));
    CHECK(mst_barrier());
    CHECK(mst_destroy_process_group(NULL));
    REFUSE(mst_pipeline_run(p), MST_ERR_STATE, "the world of the pipeline has ended");
    CHECK(mst_pipeline_free(p));
    printf("ok\n");
    exit(0);
}

static mst_status die_as_second(const mst_pipeline_step *step, void *arg) {
    (void)arg;
    int none;
    if (me == 1 && step->micro == 1) {
        REFUSE(mst_recv(&none, 1, MST_I32, 0), MST_ERR_PEER_LOST, "has left"); /* wait until it has left */
        raise(SIGKILL);
    }
    return MST_OK;
}

static void first_stage_leaves(void) {
    mst_pipeline *p;
    CHECK(mst_pipeline_new(&p, .schedule = "forward", .micros = 2, .out = {MST_I64, 1, {1}},
                           .forward = die_as_second));
    mst_status st = mst_pipeline_run(p);
    printf("%s culprit %d: %s\n", mst_status_name(st), mst_last_error()->culprit, mst_error());
    fflush(stdout);
    mst_pipeline_free(p);
    mst_destroy_process_group(NULL);
    exit(0);
}

static mst_status refuse_third(const mst_pipeline_step *step, void *arg) {
    (void)arg;
    return step->micro == 2 ? MST_ERR_CALLBACK : MST_OK;
}

static void wrong(void) {
    mst_pipeline *p = NULL;
    struct model m = {0};
    int starts[9];
#define NEW(...) mst_pipeline_new(&p, .forward = forward, .backward = backward, .arg = &m, __VA_ARGS__)
    REFUSE(NEW(.schedule = "2f2b", .micros = 2), MST_ERR_INVALID, ".schedule is '2f2b'");
    REFUSE(NEW(.micros = -1), MST_ERR_INVALID, "-1 micro-batches");
    REFUSE(NEW(.micros = 2, .chunks = 2), MST_ERR_INVALID, "chunks");
    REFUSE(NEW(.out = {MST_F32, 9, {1}}), MST_ERR_INVALID, "9 dimensions");
    REFUSE(NEW(.out = {(mst_dtype)77, 1, {1}}), MST_ERR_INVALID, "dtype 77");
    REFUSE(NEW(.out = {MST_F32, 2, {1, 0}}), MST_ERR_INVALID, "size 1 is 0");
    REFUSE(NEW(.timeout_ms = -5), MST_ERR_INVALID, "timeout");
    REFUSE(mst_pipeline_new(&p), MST_ERR_INVALID, ".forward is NULL");
    REFUSE(mst_pipeline_new(&p, .forward = forward), MST_ERR_INVALID, ".backward is NULL, but 1f1b trains");
    REFUSE(mst_pipeline_new(NULL), MST_ERR_INVALID, "pipeline is NULL");
    REFUSE(mst_pipeline_new(&p, .forward = forward, .schedule = "interleaved", .chunks = 2,
                            .backward = backward, .prompt = {MST_F32, 1, {4}}),
           MST_ERR_INVALID, ".out is missing");
    REFUSE(mst_pipeline_new(&p, .forward = forward, .schedule = "interleaved", .chunks = 2,
                            .backward = backward, .out = {MST_F32, 0, {0}}),
           MST_ERR_INVALID, ".out is missing");
    REFUSE(mst_pipeline_run(NULL), MST_ERR_INVALID, "pipeline is NULL");
    REFUSE(mst_partition_layers(3, 4, starts), MST_ERR_INVALID, "3 layers");
    REFUSE(mst_partition_layers(3, 2, NULL), MST_ERR_INVALID, "starts is NULL");
    CHECK(mst_partition_layers(7, 4, starts));
    assert(starts[0] == 0 && starts[1] == 2 && starts[2] == 4 && starts[3] == 6 && starts[4] == 7);
    CHECK(mst_partition_layers(6, 2, starts, .costs = (double[]){1, 1, 1, 1, 1, 5}));
    assert(starts[1] == 5);
    CHECK(mst_pipeline_free(NULL));
    assert(mst_pipeline_stage(NULL) == -1 && mst_pipeline_in(NULL).n == 0);
}

/* A pipeline of one rank does not receive messages of the program, and a failure leaves nothing behind. */
static void alone(void) {
    mst_pipeline *p;
    int sent[3] = {1, 2, 3}, got = 0;
    mst_work *works[3];
    for (int tag = 0; tag < 3; tag++)
        CHECK(mst_isend(&sent[tag], 1, MST_I32, 0, .tag = tag, .work = &works[tag]));
    stream(2, 3, 1, 1);
    for (int tag = 0; tag < 3; tag++) {
        CHECK(mst_recv(&got, 1, MST_I32, 0, .tag = tag));
        CHECK(mst_wait(works[tag]));
        assert(got == tag + 1);
    }
    CHECK(mst_pipeline_new(&p, .schedule = "interleaved", .chunks = 2, .micros = 3,
                           .out = {MST_I64, 1, {COUNT}}, .forward = refuse_third, .backward = refuse_third));
    REFUSE(mst_pipeline_run(p), MST_ERR_CALLBACK, "returned MST_ERR_CALLBACK for micro-batch 2");
    CHECK(mst_pipeline_free(p));
}

/*
 * Receives in the predecessor's group and sends in the successor's. All start with the receive, so there is
 * no cycle.
 */
static void pass_token(void) {
    mst_group *pred = mst_get_pipeline_parallel_pred_group(), *succ = mst_get_pipeline_parallel_succ_group();
    int next = (me + 1) % size, before = (me + size - 1) % size, token = 0, own = 10 * me;
    mst_work *work;
    assert(!pred == (size == 1) && !succ == (size == 1));
    if (size == 1) return;
    assert(pred != succ && mst_get_group_rank(pred, before) >= 0 && mst_get_group_rank(succ, next) >= 0);
    CHECK(mst_irecv(&token, 1, MST_I32, mst_get_group_rank(pred, before), .group = pred, .work = &work));
    CHECK(mst_send(&own, 1, MST_I32, mst_get_group_rank(succ, next), .group = succ));
    CHECK(mst_wait(work));
    assert(token == 10 * before);
}

static void end_ring(void) {
    printf("only rank 0 prints\n");
    mst_printf_all("ok\n");
    CHECK(mst_destroy_process_group(NULL));
    assert(!mst_get_pipeline_parallel_pred_group() && !mst_get_pipeline_parallel_succ_group());
    exit(0);
}

static void ring(int port) {
    REFUSE(mst_initialize_distributed("127.0.0.1", port, size, me, me, "tpu"), MST_ERR_INVALID,
           "comm_device is 'tpu'");
    REFUSE(mst_initialize_distributed("127.0.0.1", port, 0, 0, me, "cpu"), MST_ERR_INVALID,
           "rank 0 is not in a world of 0");
    REFUSE(mst_initialize_distributed("127.0.0.1", port, size, size, me, "cpu"), MST_ERR_INVALID,
           "is not in a world of");
    REFUSE(mst_initialize_distributed(NULL, port, size, me, me, "cpu"), MST_ERR_INVALID, "head_ip is NULL");
    assert(!mst_get_pipeline_parallel_pred_group() && !mst_get_comm_device());
    CHECK(mst_initialize_distributed("127.0.0.1", port, size, me, me, "cpu"));
    CHECK(mst_initialize_distributed("127.0.0.1", port, size, me, me, "cpu"));
    REFUSE(mst_initialize_distributed("127.0.0.1", port, size + 1, me, me, "cpu"), MST_ERR_STATE,
           "a world is already open");
    assert(!strcmp(mst_get_comm_device(), "cpu"));
    pass_token();
    end_ring();
}

int main(int argc, char **argv) {
    int number[8] = {0};
    for (int i = 2; i < argc && i < 8; i++) number[i] = atoi(argv[i]);
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "ring")) {
        me = atoi(getenv("RANK"));
        size = atoi(getenv("WORLD_SIZE"));
        ring(number[2]);
    }
    /* The launcher terminates the survivors of a killed rank after 500 ms; they report the failure first. */
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    bool killed = argc > 2 && !strcmp(what, "fail") && !strcmp(argv[2], "killed");
    if (killed || !strcmp(what, "first_stage_leaves")) pthread_sigmask(SIG_BLOCK, &term, NULL);
    CHECK(mst_init());
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (!strcmp(what, "train"))
        train(argv[2], number[3], number[4], number[5], NULL, 0, 0);
    else if (!strcmp(what, "exchange")) {
        new_backend = argv[5];
        in_group = argc > 6;
        train(argv[2], number[3], number[4], 3, NULL, 0, 0);
    } else if (!strcmp(what, "stream"))
        stream(number[2], number[3], number[4], number[5]);
    else if (!strcmp(what, "fail"))
        train("1f1b", 4, 0, 3, argv[2], number[3], number[4]);
    else if (!strcmp(what, "new_fails"))
        new_fails(argv[2], number[3]);
    else if (!strcmp(what, "misuse"))
        misuse();
    else if (!strcmp(what, "first_stage_leaves"))
        first_stage_leaves();
    else if (!strcmp(what, "wrong"))
        wrong();
    else if (!strcmp(what, "ring_of_launcher")) {
        REFUSE(mst_initialize_distributed("127.0.0.1", 1, size, me, me, "gpu"), MST_ERR_STATE,
               "without a backend for comm_device 'gpu'");
        CHECK(mst_initialize_distributed("127.0.0.1", 1, size, me, me, "cpu"));
        pass_token();
        end_ring();
    } else if (!strcmp(what, "alone"))
        alone();
    else
        return 2;
    CHECK(mst_barrier());
    CHECK(mst_destroy_process_group(NULL));
    printf("ok\n");
    return 0;
}
