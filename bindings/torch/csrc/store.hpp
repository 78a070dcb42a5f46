/* store.hpp - a store of PyTorch as a custom store of muster. */
#pragma once

#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster_torch {

/* Opens it. Throws on failure. Free it with mst_store_free. */
mst_store *open_store(c10::intrusive_ptr<c10d::Store> store);

} // namespace muster_torch
