import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// Names that a server of S3's protocol does not take: an error at once, whatever was acknowledged before.
    @Suite struct RefusedNames {
        struct Refusal: Sendable, CustomTestStringConvertible {
            let fault: String
            /// A name of that kind, as Python writes it.
            let name: String
            var testDescription: String { fault }
        }

        static let refusals = [
            Refusal(fault: "refuse-keys:utf8:403", name: #"b"n\xff\xfe""#),
            Refusal(fault: "refuse-keys:utf8:400", name: #"b"n\xff\xfe""#),
            Refusal(fault: "refuse-keys:control:403", name: #"b"n\x01""#),
            Refusal(fault: "refuse-keys:line-break:400", name: #"b"n\n""#),
            Refusal(fault: "lose-line-break", name: #"b"n\n""#),
        ]

        @Test(.rule("name.bytes"), .timeLimit(.minutes(5)), arguments: refusals, ["remote", "local"])
        func aNameThatTheServerRefusesIsEILSEQAtOnce(_ refusal: Refusal, durable: String) async throws {
            try await withStore(arguments: ["--fault", "kind=\(refusal.fault)"]) { world, store in
                world.expectsErrorsInLog = true
                try await world.mount(["durable=\(durable)"])
                try await world.sh("printf x >plain; mkdir directory; printf x >directory/f")
                let acts = """
                    import errno, os
                    name = \(refusal.name)
                    open("fresh", "wb").close()
                    for act in (lambda: open(name, "wb"), lambda: os.mkdir(name + b"d"), lambda: os.symlink("x", name),
                            lambda: os.rename("fresh", name), lambda: os.rename("plain", name),
                            lambda: os.rename("directory", name), lambda: os.mkdir(name)):
                        try: act()
                        except OSError as error: assert error.errno == errno.EILSEQ, error
                        else: raise AssertionError("a name was made that the server does not take")
                    assert not os.path.lexists(name)
                    """
                try await world.python(acts)
                let cost = try await store.requests { try await world.python(acts) }
                #expect(cost.counts.values.reduce(0, +) < 6, "\(cost)")
                let status = try await world.pailfs(["status", world.mountpoint])
                #expect(status.output.contains("so pailfs refuses such names"), "\(status)")
                try await world.unmount()
                // What was lost can only be left behind.
                let lost = refusal.fault == "lose-line-break" ? "n\n\n" : ""
                #expect(try await world.outside("keys") == "directory/\ndirectory/f\nfresh\n\(lost)plain\n")
            }
        }

        @Test(.rule("name.length"), .timeLimit(.minutes(5)), arguments: ["remote", "local"])
        func aPathLongerThanTheServersKeysIsENAMETOOLONG(durable: String) async throws {
            try await withStore(arguments: ["--fault", "kind=refuse-keys:600"]) { world, store in
                world.expectsErrorsInLog = true
                try await world.mount(["durable=\(durable)"])
                try await world.python(
                    """
                    import errno, os
                    os.makedirs("d" * 200 + "/" + "e" * 200)
                    below = "d" * 200 + "/" + "e" * 200 + "/"
                    open(below + "f" * 190, "wb").close()
                    for turn in range(2):
                        try: open(below + "f" * 200, "wb")
                        except OSError as error: assert error.errno == errno.ENAMETOOLONG, error
                        else: raise AssertionError("a file was made that the server does not take")
                    """)
                try await world.unmount()
            }
        }

        @Test(.rule("name.bytes"), .timeLimit(.minutes(5)))
        func theRemovalOfWhatTheServerNeverTookIsOver() async throws {
            try await withMount("durable=local") { world, store in
                world.expectsErrorsInLog = true
                try await store.setFaults("op=PutObject,kind=status:503")
                try await world.python(
                    """
                    open(b"n\\xff", "wb").write(b"x")
                    """)
                try await store.setFaults("kind=refuse-keys:utf8:403")
                // The next one has not seen that the server once took such a name.
                try await world.killWorker()
                try await world.sh("rm n*; test -z \"$(ls)\"")
                try await world.unmount()
            }
        }

        @Test(.rule("xattr.user"), .timeLimit(.minutes(5)))
        func anAttributeOverTheServersLimitIsE2BIGBeforeTheFileIsStored() async throws {
            try await withStore(arguments: ["--fault", "kind=metadata-limit:256"]) { world, store in
                world.expectsErrorsInLog = true
                try await world.mount(["durable=local"])
                try await world.python(
                    """
                    import errno, os
                    file = os.open("file", os.O_CREAT | os.O_WRONLY)
                    os.write(file, b"x")
                    for turn in range(2):
                        try: os.setxattr(file, "user.long", b"0" * 400)
                        except OSError as error: assert error.errno == errno.E2BIG, error
                        else: raise AssertionError("an attribute was set that the server does not take")
                    os.setxattr(file, "user.short", b"0")
                    os.close(file)
                    """)
                try await world.unmount()
                #expect(try await world.outside("get", "file") == "x")
            }
        }
    }
}
