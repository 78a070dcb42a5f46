/* world.hpp - the worlds of muster that the process groups of this process use. */
#pragma once

#include "backend.hpp"
#include "forks.hpp"

namespace muster_torch {

struct World {
    mst_store *store = nullptr;
    mst_group *all = nullptr;
    int rank = -1;
    unsigned made_at = forks();    // of the process that opened it
    std::vector<int> global_ranks; // of PyTorch, by rank in this world
    std::vector<std::weak_ptr<GroupState>> groups;

    World() = default;
    World(const World &) = delete;
    ~World();

    /* Has this process been forked from the one that opened it? */
    bool is_parents() const {
        return made_at != forks();
    }

    /* The world's ranks of these global ranks of PyTorch; empty if one is not in it. */
    std::vector<int> find(const std::vector<int> &global) const;
};

/*
 * The group of the options: *group is a group of the default group's world, if that has all its ranks, or a
 * new world. Blocks until the ranks of a new world have joined.
 */
std::shared_ptr<World> open_group(const GroupOptions &options, const std::shared_ptr<GroupState> &state,
                                  mst_group **group);

/* The default group has only these global ranks left, which PyTorch numbers from 0 from now on. */
void renumber_world(World &world, const std::vector<int> &global);

} // namespace muster_torch
