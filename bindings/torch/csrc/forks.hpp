/* forks.hpp - tells a forked process from its parent, whose worlds it has not joined. */
#pragma once

namespace muster_torch {

/* How many forks lie between this process and the one that loaded the module. */
unsigned forks();

} // namespace muster_torch
