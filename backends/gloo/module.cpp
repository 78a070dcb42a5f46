/* module.cpp - the mst_backend table of Gloo. Turns all exceptions into statuses. */
#include "engine.h"
#include "join.h"

#include <cstdio>
#include <gloo/config.h>

using muster_gloo::Outcome;

struct mst_backend_engine : muster_gloo::Engine {
    using Engine::Engine;
};

namespace {

constexpr uint32_t bit(int number) {
    return uint32_t(1) << number;
}

constexpr uint32_t MOVES = bit(MST_KIND_BROADCAST) | bit(MST_KIND_GATHER) | bit(MST_KIND_SCATTER);
/* muster reduces these in f32 and rounds once; Gloo would round at each step. */
constexpr uint32_t SMALL_FLOATS = bit(MST_F16) | bit(MST_BF16) | bit(MST_F8E4M3) | bit(MST_F8E5M2);
constexpr uint32_t DTYPES = (bit(MST_DTYPE_COUNT) - 2) & ~SMALL_FLOATS;
constexpr uint32_t OPS = bit(MST_SUM) | bit(MST_PRODUCT) | bit(MST_MIN) | bit(MST_MAX) | bit(MST_BAND) |
                         bit(MST_BOR) | bit(MST_BXOR);

const mst_backend_capability CAPABILITIES[] = {
    {bit(MST_KIND_BARRIER), 0, 0, 0, 0},
    {MOVES, 0, 0, 0, MST_FORM_IN_PLACE},
    {bit(MST_KIND_ALL_REDUCE) | bit(MST_KIND_REDUCE), DTYPES, OPS, 0, MST_FORM_IN_PLACE},
    {bit(MST_KIND_ALL_REDUCE) | bit(MST_KIND_REDUCE), SMALL_FLOATS, bit(MST_MIN) | bit(MST_MAX), 0,
     MST_FORM_IN_PLACE},
    {bit(MST_KIND_ALL_GATHER), 0, 0, 0, MST_FORM_IN_PLACE | MST_FORM_UNEVEN},
    {bit(MST_KIND_ALL_TO_ALL), 0, 0, 0, MST_FORM_UNEVEN},
    {bit(MST_KIND_SEND), 0, 0, 0, MST_FORM_TAG},
    {bit(MST_KIND_RECV), 0, 0, 0, MST_FORM_TAG | MST_FORM_ANY_SOURCE | MST_FORM_ANY_TAG},
    {0, 0, 0, 0, 0},
};

const char *remedy_of(mst_status status) {
    return status == MST_ERR_MISMATCH ? "use the same count in the send and in its recv" : nullptr;
}

mst_status fail(const mst_backend_host &host, const Outcome &outcome) {
    return host.fail(&host, outcome.status, -1, remedy_of(outcome.status), outcome.text.c_str());
}

bool probe(char *text, size_t size) {
    snprintf(text, size, "Gloo %d.%d.%d, tcp", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
    return true;
}

const mst_backend_capability *rows() {
    return CAPABILITIES;
}

mst_status open(const mst_backend_host *host, mst_backend_engine **engine, mst_backend_traits *traits) {
    try {
        auto made = std::make_unique<mst_backend_engine>(*host);
        traits->ordered = true;
        traits->poll_fd = made->descriptor();
        *engine = made.release();
        return MST_OK;
    } catch (const muster_gloo::StoreFailure &failure) {
        return failure.status;
    } catch (const std::exception &) {
        Outcome outcome = muster_gloo::outcome_of_exception();
        outcome.text = "cannot connect the ranks of " + std::string(host->name) + ": " + outcome.text;
        return host->fail(host, outcome.status, -1,
                          "set MUSTER_SOCKET_IFNAME to the network interface that connects the hosts",
                          outcome.text.c_str());
    }
}

mst_status submit(mst_backend_engine *engine, mst_backend_op *op) {
    try {
        engine->submit(*op);
        return MST_OK;
    } catch (const std::exception &) {
        return fail(engine->host(), muster_gloo::outcome_of_exception());
    }
}

mst_status progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    Outcome outcome;
    *done = engine->progress(*op, outcome);
    return outcome.status == MST_OK ? MST_OK : fail(engine->host(), outcome);
}

bool cancel(mst_backend_engine *engine, mst_backend_op *op) {
    return engine->cancel(*op);
}

mst_status find(mst_backend_engine *engine, mst_backend_op *op, bool *found) {
    Outcome outcome;
    *found = engine->find(*op, outcome);
    return outcome.status == MST_OK ? MST_OK : fail(engine->host(), outcome);
}

void abort_all(mst_backend_engine *engine) {
    engine->abort();
}

void close_engine(mst_backend_engine *engine) {
    delete engine;
}

const mst_backend TABLE = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof(TABLE),
    .name = "gloo",
    .title = "Gloo over TCP, for tensors in host memory",
    .probe = probe,
    .rows = rows,
    .open = open,
    .submit = submit,
    .progress = progress,
    .cancel = cancel,
    .abort = abort_all,
    .close = close_engine,
    .find = find,
};

} // namespace

extern "C" __attribute__((visibility("default"))) const mst_backend *mst_backend_module(unsigned version) {
    return version == MST_BACKEND_VERSION ? &TABLE : nullptr;
}
