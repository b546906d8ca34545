#!/usr/bin/env python3
"""usage: kubernetes.py: checks the samples of scripts/kubernetes against the API of Kubernetes, and does on this machine what their
containers of pailfs do: the same arguments, with other places.

Needs root."""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import kubernetes_validate
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "CrashTests"))
from bench import KEY, PAILFS, SECRET, Store, wait_for

CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 0x40000, 2
SAMPLES = pathlib.Path(__file__).parents[2] / "scripts/kubernetes"
# rule: crash.keeper


def check(what, holds, seen=""):
    if not holds:
        raise AssertionError(f"{what}: {seen!s:.1000}")


def leave_other_mounts():
    """As in a pod, the probes see the mounts of this program alone: it gets a mount namespace, and a /run of its own."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(status):
        if status != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    call(libc.unshare(CLONE_NEWNS))
    call(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "fuse.pailfs":
            libc.umount2(line.split()[1].encode(), MNT_DETACH)
    call(libc.mount(b"none", b"/run", b"tmpfs", 0, None))


def documents(name):
    return list(yaml.safe_load_all((SAMPLES / name).read_text()))


class Pod:
    """Runs the containers of a sample as processes of this machine."""

    def __init__(self, work, store, prefix, places):
        self.work, self.store, self.places = work, store, {**places, "s3://bucket": f"s3://{store.bucket}/{prefix}"}
        self.processes = []

    def words(self, words):
        """The arguments with this machine's places, and the test's store."""
        answer = []
        for word in words:
            for place, other in self.places.items():
                word = word.replace(place, other)
            answer.append(word)
        if "mount" in answer:
            answer[answer.index("-o") + 1] += f",endpoint={self.store.endpoint},region=us-east-1,path-style"
        return answer

    def environment(self, container):
        mine = {entry["name"]: self.words([entry["value"]])[0] for entry in container.get("env", [])}
        return {**os.environ, "PAILFS_ACCESS_KEY_ID": KEY, "PAILFS_SECRET_ACCESS_KEY": SECRET, **mine}

    def start(self, container):
        log = self.work / f"{container['name']}{len(self.processes)}.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [PAILFS, *self.words(container["args"])], env=self.environment(container), stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)
        self.processes.append(process)
        return process, log

    def probe(self, container, kind):
        command = container[kind]["exec"]["command"]
        check("a probe of pailfs", command[0] == "pailfs", command)
        return subprocess.run([PAILFS, *command[1:]], env=self.environment(container), capture_output=True, text=True,
                              check=False).returncode

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait(60)
        for place in self.places.values():
            subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


def container_of(document, name, kind="containers"):
    spec = document["spec"]["template"]["spec"] if "template" in document["spec"] else document["spec"]
    return next(one for one in spec[kind] if one["name"] == name)


def sidecar(work, store):
    [pod] = documents("sidecar.yaml")
    container = container_of(pod, "pailfs", "initContainers")
    place = work / "sidecar"
    place.mkdir()
    here = Pod(work, store, "sidecar", {"/data/bucket": str(place), "/cache": str(work / "cache")})
    try:
        process, log = here.start(container)
        wait_for("the startup probe", lambda: here.probe(container, "startupProbe") == 0)
        check("the liveness probe", here.probe(container, "livenessProbe") == 0)
        (place / "file").write_text("words")
        process.send_signal(signal.SIGTERM)
        check("it ends with 0", process.wait(60) == 0, log.read_text())
        check("a log of JSON", [json.loads(line)["level"] for line in log.read_text().splitlines()], log.read_text())
        check("the file is stored", store.objects("sidecar")["file"] == b"words")
        check("no mount is live", here.probe(container, "livenessProbe") != 0)
        return 6
    finally:
        here.end()


def daemonset(work, store):
    keeper, mount = documents("daemonset.yaml")
    keeper, container = container_of(keeper, "keeper"), container_of(mount, "pailfs")
    folders = {"/run/pailfs-keeper": work / "keeper", "/var/lib/pailfs/mounts/bucket": work / "node",
               "/var/cache/pailfs": work / "node cache"}
    for folder in folders.values():
        folder.mkdir()
    here = Pod(work, store, "daemonset", {name: str(folder) for name, folder in folders.items()})
    place = folders["/var/lib/pailfs/mounts/bucket"]
    try:
        here.start(keeper)
        process, log = here.start(container)
        wait_for("the readiness probe", lambda: here.probe(container, "readinessProbe") == 0)
        (place / "file").write_text("before")
        # The pod is replaced: a program that uses the mount waits.
        process.send_signal(signal.SIGTERM)
        check("the pod ends with 0", process.wait(60) == 0, log.read_text())
        check("the mount stays", str(place) in pathlib.Path("/proc/self/mounts").read_text())
        reader = subprocess.Popen(["cat", str(place / "file")], stdout=subprocess.PIPE)
        time.sleep(0.3)
        check("a program waits", reader.poll() is None)
        process, log = here.start(container)
        check("and goes on", reader.communicate(timeout=60)[0] == b"before")
        wait_for("the next pod", lambda: here.probe(container, "readinessProbe") == 0)
        subprocess.run([PAILFS, "unmount", str(place)], env=here.environment(container), check=True)
        check("the unmount ends it", process.wait(60) == 0, log.read_text())
        return 6
    finally:
        here.end()


def fluid(work, store):
    profile, dataset, runtime = documents("fluid.yaml")
    check("the profile's name", runtime["spec"]["profileName"] == profile["metadata"]["name"])
    check("the names of data set and runtime", runtime["metadata"]["name"] == dataset["metadata"]["name"])
    [mount] = dataset["spec"]["mounts"]
    secrets = {"access-key-id": KEY, "secret-access-key": SECRET}
    options = {"region": "us-east-1", "endpoint": store.endpoint, "path-style": "true"}
    check("the options", set(mount["options"]) == {"region"}, mount["options"])
    # As Fluid does: a secret is a file, and its path the option.
    for entry in mount["encryptOptions"]:
        path = work / entry["valueFrom"]["secretKeyRef"]["key"]
        path.write_text(secrets[entry["name"]])
        options[entry["name"]] = str(path)
    target, config = work / "fluid", work / "config.json"

    def write(*names):
        mounts = [{"mountPoint": f"s3://{store.bucket}/{name}", "name": name, "options": options} for name in names]
        if names == ("one",):
            mounts[0]["path"] = mount["path"]
        config.write_text(json.dumps({"mounts": mounts, "targetPath": str(target), "accessModes": dataset["spec"]["accessModes"]}))

    command = profile["spec"]["fuse"]["command"]
    words = [str(config) if word == "/etc/fluid/config/config.json" else word.replace("/tmp/pailfs", str(work / "fluid cache"))
             for word in command]
    check("it runs pailfs", words[0] == "pailfs", words)
    log = work / "fluid.log"

    def is_mounted(path):
        return f" {path} fuse.pailfs " in pathlib.Path("/proc/self/mounts").read_text().replace("\\040", " ")

    write("one")
    with open(log, "wb") as output:
        process = subprocess.Popen([PAILFS, *words[1:]], stdout=output, stderr=output)
    try:
        wait_for("the mount", lambda: is_mounted(target))
        (target / "file").write_text("words")
        # A data set with two mounts has them below the target; the one there goes first.
        write("two", "three")
        wait_for("the new mounts", lambda: is_mounted(target / "two") and is_mounted(target / "three"))
        (target / "three/file").write_text("more")
        config.write_text("{")
        wait_for("a warning", lambda: "the mounts stay as they are" in log.read_text())
        write("three", "four")
        wait_for("the change", lambda: is_mounted(target / "four") and not is_mounted(target / "two"))
        check("what stays is not mounted anew", log.read_text().count("/three ") == 1, log.read_text())
        process.send_signal(signal.SIGTERM)
        check("it ends with 0", process.wait(60) == 0, log.read_text())
        check("all is stored", store.objects("one")["file"] == b"words" and store.objects("three")["file"] == b"more")
        return 9
    finally:
        process.kill()
        for name in ("", "two", "three", "four"):
            subprocess.run(["umount", "--lazy", str(target / name)], capture_output=True, check=False)


def main():
    passed = 0
    leave_other_mounts()
    for path in sorted(SAMPLES.glob("*.yaml")):
        for document in documents(path.name):
            if not document["apiVersion"].startswith("data.fluid.io/"):
                kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
                passed += 1
    with tempfile.TemporaryDirectory(prefix="pailfs-kubernetes-") as name:
        work = pathlib.Path(name)
        store = Store(work)
        try:
            passed += sidecar(work, store) + daemonset(work, store) + fluid(work, store)
        finally:
            store.stop()
    print(f"{passed} passed, 0 failed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
