"""Network namespaces with nodes in them, for the tests of this directory.

Each test makes a Lab, which owns all that it makes: namespaces, processes, files. Whatever happens, leaving the `with`
block ends the processes, by pid, and deletes the rest. All nodes of a lab hang on one bridge in a namespace of its own,
so nothing is changed in the namespace that the test was started in, and names carry the test's pid, so tests may run
beside each other.

    def main(lab):
        a = lab.node("a", eth0=["10.0.1.1/24"])
        b = lab.node("b", eth0=["10.0.1.2/24"])
        daemon = a.daemon(config(["10.0.1.1@tcp"]))
        ...
    run(main)

Exit status of a test: 0; 1 with the reason and the logs of all processes; 77 where namespaces cannot be made. A case
that misses something else says so and is left out.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
FULL = bool(os.environ.get("ULNET_FULL"))  # the counts that the cases ask for, instead of a small share


class Failure(Exception):
    """What a test expected and did not see."""


class CaseSkipped(Exception):
    """Why one case cannot run here, while the test's others can."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def wait_until(condition, timeout_s, text):
    """Waits until condition() gives something true and returns it."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result:
            return result
        check(time.monotonic() < deadline, f"not within {timeout_s} s: {text}")
        time.sleep(0.02)


def config(nis, accept="secure", port=988, tcp=None, net="tcp", peers=(), **blocks):
    """A node's configuration: YAML, written as JSON. `nis`: NIDs, or names of interfaces; `tcp`: their `lnd tunables`;
    `peers`: the NIDs of each multi-rail peer told by hand; `blocks`: `global_` and further keys of `ulnet`."""
    entries = []
    for ni in nis:
        entry = {"nid": ni} if "@" in ni else {"interfaces": {"0": ni}}
        if tcp:
            entry["lnd tunables"] = tcp
        entries.append(entry)
    tree = {"net": [{"net type": net, "local NI(s)": entries}] if entries else []}
    if peers:
        tree["peer"] = [{"primary nid": nids[0], "Multi-Rail": True, "peer ni": [{"nid": nid} for nid in nids]}
                        for nids in peers]
    if "global_" in blocks:
        tree["global"] = blocks.pop("global_")
    tree["ulnet"] = {"accept": accept, "accept_port": port, **blocks}
    return json.dumps(tree, indent=1) + "\n"


class Process:
    """A program that runs in the background; its output is in `log`."""

    def __init__(self, name, command, log, env=None):
        self.name = name
        self.command = command
        self.log = log
        self.ended_by_us = False
        with open(log, "ab") as out:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)

    @property
    def pid(self):
        return self._child.pid

    def running(self):
        return self._child.poll() is None

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for_line(self, text, timeout_s=10):
        def printed():
            found = text in self.output()
            check(found or self.running(), f"{self.name} ended early, with status {self._child.returncode}")
            return found
        wait_until(printed, timeout_s, f"{self.name} prints {text!r}")

    def wait(self, timeout_s):
        """Its exit status, negative for a signal."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} has not ended within {timeout_s} s") from None

    def signal(self, number):
        if self.running():
            self._child.send_signal(number)

    def stop(self, timeout_s=5):
        """SIGTERM. Its exit status and the seconds that it took."""
        begin = time.monotonic()
        self.signal(signal.SIGTERM)
        status = self.wait(timeout_s)
        return status, time.monotonic() - begin

    def kill(self):
        self.signal(signal.SIGKILL)
        self._child.wait()

    def discard(self):
        """Forgets the output of what has ended, so that another process may have its name."""
        check(not self.running(), f"{self.name} is still running")
        os.truncate(self.log, 0)


