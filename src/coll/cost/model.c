/* model.c - reads and writes the cost model as text. See model.h. */
#include "coll/cost/model.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"

#include <errno.h>
#include <sys/stat.h>

enum { FILE_MOST = 16384 };

enum unit { EACH, RATE };
static const struct row {
    const char *name;
    enum unit unit;
    double preset;
    const char *help;
} rows[] = {
#define ROW(name, text, unit, preset, help) {text, unit, preset, help},
    MSI_COST_TABLE(ROW)
#undef ROW
};

/* 25 Gbit/s between hosts, shared memory within them. */
const struct msi_model msi_model_default = {
#define EACH_COST(preset)                    (preset)
#define RATE_COST(preset)                    (1 / (preset))
#define COST(name, text, unit, preset, help) [MSI_COST_##name] = unit##_COST(preset),
    .costs = {MSI_COST_TABLE(COST)},
#undef COST
#undef RATE_COST
#undef EACH_COST
    .chunk = 128 * 1024,
};

/* One line of the text. */
struct entry {
    const char *file;
    int line;
    struct msi_str name, unit;
    double number;
};

static mst_status bad_line(const struct entry *e, const char *what, struct msi_str which) {
    return msi_fail(MST_ERR_CONFIG, "correct the line, or write the file with `muster tune -o`",
                    "%s:%d: %s '%.*s'", e->file, e->line, what, MSI_SHOW(which));
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of a line. */
static struct msi_str next_word(struct msi_str *line) {
    while (line->n && is_blank(*line->p)) line->p++, line->n--;
    size_t n = 0;
    while (n < line->n && !is_blank(line->p[n])) n++;
    struct msi_str word = msi_str(line->p, n);
    line->p += n, line->n -= n;
    return word;
}

/* Parses "12.5" in any locale. Leaves the rest of the text in word. */
static bool take_number(struct msi_str *word, double *number) {
    double value = 0, weight = 1;
    bool digits = false, point = false;
    for (; word->n; word->p++, word->n--) {
        char c = *word->p;
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9') break;
        digits = true;
        if (point)
            value += (c - '0') * (weight /= 10);
        else
            value = value * 10 + (c - '0');
    }
    *number = value;
    return digits;
}

static bool find_scale(struct msi_str unit, enum unit kind, double *scale) {
    static const struct {
        const char *name;
        enum unit kind;
        double scale;
    } units[] = {{"s", EACH, 1},      {"ms", EACH, 1e-3},  {"us", EACH, 1e-6}, {"ns", EACH, 1e-9},
                 {"GB/s", RATE, 1e9}, {"MB/s", RATE, 1e6}, {"kB/s", RATE, 1e3}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].kind != kind || !msi_str_equal(unit, msi_cstr(units[i].name))) continue;
        *scale = units[i].scale;
        return true;
    }
    return false;
}

/* Accepts a time between a picosecond and a minute, or a rate between 1 B/s and 1 PB/s. */
static mst_status set_cost(const struct entry *e, const struct row *row, double *cost) {
    double scale;
    if (!find_scale(e->unit, row->unit, &scale))
        return bad_line(e,
                        row->unit == EACH ? "expected a time in s, ms, us or ns, not"
                                          : "expected a rate in GB/s, MB/s or kB/s, not",
                        e->unit);
    double value = e->number * scale, least = row->unit == EACH ? 1e-12 : 1,
           most = row->unit == EACH ? 60 : 1e15;
    if (!(value >= least && value <= most)) return bad_line(e, "value out of range for", e->name);
    *cost = row->unit == EACH ? value : 1 / value;
    return MST_OK;
}

static mst_status set_chunk(const struct entry *e, size_t *chunk) {
    double unit = e->unit.n == 0                          ? 1
                  : msi_str_equal(e->unit, msi_cstr("K")) ? 1024
                  : msi_str_equal(e->unit, msi_cstr("M")) ? 1024 * 1024
                                                          : 0;
    double bytes = e->number * unit;
    if (unit == 0) return bad_line(e, "expected a number of bytes with unit K, M or none, not", e->unit);
    if (bytes != 0 && !(bytes >= 1024 && bytes <= 1 << 30))
        return bad_line(e, "value out of range for", e->name);
    *chunk = (size_t)bytes;
    return MST_OK;
}

static mst_status set(const struct entry *e, struct msi_model *model) {
    if (msi_str_equal(e->name, msi_cstr("chunk"))) return set_chunk(e, &model->chunk);
    for (int i = 0; i < MSI_COST_TERMS; i++)
        if (msi_str_equal(e->name, msi_cstr(rows[i].name))) return set_cost(e, &rows[i], &model->costs[i]);
    return bad_line(e, "unknown name", e->name);
}

static mst_status parse_line(struct msi_str line, const char *file, int number, struct msi_model *model) {
    struct entry e = {.file = file, .line = number};
    const char *comment = line.n ? memchr(line.p, '#', line.n) : NULL;
    if (comment) line.n = (size_t)(comment - line.p);
    e.name = next_word(&line);
    if (e.name.n == 0) return MST_OK;
    struct msi_str value = next_word(&line), shown = value;
    if (!take_number(&value, &e.number)) return bad_line(&e, "expected a number, not", shown);
    e.unit = value.n ? value : next_word(&line); /* "12us" or "12 us" */
    struct msi_str more = next_word(&line);
    if (more.n) return bad_line(&e, "unexpected text", more);
    return set(&e, model);
}

mst_status msi_model_parse(const char *text, size_t len, const char *name, struct msi_model *model) {
    struct msi_model read = msi_model_default;
    struct msi_str rest = msi_str(text, len), line;
    for (int number = 1; msi_str_line(&rest, &line); number++) {
        mst_status st = parse_line(line, name, number, &read);
        if (st != MST_OK) return st;
    }
    *model = read;
    return MST_OK;
}

static const char remedy[] = "set MUSTER_MODEL to a file written by `muster tune -o`";

mst_status msi_model_read(const char *path, struct msi_model *model) {
    char text[FILE_MOST + 1];
    struct stat about;
    if (stat(path, &about) == 0 && S_ISFIFO(about.st_mode)) /* opening it would block */
        return msi_fail(MST_ERR_CONFIG, remedy, "%s is a pipe", path);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text, file) : 0;
    int error = file && !ferror(file) ? 0 : errno;
    if (file) fclose(file);
    if (error)
        return msi_fail(MST_ERR_CONFIG, remedy, "cannot read the cost model %s: %s", path, strerror(error));
    if (n > FILE_MOST) return msi_fail(MST_ERR_CONFIG, remedy, "%s is longer than %d bytes", path, FILE_MOST);
    return msi_model_parse(text, n, path, model);
}

void msi_model_write(FILE *to, const struct msi_model *model) {
    for (int i = 0; i < MSI_COST_TERMS; i++) {
        bool each = rows[i].unit == EACH;
        double value = each ? model->costs[i] * 1e6 : 1e-9 / model->costs[i];
        fprintf(to, "%-17s %10.6f %-5s # %s\n", rows[i].name, value, each ? "us" : "GB/s", rows[i].help);
    }
    fprintf(to, "%-17s %10zu       # bytes; larger messages are cut into pieces of this size\n", "chunk",
            model->chunk);
}

const char *msi_model_name(int term) {
    return rows[term].name;
}

uint64_t msi_model_hash(const struct msi_model *model) {
    static const uint64_t key[2] = {5, 6};
    return msi_hash(model->costs, sizeof model->costs, key) ^ model->chunk;
}
