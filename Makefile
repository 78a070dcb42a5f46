# Targets for users; make help lists them. CMake builds everything in build/.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
MAKEFLAGS += --no-print-directory

build: ## build the library, the tool and the examples into build/
	@scripts/deps.sh build
	cmake --preset release
	cmake --build build -j$(JOBS) $(TARGETS)

demo: TARGETS := --target muster_tool gpt example_01_hello
demo: build ## train a GPT with four processes, print a communication profile, then generate text
	build/bin/muster run -n 4 build/bin/examples/01_hello
	build/bin/muster run -n 4 --prof build/bin/gpt train --mesh dp=2,pp=2 --save build/demo
	build/bin/muster run -n 4 build/bin/gpt generate --mesh pp=4 --load build/demo --prompt "This License" --tokens 300

# Rank 2 kills itself after two seconds; its replacement does not.
SURVIVE := [ "$$RANK$$MUSTER_JOIN" = 2 ] && { sleep 2; kill -9 $$$$; } & exec build/bin/gpt train --mesh dp=4 --survive 1
demo-survive: TARGETS := --target muster_tool gpt
demo-survive: build ## train a GPT, kill a process: the others continue without it, then with a new one
	build/bin/muster run -n 4 --survive sh -c '$(SURVIVE) --steps 300'
	build/bin/muster run -n 4 --replace sh -c '$(SURVIVE) --steps 300 --join-timeout 30'

test: ## install the required packages, build, run everything
	@scripts/test.sh

TORCH ?= torch
torch-test: build ## test the backend for PyTorch with a torch of PyPI (TORCH=torch==2.11.0), in build/torch-venv
	cmake --preset release -DMUSTER_BUILD_TESTS=ON
	cmake --build build -j$(JOBS)
	python3 -m venv build/torch-venv
	build/torch-venv/bin/pip install -q setuptools numpy expecttest '$(TORCH)'
	-DS_ACCELERATOR=cpu build/torch-venv/bin/pip install -q deepspeed
	MUSTER_TORCH_PYTHON=$(CURDIR)/build/torch-venv/bin/python ctest --test-dir build -R 'interop/test_(torch_(backend|faults|faults_hosts|elastic|threads)|serial_torch_frameworks)|net/test_torch_net' -V
	MUSTER_ARCHIVE=$(CURDIR)/build/lib/libmuster.a build/torch-venv/bin/pip install -q --no-build-isolation ./bindings/torch
	for n in 3 4 8; do build/torch-venv/bin/python bindings/torch/tests/suite.py --ranks $$n || exit 1; done
	MUSTER_ARCHIVE=$(CURDIR)/build/lib/libmuster.a build/torch-venv/bin/python bindings/torch/tests/bugs.py

check: build ## run only the static checks
	@scripts/check.sh

fresh: ## follow the README and the tutorial in a new Debian (minutes; as root, with debootstrap)
	@scripts/fresh_debian.py || [ $$? = 77 ]

FIGURES := build/bench
bench: build ## run the standard benchmarks (minutes); update the tables in docs/performance.md and the chart
	mkdir -p $(FIGURES)
	build/bin/muster bench limits --json $(FIGURES)/limits.json
	build/bin/muster bench all --bind --bytes 4:64M:16 --seconds 0.03 \
		--backend native,openmpi,mpich,openmpi:nocma,openmpi:sm,openmpi:ucx,mpich:nocma,gloo \
		--limits --json $(FIGURES)/host.json --plot $(FIGURES)/host.svg
	build/bin/muster bench all --backend native,openmpi,mpich --bind --bytes 16K:64M:16 --seconds 0.03 \
		--buffers symmetric --json $(FIGURES)/symmetric.json
	build/bin/muster bench all --backend native,openmpi,mpich,gloo --bind --bytes 4:16M:64 --seconds 0.03 \
		--hosts-simulated 2 --json $(FIGURES)/hosts.json
	build/bin/muster bench all --backend native,openmpi --ranks 8 --bytes 4:4M:16 --seconds 0.03 \
		--json $(FIGURES)/shared.json
	build/bin/muster bench all_reduce send_recv --backend native,openmpi,mpich,gloo --bind --bytes 4:64M:4 \
		--seconds 0.03 --json $(FIGURES)/chart.json
	scripts/bench_chart.py docs/pictures/bench.svg $(FIGURES)/chart.json
	scripts/bench_table.py docs/performance.md $(FIGURES)/limits.json $(FIGURES)/host.json \
		$(FIGURES)/symmetric.json $(FIGURES)/hosts.json $(FIGURES)/shared.json

install: build ## install into PREFIX (default /usr/local)
	cmake --install build --prefix $(PREFIX)

clean: ## remove all build directories
	rm -rf build build-*

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

.PHONY: build demo demo-survive test torch-test check fresh bench install clean help
.NOTPARALLEL:
