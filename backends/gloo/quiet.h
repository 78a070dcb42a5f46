/* quiet.h - keeps signals away from Gloo's threads, and SIGPIPE from the program's. */
#ifndef MUSTER_GLOO_QUIET_H
#define MUSTER_GLOO_QUIET_H

#include <csignal>
#include <ctime>

namespace muster_gloo {

/* Threads that are started in its scope, also by Gloo, block all signals. */
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before_);
    }
    ~SignalsBlocked() {
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    SignalsBlocked(const SignalsBlocked &) = delete;
    SignalsBlocked &operator=(const SignalsBlocked &) = delete;

  private:
    sigset_t before_;
};

/* Suppresses SIGPIPE in its scope: Gloo writes to connections that the peer has closed. */
class NoPipeSignal {
  public:
    NoPipeSignal() {
        sigset_t pending;
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
        was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    }
    ~NoPipeSignal() {
        const timespec now = {0, 0};
        if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoPipeSignal(const NoPipeSignal &) = delete;
    NoPipeSignal &operator=(const NoPipeSignal &) = delete;

  private:
    sigset_t pipe_, before_;
    bool was_pending_;
};

} // namespace muster_gloo
#endif
