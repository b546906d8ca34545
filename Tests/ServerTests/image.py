#!/usr/bin/env python3
"""usage: image.py: makes the container image of scripts/image from the programs in PAILFS_BIN's folder, and runs it with runc:
what is in it, what the POSIX checks see in a mount of the container, that a killed worker is replaced there, and that a signal ends
it in order; that an ordinary user without a capability serves a descriptor that was handed in; and that a mount with a keeper outlives
its container.

Needs root, umoci and runc."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "CrashTests"))
import posix_checks
from bench import KEY, PAILFS, SECRET, Store, wait_for

ROOT = pathlib.Path(__file__).parents[2]
MOST_BYTES = 40 << 20
CAPABILITIES = ["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_SYS_CHROOT"]


def check(what, holds, seen=""):
    if not holds:
        raise AssertionError(f"{what}: {seen!s:.500}")


def run(*command, **more):
    answer = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=300, **more)
    check(f"{command[0]} {command[1]} ended with {answer.returncode}", answer.returncode == 0, answer.stdout)
    return answer.stdout


class Container:
    """One container of the image, with this machine's network."""

    def __init__(self, layout, tag, work, name):
        self.name, self.bundle = f"pailfs-test-{os.getpid()}-{name}", work / name
        run("umoci", "unpack", "--image", f"{layout}:{tag}", self.bundle)
        self.process = None

    def start(self, *arguments, privileged=False, binds=(), descriptor=None):
        """`binds` are folders of this machine and where the container has them; `descriptor` is its number 3."""
        path = self.bundle / "config.json"
        config = json.loads(path.read_text())
        process = config["process"]
        process["terminal"] = False
        process["args"] += arguments
        process["env"] += [f"PAILFS_ACCESS_KEY_ID={KEY}", f"PAILFS_SECRET_ACCESS_KEY={SECRET}"]
        process.pop("rlimits", None)
        config["linux"]["namespaces"] = [
            space for space in config["linux"]["namespaces"] if space["type"] not in ("cgroup", "network")]
        if privileged:
            process["user"] = {"uid": 0, "gid": 0}
            process["capabilities"] = {kind: CAPABILITIES for kind in process["capabilities"]}
            fuse = os.stat("/dev/fuse").st_rdev
            device = {"type": "c", "major": os.major(fuse), "minor": os.minor(fuse)}
            config["linux"]["devices"] = [{**device, "path": "/dev/fuse", "fileMode": 0o666}]
            config["linux"]["resources"]["devices"].append({**device, "allow": True, "access": "rwm"})
        if descriptor is not None:
            process["capabilities"] = {kind: [] for kind in process["capabilities"]}
        # What is mounted in a shared folder is seen on this machine, and stays when the container goes.
        config["linux"]["rootfsPropagation"] = "rshared" if binds else "rprivate"
        config["mounts"] += [{"destination": there, "type": "bind", "source": str(here), "options": ["rbind", "rshared"]}
                             for here, there in binds]
        path.write_text(json.dumps(config))
        self.log = self.bundle.with_suffix(".log")
        command = ["runc", "run", "--bundle", str(self.bundle), *(["--preserve-fds", "1"] if descriptor else []), self.name]

        def pass_on():
            os.dup2(descriptor, 3)

        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log.open("wb"), stderr=subprocess.STDOUT,
            pass_fds=(3,) if descriptor else (), preexec_fn=pass_on if descriptor else None)

    def kill(self):
        run("runc", "kill", self.name, "KILL")
        self.process.wait(60)

    def root(self):
        """Its root as this machine's root sees it."""
        state = json.loads(run("runc", "state", self.name))
        return pathlib.Path(f"/proc/{state['pid']}/root")

    def processes(self):
        """Of this machine, in the order in which they began."""
        return json.loads(run("runc", "ps", "--format", "json", self.name))

    def end(self):
        if self.process and self.process.poll() is None:
            subprocess.run(["runc", "kill", self.name, "KILL"], capture_output=True)
            self.process.wait(60)
        subprocess.run(["runc", "delete", "--force", self.name], capture_output=True)


