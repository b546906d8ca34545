import Foundation
import Glibc
import TestSupport
import Testing

extension RealMounts {
    /// A bucket that other programs use as well: what they store is shown as they meant it, and they read what is stored
    /// here. The programs are the real ones where they can be had; geesefs is played by objects with its headers.
    @Suite struct OtherPrograms {
        /// A tree with what each of them can keep.
        private static let make = """
            mkdir -p tree/empty tree/deep
            printf content >tree/file; chmod 640 tree/file; touch -d '2001-02-03 04:05:06.789 UTC' tree/file
            printf '#!/bin/sh\\n' >tree/deep/program; chmod 751 tree/deep/program
            touch -d '1999-12-31 23:59:59 UTC' tree/deep/program
            ln -s ../file tree/deep/link; ln -s /no/such tree/dangling; : >tree/nothing
            head -c 3000000 /dev/urandom >tree/big; touch -d '2005-06-07 08:09:10 UTC' tree/big
            """

        /// What all of them have to tell of it: kinds, permissions, times to the second, contents, targets.
        private static let tell = """
            tell() {
                (cd $1 && find . -type f -printf '%p %m %Ts\\n' -o -type l -printf '%p %l\\n' -o -printf '%p\\n' | sort &&
                    find . -type f -exec md5sum {} + | sort -k 2)
            }

            """

        @Test(
            .rule("attr.foreign"),
            .timeLimit(.minutes(5)),
            .enabled(if: FileManager.default.fileExists(atPath: "/usr/bin/s3fs"), "s3fs is not installed"))
        func whatS3fsStoresIsShownAndTheOtherWayRound() async throws {
            try await withStore { world, _ in
                try await world.sh("cd $T; \(Self.make)")
                try await withS3fs(world, "s3fs") { theirs in
                    try await world.sh("cp -a $T/tree \(theirs)/theirs")
                }
                // With `use_xattr` cp(1) would store modes as ACLs. What it writes in parts it dates itself, at some time after
                // the close.
                try await withS3fs(world, "with-xattr", "use_xattr") { theirs in
                    try await world.sh("setfattr -n user.colour -v blue \(theirs)/theirs/file")
                    try await world.sh("touch -r $T/tree/big \(theirs)/theirs/big")
                }
                // Links are told by headers, which `attrs=exact` asks for anyway.
                for options in [["attrs=exact"], ["attrs=exact", "symlinks=metadata"]] {
                    try await world.mount(options, cache: "cache of \(options.count)")
                    try await world.sh(
                        Self.tell + """
                            \(options == ["attrs=exact"] ? "ls -lR theirs >/dev/null" : "")
                            diff <(tell $T/tree) <(tell theirs)
                            test "$(getfattr --only-values -n user.colour theirs/file)" = blue
                            test "$(stat -c '%u %g' theirs/file)" = "$(stat -c '%u %g' $T/tree/file)"
                            """)
                    if options.contains("symlinks=metadata") { try await world.sh("cp -a $T/tree ours") }
                    if options == ["attrs=exact"] {
                        try await world.sh("mv theirs/deep/link theirs/link; mv theirs/link theirs/deep/link")
                    }
                    try await world.unmount()
                }
                try await withS3fs(world, "again") { theirs in
                    try await world.sh(Self.tell + "diff <(tell $T/tree) <(tell \(theirs)/ours)")
                    try await world.sh(Self.tell + "diff <(tell $T/tree) <(tell \(theirs)/theirs)")
                }
            }
        }

