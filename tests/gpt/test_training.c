/* test_training.c - initial values, data, AdamW, clipping, learning rate, checkpoints. */
#include "io/checkpoint.h"
#include "io/dataset.h"
#include "kit.h"
#include "nn/optim.h"

static void test_initial_values_do_not_depend_on_slices(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    struct gpt_shard whole = gpt_shard_whole(&config);
    struct gpt_model *all = gpt_model_new(&config, &whole, 9);
    for (size_t slice = 0; slice < 4; slice++) {
        struct gpt_shard shard = {1, 3, slice, 4};
        struct gpt_model *m = gpt_model_new(&config, &shard, 9);
        for (size_t p = 0, q = 0; p < m->params; p++, q = 0) {
            while (strcmp(all->param[q].name, m->param[p].name) != 0) q++;
            size_t covered = 0;
            for (size_t r = 0; r < gpt_param_runs(&m->param[p]); r++) {
                struct gpt_run run = gpt_param_run(&m->param[p], &shard, r);
                covered += run.count;
                assert_memory_equal(m->values + m->param[p].offset + run.local,
                                    all->values + all->param[q].offset + run.whole,
                                    run.count * sizeof(float));
            }
            assert_int_equal(covered, m->param[p].count);
        }
        gpt_model_free(m);
    }
    double sum = 0, squares = 0, n = (double)(config.vocabulary * config.width);
    for (size_t i = 0; i < config.vocabulary * config.width; i++) {
        sum += (double)all->table[i];
        squares += (double)all->table[i] * (double)all->table[i];
    }
    double wanted = (double)all->param[0].deviation;
    assert_true(fabs(sum / n) < 4 * wanted / sqrt(n));
    assert_true(fabs(sqrt(squares / n) / wanted - 1) < 0.08);
    gpt_model_free(all);
}

