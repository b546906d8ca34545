import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// A store that fails or lies: what is not right is an error with a name, never wrong bytes, and it is right again
    /// when the store is.
    @Suite struct StoreFaults {
        @Test(.rule("read.true"), .timeLimit(.minutes(5)), arguments: ["cut:1000", "alter"])
        func aDamagedBodyIsAnErrorAndNothingOfItIsKept(_ kind: String) async throws {
            try await withMount("ttl=600", "timeout=3", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("head -c 1000000 /dev/urandom >$T/file")
                try await world.outside("put", "file", world.scratch.path("file"))
                try await store.setFaults("op=GetObject,key=file,kind=\(kind)")
                let outcome = try await world.attempt("cat file >$T/copy")
                #expect(outcome.errors.contains("Input/output error"), "\(outcome)")
                try await world.sh("cmp -n $(stat -c %s $T/copy) $T/copy $T/file")
                try await store.setFaults()
                try await world.sh("cmp file $T/file")
                try await world.unmount()
                try await world.mount()
                try await world.sh("cmp file $T/file")
            }
        }

        @Test(.rule("read.true"), .timeLimit(.minutes(5)))
        func aCutRangeOfABigFileIsAnErrorAndNothingWrongIsServed() async throws {
            try await withMount("ttl=600", "timeout=3", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("head -c 40000000 /dev/urandom >$T/file")
                try await world.outside("put", "file", world.scratch.path("file"))
                // Some bytes of the first answers, which are right, and then never any more.
                try await store.setFaults(
                    "op=GetObject,key=file,kind=cut:3000000", "op=GetObject,key=file,kind=cut:0,after=4")
                let outcome = try await world.attempt("cat file >$T/copy")
                #expect(outcome.errors.contains("Input/output error"), "\(outcome)")
                try await world.sh("cmp -n $(stat -c %s $T/copy) $T/copy $T/file")
                try await store.setFaults()
                try await world.sh("cmp file $T/file")
            }
        }

        /// In one range of a large object, always and once.
        @Test(.rule("read.true", "read.checked"), .timeLimit(.minutes(5)), arguments: Provider.ofPailstore)
        func aDamagedRangeIsAnErrorAndNothingOfItIsKept(_ provider: Provider) async throws {
            try await provider.withPailstore { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("head -c 40000000 /dev/urandom >$T/file")
                if provider == .s3 {
                    // With a checksum of the whole, which a mount sends to Amazon only.
                    try await world.outside("put", "file", world.scratch.path("file"))
                } else {
                    try await world.mount(["part-size=64MiB"])
                    try await world.sh("cp $T/file file")
                    try await world.unmount()
                }
                try await world.mount(["timeout=3", "retries=1"], cache: "second")
                try await store.setFaults("op=\(provider.nameOfGet),key=file,kind=alter,after=1")
                let outcome = try await world.attempt("cat file >$T/copy")
                #expect(outcome.errors.contains("Input/output error"), "\(outcome)")
                let reason = try await world.sh("getfattr --only-values -n user.pailfs.lasterror file")
                #expect(reason.contains("do not match"), "\(reason)")
                try await store.setFaults()
                try await world.sh("cmp file $T/file")
                try await world.unmount()
                try await world.mount(["timeout=3", "retries=1"], cache: "third")
                try await store.setFaults("op=\(provider.nameOfGet),key=file,kind=alter,after=1,count=1")
                // The damaged bytes may have been fetched ahead and never read.
                if try await world.attempt("cat file >$T/copy").succeeded { try await world.sh("cmp $T/copy $T/file") }
                try await world.sh("cmp file $T/file")
                try await world.unmount()
                try await world.mount(["timeout=3", "retries=1"], cache: "third")
                try await world.sh("cmp file $T/file")
            }
        }

        @Test(
            .rule("read.true"),
            .timeLimit(.minutes(5)),
            arguments: [
                "kind=status:503,count=3,retry-after=1", "kind=status:500,count=2", "kind=reset,count=3",
                "kind=cut:100,count=2", "op=UploadPart,kind=alter,count=1",
                "op=CompleteMultipartUpload,kind=status:200,count=1",
                "op=CompleteMultipartUpload,kind=lost-reply,count=1", "op=UploadPart,kind=lost-reply,count=1",
            ])
        func faultsThatPassAreNotNoticed(_ fault: String) async throws {
            try await withMount { world, store in
                try await world.sh("head -c 20000000 /dev/urandom >$T/file")
                try await store.setFaults(fault)
                try await world.sh("cp $T/file file")
                try await store.setFaults()
                try await world.unmount()
                try await world.mount(cache: "another")
                try await store.setFaults(fault)
                try await world.sh("cmp file $T/file")
                try await store.setFaults()
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aLostReplyOfACommitIsSettledNotGuessed() async throws {
            try await withMount { world, store in
                try await store.setFaults("op=PutObject,kind=lost-reply,count=1")
                try await world.sh("printf once >file; test \"$(cat file)\" = once")
                try await store.setFaults("op=PutObject,kind=lost-reply,count=1")
                try await world.sh("printf twice >file; test \"$(cat file)\" = twice; test \"$(ls)\" = file")
                try await store.setFaults()
                #expect(try await world.outside("get", "file") == "twice")
            }
        }

        @Test(.rule("close.remote", "object.whole"), .timeLimit(.minutes(5)))
        func aCommitThatFailsIsTheErrorOfClose() async throws {
            try await withMount("timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("printf before >file")
                try await store.setFaults("op=PutObject,kind=status:500")
                try await world.python(
                    """
                    import errno
                    file = open("file", "wb", buffering=0)
                    file.write(b"after")
                    try: file.close()
                    except OSError as error: assert error.errno == errno.EIO, error
                    else: raise AssertionError("close reported a success that was none")
                    """)
                #expect(try await world.outside("get", "file") == "before", "the old object stays until the commit")
                try await store.setFaults()
                try await world.sh("printf again >file")
                #expect(try await world.outside("get", "file") == "again")
            }
        }

        /// The kernel takes the pages of a file away once the reads of them have ended, and not before.
        @Test(.timeLimit(.minutes(10)))
        func aReadThatTheStoreHoldsUpHoldsUpNoWriteOfAnotherFile() async throws {
            try await withMount { world, store in
                try await world.sh("printf held >held; head -c 100000 /dev/urandom >other")
                try await world.unmount()
                try await world.mount(["timeout=600"], cache: "another")
                try await store.setFaults("op=GetObject,key=held,kind=hang")
                let reader = try world.start("exec cat held")
                // In a wait that only a page has, and for this one.
                let isHeld = await poll(for: .seconds(300)) {
                    guard store.requests.contains(where: { $0.operation == "GetObject" && $0.key == "held" }) else {
                        return nil as Bool?
                    }
                    let status = try? String(contentsOfFile: "/proc/\(reader.pid)/status", encoding: .utf8)
                    return status?.contains("State:\tD") == true && status?.hasPrefix("Name:\tcat") == true ? true : nil
                }
                try #require(isHeld == true)
                try await world.python(
                    """
                    import mmap, os
                    os.setxattr("held", "user.pailfs.refresh", b"")
                    page = mmap.mmap(-1, 4096)
                    reader = os.open("other", os.O_RDONLY)
                    writer = os.open("other", os.O_RDWR | os.O_DIRECT)
                    for number in range(1, 9):
                        page[:] = bytes([number]) * 4096
                        os.pread(reader, 4096, 0)
                        assert os.pwrite(writer, page, 0) == 4096
                        assert os.pread(reader, 4096, 0) == page[:], number
                    """, deadline: .seconds(300))
                #expect(World.isRunning(reader.pid), "the write waited for the read of another file")
                try await store.setFaults()
                let outcome = await reader.wait(deadline: .seconds(300))
                #expect(outcome.succeeded && outcome.output == "held", "\(outcome)")
            }
        }

        @Test(.timeLimit(.minutes(10)), .enabled(if: Machine.isRoot, "mounting a small tmpfs takes root"))
        func aSmallCacheDiskTakesAFileThatDoesNotFitIt() async throws {
            try await withStore { world, _ in
                world.expectsErrorsInLog = true
                let cache = try world.scratch.makeDirectory("small")
                try await world.sh("mount -t tmpfs -o size=24m tmpfs $T/small")
                do {
                    try await world.mount(["free-space=0"], cache: "small")
                    try await world.sh("printf x >before; head -c 60000000 /dev/urandom >$T/file")
                    try await world.sh("cp $T/file big; cmp $T/file big", deadline: .seconds(300))
                    try await world.sh(
                        "rm -f big; printf y >after; test \"$(cat before after)\" = xy; test \"$(ls | wc -l)\" = 2")
                    try await world.unmount()
                } catch {
                    await world.finish()
                    _ = try await world.attempt("cd /; umount $T/small")
                    throw error
                }
                try await world.sh("cd /; umount \(cache)")
            }
        }
    }
}
