/* join.cpp - see join.h. */
#include "join.h"

#include "quiet.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <gloo/common/error.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <string>
#include <vector>

namespace muster_gloo {

namespace {

class Store : public gloo::rendezvous::Store {
  public:
    explicit Store(const mst_backend_host &host) : host_(host) {}

    void set(const std::string &key, const std::vector<char> &data) override {
        mst_status status = host_.set(&host_, key.c_str(), data.data(), data.size());
        if (status != MST_OK) throw StoreFailure{status};
    }

    std::vector<char> get(const std::string &key) override {
        mst_bytes value = {};
        mst_status status = host_.get(&host_, key.c_str(), host_.deadline, &value);
        if (status != MST_OK) throw StoreFailure{status};
        std::vector<char> data(value.data, value.data + value.len);
        free(value.data);
        return data;
    }

    /* get waits, so wait does nothing. */
    void wait(const std::vector<std::string> &) override {}
    void wait(const std::vector<std::string> &, const std::chrono::milliseconds &) override {}

  private:
    const mst_backend_host &host_;
};

/* By default Gloo uses the address of the host name, which other hosts often cannot reach. */
std::string own_address(const mst_backend_host &host) {
    const char *interface = getenv("MUSTER_SOCKET_IFNAME"); /* host.address respects it */
    if (host.one_host && !(interface && *interface)) return "127.0.0.1";
    return host.address ? host.address : "";
}

/* Gloo of 2022 takes the store by reference, later versions by shared pointer. */
template <typename Context, typename Device>
void connect(Context &context, const std::shared_ptr<Store> &store, Device &device) {
    if constexpr (requires { context.connectFullMesh(*store, device); }) {
        context.connectFullMesh(*store, device);
    } else {
        context.connectFullMesh(store, device);
    }
}

/* At least 1 ms. The steady clock is CLOCK_MONOTONIC. */
std::chrono::milliseconds time_until(int64_t deadline) {
    auto left = std::chrono::nanoseconds(deadline) - std::chrono::steady_clock::now().time_since_epoch();
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                    std::chrono::milliseconds(1));
}

} // namespace

std::shared_ptr<gloo::Context> join(const mst_backend_host &host) {
    SignalsBlocked blocked; /* the device starts a thread */
    std::string address = own_address(host);
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
    auto context = std::make_shared<gloo::rendezvous::Context>(host.rank, host.ranks);
    /* Gloo waits five times the timeout for each connection. */
    context->setTimeout(time_until(host.deadline) / 5 + std::chrono::milliseconds(1));
    connect(*context, std::make_shared<Store>(host), device);
    return context;
}

} // namespace muster_gloo