static void test_dataset(void **state) {
    (void)state;
    static const char bytes[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(fputs(bytes, file) >= 0 && fflush(file) == 0);
    struct gpt_dataset text = {.path = "alphabet", .size = 36, .fd = fileno(file)};
    int tokens[2][8], targets[8], differ = 0;
    for (size_t step = 0; step < 50; step++) {
        assert_well(gpt_dataset_sequence(&text, 1, step, 3, 8, tokens[0], targets));
        assert_memory_equal(tokens[0] + 1, targets, 7 * sizeof(int));
        assert_non_null(memchr(bytes, targets[7], 36));
        assert_well(gpt_dataset_sequence(&text, 1, step, 3, 8, tokens[1], targets));
        assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
        assert_well(gpt_dataset_sequence(&text, 1, step, 4, 8, tokens[1], targets));
        differ += memcmp(tokens[0], tokens[1], sizeof tokens[0]) != 0;
    }
    assert_true(differ > 40);
    assert_int_not_equal(gpt_dataset_sequence(&text, 1, 0, 0, 36, tokens[0], targets), 0);
    assert_contains(gpt_error(), "too few for sequences of 36");
    assert_int_equal(ftruncate(text.fd, 4), 0);
    assert_int_not_equal(gpt_dataset_sequence(&text, 1, 0, 0, 8, tokens[0], targets), 0);
    assert_contains(gpt_error(), "alphabet: the file became shorter");
    fclose(file);
}

/* AdamW in double, for a matrix (with weight decay) and a vector (without). */
static void test_adam(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    struct gpt_shard whole = gpt_shard_whole(&config);
    struct gpt_model *m = gpt_model_new(&config, &whole, 1);
    struct gpt_adam adam;
    assert_well(gpt_adam_init(m, &adam));
    size_t at[2] = {(size_t)(m->layer[0].qkv - m->values), (size_t)(m->layer[0].norm1 - m->values)};
    double x[2], average[2] = {0}, average_sq[2] = {0};
    for (int i = 0; i < 2; i++) x[i] = (double)m->values[at[i]];
    for (int step = 1; step <= 5; step++) {
        for (int i = 0; i < 2; i++) {
            double g = 0.3 * step - 1 + i, rate = 0.01;
            m->gradients[at[i]] = (float)g;
            g *= 0.5;
            average[i] = 0.9 * average[i] + 0.1 * g;
            average_sq[i] = (double)adam.beta2 * average_sq[i] + (1 - (double)adam.beta2) * g * g;
            x[i] -= rate * (average[i] / (1 - pow(0.9, step)) /
                                (sqrt(average_sq[i] / (1 - pow((double)adam.beta2, step))) + 1e-8) +
                            (i ? 0 : (double)adam.decay) * x[i]);
        }
        gpt_adam_step(&adam, m, 0.01f, 0.5f);
        for (int i = 0; i < 2; i++) assert_true(fabs(x[i] - (double)m->values[at[i]]) < 1e-5);
    }
    gpt_adam_free(&adam);
    gpt_model_free(m);
}

static void test_clip_and_rate(void **state) {
    (void)state;
    struct gpt_config config = kit_config();
    struct gpt_shard shard = {1, 3, 1, 2}; /* its copy of the table does not count */
    struct gpt_model *m = gpt_model_new(&config, &shard, 1);
    for (size_t i = 0; i < m->count; i++) m->gradients[i] = 1;
    struct gpt_squares squares = gpt_gradient_squares(m);
    double split = 2 * (4 * 32 * 16 + 3 * 16 + 2 * 32 * 32 + 32), whole = 2 * (6 * 32) + 2 * 32;
    assert_true(squares.split == split && squares.whole == whole);
    gpt_model_free(m);
    assert_true(gpt_clip_factor(4, 1) == 0.25f && gpt_clip_factor(0.5, 1) == 1 &&
                gpt_clip_factor(1e9, 0) == 1);
    assert_true(gpt_learning_rate(1, 0, 10, 100) == 0.1f && gpt_learning_rate(1, 9, 10, 100) == 1 &&
                gpt_learning_rate(1, 10, 10, 100) == 1);
    assert_true(fabsf(gpt_learning_rate(1, 55, 10, 100) - 0.55f) < 1e-6f &&
                fabsf(gpt_learning_rate(1, 200, 10, 100) - 0.1f) < 1e-6f);
}

static void remove_checkpoint(const char *directory) {
    char path[200];
    static const char *const names[] = {"config.json", "model.safetensors", "model.safetensors.part"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

/* Four shards (two stages of two slices) write a checkpoint; the whole model reads it. */
static void test_checkpoint_of_shards(void **state) {
    (void)state;
    struct gpt_config config = kit_config(), read;
    struct gpt_shard whole = gpt_shard_whole(&config);
    char directory[] = "/tmp/gpt-checkpoint-XXXXXX";
    struct gpt_model *all = gpt_model_new(&config, &whole, 2), *m;
    struct gpt_adam adam, of_all;
    config.norm = GPT_LAYER_NORM;
    assert_non_null(mkdtemp(directory));
    assert_well(gpt_checkpoint_create(directory, &config, true, 31));
    for (size_t i = 0; i < 4; i++) {
        struct gpt_shard shard = {i / 2 ? 2 : 0, i / 2 ? 3 : 2, i % 2, 2};
        m = kit_model(&config, &shard);
        assert_well(gpt_adam_init(m, &adam));
        assert_int_equal(gpt_checkpoint_write(directory, m, &adam), -1); /* step 0: not this save */
        assert_contains(gpt_error(), "from another save, of step 31");
        adam.step = 31;
        for (size_t k = 0; k < m->count; k++) {
            adam.exp_avg[k] = 2 * m->values[k];
            adam.exp_avg_sq[k] = m->values[k] * m->values[k];
        }
        assert_well(gpt_checkpoint_write(directory, m, &adam));
        gpt_adam_free(&adam);
        gpt_model_free(m);
    }
    assert_int_not_equal(gpt_checkpoint_load(directory, all, NULL), 0); /* not yet finished */
    assert_well(gpt_checkpoint_finish(directory));
    assert_well(gpt_checkpoint_config(directory, &read));
    assert_true(read.width == config.width && read.inner == config.inner && read.layers == 3 &&
                read.heads == 4);
    assert_well(gpt_adam_init(all, &of_all));
    assert_well(gpt_checkpoint_load(directory, all, &of_all));
    m = kit_model(&config, NULL);
    assert_memory_equal(m->values, all->values, all->count * sizeof(float));
    for (size_t k = 0; k < m->count; k++)
        assert_true(of_all.exp_avg[k] == 2 * m->values[k] &&
                    of_all.exp_avg_sq[k] == m->values[k] * m->values[k]);
    assert_int_equal(of_all.step, 31);
    assert_well(gpt_checkpoint_save(directory, all, NULL));
    assert_int_not_equal(gpt_checkpoint_load(directory, all, &of_all), 0);
    assert_contains(gpt_error(), "training cannot go on");
    gpt_adam_free(&of_all);
    gpt_model_free(m);
    gpt_model_free(all);
    remove_checkpoint(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_values_do_not_depend_on_slices),
        cmocka_unit_test(test_dataset),
        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_clip_and_rate),
        cmocka_unit_test(test_checkpoint_of_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
