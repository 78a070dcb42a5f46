/* world.cpp - see world.hpp. */
#include "world.hpp"
#include "errors.hpp"
#include "store.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <unistd.h>

namespace muster_torch {

static std::atomic<bool> exiting{false};
static std::thread::id exits;           // the thread of begin_exit
static std::atomic<bool> exited{false}; // Python ends now
static std::timed_mutex lock;           // of open; held while a group opens
static std::weak_ptr<World> open;

static constexpr auto EXIT_MOST = std::chrono::seconds(10); // that the end of the process waits for callbacks
static constexpr auto OPENING_MOST =
    std::chrono::milliseconds(500); // and for another thread that opens a group

/* Leaves the world, so that rank 0 does not wait for this process. Rank 0 does not: it would wait. Then waits
 * for callbacks that run in Python, which is about to end; no other one begins. */
void begin_exit() {
    exits = std::this_thread::get_id();
    std::unique_lock<std::timed_mutex> guard(lock, OPENING_MOST);
    if (!guard) {
        exited = exiting = true;
        return;
    }
    auto world = open.lock();
    if (world && world->is_parents()) world = nullptr;
    bool busy = false;
    std::vector<std::shared_ptr<GroupState>> states;
    for (size_t i = 0; world && i < world->groups.size(); i++)
        if (auto state = world->groups[i].lock()) states.push_back(state);
    for (const auto &state : states) busy |= state->users.any();
    if (world && world->rank > 0 && !busy) mst_destroy_process_group(world->all);
    exiting = true;
    guard.unlock();
    auto end = std::chrono::steady_clock::now() + EXIT_MOST;
    for (const auto &state : states) state->callbacks.wait_until_none(end);
    exited = true;
}

bool is_exiting() {
    return exiting;
}

EndsHere::~EndsHere() {
    while (exited && exits != std::this_thread::get_id()) pause();
}

World::~World() {
    if (exiting) return; // the others learn it from the end of the process
    if (!all || mst_destroy_process_group(all) == MST_OK) mst_store_free(store);
}

std::vector<int> World::find(const std::vector<int> &global) const {
    std::vector<int> ranks;
    for (int rank : global) {
        auto at = std::find(global_ranks.begin(), global_ranks.end(), rank);
        if (at == global_ranks.end()) return {};
        ranks.push_back(static_cast<int>(at - global_ranks.begin()));
    }
    return ranks;
}

static std::shared_ptr<World> open_world(const GroupOptions &group) {
    auto world = std::make_shared<World>();
    world->rank = group.rank;
    world->global_ranks = group.global_ranks;
    world->store = open_store(group.store);
    mst_init_options options{};
    options.size = sizeof options;
    options.rank = group.rank;
    options.world_size = group.size;
    options.timeout_ms = to_ms(group.timeout);
    options.store = world->store;
    options.no_discovery = true;
    options.backend = std::getenv("MUSTER_BACKEND") ? nullptr : "native"; // device_group.hpp has nccl
    mst_group *all = nullptr;
    check(mst_world_open(&options, &all), "init_process_group");
    world->all = all;
    return world;
}

std::shared_ptr<World> open_group(const GroupOptions &options, const std::shared_ptr<GroupState> &state,
                                  mst_group **group) {
    std::lock_guard<std::timed_mutex> guard(lock);
    auto world = options.alone ? nullptr : options.world ? options.world : open.lock();
    if (world && world->is_parents()) world = nullptr;
    auto ranks = world ? world->find(options.global_ranks) : std::vector<int>();
    if (ranks.empty()) {
        auto made = open_world(options);
        *group = made->all;
        made->groups.push_back(state);
        if (options.is_default) open = made; // all ranks know this one
        return made;
    }
    mst_group_options settings{};
    settings.size = sizeof settings;
    settings.world = world->all;
    settings.timeout_ms = to_ms(options.timeout);
    settings.name = options.name.c_str();
    check(mst_new_group_with(ranks.data(), static_cast<int>(ranks.size()), group, &settings), "new_group");
    world->groups.push_back(state);
    return world;
}

void renumber_world(World &world, const std::vector<int> &global) {
    std::lock_guard<std::timed_mutex> guard(lock);
    for (int &rank : world.global_ranks) {
        auto at = std::find(global.begin(), global.end(), rank);
        rank = at == global.end() ? -1 : static_cast<int>(at - global.begin());
    }
}

} // namespace muster_torch
