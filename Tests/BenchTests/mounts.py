"""The candidates' mounts, each with the flags that its own documentation recommends for speed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

from stores import BUCKET, KEY, SECRET, family, processor_seconds, wait_for

PAILFS = ("region=us-east-1", "path-style")
# Several ranges in flight, no HEAD for each object's own time, uploads without delay.
RCLONE = ("--vfs-cache-mode", "full", "--vfs-read-chunk-streams", "16", "--vfs-read-chunk-size", "4M",
          "--buffer-size", "0", "--use-server-modtime", "--no-modtime", "--vfs-fast-fingerprint", "--transfers", "16",
          "--checkers", "16", "--s3-upload-concurrency", "16", "--s3-chunk-size", "8M", "--dir-cache-time", "1h")
S3FS = ("parallel_count=16", "multipart_size=10", "max_stat_cache_size=200000", "multireq_max=32",
        "enable_noobj_cache")


def rclone_environment(store):
    settings = {
        "TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": store.endpoint, "REGION": "us-east-1", "ACCESS_KEY_ID": KEY,
        "SECRET_ACCESS_KEY": SECRET, "NO_CHECK_BUCKET": "true",
    }
    return {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in settings.items()}


class Mount:
    """A candidate's mount, with a cache of its own unless one is given; `end` leaves nothing running."""

    def __init__(self, candidate, store, work, options=(), cache=None, prefix=""):
        self.candidate, self.prefix = candidate, prefix
        self.directory = tempfile.mkdtemp(dir=work)
        self.path, self.cache = f"{self.directory}/mnt", cache or f"{self.directory}/cache"
        os.mkdir(self.path)
        os.makedirs(self.cache, exist_ok=True)
        command, environment = getattr(self, candidate)(store, options)
        self.log = open(f"{self.directory}/log", "w")
        self.process = subprocess.Popen(
            command, env=os.environ | environment, stdout=self.log, stderr=self.log, start_new_session=True)
        try:
            wait_for(self.answers, f"{candidate} does not mount", 30)
        except TimeoutError:
            with open(self.log.name) as log:
                print(log.read(), file=sys.stderr)
            self.end()
            raise

    def answers(self):
        if self.process.poll() is not None:
            raise TimeoutError(f"the mount ended at once, status {self.process.returncode}")
        return os.path.ismount(self.path)

    def pailfs(self, store, options):
        text = ",".join((f"endpoint={store.endpoint}", f"cache-dir={self.cache}", *PAILFS, *options))
        return (["pailfs", "mount", f"s3://{BUCKET}/{self.prefix}", self.path, "-f", "-o", text],
                {"PAILFS_ACCESS_KEY_ID": KEY, "PAILFS_SECRET_ACCESS_KEY": SECRET})

    def rclone(self, store, options):
        write_back = () if "--vfs-write-back" in options else ("--vfs-write-back", "0s")
        return (["rclone", "mount", f"bench:{BUCKET}/{self.prefix}", self.path, "--cache-dir", self.cache, "--config",
                 f"{self.directory}/none", *RCLONE, *write_back, *options], rclone_environment(store))

    def s3fs(self, store, options):
        secret = f"{self.directory}/passwd"
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(f"{KEY}:{SECRET}\n")
        text = ",".join((f"passwd_file={secret}", f"url={store.endpoint}", "endpoint=us-east-1",
                         "use_path_request_style", f"use_cache={self.cache}", *S3FS, *options))
        return ["s3fs", f"{BUCKET}:/{self.prefix}" if self.prefix else BUCKET, self.path, "-f", "-o", text], {}

    def least(self, store, options):
        return [f"{os.path.dirname(self.directory)}/least", self.path], {}

    def processor(self):
        return processor_seconds(self.process.pid)

    def peak_memory(self):
        """Of the resident sets, in MiB."""
        peak = 0
        for member in family(self.process.pid):
            with open(f"/proc/{member}/status") as status:
                peak += int(next(line for line in status if line.startswith("VmHWM:")).split()[1])
        return peak / 1024

    def end(self, keep=False):
        """Unmounts and waits; the cache goes too, unless it is to be mounted again."""
        subprocess.run(["fusermount3", "-u", self.path], capture_output=True)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            subprocess.run(["fusermount3", "-uz", self.path], capture_output=True)
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)
        self.log.close()
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)
