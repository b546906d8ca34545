import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// Servers that depart from the protocol that they speak: what the mount can work around it does, and what it cannot is an
    /// error with a name and an end.
    @Suite struct ServerDepartures {
        struct Server: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let faults: [String]
            /// A word of what `pailfs status` says of it; nil where a mount cannot see it.
            let told: String?
        }

        static let servers = [
            Server(
                testDescription: "Ceph RGW 16.2",
                faults: [
                    "op=PutObject,kind=if-match-unquoted", "op=CopyObject,kind=ignore-condition",
                    "op=UploadPartCopy,kind=ignore-condition", "op=DeleteObject,kind=ignore-condition",
                    "op=CompleteMultipartUpload,kind=ignore-condition",
                ], told: "without quotes"),
            Server(
                testDescription: "s3proxy",
                faults: ["kind=ignore-condition", "op=CompleteMultipartUpload,kind=foreign-etag"],
                told: "completes an upload with an ETag"),
            Server(
                testDescription: "rclone", faults: ["kind=ignore-condition", "op=UploadPartCopy,kind=empty-part-copy"],
                told: "stores an empty part"),
            Server(
                testDescription: "other ETags", faults: ["kind=foreign-etag"], told: "answers a PUT with an ETag"),
        ]

        @Test(.timeLimit(.minutes(5)), arguments: servers, ["remote", "local"])
        func changesOfExistingFilesArriveWithoutConflict(_ server: Server, durable: String) async throws {
            let arguments = server.faults.flatMap { ["--fault", $0] }
            try await withStore(arguments: arguments) { world, store in
                try await world.mount(["durable=\(durable)"])
                let cost = try await store.requests {
                    try await world.sh(
                        """
                        for turn in 1 2 3; do
                            for name in a b c d e; do echo $turn $name >>$name; done
                        done
                        mkdir directory
                        head -c 20000000 /dev/urandom >$T/big
                        cp $T/big big
                        printf changed | dd of=big bs=1 seek=9000000 conv=notrunc status=none
                        printf changed | dd of=$T/big bs=1 seek=9000000 conv=notrunc status=none
                        printf again | dd of=big bs=1 seek=100 conv=notrunc status=none
                        printf again | dd of=$T/big bs=1 seek=100 conv=notrunc status=none
                        mv big directory/big
                        mv a directory/a
                        chmod 600 b
                        cmp $T/big directory/big
                        test "$(cat directory/a)" = "$(printf '1 a\n2 a\n3 a')"
                        test "$(ls -R | grep -c conflict)" = 0
                        """, deadline: .seconds(120))
                    #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                }
                #expect(cost.counts.values.reduce(0, +) < 200, "\(cost)")
                if let told = server.told {
                    let status = try await world.pailfs(["status", world.mountpoint])
                    #expect(status.output.contains(told), "\(status)")
                }
                // A server that answers is not away, whatever it answers.
                let log = try String(contentsOfFile: world.logPath, encoding: .utf8)
                #expect(!log.contains("the store does not answer"), "\(log)")
                try await world.unmount()
                #expect(try await world.outside("get", "b") == "1 b\n2 b\n3 b\n")
                try await world.mount(cache: "another")
                try await world.sh("cmp $T/big directory/big; test \"$(ls | wc -l)\" = 5")
            }
        }

        @Test(.rule("close.refused"), .timeLimit(.minutes(5)))
        func aWrongRefusalThatStaysEndsAndTheFileIsKeptAndNamed() async throws {
            try await withMount("durable=local") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("printf before >file")
                #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                try await store.setFaults("op=PutObject,key=file,kind=status:412")
                let cost = try await store.requests {
                    try await world.sh("printf after >file")
                    let flush = try await world.pailfs(["flush", "--wait", world.mountpoint])
                    #expect(!flush.succeeded && flush.errors.contains("file"), "\(flush)")
                }
                #expect(cost.counts.values.reduce(0, +) < 100, "\(cost)")
                try await world.sh("test \"$(cat file)\" = after; test \"$(ls)\" = file")
                let status = try await world.pailfs(["status", world.mountpoint])
                #expect(status.output.contains("refused 3 times"), "\(status)")
                let reason = try await world.sh("getfattr --only-values -n user.pailfs.lasterror file")
                #expect(reason.contains("refused 3 times"), "\(reason)")
                let end = try await world.pailfs(["unmount", world.mountpoint])
                #expect(!end.succeeded && end.errors.contains("file"), "\(end)")
                try await world.daemonEnds(within: .seconds(60))
                #expect(try await world.outside("get", "file") == "before")
                try await store.setFaults()
                try await world.mount(["durable=local"])
                #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
                #expect(try await world.outside("get", "file") == "after")
            }
        }

        @Test(.rule("mkdir"), .timeLimit(.minutes(5)))
        func aDirectoryThatWouldBeAFileIsRefusedAndNothingIsLeft() async throws {
            try await withStore(arguments: ["--fault", "kind=marker-as-file"]) { world, store in
                try await world.mount()
                for _ in 0..<2 {
                    let made = try await world.attempt("mkdir directory")
                    #expect(made.errors.contains("Operation not supported"), "\(made)")
                    try await world.sh("test -z \"$(ls)\"")
                }
                #expect(try await world.outside("keys") == "")
            }
        }

        @Test(.rule("name.bytes"), .timeLimit(.minutes(5)))
        func aNameThatTheServerLosesIsEILSEQ() async throws {
            try await withStore(arguments: ["--fault", "kind=lose-line-break"]) { world, store in
                world.expectsErrorsInLog = true
                try await world.mount()
                try await world.python(
                    """
                    import errno
                    for turn in range(2):
                        try:
                            file = open("a\\nb", "wb", buffering=0)
                            file.write(b"x")
                            file.close()
                        except OSError as error: assert error.errno == errno.EILSEQ, error
                        else: raise AssertionError("a file was made that is not there")
                    """)
            }
        }

        @Test(.rule("xattr.user"), .timeLimit(.minutes(5)))
        func anAttributeOverTheServersLimitIsE2BIGAtOnce() async throws {
            try await withStore(arguments: ["--fault", "kind=metadata-limit:256"]) { world, store in
                world.expectsErrorsInLog = true
                try await world.mount()
                try await world.sh("printf x >file")
                let cost = try await store.requests {
                    for _ in 0..<2 {
                        let set = try await world.attempt("setfattr -n user.long -v \"$(printf '%0400d' 0)\" file")
                        #expect(set.errors.contains("Argument list too long"), "\(set)")
                    }
                }
                #expect(cost.areWithin(["HeadObject": 2, "CopyObject": 1]), "\(cost)")
                try await world.sh("setfattr -n user.short -v value file; getfattr -n user.short file")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func theDoctorTriesBothSidesOfEveryCondition() async throws {
            try await withStore { world, store in
                func doctor() async throws -> Outcome {
                    try await world.pailfs(["doctor", "s3://pail", "-o", world.options([])])
                }
                let honest = try await doctor()
                #expect(honest.succeeded && !honest.output.contains("differs"), "\(honest)")
                for name in ["put", "completion", "copy"] {
                    for condition in ["absent", "it matches"] {
                        #expect(honest.output.contains("ok       \(name) if \(condition)"), "\(honest)")
                    }
                }
                for check in [
                    "copy of a version", "delete of a version", "object of a directory", "key with spaces",
                    "key with a line break", "key not UTF-8", "longest key", "ETag of a put", "ETag of a completion",
                    "ETag of a copy",
                ] {
                    #expect(honest.output.contains("ok       \(check)"), "\(check): \(honest)")
                }
                try await store.setFaults(
                    "op=PutObject,kind=if-match-unquoted", "op=CopyObject,kind=ignore-condition",
                    "op=CompleteMultipartUpload,kind=ignore-condition")
                let ceph = try await doctor()
                #expect(ceph.succeeded, "\(ceph)")
                for check in ["put if it matches", "completion if absent", "copy of a version"] {
                    #expect(ceph.output.contains("differs  \(check)"), "\(check): \(ceph)")
                }
                try await store.setFaults("op=PutObject,kind=ignore-condition")
                let ignoring = try await doctor()
                #expect(ignoring.output.contains("FAILED   put if absent"), "\(ignoring)")
                #expect(ignoring.output.contains("FAILED   put if it matches"), "\(ignoring)")
                try await store.setFaults("kind=marker-as-file")
                let flat = try await doctor()
                #expect(flat.output.contains("FAILED   object of a directory"), "\(flat)")
                #expect(try await world.outside("keys") == "")
            }
        }
    }
}
