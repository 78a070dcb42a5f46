/* test_run_rendezvous.c - rendezvous options, which launcher hosts the store, --signals-to-handle. */
#include "../tools/muster/cli/options.c"
#include "../tools/muster/cli/text.c"
#include "../tools/muster/run/nodes/rendezvous.c"
#include "../tools/muster/run/ranks/signals.c"
#include "../tools/muster/run/run_options.c"

#include "harness.h"

#include <arpa/inet.h>
#include <sys/socket.h>

enum { WORDS_MOST = 32, LINE_MOST = 1024 };

static void put_blanks(char *word) {
    for (; *word != '\0'; word++)
        if (*word == '~') *word = ' ';
}

/* Reads a command line of words without blanks in them; ~ stands for one, '' for an empty word. */
static struct run_options read_options(char line[LINE_MOST], const char *words) {
    struct run_options o = RUN_OPTIONS_DEFAULT;
    char name[] = "run", *argv[WORDS_MOST] = {name}, **operands, *rest;
    int argc = 1, n;

    snprintf(line, LINE_MOST, "%s", words);
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        put_blanks(word);
        argv[argc++] = strcmp(word, "''") == 0 ? word + 2 : word;
    }
    assert_int_equal(opt_parse(&run_command, argc, argv, &o, &operands, &n), OPT_PROCEED);
    assert_int_equal(n, 0);
    return o;
}

static void copy_error(char *out, size_t size) {
    const mst_error_info *e = mst_last_error();
    snprintf(out, size, "%s%s%s", e->message, e->remedy[0] ? "; " : "", e->remedy);
}

/* "host 1:1 -1 127.0.0.1:0 600 30": role, nodes, node rank, endpoint, patience, last call; or the mistake. */
static void check(const char *words, const char *want) {
    static const char *const roles[] = {"host", "join", "any"};
    char line[LINE_MOST], endpoint[MSI_ADDRESS_TEXT_MAX], got[1024];
    struct run_options o = read_options(line, words);
    struct rendezvous m = {.address.port = -7};

    if (rendezvous_read(&o, &m) != MST_OK) {
        assert_int_equal(m.address.port, -7);
        copy_error(got, sizeof got);
    } else {
        snprintf(got, sizeof got, "%s %d:%d %d %s %g %g", roles[m.role], m.min, m.max, m.node_rank,
                 msi_address_format(&m.address, endpoint), m.join_seconds, m.last_call_seconds);
    }
    if (strcmp(got, want) != 0) print_error("%s\n", words);
    assert_string_equal(got, want);
}

static void one_node(void **state) {
    (void)state;
    check("", "host 1:1 -1 127.0.0.1:0 600 30");
    check("--standalone", "host 1:1 -1 127.0.0.1:0 600 30");
    check("--nnodes 1:1 --node-rank 0", "host 1:1 0 127.0.0.1:0 600 30");
    check("--master-port 1234", "host 1:1 -1 127.0.0.1:1234 600 30");
    check("--master-addr localhost", "host 1:1 -1 localhost:0 600 30");
    check("--master-addr ::1 --master-port 5", "host 1:1 -1 [::1]:5 600 30");
    check("--rdzv-endpoint localhost:0", "host 1:1 -1 localhost:0 600 30");
    check("--rdzv-endpoint localhost --rdzv-backend c10d --rdzv-id a.B_0-9",
          "host 1:1 -1 localhost:0 600 30");
    check("--node-rank 1", "--node-rank 1: the last of 1 node has node rank 0");
}