def same_bytes_and_small(work):
    """The layout, made twice."""
    programs = pathlib.Path(PAILFS).resolve().parent
    architecture = run("dpkg", "--print-architecture").strip()
    layouts = [pathlib.Path(run(ROOT / "scripts/image", "--programs", programs, "--architecture", architecture,
                                work / name).splitlines()[-1]) for name in ("image", "again")]
    run("diff", "-r", *layouts)
    size = sum(path.stat().st_size for path in layouts[0].rglob("*") if path.is_file())
    check("an image of less than 40 MiB", size < MOST_BYTES, size)
    index = json.loads((layouts[0] / "index.json").read_text())
    tags = [entry["annotations"]["org.opencontainers.image.ref.name"] for entry in index["manifests"]]
    check("a name for the image and one for all", len(tags) == 2 and tags[0] == f"{tags[1]}-{architecture}", tags)
    return layouts[0], tags[0]


def nothing_else_is_in_it(layout, tag, work):
    container = Container(layout, tag, work, "user")
    try:
        root = container.bundle / "rootfs"
        programs = [str(path.relative_to(root)) for path in root.rglob("*")
                    if path.is_file() and path.stat().st_mode & 0o111 and ".so" not in path.name]
        check("one program", programs == ["usr/bin/pailfs"], programs)
        container.start("--version")
        check("the entry point runs as an ordinary user", container.process.wait(60) == 0, container.log.read_text())
        check("it tells its version", container.log.read_text().startswith("pailfs "), container.log.read_text())
    finally:
        container.end()


def mounts_and_ends_in_order(layout, tag, work):
    store = Store(work)
    container = Container(layout, tag, work, "root")
    checks = 0
    try:
        options = f"endpoint={store.endpoint},region=us-east-1,path-style,cache-dir=/tmp/cache"
        container.start("mount", "--foreground", "s3://pail/data", "/mnt", "-o", options, privileged=True)
        wait_for("the mount in the container", lambda: " info mounted " in container.log.read_text())
        place = container.root() / "mnt"
        for act in posix_checks.CHECKS:
            at = place / act.__name__
            at.mkdir()
            act(at)
            checks += 1
        with open(place / "kept", "wb") as file:
            file.write(b"before ")
            file.flush()
            worker = container.processes()[-1]
            os.kill(worker, signal.SIGKILL)
            file.write(b"after")
        check("another process serves", container.processes()[-1] != worker)
        check("what was written is read", (place / "kept").read_bytes() == b"before after")
        run("runc", "kill", container.name, "TERM")
        check("a signal ends it with 0", container.process.wait(60) == 0, container.log.read_text()[-2000:])
        check("all is in the bucket", store.objects("data")["kept"] == b"before after")
        return checks + 4
    finally:
        container.end()
        store.process.terminate()
        store.process.wait(60)


