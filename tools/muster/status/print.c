/* print.c - the status of a job as a table and as JSON. See status.h. */
#include "status/status.h"

#include "base/units.h"
#include "status/status_keys.h"

static const char *duration(double seconds, char text[MSI_UNITS_TEXT]) {
    if (seconds < 0)
        snprintf(text, MSI_UNITS_TEXT, "-");
    else if (seconds < 100)
        snprintf(text, MSI_UNITS_TEXT, "%.1f s", seconds);
    else if (seconds < 6000)
        snprintf(text, MSI_UNITS_TEXT, "%.0f min", seconds / 60);
    else
        snprintf(text, MSI_UNITS_TEXT, "%.1f h", seconds / 3600);
    return text;
}

/* What the rank does, whom it waits for, and why it ended. */
static void describe(const struct status_rank *rank, struct msi_buf *to) {
    char text[MSI_UNITS_TEXT];
    if (rank->op) {
        msi_buf_add_text(to, "in ");
        msi_flight_print_op(rank->view, rank->op, to);
        if (rank->in_call >= 0) msi_buf_add_format(to, ", for %s", duration(rank->in_call, text));
    } else if (rank->call[0]) {
        msi_buf_add_format(to, rank->under_way ? "in %s" : "after %s", rank->call);
        if (rank->site[0]) msi_buf_add_format(to, ", at %s", rank->site);
    }
    if (rank->waits_for >= 0) msi_buf_add_format(to, "; waits for rank %d", rank->waits_for);
    if (rank->waits_for == STATUS_UNKNOWN_RANK)
        msi_buf_add_text(to, "; waits for ranks of which nothing is known");
    if (rank->late) msi_buf_add_format(to, "%sother ranks wait for it", to->len ? "; " : "");
    if (rank->error[0]) msi_buf_add_format(to, "%s%s", to->len ? "; " : "", rank->error);
}

/* Is it, as far as can be seen, a cause of trouble? */
static bool is_suspect(const struct status_rank *rank) {
    return rank->late || rank->exit_code > 0 || rank->exit_signal >= 0 || rank->process[0] == 'T' ||
           rank->process[0] == 't';
}

static void print_rank(const struct status_rank *rank, int number, int host_width) {
    char state[STATUS_STATE], pid[16] = "-", ops[24] = "-", age[MSI_UNITS_TEXT], last[MSI_UNITS_TEXT];
    struct msi_buf text = {0};
    if (rank->known) snprintf(pid, sizeof pid, "%d", (int)rank->pid);
    if (rank->operations >= 0) snprintf(ops, sizeof ops, "%lld", (long long)rank->operations);
    describe(rank, &text);
    printf("%c%5d  %-*s %8s  %-12s %8s %8s %8s  %s\n", is_suspect(rank) ? '!' : ' ', number, host_width,
           rank->node ? rank->node->host : "-", pid, status_state(rank, state), duration(rank->age, age), ops,
           duration(rank->last, last), msi_buf_text(&text));
    msi_buf_free(&text);
}

static int host_width(const struct status_job *job) {
    size_t width = 4;
    for (int i = 0; i < job->n_nodes; i++)
        if (strlen(job->nodes[i].host) > width) width = strlen(job->nodes[i].host);
    return (int)width;
}

/* Lines about launchers from which there is no answer that can be read. */
static void print_nodes(const struct status_job *job) {
    for (int i = 0; i < job->n_nodes; i++) {
        const struct status_node *node = &job->nodes[i];
        if (node->gone)
            printf("the launcher on host %s has gone\n", node->host);
        else if (!node->answered)
            printf("the launcher on host %s does not answer: it is stopped, or cut off\n", node->host);
        else if (node->format != STATUS_FORMAT)
            printf("the launcher on host %s is muster %s, whose answers this version cannot read\n",
                   node->host, node->muster);
    }
}

/* What the job listens on, and who may connect. */
static void print_listens(const struct status_job *job) {
    bool open = false, any = false;
    for (int i = 0; i < job->n_nodes; i++) {
        const struct status_node *node = &job->nodes[i];
        open |= node->open_store;
        any |= node->answered && node->listens[0];
        if (node->answered && node->listens[0]) printf("host %s listens on %s\n", node->host, node->listens);
    }
    if (any && job->newest->secret[0])
        printf("members of the job may connect, which have its secret (%s)%s\n", job->newest->secret,
               open ? "; everyone may connect to the store, which is open" : "");
}

static int live_nodes(const struct status_job *job) {
    int n = 0;
    for (int i = 0; i < job->n_nodes; i++) n += !job->nodes[i].gone;
    return n;
}

void status_print(const struct status_job *job) {
    const struct status_node *newest = job->newest;
    if (newest) {
        printf("job %s at %s: %d ranks, %d of %d nodes, attempt %d, %s\n", newest->run, job->address,
               (int)newest->world_size, live_nodes(job), (int)newest->nodes, (int)newest->generation,
               newest->phase);
        printf("%6s  %-*s %8s  %-12s %8s %8s %8s  %s\n", "rank", host_width(job), "host", "pid", "state",
               "age", "ops", "last", "call");
        for (int r = 0; r < newest->world_size; r++) print_rank(&job->ranks[r], r, host_width(job));
    }
    print_nodes(job);
    if (newest) print_listens(job);
    if (job->stuck) printf("%s\n", msi_buf_text(&job->report.flights->text));
}