static void several_nodes(void **state) {
    (void)state;
    check("--nnodes 2 --rdzv-endpoint head:1", "any 2:2 -1 head:1 600 30");
    check("--nnodes 2 --rdzv-endpoint head", "any 2:2 -1 head:29400 600 30");
    check("--nnodes 2 --rdzv-endpoint head --node-rank 0", "host 2:2 0 head:29400 600 30");
    check("--nnodes 2 --rdzv-endpoint head --node-rank 1", "join 2:2 1 head:29400 600 30");
    check("--nnodes 1:3 --rdzv-endpoint [fe80::1%eth0]:9", "any 1:3 -1 [fe80::1%eth0]:9 600 30");
    check("--nnodes 2 --rdzv-endpoint [::1]", "any 2:2 -1 [::1]:29400 600 30");
    check("--nnodes 2 --rdzv-endpoint ::1",
          "--rdzv-endpoint ::1: an IPv6 address needs brackets, as in [::1]:29400");
    check("--nnodes 2 --rdzv-endpoint 0.0.0.0:5",
          "--rdzv-endpoint 0.0.0.0:5 is not the address of one host; give an address of the coordinator\'s "
          "node that other nodes reach");
    check("--nnodes 2 --rdzv-endpoint 239.1.2.3",
          "--rdzv-endpoint 239.1.2.3 is not the address of one host; give an address of the coordinator\'s "
          "node that other nodes reach");
    check("--nnodes 2 --master-addr a --node-rank 0", "host 2:2 0 a:29500 600 30");
    check("--nnodes 2 --master-addr a --node-rank 1 --master-port 7", "join 2:2 1 a:7 600 30");
    check("--nnodes 2 --master-addr a --node-rank 0 --master-port 0", "host 2:2 0 a:0 600 30");
    check("--nnodes 65536 --master-addr a --node-rank 65535", "join 65536:65536 65535 a:29500 600 30");
}

#define WHERE                                                                                                \
    " nodes need an address to find each other; give all of them --rdzv-endpoint HOST:PORT, or "             \
    "--master-addr and "                                                                                     \
    "each its --node-rank"

static void nodes_that_cannot_meet(void **state) {
    (void)state;
    check("--nnodes 2", "2" WHERE);
    check("--nnodes 1:2 --node-rank 0", "1:2" WHERE);
    check("--nnodes 2 --master-port 4 --node-rank 0", "2" WHERE);
    check("--nnodes 2 --master-addr a",
          "--master-addr needs --node-rank on every node: 0 on the one that has that address");
    check("--nnodes 2 --master-addr a --node-rank 2", "--node-rank 2: the last of 2 nodes has node rank 1");
    check("--nnodes 2 --standalone", "--standalone means one node, but --nnodes is 2");
    check("--nnodes 2 --rdzv-endpoint a:0",
          "port 0 is not valid here: several nodes need a port that all of them know");
    check("--nnodes 2 --master-addr a --master-port 0 --node-rank 1",
          "port 0 is not valid here: several nodes need a port that all of them know");
    check("--nnodes 2 --rdzv-endpoint a --master-addr a",
          "--rdzv-endpoint cannot be combined with --master-addr or --master-port");
    check("--rdzv-endpoint a --master-port 0",
          "--rdzv-endpoint cannot be combined with --master-addr or --master-port");
    check("--rdzv-backend etcd",
          "--rdzv-backend takes c10d or static, not 'etcd': launchers use muster's own store");
    check("--rdzv-backend ''",
          "--rdzv-backend takes c10d or static, not '': launchers use muster's own store");
}

static void numbers_of_nodes(void **state) {
    static const char *const bad[] = {"''",    "0",
                                      "-1",    "65537",
                                      "2:",    ":2",
                                      "1:2:3", "a",
                                      "2x",    "2:3x",
                                      "0:2",   "1:65537",
                                      "0x2",   "1,2",
                                      "1.5",   "2~",
                                      "1~:2",  "000000000000002x:3",
                                      "1e3",   "+-1:2",
                                      "²",     ":",
                                      "::",    "99999999999999999999:2",
                                      "2-3",   "2:3~",
                                      "nan",   "1:99999999999999999999"};
    char line[LINE_MOST], why[1024], want[512];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char words[128];
        snprintf(words, sizeof words, "--nnodes=%s", strcmp(bad[i], "''") == 0 ? "" : bad[i]);
        struct run_options o = read_options(line, words);
        struct rendezvous m;
        assert_int_equal(rendezvous_read(&o, &m), MST_ERR_INVALID);
        copy_error(why, sizeof why);
        snprintf(want, sizeof want, "--nnodes takes a number of nodes from 1 to 65536, or MIN:MAX, not '%s'",
                 o.nnodes);
        assert_string_equal(why, want);
    }
    check("--nnodes 3:2 --rdzv-endpoint a", "--nnodes 3:2: MIN is greater than MAX");
}

