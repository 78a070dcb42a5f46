# The user's view of muster; make help lists it. Everything is built in build/ by CMake.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
MAKEFLAGS += --no-print-directory

build: ## build the library, the tool and the examples into build/
	@scripts/deps.sh build
	cmake --preset release
	cmake --build build -j$(JOBS)

demo: build ## four processes meet, say where they are, and train a model together
	build/bin/muster run -n 4 build/bin/examples/01_hello
	build/bin/muster run -n 4 build/bin/examples/02_all_reduce

test: ## install what the tests need, build, run everything
	@scripts/test.sh

check: build ## static checks only
	@scripts/check.sh

bench: build ## how fast the store, the start-up and the collectives are
	build/bin/muster bench store
	build/bin/muster bench init
	build/bin/muster bench coll

install: build ## install into PREFIX (default /usr/local)
	cmake --install build --prefix $(PREFIX)

clean: ## remove everything that was built
	rm -rf build build-*

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

.PHONY: build demo test check bench install clean help
.NOTPARALLEL:
