#!/usr/bin/env python3
"""Two real ulnetd on loopback and ulnetctl against them: `daemon_test.py ULNETD ULNETCTL [-k NAME]`.

      ulnetd 127.0.0.2@tcp  <── TCP, one port ──>  ulnetd 127.0.0.3@tcp        127.0.0.4: accepts and says nothing
          │ a.sock                                     │ b.sock
       ulnetctl                                     ulnetctl

As root, everything runs as an unprivileged user; what needs two users is skipped aloud otherwise.
"""

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import yaml
except ImportError:
    yaml = None

ULNETD, ULNETCTL = "", ""
NOBODY, STRANGER = 65534, 54321

CONFIG = """\
net:
  - net type: tcp
    local NI(s):
      - nid: {nid}
ulnet:
  accept: all
  accept_port: {port}
  socket: {socket}
"""


def as_user(uid):
    """Arguments for subprocess that drop root, if we are root."""
    return {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Daemon:
    """One ulnetd; ready when start() returns."""

    def __init__(self, directory, name, nid, port):
        self.nid = nid
        self.config = os.path.join(directory, name + ".yaml")
        self.socket = os.path.join(directory, name + ".sock")
        self.log = os.path.join(directory, name + ".log")
        self.notify_path = os.path.join(directory, name + ".notify")
        self.write_config(CONFIG.format(nid=nid, port=port, socket=self.socket))
        self.process = None
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.settimeout(10)
        self.notify.bind(self.notify_path)
        os.chmod(self.notify_path, 0o666)

    def write_config(self, text):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def spawn(self, *options, before=(), uid=NOBODY):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*before, ULNETD, "--config", self.config, *options],
                stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": self.notify_path}, **as_user(uid))

    def start(self, **how):
        self.spawn(**how)
        try:
            return self.notify.recv(4096).decode()
        except socket.timeout:
            raise AssertionError("not ready in 10 s: " + self.log_text()) from None

    def log_text(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def end(self, number=signal.SIGTERM):
        """Exit status and the seconds it took."""
        begin = time.monotonic()
        self.process.send_signal(number)
        status = self.process.wait(timeout=30)
        return status, time.monotonic() - begin

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.notify.close()


def ctl(daemon, *words, uid=NOBODY):
    return subprocess.run([ULNETCTL, "--socket", getattr(daemon, "socket", daemon), *words], capture_output=True,
                          text=True, timeout=60, check=False, **as_user(uid))


class DaemonTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ulnet-e2e-")
        os.chmod(self.directory, 0o777)
        self.addCleanup(shutil.rmtree, self.directory)
        self.port = free_port()

    def daemon(self, name, nid):
        daemon = Daemon(self.directory, name, nid, self.port)
        self.addCleanup(daemon.close)
        return daemon

    def pair(self):
        a, b = self.daemon("a", "127.0.0.2@tcp"), self.daemon("b", "127.0.0.3@tcp")
        a.start()
        b.start()
        return a, b

    def wait_until(self, holds, seconds=10):
        deadline = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), deadline, "it does not come to hold")
            time.sleep(0.05)

    def same_tree(self, daemon, *words):
        """The YAML of a command is the tree that --json gives."""
        text, tree = ctl(daemon, *words), ctl(daemon, *words, "--json")
        self.assertEqual((text.returncode, tree.returncode), (0, 0), text.stderr + tree.stderr)
        if yaml is not None:
            # 0 is a number to YAML and a string to JSON, as keys go.
            self.assertEqual(json.loads(json.dumps(yaml.safe_load(text.stdout))), json.loads(tree.stdout))
        return text.stdout

    def test_ready_and_stopping_are_announced(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        self.assertEqual(a.start(), "READY=1\nSTATUS=127.0.0.2@tcp")
        status, _ = a.end()
        self.assertEqual(a.notify.recv(4096), b"STOPPING=1")
        self.assertEqual(status, 0)

    def test_ping_both_ways_and_show(self):
        a, b = self.pair()
        for daemon, other in ((a, b), (b, a)):
            ping = ctl(daemon, "ping", other.nid)
            self.assertEqual(ping.stdout, f"ping:\n- primary nid: {other.nid}\n  Multi-Rail: true\n  peer_ni:\n"
                                          f"  - nid: {other.nid}\n")
            self.assertEqual((ping.returncode, ping.stderr), (0, ""))
        self.assertEqual(self.same_tree(a, "net", "show"), """\
net:
-     net type: lo
      local NI(s):
      -     nid: 0@lo
            status: up
-     net type: tcp
      local NI(s):
      -     nid: 127.0.0.2@tcp
            status: up
            interfaces:
                  0: lo
""")
        for words in (("net", "show", "-v"), ("net", "show", "-v", "4"), ("peer", "show", "-v", "4"),
                      ("stats", "show", "-v", "4")):
            self.same_tree(a, *words)
        self.assertEqual(self.same_tree(a, "peer", "list"), "peer list:\n-     nid: 127.0.0.3@tcp\n")
        self.assertIn("    transaction_timeout: 150\n", self.same_tree(a, "global", "show"))
        self.assertIn("    send_count: 2\n", self.same_tree(a, "stats", "show"))
        self.assertIn("ulnetd: ", self.same_tree(a, "version"))

    def test_failed_pings_stand_beside_the_others(self):
        a, b = self.pair()
        ping = ctl(a, "ping", b.nid + ",127.0.0.9@tcp,10.0.0@tcp", b.nid)
        self.assertEqual(ping.returncode, 255)
        self.assertEqual(ping.stdout.count("- primary nid: 127.0.0.3@tcp\n"), 2)
        self.assertTrue(ping.stdout.endswith(
            "manage:\n- ping:\n  errno: -111\n  descr: ! 'failed to ping 127.0.0.9@tcp: Connection refused'\n"
            "- ping:\n  errno: -22\n  descr: ! 'failed to ping 10.0.0@tcp: Invalid argument'\n"), ping.stdout)
        tree = json.loads(ctl(a, "ping", "127.0.0.8@tcp", "--json").stdout)
        self.assertEqual(tree["manage"][0]["name"], "ECONNREFUSED")

    def test_a_slow_ping_keeps_its_time_and_delays_nobody(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        a.start()
        with socket.create_server(("127.0.0.4", self.port)):
            begin = time.monotonic()
            with subprocess.Popen([ULNETCTL, "--socket", a.socket, "ping", "-t", "2", "127.0.0.4@tcp"],
                                  stdout=subprocess.PIPE, text=True) as ping:
                self.assertEqual(ctl(a, "net", "show").returncode, 0)
                self.assertLess(time.monotonic() - begin, 1.9)
                self.assertIn("failed to ping 127.0.0.4@tcp: Connection timed out", ping.communicate()[0])
            took = time.monotonic() - begin
            self.assertEqual(ping.returncode, 255)
            self.assertGreater(took, 1.9)
            self.assertLess(took, 3.5)

    def test_signals_stop_in_time_and_leave_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with socket.create_server(("127.0.0.4", self.port)):
                a = self.daemon(number.name, "127.0.0.2@tcp")
                a.start()
                with subprocess.Popen([ULNETCTL, "--socket", a.socket, "ping", "-t", "60", "127.0.0.4@tcp"],
                                      stderr=subprocess.PIPE, text=True) as ping:  # still under way
                    deadline = time.monotonic() + 10
                    while "127.0.0.4" not in ctl(a, "peer", "list").stdout and time.monotonic() < deadline:
                        time.sleep(0.05)
                    status, took = a.end(number)
                    self.assertEqual(status, 0, a.log_text())
                    self.assertLess(took, 5)
                    self.assertIn("went away", ping.communicate()[1])
                self.assertFalse(os.path.exists(a.socket))

    def test_port_in_use_names_ni_and_line(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        a.start()
        second = self.daemon("second", "127.0.0.2@tcp")
        second.spawn()
        self.assertEqual(second.process.wait(timeout=10), 3)
        self.assertRegex(second.log_text(), rf"{second.config}:4.*127\.0\.0\.2.*{self.port}")
        self.assertFalse(os.path.exists(second.socket))

    def test_missing_interface_and_address_are_named(self):
        for text, name in (("interfaces: {0: nosuch0}", "nosuch0"), ("nid: 192.0.2.77@tcp", "192.0.2.77")):
            a = self.daemon(name, "127.0.0.2@tcp")
            a.write_config(f"net:\n  - net type: tcp\n    local NI(s):\n      - {text}\n"
                           f"ulnet: {{accept: all, accept_port: {self.port}, wait_for_interfaces: false}}\n")
            a.spawn("--socket", a.socket)
            self.assertEqual(a.process.wait(timeout=10), 3)
            self.assertRegex(a.log_text(), rf"{a.config}:4.*{name}")
            self.assertFalse(os.path.exists(a.socket))

    def test_control_socket_of_a_live_daemon_stays_a_dead_one_goes(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        a.start()
        second = self.daemon("second", "127.0.0.3@tcp")
        second.spawn("--socket", a.socket)
        self.assertEqual(second.process.wait(timeout=10), 3)
        self.assertIn(f"control socket {a.socket}: another daemon answers there", second.log_text())
        self.assertEqual(ctl(a, "net", "show").returncode, 0)
        a.end(signal.SIGKILL)
        self.assertTrue(os.path.exists(a.socket))
        self.assertEqual(ctl(a, "net", "show").returncode, 234)
        a.start()
        self.assertEqual(ctl(a, "net", "show").returncode, 0)

    # SL-2
    def test_devices_that_would_answer_for_each_other_are_reported(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False).returncode != 0:
            self.skipTest("needs root and network namespaces")
        a = self.daemon("a", "127.0.0.2@tcp")
        a.write_config("net: [{net type: tcp, local NI(s): [{interfaces: {0: v0, 1: v1}}]}]\n"
                       f"ulnet: {{accept_port: {self.port}, socket: {a.socket}}}\n")
        topology = """
            for i in 0 1; do
              ip link add dev v$i type veth peer name p$i && ip addr add 10.9.9.$((i + 1))/24 dev v$i &&
                ip link set p$i up && ip link set v$i up && echo 0 > /proc/sys/net/ipv4/conf/v$i/arp_ignore || exit 77
            done
            echo 0 > /proc/sys/net/ipv4/conf/all/arp_ignore
            exec "$@"
            """
        a.start(before=("unshare", "-n", "sh", "-c", topology, "sh"), uid=0)
        self.assertIn("devices v0, v1 are on one subnet, 10.9.9.0/24", a.log_text())
        self.assertIn("sysctl -w net.ipv4.conf.v0.arp_ignore=1\n", a.log_text())
        self.assertIn("sysctl -w net.ipv4.conf.v1.arp_ignore=1\n", a.log_text())

    def test_warnings_of_the_configuration_are_logged(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        a.write_config(f"globl: 1\nulnet: {{accept_port: {self.port}, socket: {a.socket}}}\n")
        self.assertIn("0@lo only", a.start())
        self.assertIn(f"{a.config}:1:1: unknown key 'globl' in the file is ignored; did you mean 'global'?\n",
                      a.log_text())
        self.assertIn("no net is configured: the node has no address but 0@lo and reaches nobody\n", a.log_text())
        self.assertEqual(ctl(a, "ping", "0@lo").returncode, 0)

    def test_exit_statuses_before_the_start(self):
        a = self.daemon("a", "127.0.0.2@tcp")

        def run(*words):
            return subprocess.run([ULNETD, *words], capture_output=True, text=True, timeout=10, check=False)

        self.assertEqual(run("--config", a.config, "--check").stdout, f"{a.config}: 1 local NI, no error\n")
        self.assertEqual(run("--version").returncode, 0)
        self.assertEqual(run("--help").returncode, 0)
        self.assertEqual(run().returncode, 1)
        unknown = run("--config", a.config, "--chek")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("--chek", unknown.stderr)
        self.assertEqual(run("--config", a.config, "--log-level", "loud").returncode, 1)
        missing = run("--config", "/nonexistent.yaml")
        self.assertEqual((missing.returncode, missing.stderr),
                         (2, "/nonexistent.yaml: cannot be opened: No such file or directory\n"))
        a.write_config("- net type: tcp\n")
        bad = run("--config", a.config)
        self.assertEqual(bad.returncode, 2)
        self.assertTrue(bad.stderr.startswith(f"{a.config}:1:1: "), bad.stderr)

    def test_no_daemon_is_said_with_the_path(self):
        path = os.path.join(self.directory, "none.sock")
        for words, status in ((("net", "show"), 234), (("stats", "show"), 156), (("global", "show"), 156),
                              (("ping", "127.0.0.2@tcp"), 234)):
            run = ctl(path, *words)
            self.assertEqual((run.returncode, run.stdout), (status, ""), words)
            self.assertIn(f"no ulnetd answers on {path}: No such file or directory", run.stderr)
            self.assertIn("errno: -100\n", run.stderr)
            self.assertEqual(ctl(path, *words, "--json").returncode, status)

    def test_fault_rules_at_run_time(self):
        a, b = self.pair()
        self.assertEqual(ctl(a, "ping", b.nid).returncode, 0)
        self.assertEqual(ctl(a, "fault", "drop", "show").stdout, "")
        # What B receives vanishes; A waits in vain.
        add = ctl(b, "fault", "drop", "add", "-s", "*", "-d", "tcp", "-r", "1", "-m", "GET", "-p", "0")
        self.assertEqual((add.returncode, add.stdout, add.stderr), (0, "", ""))
        begin = time.monotonic()
        self.assertIn("Connection timed out", ctl(a, "ping", "-t", "0.5", b.nid).stdout)
        self.assertGreaterEqual(time.monotonic() - begin, 0.5)
        self.assertEqual(self.same_tree(b, "fault", "drop", "show"), """\
fault:
-     rule_type: drop
      fa_src: <?>
      fa_dst: 255.255.255.255@tcp
      fa_ptl_mask: 1
      fa_msg_mask: 4
      da_rate: 1
      da_interval: 0
      ds_dropped: 1
      fs_count: 1
      fs_put: 0
      fs_ack: 0
      fs_get: 1
      fs_reply: 0
""")
        self.assertEqual(ctl(b, "fault", "drop", "reset").returncode, 0)
        self.assertIn("ds_dropped: 0\n", ctl(b, "fault", "drop", "show").stdout)
        self.assertEqual(ctl(b, "fault", "drop", "del", "-s", "*", "-d", "tcp").returncode, 0)
        self.assertEqual(ctl(b, "fault", "drop", "show").stdout, "")
        self.assertEqual(ctl(a, "ping", b.nid).returncode, 0)
        # What A sends fails at once, and counts.
        self.assertEqual(ctl(a, "fault", "drop", "add", "-s", a.nid, "-d", b.nid, "-r", "1",
                             "-e", "local_timeout").returncode, 0)
        begin = time.monotonic()
        self.assertIn("Invalid argument", ctl(a, "ping", "-t", "20", b.nid).stdout)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn("local_timeout_count: 1\n", ctl(a, "stats", "show").stdout)
        # What B receives is late, until the rule goes.
        self.assertEqual(ctl(a, "fault", "drop", "del", "--all").returncode, 0)
        self.assertEqual(ctl(b, "fault", "delay", "add", "-s", "*", "-d", "*", "-r", "1", "-m", "GET",
                             "-l", "1").returncode, 0)
        begin = time.monotonic()
        self.assertEqual(ctl(a, "ping", "-t", "20", b.nid).returncode, 0)
        self.assertGreaterEqual(time.monotonic() - begin, 0.99)  # the coarse clock lags some milliseconds
        self.assertIn("ls_delayed: 1\n", self.same_tree(b, "fault", "delay", "show", "-v", "4"))
        self.assertEqual(ctl(b, "fault", "delay", "del", "-a").returncode, 0)
        self.assertEqual(ctl(a, "ping", b.nid).returncode, 0)
        self.assertRegex(b.log_text(), r"'fault delay del' \{.*\} by uid \d+")

    def test_stopping_with_delayed_messages_takes_no_longer(self):
        a, b = self.pair()
        ctl(a, "ping", b.nid)
        for daemon, message in ((a, "GET"), (b, "REPLY")):
            self.assertEqual(ctl(daemon, "fault", "delay", "add", "-s", "*", "-d", "*", "-r", "2", "-m", message,
                                 "-l", "3600").returncode, 0)
        ctl(a, "ping", "-t", "0.1", b.nid)  # the first of two: held by A
        ctl(a, "ping", "-t", "0.1", b.nid)  # its answer: held by B
        self.assertIn("ls_delayed: 1\n", ctl(a, "fault", "delay", "show").stdout)
        self.assertIn("ls_delayed: 1\n", ctl(b, "fault", "delay", "show").stdout)
        for daemon in (a, b):
            status, took = daemon.end()
            self.assertEqual(status, 0, daemon.log_text())
            self.assertLess(took, 5)

    def test_wrong_fault_rules_are_named(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        a.start()
        refused = ctl(a, "fault", "drop", "add", "-s", "*", "-d", "*", "-r", "1", "-i", "5")
        self.assertEqual((refused.returncode, refused.stdout), (234, ""))
        self.assertEqual(refused.stderr, """\
---
add:
-     fault:
      errno: -22
      descr: ! "rate 1 and interval 5: exactly one of them must be above 0"
...
""")
        refused = ctl(a, "fault", "delay", "del", "-s", "*", "-d", a.nid)
        self.assertEqual(refused.returncode, 234)
        self.assertIn("del:\n-     fault:\n      errno: -2\n", refused.stderr)
        a.end()
        a.write_config(CONFIG.format(nid=a.nid, port=self.port, socket=a.socket) +
                       "fault: {drop: [{source: '*', dest: '*', rate: none}]}\n")
        a.spawn()
        self.assertEqual(a.process.wait(timeout=10), 2)
        self.assertRegex(a.log_text(), rf"{a.config}:9:47: 'rate' must be a number from 1 to \d+, not 'none'\n")

    def test_fault_rules_of_the_configuration(self):
        a, b = self.daemon("a", "127.0.0.2@tcp"), self.daemon("b", "127.0.0.3@tcp")
        b.write_config(CONFIG.format(nid=b.nid, port=self.port, socket=b.socket) +
                       "fault: {drop: [{source: '*', dest: 127.0.0.3@tcp, rate: 2, message: GET}]}\n")
        a.start()
        b.start()
        self.assertNotEqual(ctl(a, "ping", "-t", "0.3", b.nid).returncode, 0)  # the first of two
        self.assertEqual(ctl(a, "ping", b.nid).returncode, 0)
        self.assertIn("fault_rule: 1\n", ctl(b, "stats", "show", "-v", "4").stdout)

    # UX-2
    def test_every_error_is_yaml_and_json(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        a.start()
        commands = [("net", "show", "--net", word) for word in ("tcp9", "x: y", "'", '"', "\n", "\\", "[", "a b#c", "")]
        commands += [("peer", "show", "--nid", word) for word in ("1.2.3", "'\"'", "%s%n", "\u2603", ": ")]
        commands += [("ping", word) for word in ("1.2.3@tcp", "[", "''", "10.0.0.[1-999]@tcp", "*@tcp", ",")]
        commands += [(word,) for word in ("nett", "-x", "--", "\u2013v", "#", "- a", "{}")]
        commands += [("net", "show", "-v", word) for word in ("5", "-1", "x", "99999999999999999999")]
        commands += [("set", word, "1") for word in ("retry", "x: y", "\n", "- a", "''")]
        commands += [("set", "retry_count", word) for word in ("-1", "x: y", "\n", "\"", "%s%n", "\u2603")]
        commands += [("net", "set"), ("net", "set", "--all"), ("peer", "set", "--all", "--health", "': \n"),
                     ("net", "set", "--nid", "x: y", "--health", "1")]
        for words in commands:
            plain, tree = ctl(a, *words), ctl(a, "--json", *words)
            if words == ("net", "show", "--net", ""):
                continue  # the empty filter filters nothing
            self.assertNotEqual(plain.returncode, 0, words)
            self.assertEqual(plain.returncode, tree.returncode, words)
            block = next(iter(json.loads(tree.stderr or tree.stdout).values()))[0]
            self.assertLess(block["errno"], 0)
            self.assertTrue(block["name"] and block["descr"], words)
            if yaml is not None and "Usage" not in plain.stderr:
                same = next(iter(yaml.safe_load(plain.stderr or plain.stdout).values()))[0]
                same = same if "errno" in same else next(iter(same.values()))  # style B puts them one level down
                self.assertEqual((same["errno"], same["descr"]), (block["errno"], block["descr"]), words)

    def shown(self, daemon, *words):
        return json.loads(ctl(daemon, *words, "show", "-v", "4", "--json").stdout)

    def settings(self, daemon):
        return json.loads(ctl(daemon, "global", "show", "--json").stdout)["global"]

    def local_ni(self, daemon):
        return self.shown(daemon, "net")["net"][1]["local NI(s)"][0]

    def change(self, daemon, *words):
        done = ctl(daemon, *words)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), words)

    # HL-6
    def test_the_order_of_setting_parameters_does_not_matter(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        wanted = {"health_sensitivity": 100, "retry_count": 3, "transaction_timeout": 40}
        states = []
        for order in itertools.permutations(wanted.items()):
            a.write_config(CONFIG.format(nid=a.nid, port=self.port, socket=a.socket) +
                           "global: {health_sensitivity: 0}\n")
            a.start()
            for name, value in order:
                self.change(a, "set", name, str(value))
            states.append(self.settings(a))
            self.change(a, "set", "health_sensitivity", "0")
            self.assertEqual(self.settings(a)["retry_count"], 3)
            self.change(a, "set", "health_sensitivity", "100")
            states.append(self.settings(a))
            a.end()
            a.notify.recv(4096)  # STOPPING
        self.assertEqual(len(states), 12)
        for state in states:
            self.assertEqual(state, states[0])
            self.assertEqual({name: state[name] for name in wanted}, wanted)
            self.assertEqual((state["lnd_timeout"], state["ulnet"]["operation_bound"]), (9, 40))

    def test_the_rule_between_time_out_and_retries_is_exact(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        a.start()
        self.change(a, "set", "retry_count", "3")
        self.change(a, "set", "transaction_timeout", "4")
        for words, text in ((("transaction_timeout", "3"), "transaction_timeout 3 must be above retry_count 3"),
                            (("retry_count", "4"), "retry_count 4 must be below transaction_timeout 4")):
            before = self.settings(a)
            refused = ctl(a, "set", *words)
            self.assertEqual(refused.stderr, f"add:\n    - {words[0]}:\n          errno: -22\n"
                                             f"          descr: \"{text}\"\n")
            self.assertEqual(refused.returncode, 234)
            self.assertEqual(self.settings(a), before)

    # HL-8
    def test_health_settings_have_ranges(self):
        a, b = self.pair()
        self.assertEqual(ctl(a, "ping", b.nid).returncode, 0)
        before = (self.settings(a), self.local_ni(a)["health stats"]["health value"])
        for value in ("1001", "-1", "abc", "1e3", "", " 1", "1000.0", "99999999999999999999"):
            for words in (("set", "health_sensitivity", value), ("net", "set", "--nid", a.nid, "--health", value),
                          ("net", "set", "--all", "--health-sensitivity", value),
                          ("peer", "set", "--nid", b.nid, "--health", value)):
                refused = ctl(a, *words)
                self.assertNotEqual(refused.returncode, 0, words)
                if value != "":  # nothing at all is another mistake
                    self.assertRegex(refused.stderr, r"health(_sensitivity)? must be a number from 0 to 1000, not ")
        self.assertEqual((self.settings(a), self.local_ni(a)["health stats"]["health value"]), before)
        for value in ("0", "1000"):
            self.change(a, "set", "health_sensitivity", value)
            self.assertEqual(self.settings(a)["health_sensitivity"], int(value))

    # HL-7
    def test_the_time_outs_in_force_are_shown_and_kept(self):
        a = self.daemon("a", "127.0.0.2@tcp")
        a.write_config(CONFIG.format(nid=a.nid, port=self.port, socket=a.socket).replace(
            f"- nid: {a.nid}", f"- nid: {a.nid}\n        lnd tunables: {{timeout: 7}}"))
        a.start()

        def in_force():
            ours = self.settings(a)["ulnet"]["lnd_timeouts"][0]
            self.assertEqual(self.local_ni(a)["lnd tunables"]["timeout"], ours["in_force"])
            return ours["in_force"], ours["reason"], ours["attempt_bound"]

        self.assertEqual(in_force(), (7, "set", 22))
        refused = ctl(a, "set", "transaction_timeout", "21")
        self.assertIn("3 attempts at the LND timeout 7 of 127.0.0.2@tcp take 22 s; at least 22 would do",
                      refused.stderr)
        self.assertIn("at most 49 would do", ctl(a, "net", "set", "--net", "tcp", "--lnd-timeout", "50").stderr)
        self.assertEqual(in_force(), (7, "set", 22))
        self.change(a, "net", "set", "--net", "tcp", "--lnd-timeout", "0")
        self.assertEqual(in_force(), (49, "derived", 148))
        self.assertIn("    lnd_timeout: 49\n", self.same_tree(a, "global", "show"))
        self.change(a, "set", "transaction_timeout", "31")
        self.assertEqual(in_force(), (10, "derived", 31))
        # And the driver keeps it.
        self.change(a, "net", "set", "--nid", a.nid, "--lnd-timeout", "1")
        with socket.create_server(("127.0.0.4", self.port)):
            begin = time.monotonic()
            self.assertIn("failed to ping", ctl(a, "ping", "-t", "30", "127.0.0.4@tcp").stdout)
            self.assertLess(time.monotonic() - begin, 10)

    # HL-16
    def test_health_by_hand(self):
        a, b = self.pair()
        self.change(a, "set", "health_sensitivity", "0")  # so that nothing but the hand moves it
        for value, status in ((500, "up"), (0, "down"), (500, "down"), (1000, "up")):
            self.change(a, "net", "set", "--nid", a.nid, "--health", str(value))
            ni = self.local_ni(a)
            self.assertEqual((ni["health stats"]["health value"], ni["status"]), (value, status))
        self.assertRegex(a.log_text(), r"""'net set' \{"nid":"127\.0\.0\.2@tcp","health":"500"\} by uid \d+, pid \d+""")
        self.assertEqual(ctl(a, "ping", b.nid).returncode, 0)
        self.change(a, "peer", "set", "--nid", b.nid, "--health", "7")
        self.assertEqual(self.shown(a, "peer")["peer"][0]["peer ni"][0]["health stats"]["health value"], 7)
        self.change(a, "peer", "set", "--all", "--health", "1000")
        self.assertEqual(self.shown(a, "peer")["peer"][0]["peer ni"][0]["health stats"]["health value"], 1000)
        for words, text in ((("net", "set", "--nid", "127.0.0.9@tcp", "--health", "1"), "no local NI 127.0.0.9@tcp"),
                            (("peer", "set", "--nid", "127.0.0.9@tcp", "--health", "1"), "no peer NI 127.0.0.9@tcp"),
                            (("net", "set", "--net", "tcp7", "--health", "1"), "no local net tcp7"),
                            (("net", "set", "--nid", "0@lo", "--health", "1"), "0@lo has nothing that could be set")):
            refused = ctl(a, *words)
            self.assertEqual(refused.returncode, 234)
            self.assertRegex(refused.stderr, rf"^---\nset:\n-     {words[0]}:\n      errno: -\d+\n      descr: ! \"{text}")

    # Decisions D3
    def test_sensitivity_of_net_ni_and_peer(self):
        a, b = self.pair()
        self.assertEqual(ctl(a, "ping", b.nid).returncode, 0)
        in_force = lambda: (self.local_ni(a)["ulnet"]["health_sensitivity"],  # noqa: E731
                            self.shown(a, "peer")["peer"][0]["peer ni"][0]["ulnet"]["health_sensitivity"])
        self.assertEqual(in_force(), (100, 100))
        self.change(a, "net", "set", "--net", "tcp", "--health-sensitivity", "20")
        self.assertEqual(in_force(), (20, 20))
        self.change(a, "net", "set", "--nid", a.nid, "--health-sensitivity", "30")
        self.change(a, "peer", "set", "--nid", b.nid, "--health-sensitivity", "40")
        self.assertEqual(in_force(), (30, 40))
        self.assertIn("health_sensitivity: 20\n", self.same_tree(a, "net", "show", "-v"))
        self.change(a, "net", "set", "--nid", a.nid, "--health-sensitivity", "default")
        self.change(a, "peer", "set", "--nid", b.nid, "--health-sensitivity", "default")
        self.change(a, "net", "set", "--net", "tcp", "--health-sensitivity", "default")
        self.assertEqual(in_force(), (100, 100))

    def test_discover_and_peers_by_hand(self):
        a, b = self.pair()
        found = ctl(a, "discover", b.nid, "127.0.0.77@tcp")
        self.assertEqual(found.returncode, 255)
        self.assertEqual(found.stdout, f"discover:\n- primary nid: {b.nid}\n  Multi-Rail: true\n  peer_ni:\n"
                                       f"  - nid: {b.nid}\nmanage:\n- discover:\n  errno: -111\n"
                                       "  descr: ! 'failed to discover 127.0.0.77@tcp: Connection refused'\n")
        states = {peer["primary nid"]: peer["peer state"] for peer in self.shown(a, "peer")["peer"]}
        self.assertEqual(states[b.nid], 273)  # multi-rail, discovered, NIDs up to date
        self.assertEqual(self.shown(b, "peer")["peer"][0]["peer state"], 273)
        self.assertEqual(ctl(a, "discover", "--force", b.nid, a.nid).returncode, 0)

        self.change(a, "peer", "add", "--prim_nid", "127.0.0.50@tcp", "--nid", "127.0.0.[51-52]@tcp")
        self.change(a, "peer", "add", "--nid", "127.0.0.60@tcp,127.0.0.61@tcp", "--non_mr")
        listed = {peer["primary nid"]: ([ni["nid"] for ni in peer["peer ni"]], peer["Multi-Rail"])
                  for peer in self.shown(a, "peer")["peer"]}
        self.assertEqual(listed["127.0.0.50@tcp"], (["127.0.0.50@tcp", "127.0.0.51@tcp", "127.0.0.52@tcp"], True))
        self.assertEqual(listed["127.0.0.60@tcp"], (["127.0.0.60@tcp", "127.0.0.61@tcp"], False))
        taken = ctl(a, "peer", "add", "--prim_nid", "127.0.0.60@tcp", "--nid", "127.0.0.51@tcp")
        self.assertEqual(taken.returncode, 234)
        self.assertIn("127.0.0.51@tcp belongs to peer 127.0.0.50@tcp", taken.stderr)
        self.change(a, "peer", "del", "--prim_nid", "127.0.0.50@tcp", "--nid", "127.0.0.51@tcp")
        self.change(a, "peer", "del", "--prim_nid", "127.0.0.60@tcp")
        self.assertEqual(ctl(a, "peer", "del", "--prim_nid", "127.0.0.60@tcp").returncode, 234)
        self.assertEqual(ctl(a, "peer", "del").returncode, 234)
        names = [peer["primary nid"] for peer in self.shown(a, "peer")["peer"]]
        self.assertIn("127.0.0.50@tcp", names)
        self.assertNotIn("127.0.0.60@tcp", names)

    def test_a_path_is_checked_up_to_the_largest_message(self):
        a, b = self.pair()
        done = ctl(a, "--json", "check", "path", b.nid)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        path = json.loads(done.stdout)["path"]
        self.assertEqual((path["nid"], path["source"], path["largest"]), (b.nid, a.nid, 1 << 20))
        self.assertTrue(path["connection"].startswith("127.0.0.2:"), path)
        self.assertEqual({size["result"] for size in path["sizes"]}, {"passed"})
        absent = ctl(a, "check", "path", "127.0.0.9@tcp")
        self.assertEqual(absent.returncode, 255)
        self.assertIn("result: ECONNREFUSED", absent.stdout)
        self.assertIn("largest: none", absent.stdout)
        wrong = ctl(a, "check", "path", "127.0.0.9@tcp7")
        self.assertEqual(wrong.returncode, 234)
        self.assertIn("no local NI can reach 127.0.0.9@tcp7", wrong.stderr)

    # DS-3, DS-7: peers hear at once that a node takes part no more, and again.
    def test_discovery_is_switched_while_it_runs(self):
        a, b = self.pair()
        self.assertEqual(ctl(a, "discover", b.nid).returncode, 0)
        for value, state in (("0", 274), ("1", 273)):
            self.change(b, "set", "discovery", value)
            self.wait_until(lambda: self.shown(a, "peer")["peer"][0]["peer state"] == state)

    def test_only_some_may_change_things(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to run clients as two users")
        a = self.daemon("a", "127.0.0.2@tcp")
        a.start()
        self.assertEqual(ctl(a, "stats", "show", uid=STRANGER).returncode, 0)
        refused = ctl(a, "stats", "reset", uid=STRANGER)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"only root, its own user and members of group ulnet may do that, not uid {STRANGER}",
                      refused.stderr)
        self.assertIn("errno: -1\n", refused.stderr)
        self.assertEqual(ctl(a, "stats", "reset", uid=NOBODY).returncode, 0)
        self.assertEqual(ctl(a, "stats", "reset", uid=0).returncode, 0)
        self.assertIn(f"'stats reset' by uid {NOBODY}", a.log_text())


def main():
    global ULNETD, ULNETCTL
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    ULNETD, ULNETCTL = sys.argv[1], sys.argv[2]
    if os.geteuid() == 0:
        probe = subprocess.run([ULNETD, "--version"], capture_output=True, check=False, **as_user(NOBODY))
        if probe.returncode != 0:
            print(f"skipped: uid {NOBODY} cannot run {ULNETD}")
            sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)


if __name__ == "__main__":
    main()