static void patience(void **state) {
    const char *mistake = "--rdzv-conf takes join_timeout=SECONDS and last_call_timeout=SECONDS, not ";
    static const struct {
        const char *conf, *shown;
    } bad[] = {
        {"join_timeout=0", "join_timeout=0"},
        {"join_timeout=-1", "join_timeout=-1"},
        {"join_timeout=", "join_timeout="},
        {"join_timeout", "join_timeout"},
        {"join_timeout=5s", "join_timeout=5s"},
        {"join_timeout=nan", "join_timeout=nan"},
        {"join_timeout=inf", "join_timeout=inf"},
        {"join_timeout=86401", "join_timeout=86401"},
        {"last_call_timeout=-0.1", "last_call_timeout=-0.1"},
        {"join_timeout=5,,", ""},
        {",join_timeout=5", ""},
        {"join_timeout=5,timeout=3", "timeout=3"},
        {"JOIN_timeout=5", "JOIN_timeout=5"},
        {"join_timeout=5~", "join_timeout=5 "},
        {"join_timeout=5.0000000000000000000000000000000000000000000000000x",
         "join_timeout=5.000000000000000000000000000000000000000000000000"},
    };
    char words[256], want[512];
    (void)state;

    check("--rdzv-conf join_timeout=0.2", "host 1:1 -1 127.0.0.1:0 0.2 30");
    check("--rdzv-conf last_call_timeout=0,join_timeout=86400", "host 1:1 -1 127.0.0.1:0 86400 0");
    check("--rdzv-conf join_timeout=1,join_timeout=2,", "host 1:1 -1 127.0.0.1:0 2 30");
    check("--rdzv-conf ''", "host 1:1 -1 127.0.0.1:0 600 30");
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        snprintf(words, sizeof words, "--rdzv-conf=%s", bad[i].conf);
        snprintf(want, sizeof want, "%s'%s'", mistake, bad[i].shown);
        check(words, want);
    }
}

static void places_that_are_none(void **state) {
    static const char *const bad[] = {"",      ":1",     "a:",       "a:b",   "a:65536",  "a:-1",  "[::1",
                                      "[]:5",  "a:1:2]", "http://a", "a/b:1", "a?rank=1", "a&b",   "[::1]5",
                                      "a~b:1", "a:+1",   "a:1x",     ":",     "[]",       "a:0x1", "[::1]:"};
    char words[1200], want[512], name[300];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        snprintf(name, sizeof name, "%s", bad[i]);
        put_blanks(name);
        snprintf(words, sizeof words, "--rdzv-endpoint=%s", bad[i]);
        snprintf(want, sizeof want, "--rdzv-endpoint takes HOST or HOST:PORT, not '%s'", name);
        check(words, want);
        snprintf(words, sizeof words, "--master-addr=%s", bad[i]);
        snprintf(want, sizeof want, "--master-addr takes HOST or HOST:PORT, not '%s'", name);
        check(words, want);
    }
    memset(name, 'h', sizeof name);
    name[256] = '\0';
    snprintf(words, sizeof words, "--rdzv-endpoint %s", name);
    snprintf(want, sizeof want, "--rdzv-endpoint takes HOST or HOST:PORT, not '%.64s'", name);
    check(words, want);
}

static void names_of_jobs(void **state) {
    char words[256], want[512], name[128];
    (void)state;

    check("--rdzv-id a.B-9_", "host 1:1 -1 127.0.0.1:0 600 30");
    check("--rdzv-id ''", "--rdzv-id takes up to 64 letters, digits, '_', '-' and '.', not ''");
    check("--rdzv-id a/b", "--rdzv-id takes up to 64 letters, digits, '_', '-' and '.', not 'a/b'");
    check("--rdzv-id é", "--rdzv-id takes up to 64 letters, digits, '_', '-' and '.', not 'é'");
    memset(name, 'i', sizeof name);
    name[64] = '\0';
    snprintf(words, sizeof words, "--rdzv-id %s", name);
    check(words, "host 1:1 -1 127.0.0.1:0 600 30");
    memset(name, 'i', 65);
    name[65] = '\0';
    snprintf(words, sizeof words, "--rdzv-id %s", name);
    snprintf(want, sizeof want, "--rdzv-id takes up to 64 letters, digits, '_', '-' and '.', not '%s'", name);
    check(words, want);
}