static void put_seconds(struct msi_json_out *out, const char *key, double seconds) {
    if (seconds >= 0) msi_json_member_double(out, key, seconds, 3);
}

static void put_rank(struct msi_json_out *out, const struct status_rank *rank, int number) {
    char state[STATUS_STATE];
    struct msi_buf call = {0};
    msi_json_put_object(out);
    msi_json_member_int(out, "rank", number);
    if (rank->node) msi_json_member_string(out, "host", rank->node->host);
    if (rank->known) msi_json_member_int(out, "pid", rank->pid);
    msi_json_member_string(out, "state", status_state(rank, state));
    if (rank->phase[0]) msi_json_member_string(out, "phase", rank->phase);
    if (rank->process[0]) msi_json_member_string(out, "process", rank->process);
    put_seconds(out, "age_s", rank->age);
    if (rank->operations >= 0) msi_json_member_int(out, "operations", rank->operations);
    put_seconds(out, "last_operation_s", rank->last);
    describe(rank, &call);
    if (call.len) msi_json_member_string(out, "description", msi_buf_text(&call));
    if (rank->call[0]) msi_json_member_string(out, "call", rank->call);
    if (rank->site[0]) msi_json_member_string(out, "site", rank->site);
    if (rank->call[0]) msi_json_member_bool(out, "in_call", rank->under_way);
    if (rank->op && rank->op->seq != MSI_FLIGHT_NO_NUMBER)
        msi_json_member_uint(out, "sequence", rank->op->seq);
    put_seconds(out, "in_call_s", rank->in_call);
    if (rank->waits_for >= 0) msi_json_member_int(out, "waits_for", rank->waits_for);
    if (rank->late) msi_json_member_bool(out, "awaited", true);
    if (rank->exit_code >= 0) msi_json_member_int(out, "exit_code", rank->exit_code);
    if (rank->exit_signal >= 0) msi_json_member_int(out, "exit_signal", rank->exit_signal);
    put_seconds(out, "ended_s", rank->ended);
    if (rank->error[0]) msi_json_member_string(out, "error", rank->error);
    msi_json_put_object_end(out);
    msi_buf_free(&call);
}

static void put_node(struct msi_json_out *out, const struct status_node *node) {
    msi_json_put_object(out);
    msi_json_member_string(out, "host", node->host);
    msi_json_member_bool(out, "gone", node->gone);
    msi_json_member_bool(out, "answered", node->answered);
    if (node->answered) msi_json_member_int(out, "pid", node->pid);
    if (node->answered) msi_json_member_string(out, "muster", node->muster);
    if (node->answered) msi_json_member_string(out, "phase", node->phase);
    if (node->answered && node->listens[0]) msi_json_member_string(out, "listens", node->listens);
    if (node->answered && node->secret[0]) msi_json_member_string(out, "secret", node->secret);
    if (node->answered && node->secret[0]) msi_json_member_bool(out, "open_store", node->open_store);
    msi_json_put_object_end(out);
}

void status_print_json(const struct status_job *job) {
    struct msi_buf text = {0};
    struct msi_json_out out = msi_json_to(&text);
    msi_json_put_object(&out);
    msi_json_member_string(&out, "address", job->address);
    if (job->newest) {
        msi_json_member_string(&out, "run", job->newest->run);
        msi_json_member_int(&out, "generation", job->newest->generation);
        msi_json_member_int(&out, "world_size", job->newest->world_size);
    }
    msi_json_member_array(&out, "nodes");
    for (int i = 0; i < job->n_nodes; i++) put_node(&out, &job->nodes[i]);
    msi_json_put_array_end(&out);
    msi_json_member_array(&out, "ranks");
    for (int r = 0; job->newest && r < job->newest->world_size; r++) put_rank(&out, &job->ranks[r], r);
    msi_json_put_array_end(&out);
    if (job->stuck) msi_json_member_string(&out, "diagnosis", (const char *)job->report.flights->text.data);
    msi_json_put_object_end(&out);
    puts(msi_buf_text(&text));
    msi_buf_free(&text);
}

static void print_cards_json(const struct job_card *cards, int n) {
    struct msi_buf text = {0};
    struct msi_json_out out = msi_json_to(&text);
    msi_json_put_object(&out);
    msi_json_member_array(&out, "jobs");
    for (int i = 0; i < n; i++) {
        msi_json_put_object(&out);
        msi_json_member_int(&out, "pid", cards[i].pid);
        msi_json_member_string(&out, "address", cards[i].address);
        msi_json_member_string(&out, "run", cards[i].run);
        msi_json_member_string(&out, "program", cards[i].program);
        msi_json_put_object_end(&out);
    }
    msi_json_put_array_end(&out);
    msi_json_put_object_end(&out);
    puts(msi_buf_text(&text));
    msi_buf_free(&text);
}

void status_print_cards(const struct job_card *cards, int n, bool json) {
    if (json) {
        print_cards_json(cards, n);
        return;
    }
    printf("%8s  %-24s %-18s %s\n", "launcher", "address", "job", "program");
    for (int i = 0; i < n; i++)
        printf("%8d  %-24s %-18s %s\n", cards[i].pid, cards[i].address, cards[i].run, cards[i].program);
}