class Daemon(Process):
    """An ulnetd with its control socket."""

    def __init__(self, node, name, command, socket, log, env):
        super().__init__(name, command, log, env)
        self.node = node
        self.socket = socket

    def ctl_run(self, *words, timeout_s=60):
        """ulnetctl with its exit status and output, for tests of failures."""
        return self.node.run([self.node.lab.program("ulnetctl"), "--socket", self.socket, *words], timeout_s=timeout_s,
                             must_succeed=False)

    def ctl(self, *words):
        """The answer of `ulnetctl WORDS` as a tree."""
        done = self.ctl_run("--json", *words)
        check(done.returncode == 0, f"ulnetctl {' '.join(words)} on {self.name}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def ni(self, nid):
        """What `net show` says of one NI, our own keys included."""
        for net in self.ctl("net", "show", "-v", "4")["net"]:
            for ni in net["local NI(s)"]:
                if ni["nid"] == nid:
                    return ni
        raise Failure(f"{self.name} has no NI {nid}")

    def nids(self):
        nets = self.ctl("net", "show")["net"]
        return [ni["nid"] for net in nets for ni in net["local NI(s)"] if ni["nid"] != "0@lo"]

    def connections(self, nid):
        """The connections with one peer NI."""
        for peer in self.ctl("peer", "show", "-v", "4")["peer"]:
            for ni in peer["peer ni"]:
                if ni["nid"] == nid:
                    return ni["ulnet"]["connections"]
        return []

    def ping(self, nid, *words):
        done = self.ctl_run("ping", *words, nid)
        check(done.returncode == 0, f"{self.name} pings {nid}: {done.stdout}{done.stderr}")


class Node:
    """One namespace, on the bridge by each of its devices."""

    def __init__(self, lab, name):
        self.lab = lab
        self.name = name
        self.namespace = lab.add_namespace(name)
        self._daemons = 0

    def ip(self, *words):
        self.lab.execute(["ip", "-n", self.namespace, *words])

    def add_device(self, device, addresses):
        """`addresses`: "10.0.1.1/24"; with a label "10.0.1.1/24=eth0:1"."""
        self.lab.connect(self.namespace, device)
        for address in addresses:
            self.add_address(device, address)
        self.ip("link", "set", device, "up")

    def add_address(self, device, address):
        address, _, label = address.partition("=")
        self.ip("address", "add", address, "dev", device, *(["nodad"] if ":" in address else []),
                *(["label", label] if label else []))

    def within(self, command):
        return ["ip", "netns", "exec", self.namespace, *command]

    def run(self, command, timeout_s=60, must_succeed=True):
        return self.lab.execute(self.within(command), timeout_s, must_succeed)

    def sysctl(self, name, value):
        with_slashes = name.replace(".", "/")
        self.run(["sh", "-c", f"echo {value} >/proc/sys/{with_slashes}"])

    def start(self, name, command, env=None):
        return self.lab.add_process(Process(name, self.within(command), self.lab.file(name + ".log"), env))

    def start_daemon(self, text, name=None, env=None):
        """An ulnetd that may still fail to start."""
        self._daemons += 1
        name = name or f"{self.name}{self._daemons}"
        socket = self.lab.file(name + ".sock")
        command = [self.lab.program("ulnetd"), "--config", self.lab.write(name + ".yaml", text), "--socket", socket]
        return self.lab.add_process(Daemon(self, name, self.within(command), socket, self.lab.file(name + ".log"), env))

    def daemon(self, text, name=None):
        daemon = self.start_daemon(text, name)
        daemon.wait_for_line("is up: ")
        return daemon

    def moved_bytes(self, device):
        """Bytes received and sent by a device, as its driver counts them."""
        folder = f"/sys/class/net/{device}/statistics"
        words = self.run(["cat", f"{folder}/rx_bytes", f"{folder}/tx_bytes"]).stdout.split()
        return int(words[0]), int(words[1])

    def set_carrier(self, device, up):
        """Pulls the plug at the other end of the wire, or puts it back."""
        self.lab.execute(["ip", "-n", self.lab.hub, "link", "set", self._port(device), "up" if up else "down"])

    def set_silent(self, device, silent):
        """The bridge takes nothing from the device and gives it nothing, while its carrier stays; or does again."""
        state = "0" if silent else "3"  # disabled, forwarding
        self.lab.execute(["bridge", "-n", self.lab.hub, "link", "set", "dev", self._port(device), "state", state])

    def _port(self, device):
        return self.lab.ports[self.namespace, device]

    def mac(self, device):
        return self.run(["cat", f"/sys/class/net/{device}/address"]).stdout.strip()

    def sockets(self, state):
        """Lines of `ss` for TCP sockets in a state such as "listening"."""
        return self.run(["ss", "-Htn", "state", state]).stdout.splitlines()


class Lab:
    def __init__(self, bin_dir, arguments=()):
        self.bin_dir = bin_dir
        self.arguments = arguments
        self._prefix = f"ulnet-{os.getpid()}-"
        self._namespaces = []
        self._processes = []
        self.ports = {}  # on the bridge, by namespace and device
        self._ports_made = 0
        self._folder = tempfile.mkdtemp(prefix="ulnet-netns-")

    def __enter__(self):
        self.hub = self.add_namespace("hub")
        self.execute(["ip", "-n", self.hub, "link", "add", "br0", "type", "bridge"])
        self.execute(["ip", "-n", self.hub, "link", "set", "br0", "up"])
        return self

    def __exit__(self, kind, value, traceback):
        for process in self._processes:
            process.kill()
        if kind is not None and not issubclass(kind, (SystemExit, CaseSkipped)):
            self._print_logs()
        for namespace in self._namespaces:
            subprocess.run(["ip", "netns", "del", namespace], check=False)
        shutil.rmtree(self._folder)

    def program(self, name):
        path = os.path.join(self.bin_dir, name)
        check(os.access(path, os.X_OK), f"there is no program {path}")
        return path

    def file(self, name):
        return os.path.join(self._folder, name)

    def write(self, name, text):
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.file(name)

    def execute(self, command, timeout_s=60, must_succeed=True):
        done = subprocess.run(command, text=True, capture_output=True, timeout=timeout_s, check=False)
        check(done.returncode == 0 or not must_succeed,
              f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def add_namespace(self, name):
        namespace = self._prefix + name
        self.execute(["ip", "netns", "add", namespace])
        self._namespaces.append(namespace)
        self.execute(["ip", "-n", namespace, "link", "set", "lo", "up"])
        return namespace

    def connect(self, namespace, device):
        """Puts a new device of a namespace on the bridge."""
        self._ports_made += 1
        port = f"port{self._ports_made}"
        self.ports[namespace, device] = port
        self.execute(["ip", "-n", self.hub, "link", "add", port, "type", "veth", "peer", "name", device, "netns",
                      namespace])
        self.execute(["ip", "-n", self.hub, "link", "set", port, "master", "br0", "up"])

    def node(self, name, **devices):
        node = Node(self, name)
        for device, addresses in devices.items():
            node.add_device(device, addresses)
        return node

    def add_process(self, process):
        self._processes.append(process)
        return process

    def _print_logs(self):
        last_of_log = {process.log: process for process in self._processes}
        for process in last_of_log.values():
            lines = process.output().splitlines()[-40:]
            print(f"--- {process.name}: {' '.join(process.command)}", *lines, sep="\n", file=sys.stderr)


def _skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def _need_namespaces():
    if os.geteuid() != 0:
        _skip("network namespaces need root")
    for tool in ("ip", "ss"):
        if shutil.which(tool) is None:
            _skip(f"{tool} is not installed (Debian: iproute2)")
    name = f"ulnet-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], text=True, capture_output=True, check=False)
    if made.returncode != 0:
        _skip(f"no network namespaces here: {made.stderr.strip()}")
    subprocess.run(["ip", "netns", "del", name], check=False)


def sanitized(lab, program):
    """The command of a program from the tree with AddressSanitizer, whose directory is the test's first argument.
    Without it the case is skipped."""
    path = os.path.join(lab.arguments[0], program) if lab.arguments else ""
    if not os.access(path, os.X_OK):
        raise CaseSkipped(f"no build with AddressSanitizer: {path or 'its directory is not given'}")
    # Sanitizer runtimes of this age cannot map their shadow where the kernel randomises 32 bits of an address.
    return ["setarch", os.uname().machine, "-R", path]


def run(*cases):
    """Runs each case in a lab of its own. Usage of a test: `TEST.py [--only CASE] BIN_DIR [ARGUMENT...]`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", help="run this case and no other")
    parser.add_argument("bin_dir", help="where ulnetd, ulnetctl, ulnet_perf and load_node are")
    parser.add_argument("arguments", nargs="*", help="what the test itself takes")
    arguments = parser.parse_args()
    _need_namespaces()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ctest's way to say: too late
    try:
        for case in cases:
            if arguments.only and case.__name__ not in arguments.only:
                continue
            begin = time.monotonic()
            try:
                with Lab(arguments.bin_dir, arguments.arguments) as lab:
                    case(lab)
                print(f"ok: {case.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            except CaseSkipped as reason:
                print(f"SKIPPED: {case.__name__}: {reason}", flush=True)
    except Failure as failure:
        print(f"FAILED: {case.__name__}: {failure}", file=sys.stderr)
        sys.exit(1)