/* A socket that holds a port of loopback; with backlog >= 0 it listens. */
struct holder {
    int fd, port;
    int release_ms; /* release_later waits so long */
};

static struct holder hold_port(int backlog) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    struct holder h = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    assert_int_equal(bind(h.fd, (struct sockaddr *)&name, len), 0);
    if (backlog >= 0) assert_int_equal(listen(h.fd, backlog), 0);
    assert_int_equal(getsockname(h.fd, (struct sockaddr *)&name, &len), 0);
    h.port = ntohs(name.sin_port);
    return h;
}

/* Frees the port without leaving a connection in TIME_WAIT. */
static void reset(int fd) {
    struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

static void *release_later(void *arg) {
    struct holder *h = arg;
    poll(NULL, 0, h->release_ms); /* for so long the port is held */
    close(h->fd);
    return NULL;
}

static void *release_when_asked(void *arg) {
    struct holder *h = arg;
    int conn = accept(h->fd, NULL, NULL);
    close(h->fd);
    reset(conn);
    return NULL;
}

static struct rendezvous rendezvous_at(enum rendezvous_role role, int port, double join_seconds) {
    return (struct rendezvous){.role = role,
                               .min = 2,
                               .max = 2,
                               .multi_node = true,
                               .node_rank = -1,
                               .address = {"127.0.0.1", port},
                               .join_seconds = join_seconds};
}

static void hosts_on_port_that_is_freed(enum rendezvous_role role) {
    struct holder held = hold_port(-1);
    struct rendezvous m = rendezvous_at(role, held.port, 50);
    mst_store *store;

    held.release_ms = 300;
    pthread_t thread = start_thread(release_later, &held);
    mst_status st = rendezvous_open(&m, &store);
    join_thread(thread);
    assert_ok(st);
    assert_non_null(store);
    assert_int_equal(m.role, RENDEZVOUS_HOST);
    assert_int_equal(m.address.port, held.port);
    mst_store_free(store);
}

static void port_that_is_freed_is_taken(void **state) {
    (void)state;
    hosts_on_port_that_is_freed(RENDEZVOUS_ANY);
    hosts_on_port_that_is_freed(RENDEZVOUS_HOST);
}

static void listener_that_goes_leaves_the_port_to_us(void **state) {
    struct holder held = hold_port(1);
    struct rendezvous m = rendezvous_at(RENDEZVOUS_ANY, held.port, 50);
    mst_store *store;
    (void)state;

    pthread_t thread = start_thread(release_when_asked, &held);
    assert_int_equal(rendezvous_open(&m, &store), MST_OK);
    join_thread(thread);
    assert_non_null(store);
    mst_store_free(store);
}

/* Both launchers may host; the one that cannot listen joins the other. */
struct opener {
    struct rendezvous rendezvous;
    mst_store *store;
    char why[1024];
};

static void *open_in_thread(void *arg) {
    struct opener *o = arg;
    if (rendezvous_open(&o->rendezvous, &o->store) == MST_OK) return NULL;
    copy_error(o->why, sizeof o->why);
    return o;
}

static void one_of_several_hosts(void **state) {
    enum { OPENERS = 4 };
    struct holder held = hold_port(-1);
    struct opener openers[OPENERS];
    pthread_t threads[OPENERS];
    int hosts = 0;
    (void)state;

    for (int i = 0; i < OPENERS; i++) {
        openers[i] = (struct opener){.rendezvous = rendezvous_at(RENDEZVOUS_ANY, held.port, 50)};
        threads[i] = start_thread(open_in_thread, &openers[i]);
    }
    held.release_ms = 150;
    release_later(&held);
    for (int i = 0; i < OPENERS; i++)
        if (join_thread(threads[i]) != NULL) fail_msg("%s", openers[i].why);
    for (int i = 0; i < OPENERS; i++) {
        hosts += openers[i].store != NULL;
        assert_int_equal(openers[i].rendezvous.role,
                         openers[i].store != NULL ? RENDEZVOUS_HOST : RENDEZVOUS_JOIN);
    }
    assert_int_equal(hosts, 1);
    for (int i = 0; i < OPENERS; i++) mst_store_free(openers[i].store);
}

static void store_that_answers_is_joined(void **state) {
    struct rendezvous first = rendezvous_at(RENDEZVOUS_ANY, 0, 50), second;
    mst_store *store, *none;
    (void)state;

    assert_int_equal(rendezvous_open(&first, &store), MST_OK);
    second = rendezvous_at(RENDEZVOUS_ANY, first.address.port, 50);
    assert_int_equal(rendezvous_open(&second, &none), MST_OK);
    assert_null(none);
    assert_int_equal(second.role, RENDEZVOUS_JOIN);
    mst_store_free(store);
}

static void address_of_another_host_is_joined(void **state) {
    struct rendezvous m = rendezvous_at(RENDEZVOUS_ANY, 1, 50);
    mst_store *store;
    (void)state;

    strcpy(m.address.host, "192.0.2.1");
    assert_int_equal(rendezvous_open(&m, &store), MST_OK);
    assert_null(store);
    assert_int_equal(m.role, RENDEZVOUS_JOIN);
}

/* The message names the port and the process that holds it, which is this one. */
static void fails(struct rendezvous m, const char *holder, const char *end) {
    char why[1024], want[256];
    mst_store *store;
    int64_t begin = msi_now();

    assert_int_not_equal(rendezvous_open(&m, &store), MST_OK);
    copy_error(why, sizeof why);
    assert_true(ms_since(begin) < 30000);
    assert_null(store);
    snprintf(want, sizeof want, "cannot listen on 127.0.0.1:%d: the port is taken%s", m.address.port, holder);
    assert_contains(why, want);
    assert_contains(why, end);
}

static void port_that_stays_taken(void **state) {
    struct holder silent = hold_port(-1), listener = hold_port(8);
    const char *give_up = ", and no launcher answered there in 0.3 s; choose another port";
    const char *at_once = "choose another port";
    char by_us[128];
    (void)state;

    snprintf(by_us, sizeof by_us, " by pid %d (", (int)getpid());
    fails(rendezvous_at(RENDEZVOUS_ANY, silent.port, 0.3), "", give_up);
    fails(rendezvous_at(RENDEZVOUS_ANY, listener.port, 0.3), by_us, give_up);
    fails(rendezvous_at(RENDEZVOUS_HOST, silent.port, 0.3), "", at_once);
    fails(rendezvous_at(RENDEZVOUS_HOST, listener.port, 600), by_us, at_once);
    struct rendezvous alone = rendezvous_at(RENDEZVOUS_HOST, silent.port, 600);
    alone.multi_node = false;
    fails(alone, "", at_once);
    close(silent.fd);
    close(listener.fd);
}

/* The port of an outgoing connection, while it is open and after its end. */
static void connection_that_holds_the_port_is_named(void **state) {
    struct holder other = hold_port(1), local = hold_port(-1);
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)other.port)};
    char by_us[128], byte;
    (void)state;

    assert_int_equal(connect(local.fd, (struct sockaddr *)&name, sizeof name), 0);
    int conn = accept(other.fd, NULL, NULL);
    snprintf(by_us, sizeof by_us, " by pid %d (", (int)getpid());
    fails(rendezvous_at(RENDEZVOUS_ANY, local.port, 0.3), by_us, "no launcher answered");
    shutdown(local.fd, SHUT_WR);
    assert_int_equal(read(conn, &byte, 1), 0);
    close(conn);
    assert_int_equal(read(local.fd, &byte, 1), 0);
    close(local.fd);
    fails(rendezvous_at(RENDEZVOUS_ANY, local.port, 0.3), " by a closed connection (TIME_WAIT)",
          "no launcher answered");
    close(other.fd);
}

