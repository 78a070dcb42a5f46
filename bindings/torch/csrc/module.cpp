/* module.cpp - the Python module muster_torch._C. */
#include "backend.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/extension.h>

using muster_torch::Backend;
using muster_torch::GroupOptions;

static c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                                int size, int64_t timeout_ms, const std::string &name,
                                                const std::vector<int> &global_ranks, bool is_default,
                                                bool waits) {
    py::gil_scoped_release release; // it waits for the other ranks
    return c10::make_intrusive<Backend>(GroupOptions{store, rank, size, std::chrono::milliseconds(timeout_ms),
                                                     name, global_ranks, is_default, waits, false, nullptr});
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("create", &create);
    /* It waits for callbacks, which need Python's lock. */
    module.def("begin_exit", &muster_torch::begin_exit, py::call_guard<py::gil_scoped_release>());
    module.def("version", [] { return std::string(MST_VERSION_STRING); });
}