        @Test(.rule("attr.foreign", "symlink"), .timeLimit(.minutes(5)))
        func whatRcloneStoresIsShownAndTheOtherWayRound() async throws {
            try await withStore { world, store in
                let settings = [
                    "TYPE=s3", "PROVIDER=Other", "ENDPOINT=\(store.endpoint)", "REGION=us-east-1",
                    "ACCESS_KEY_ID=\(Store.accessKey)", "SECRET_ACCESS_KEY=\(Store.secretKey)", "NO_CHECK_BUCKET=true",
                ]
                let rclone =
                    settings.map { "export RCLONE_CONFIG_THEIRS_\($0)\n" }.joined()
                    + "rclone() { '\(Programs.rclone)' --config $T/none --links \"$@\"; }\n"
                try await world.sh(
                    rclone + """
                        cd $T; \(Self.make)
                        rclone copy --metadata --create-empty-src-dirs --s3-directory-markers tree theirs:pail/theirs
                        """)
                try await world.mount(["attrs=exact"])
                try await world.sh(
                    Self.tell + """
                        diff <(tell $T/tree) <(tell theirs)
                        cp -a $T/tree ours
                        """)
                try await world.unmount()
                try await world.sh(
                    Self.tell + rclone + """
                        cd $T
                        rclone copy --create-empty-src-dirs --s3-directory-markers theirs:pail/ours back
                        # rclone takes the decimal mode of the s3fs family for an octal one.
                        diff <(tell tree | sed -E 's/ [0-7]{3} / /') <(tell back | sed -E 's/ [0-7]{3} / /')
                        """)
            }
        }

        /// core/handles.go and core/dir.go of yandex-cloud/geesefs: decimal `uid`, `gid`, `mode`, `mtime` (`--enable-perms`,
        /// `--enable-mtime`); a link is an empty object with its target, percent-encoded, in `--symlink-target`.
        @Test(.rule("attr.foreign"), .timeLimit(.minutes(5)), arguments: ["attrs=exact", "symlinks=metadata"])
        func whatGeesefsStoresIsShown(_ option: String) async throws {
            try await withMount(option) { world, _ in
                try await world.python(
                    """
                    import boto3, botocore, os
                    client = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name="us-east-1",
                        config=botocore.config.Config(s3={"addressing_style": "path"}))
                    def put(key, data, **headers):
                        client.put_object(Bucket=os.environ["BUCKET"], Key=key, Body=data, Metadata=headers)
                    put("d/", b"", mode="16872", uid="1234", gid="4321", mtime="946684799")
                    put("d/file", b"content", mode="33256", uid="1234", gid="4321", mtime="946684799")
                    put("d/link", b"", **{"--symlink-target": "..%2Fd%2Ffile"})
                    put("d/German", b"", **{"--symlink-target": "Gr%C3%BC%C3%9Fe"})
                    put("d/nothing", b"")
                    status = os.stat("d/file")
                    assert open("d/file").read() == "content"
                    status = os.stat("d/file")
                    assert (oct(status.st_mode), status.st_uid, status.st_gid, status.st_mtime) == ("0o100750", 1234, 4321,
                        946684799), status
                    assert os.readlink("d/link") == "../d/file" and open("d/link").read() == "content"
                    assert os.readlink("d/German") == "Grüße" and os.lstat("d/German").st_size == 7
                    assert os.path.getsize("d/nothing") == 0 and not os.path.islink("d/nothing")
                    os.rename("d/link", "d/moved")
                    os.utime("d/moved", (0, 1000000000), follow_symlinks=False)
                    assert os.readlink("d/moved") == "../d/file" and os.lstat("d/moved").st_mtime == 1000000000
                    seen = client.head_object(Bucket=os.environ["BUCKET"], Key="d/moved")["Metadata"]
                    assert seen["--symlink-target"] == "..%2Fd%2Ffile", seen
                    """)
            }
        }

        private func withS3fs(
            _ world: World, _ name: String, _ options: String..., body: (String) async throws -> Void
        ) async throws {
            let mountpoint = try world.scratch.makeDirectory(name)
            let all =
                ["passwd_file=$T/passwd-s3fs", "url=$ENDPOINT", "endpoint=us-east-1", "use_path_request_style"]
                + options
            try await world.sh(
                """
                printf '%s' "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" >$T/passwd-s3fs; chmod 600 $T/passwd-s3fs
                s3fs "$BUCKET" \(mountpoint) -o \(all.joined(separator: ","))
                """)
            let result: Result<Void, any Error>
            do { result = .success(try await body(mountpoint)) } catch { result = .failure(error) }
            try await world.sh("fusermount3 -u \(mountpoint) || fusermount3 -uz \(mountpoint)")
            let hasEnded = await poll(for: .seconds(20)) { World.isMounted(mountpoint) ? nil : true }
            #expect(hasEnded == true)
            try result.get()
        }
    }
}