def mounted(place):
    """A mount that this program makes, and whose descriptor it hands to another."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    check("mount(2)", libc.mount(b"handed", str(place).encode(), b"fuse", 0, options.encode()) == 0, ctypes.get_errno())
    return device


def serves_a_descriptor_without_privileges(layout, tag, work):
    store = Store(work)
    container = Container(layout, tag, work, "handed")
    place = work / "place"
    place.mkdir()
    device = mounted(place)
    checks = 0
    try:
        options = f"endpoint={store.endpoint},region=us-east-1,path-style,cache-dir=/tmp/cache,uid=0,gid=0"
        container.start("mount", "--foreground", "s3://pail/handed", "/dev/fd/3", "-o", options, descriptor=device)
        os.close(device)
        for act in posix_checks.CHECKS:
            at = place / act.__name__
            at.mkdir()
            act(at)
            checks += 1
        (place / "last").write_bytes(b"words")
        run("umount", place)
        check("an unmount by the owner ends it with 0", container.process.wait(60) == 0, container.log.read_text()[-2000:])
        check("all is in the bucket", store.objects("handed")["last"] == b"words")
        return checks + 2
    finally:
        subprocess.run(["umount", "--lazy", str(place)], capture_output=True)
        container.end()
        store.process.terminate()
        store.process.wait(60)


class KeptMount:
    """A mount in containers that replace each other, with a keeper in another one, at `place` of this machine."""

    def __init__(self, layout, tag, work, prefix, durability, containers):
        self.store, self.prefix = Store(work), prefix
        self.folders = {name: work / f"{prefix}-{name}" for name in ("mount", "keeper", "cache")}
        for folder in self.folders.values():
            folder.mkdir()
            run("mount", "--bind", folder, folder)
            run("mount", "--make-shared", folder)
        self.place = self.folders["mount"] / "bucket"
        self.place.mkdir()
        self.binds = [(self.folders["mount"], "/mnt"), (self.folders["keeper"], "/keeper"), (self.folders["cache"], "/cache")]
        self.keeper = Container(layout, tag, work, f"{prefix}-keeper")
        self.containers = [Container(layout, tag, work, f"{prefix}{number}") for number in range(containers)]
        self.options = (f"endpoint={self.store.endpoint},region=us-east-1,path-style,cache-dir=/cache,durable={durability},"
                        "keeper=/keeper/socket")
        self.used = 0
        self.keeper.start("keep", "/keeper/socket", privileged=True, binds=self.binds[1:2])

    def start(self):
        """The next container, until it serves the mount."""
        container = self.containers[self.used]
        container.start("mount", "--foreground", f"s3://pail/{self.prefix}", "/mnt/bucket", "-o", self.options, privileged=True,
                        binds=self.binds)
        words = " info mounted " if self.used == 0 else " info the new worker serves the mount "
        wait_for("the mount", lambda: words in container.log.read_text())
        self.used += 1

    def kill(self):
        self.containers[self.used - 1].kill()

    def unmount(self):
        """The status and the log of the last container."""
        run("umount", self.place)
        last = self.containers[self.used - 1]
        return last.process.wait(60), last.log.read_text()[-2000:]

    def end(self):
        for container in [*reversed(self.containers), self.keeper]:
            container.end()
        for folder in self.folders.values():
            subprocess.run(["umount", "--recursive", "--lazy", str(folder)], capture_output=True)
        self.store.process.terminate()
        self.store.process.wait(60)


def outlives_its_container(layout, tag, work):
    kept = KeptMount(layout, tag, work, "kept", "remote", 4)
    use = pathlib.Path(__file__).parents[1] / "MountTests/programs/kept.py"
    expected = ""

    def say(word):
        nonlocal expected
        expected += word
        user.stdin.write(word + "\n")
        user.stdin.flush()

    try:
        kept.start()
        user = subprocess.Popen([sys.executable, str(use), "use", str(kept.place / "file")], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for number in range(len(kept.containers)):
            if number > 0:
                kept.kill()
                # The program writes while nothing serves the mount.
                say(f"without {number}, ")
                kept.start()
                check("the call of before is answered", user.stdout.readline() == expected + "\n")
            say(f"container {number}, ")
            heard = user.stdout.readline()
            check("the program continues", heard == expected + "\n", heard)
        user.stdin.write("\n")
        user.stdin.flush()
        check("the program ends", user.wait(60) == 0)
        status, log = kept.unmount()
        check("the unmount ends it with 0", status == 0, log)
        check("all is in the bucket", kept.store.objects("kept")["file"].decode() == expected)
        return 2 * len(kept.containers) + 2
    finally:
        kept.end()


def no_program_sees_that_containers_are_killed(layout, tag, work, durability):
    """Threads replace, read and change files while one container after the other is killed."""
    kept = KeptMount(layout, tag, work, durability, durability, 4)
    try:
        kept.start()
        user = subprocess.Popen(
            [sys.executable, "-c", "import sys, replaced_names; replaced_names.use(sys.argv[1], 12)", str(kept.place)],
            cwd=pathlib.Path(__file__).parents[1] / "CrashTests", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(len(kept.containers) - 1):
            time.sleep(2)
            kept.kill()
            kept.start()
        said = user.communicate(timeout=120)[0]
        check("no call fails", user.returncode == 0, said[-2000:])
        print(f"{durability}: {said.strip()}, {len(kept.containers) - 1} containers killed", flush=True)
        status, log = kept.unmount()
        check("the unmount ends it with 0", status == 0, log)
        return 2
    finally:
        kept.end()


def main():
    missing = [program for program in ("umoci", "runc") if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        print(f"this takes root and {', '.join(missing) or 'umoci and runc'}: scripts/setup test", flush=True)
        return 1
    with tempfile.TemporaryDirectory(prefix="pailfs-image-") as name:
        work = pathlib.Path(name)
        layout, tag = same_bytes_and_small(work)
        nothing_else_is_in_it(layout, tag, work)
        passed = 6 + mounts_and_ends_in_order(layout, tag, work)
        passed += serves_a_descriptor_without_privileges(layout, tag, work)
        passed += outlives_its_container(layout, tag, work)
        for durability in ("remote", "local"):
            passed += no_program_sees_that_containers_are_killed(layout, tag, work, durability)
    print(f"{passed} passed, 0 failed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