static uint64_t bit(int number) {
    return (uint64_t)1 << (number - 1);
}

static void good_signals(void **state) {
    const struct {
        const char *text;
        uint64_t bits;
    } good[] = {
        {SIGNALS_DEFAULT, bit(SIGTERM) | bit(SIGINT) | bit(SIGHUP) | bit(SIGQUIT)},
        {"SIGTERM", bit(SIGTERM)},
        {"TERM,INT", bit(SIGTERM) | bit(SIGINT)},
        {"15,2,SIGINT", bit(SIGTERM) | bit(SIGINT)},
        {"64", bit(64)},
        {"SIGUSR1,SIGUSR2,WINCH", bit(SIGUSR1) | bit(SIGUSR2) | bit(SIGWINCH)},
    };
    sigset_t signals;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_int_equal(signals_read(good[i].text, &signals), MST_OK);
        for (int number = 1; number <= 64; number++)
            assert_int_equal(sigismember(&signals, number) == 1, (good[i].bits & bit(number)) != 0);
    }
}

static void bad_signals(void **state) {
    static const struct {
        const char *text, *shown;
    } unknown[] = {
        {"", ""},
        {"SIGTERM,", ""},
        {",SIGTERM", ""},
        {"SIG", "SIG"},
        {"SIGFOO", "SIGFOO"},
        {"sigterm", "sigterm"},
        {"0", "0"},
        {"65", "65"},
        {"-2", "-2"},
        {"SIGTERM INT", "SIGTERM INT"},
        {"SIGSIGTERM", "SIGSIGTERM"},
        {"15x", "15x"},
        {"SIGTERM;INT", "SIGTERM;INT"},
        {"TERMINATE", "TERMINATE"},
        {"SIGTERMSIGTERMSIGTERMSIGTERMSIGTERM", "SIGTERMSIGTERMSIGTERMSIGTERMSIG"},
        {"0000000000000000000000000000015x", "0000000000000000000000000000015"},
    };
    static const struct {
        const char *text, *reason;
    } taken[] = {
        {"SIGKILL", "no program can catch it"},
        {"STOP", "no program can catch it"},
        {"SIGCONT", "the launcher needs it for itself"},
        {"TSTP", "the launcher needs it for itself"},
        {"17", "the launcher needs it for itself"},
        {"PIPE", "the launcher needs it for itself"},
        {"SEGV", "it means that the launcher itself has crashed"},
        {"6", "it means that the launcher itself has crashed"},
        {"32", "the C library needs it for itself"},
    };
    char want[512];
    sigset_t signals;
    (void)state;
    sigfillset(&signals);

    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        assert_int_equal(signals_read(unknown[i].text, &signals), MST_ERR_INVALID);
        snprintf(want, sizeof want, "--signals-to-handle takes names such as " SIGNALS_DEFAULT ", not '%s'",
                 unknown[i].shown);
        assert_string_equal(mst_last_error()->message, want);
    }
    for (size_t i = 0; i < COUNT_OF(taken); i++) {
        assert_int_equal(signals_read(taken[i].text, &signals), MST_ERR_INVALID);
        snprintf(want, sizeof want, "--signals-to-handle cannot have %s: %s", taken[i].text, taken[i].reason);
        assert_string_equal(mst_last_error()->message, want);
    }
    assert_int_equal(sigismember(&signals, SIGINT), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node),
        cmocka_unit_test(several_nodes),
        cmocka_unit_test(nodes_that_cannot_meet),
        cmocka_unit_test(numbers_of_nodes),
        cmocka_unit_test(patience),
        cmocka_unit_test(places_that_are_none),
        cmocka_unit_test(names_of_jobs),
        cmocka_unit_test(port_that_is_freed_is_taken),
        cmocka_unit_test(listener_that_goes_leaves_the_port_to_us),
        cmocka_unit_test(one_of_several_hosts),
        cmocka_unit_test(store_that_answers_is_joined),
        cmocka_unit_test(address_of_another_host_is_joined),
        cmocka_unit_test(port_that_stays_taken),
        cmocka_unit_test(connection_that_holds_the_port_is_named),
        cmocka_unit_test(good_signals),
        cmocka_unit_test(bad_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
