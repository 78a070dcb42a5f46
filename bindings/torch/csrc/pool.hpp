/* pool.hpp - threads that complete futures, whose callbacks may wait for other operations. */
#pragma once

#include <functional>

namespace muster_torch {

/* Runs the task on a thread of its own pool, which grows while all its threads are busy. */
void run_in_pool(std::function<void()> task);

} // namespace muster_torch
