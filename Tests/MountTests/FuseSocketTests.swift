import Foundation
import Testing

extension RealMounts {
    /// `pailfs mount --fuse-socket PATH`: another process sends the connection of its mount.
    @Suite(.enabled(if: Machine.isRoot, "mounting for another program takes root"))
    struct FuseSockets {
        private static func prelude(_ world: World) -> String {
            let options = (["endpoint=\(world.bucket.endpoint)"] + world.bucket.options).joined(separator: ",")
            return """
                cd $T
                send() { "$PYTHON" '\(Programs.helper("handed.py"))' send "$@"; }
                pailfs=\(Programs.pailfs) bucket=\(world.bucket.name) options='\(options)'

                """
        }

        /// The message of the sender, and the command line besides the socket.
        @Test(
            .timeLimit(.minutes(5)),
            arguments: [
                (
                    #"{"bucketName":"$bucket","args":["--cache-dir=$T/cache","-o","durable=local"],"env":[]}"#,
                    "-o $options"
                ),
                (#"{"args":["--cache-dir","$T/cache"],"env":null}"#, "s3://$bucket -o $options"),
                (#"{"bucketName":"$bucket","env":["PAILFS_CACHE_DIR=$T/cache"]}"#, "s3://$bucket -f -o $options"),
                (#"{"bucketName":"s3://$bucket/","args":["-o$options,cache-dir=$T/cache","--foreground"]}"#, "-f"),
            ])
        func theMountOfTheSenderIsServed(_ message: String, _ arguments: String) async throws {
            try await withStore { world, _ in
                let quoted = message.replacingOccurrences(of: "\"", with: "\\\"")
                try await world.sh(
                    Self.prelude(world) + """
                        $pailfs mount --fuse-socket $T/socket \(arguments) 2>said & served=$!
                        send $M allow_other $T/socket "\(quoted)"
                        printf text >$M/file
                        test ! -e $T/socket
                        test -d $T/cache
                        $pailfs flush --wait fuse-socket:$T/socket
                        umount $M
                        wait $served
                        """)
                #expect(try await world.outside("get", "file") == "text")
                let hasEnded = await poll(for: .seconds(30)) { [scratch = world.scratch] in
                    scratch.processes(running: Programs.pailfs).isEmpty ? true : nil
                }
                #expect(hasEnded == true)
            }
        }

        /// The message, how many descriptors, the command line, and what pailfs says.
        @Test(
            .timeLimit(.minutes(5)),
            arguments: [
                (
                    #"{"bucketName":"b","fd":3}"#, 1, "",
                    "it has the unknown field fd; bucketName, args and env are known"
                ),
                (#"{"bucketName":"b"}"#, 0, "", "it has no descriptor; send the one of /dev/fuse"),
                (#"{"bucketName":"b"}"#, 2, "", "it has 2 descriptors; send the one of /dev/fuse"),
                (#"{"bucketName":"b"}"#, 200, "", "it has 200 descriptors; send the one of /dev/fuse"),
                (#"{"bucketName":"b"}"#, 1, "s3://other", "its bucketName is b, and the command line has s3://other"),
                (#"{"args":[]}"#, 1, "", "it names no bucket; send bucketName, or give pailfs a URL"),
                (#"{"bucketName":"b","args":"x"}"#, 1, "", "its field args is not a list of strings"),
                (#"{"bucketName":"b","args":["word"]}"#, 1, "", "its args have word, which is not a mount option"),
                (#"{"bucketName":"b","args":["--no-such=1"]}"#, 1, "", "no-such"),
                (#"{"bucketName":"b","env":["NOTHING"]}"#, 1, "", #"its env has "NOTHING", which is not NAME=VALUE"#),
                (#"["#, 1, "", "it is not a JSON object with bucketName, args and env"),
                (#"{"bucketName":"b"}"#, 1, "", "belongs to no mount; call mount(2) with it"),
            ])
        func aMessageThatCannotBeUsedIsAnError(
            _ row: (message: String, descriptors: Int, arguments: String, text: String)
        ) async throws {
            try await withStore { world, _ in
                let outcome = try await world.attempt(
                    Self.prelude(world) + """
                        $pailfs mount --fuse-socket $T/socket \(row.arguments) & served=$!
                        send '' '' $T/socket '\(row.message)' \(row.descriptors)
                        wait $served
                        """)
                #expect(outcome.status == 1 && outcome.errors.contains(row.text), "\(outcome)")
                #expect(outcome.errors.split(separator: "\n").count { $0.hasPrefix("pailfs: ") } == 1, "\(outcome)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func withoutASenderTheCommandEndsAfterItsTime() async throws {
            try await withStore { world, _ in
                let outcome = try await world.pailfs(
                    ["mount", "--fuse-socket", world.scratch.path("socket"), "--fuse-socket-wait", "100ms"])
                #expect(outcome.status == 1 && outcome.errors.contains("no process sent a message to "), "\(outcome)")
                #expect(!world.scratch.has("socket"))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aSocketThatAKilledProcessLeftIsReplaced() async throws {
            try await withStore { world, _ in
                let outcome = try await world.attempt(
                    Self.prelude(world) + """
                        $pailfs mount --fuse-socket $T/socket & killed=$!
                        until test -S $T/socket; do sleep 0.01; done
                        $pailfs mount --fuse-socket $T/socket 2>&1 && exit 9
                        kill -9 $killed; wait $killed || true
                        test -S $T/socket; test $(stat -c %a $T/socket) = 600
                        $pailfs mount --fuse-socket $T/socket --fuse-socket-wait 100ms 2>&1 && exit 9
                        echo text >$T/socket
                        $pailfs mount --fuse-socket $T/socket 2>&1 && exit 9
                        cat $T/socket
                        """)
                let lines = outcome.output.split(separator: "\n")
                #expect(lines.count == 4 && lines.last == "text", "\(outcome)")
                #expect(lines.first?.contains("another process waits at ") == true, "\(outcome)")
                #expect(lines.dropFirst().first?.contains("no process sent a message to ") == true, "\(outcome)")
                #expect(lines.dropFirst(2).first?.contains("exists and is not a socket") == true, "\(outcome)")
            }
        }

        /// The command line, and what pailfs says.
        @Test(
            .timeLimit(.minutes(5)),
            arguments: [
                ("s3://b $M --fuse-socket x", "exclude each other"),
                ("s3://b $M --fuse-socket-wait 1s", "--fuse-socket-wait is for --fuse-socket"),
                ("--fuse-socket x --fuse-socket-wait never", "write a duration above 0"),
                ("--fuse-socket /nowhere/x", "cannot listen at /nowhere/x"),
                ("s3://b", "the argument <mountpoint> is missing"),
                ("", "the argument <url> is missing"),
            ])
        func aWrongCommandLineIsAnError(_ arguments: String, _ text: String) async throws {
            try await withStore { world, _ in
                let outcome = try await world.attempt("\(Programs.pailfs) mount \(arguments)")
                #expect(outcome.status != 0 && outcome.errors.contains(text), "\(outcome)")
            }
        }
    }
}
