/* test_run_agents.c - the output of an ssh before its agent runs, with the test in place of the ssh. */
#include "../tools/muster/cli/text.c"
#include "../tools/muster/run/ranks/spawn.c"
#include "../tools/muster/run/ssh/remote.c"

#include "harness.h"

#include <unistd.h>

static int ssh[OUTPUT_STREAMS]; /* the ends that ssh writes to */
static char passed[OUTPUT_STREAMS][64];

int remote_ssh_start(struct remote_host *host, int error_fd, int out, int err) {
    (void)host;
    (void)error_fd;
    ssh[OUTPUT_STDOUT] = dup(out);
    ssh[OUTPUT_STDERR] = dup(err);
    return 0;
}

int output_attach_agent(struct output *output, int agent, enum output_stream stream, int fd,
                        struct msi_str data) {
    (void)output;
    (void)agent;
    msi_str_copy(data, passed[stream], sizeof passed[stream]);
    close(fd);
    return 0;
}

static void on_end(const struct remote_host *host, void *arg) {
    (void)host;
    (void)arg;
}

static void ssh_writes(enum output_stream stream, const char *text) {
    assert_int_equal(write(ssh[stream], text, strlen(text)), strlen(text));
}

/* Another process may have emptied the pipe, or the kernel may report it too early. */
static void an_event_without_data_is_not_the_end(void **state) {
    struct remote_agent agent = {.host = "far"};
    uv_loop_t loop;
    struct remote r;
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct remote_options options = {.loop = &loop, .agents = &agent, .n = 1, .on_end = on_end};
    assert_int_equal(remote_start(&r, &options), 0);
    uv_run(&loop, UV_RUN_NOWAIT);
    for (int i = 0; i < OUTPUT_STREAMS; i++) on_early(&r.hosts[0].polls[i], 0, UV_READABLE);
    ssh_writes(OUTPUT_STDERR, "a warning\n");
    uv_run(&loop, UV_RUN_NOWAIT);
    ssh_writes(OUTPUT_STDOUT, "welcome\n\n" AGENT_MARK "\nfirst line\n");
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(r.hosts[0].served);
    assert_string_equal(passed[OUTPUT_STDOUT], "first line\n");
    assert_string_equal(passed[OUTPUT_STDERR], "a warning\n");
    remote_end(&r);
    uv_run(&loop, UV_RUN_DEFAULT);
    remote_free(&r);
    assert_int_equal(uv_loop_close(&loop), 0);
    for (int i = 0; i < OUTPUT_STREAMS; i++) close(ssh[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_without_data_is_not_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
