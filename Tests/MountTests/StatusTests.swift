import Foundation
import Glibc
import Testing

extension RealMounts {
    /// What `pailfs status` shows of a mount that works: rates, bars, sums and what they cost.
    @Suite struct Status {
        /// Uploads that take a while, and one that is under way.
        private func slowly(_ world: World, _ store: Store) async throws {
            try await store.setFaults("op=UploadPart,kind=bandwidth:2000000")
            try await world.sh("head -c 60000000 /dev/urandom >video.mkv")
        }

        @Test(.timeLimit(.minutes(5)))
        func onATerminalTheViewIsDrawnInPlaceAndEndsOnInterrupt() async throws {
            try await withMount("durable=local", "uploads=2") { world, store in
                try await slowly(world, store)
                try await world.python(
                    """
                    import fcntl, os, pty, re, select, struct, sys, termios, time

                    def resize(columns):
                        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

                    def start(**variables):
                        global terminal, seen
                        child, terminal = pty.fork()
                        if child == 0:
                            os.execve("\(Programs.pailfs)", ["pailfs", "status", "--watch", "\(world.mountpoint)"],
                                      {**os.environ, "TERM": "xterm", **variables})
                        resize(72)
                        seen = b""
                        return child

                    def wait_for(what, is_wanted):
                        global seen
                        end = time.monotonic() + 50
                        while True:
                            views = [view.split(b"\\x1b[J")[0] for view in seen.split(b"\\x1b[H")[1:] if b"\\x1b[J" in view]
                            for view in views:
                                text = re.sub("\\x1b\\\\[[0-9]*[A-Z]", "", view.decode()).replace("\\r", "")
                                if is_wanted([line for line in text.split("\\n") if line]):
                                    seen = b""
                                    return
                            if time.monotonic() > end or not select.select([terminal], [], [], 10)[0]:
                                sys.exit(f"no {what}: {seen[-4000:]}")
                            seen += os.read(terminal, 65536)

                    def is_going(lines):
                        return (any(re.match("  rates       sent [1-9].*/s, received ", line) for line in lines)
                                and any(re.search("█+░+ +[0-9]+%  [0-9.]+MiB of 57.2MiB, part [0-9]+ of [0-9]+", line) for line in lines)
                                and any(re.match("  cache       █+░+ ", line) for line in lines))

                    def interrupt(child):
                        os.write(terminal, b"\\x03")
                        end = time.monotonic() + 30
                        try:
                            while time.monotonic() < end and os.read(terminal, 65536): pass
                        except OSError: pass  # the terminal's other end is closed
                        _, status = os.waitpid(child, 0)
                        assert status == 0, status

                    child = start()
                    wait_for("view with rates and bars", is_going)
                    wait_for("view of 72 columns", lambda lines: max(map(len, lines)) == 72)
                    resize(50)
                    wait_for("view of 50 columns", lambda lines: max(map(len, lines)) == 50)
                    interrupt(child)
                    child = start(COLUMNS="60")
                    wait_for("view of 60 columns", lambda lines: max(map(len, lines)) == 60)
                    interrupt(child)
                    """, deadline: .seconds(150))
                try await store.setFaults()
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func elsewhereReportsFollowEachOther() async throws {
            try await withMount("durable=local", "uploads=2") { world, store in
                try await slowly(world, store)
                let watching = try world.start("cd /; LC_ALL=C exec \(Programs.pailfs) status $M --watch")
                let isGoing = await poll(for: .seconds(50)) {
                    let reports = watching.output.components(separatedBy: "\n\n")
                    return reports.dropLast().contains {
                        $0.hasPrefix("s3://pail on ") && $0.contains(#/\n  rates       sent [1-9].*\/s, received /#)
                            && $0.contains(
                                #/\n {14}\[#+-+\] +[0-9]+%  [0-9.]+MiB of 57.2MiB, part [0-9]+ of [0-9]+: video.mkv, uploading, /#
                            )
                            && $0.contains(#/\n              PUT part [0-9]+.* under way/#)
                    } ? true : nil
                }
                #expect(isGoing == true, "\(watching.output)")
                #expect(!watching.output.contains("\u{1B}"))
                watching.send(SIGINT)
                let outcome = await watching.wait(deadline: .seconds(20))
                #expect(outcome.succeeded, "\(outcome)")
                try await store.setFaults()
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func sumsAndTheirCostAreTold() async throws {
            try await Provider.oss.withPailstore { world, store in
                try await world.mount()
                try await world.sh("head -c 3000000 /dev/urandom >file; ls; rm file")
                try await world.outside("put", "other", world.logPath)
                let status = try await world.status()
                let traffic = try #require(status.traffic)
                #expect(traffic.sentBytes >= 3_000_000 && traffic.receivedBytes > 0)
                let memory = try #require(status.memory)
                #expect(memory.usedBytes <= memory.limitBytes && memory.limitBytes > 0)
                #expect(status.queue?.waitingFiles == 0 && status.queue?.uploadingFiles == 0)
                let cost = try #require(status.cost)
                #expect(cost.currency == "CNY" && cost.amount > 0)
                let requests = status.requests?.values.reduce(0) { $0 + $1.requests }
                #expect(cost.writeRequests + cost.readRequests + cost.freeRequests == requests)
                let text = try await world.pailfs(["status", world.mountpoint])
                #expect(
                    text.output.contains(
                        #/\n  cost        (about|less than) 0\.[0-9]{4} CNY at list prices, without traffic and storage/#
                    ),
                    "\(text)")
            }
        }

        /// Row by row and word by word, whatever the numbers are.
        @Test(.timeLimit(.minutes(5)))
        func theManualShowsWhatIsShown() async throws {
            let shown = try #require(
                try Pages.displays("man/pailfs.1", section: "THE STATUS REPORT").first {
                    $0.contains(" on /mnt/bucket\n")
                })
            let (rows, words) = (rows(shown), words(shown))
            #expect(rows.count >= 9 && words.count >= 30)
            try await Provider.oss.withPailstore { world, store in
                try await world.mount(["durable=local", "uploads=4"])
                try await world.sh("for n in $(seq 70); do printf $n >$n.jpg; done")
                for command in [["flush", "--wait"], ["cache", "prune"]] {
                    let outcome = try await world.pailfs(command + [world.mountpoint])
                    #expect(outcome.succeeded, "\(outcome)")
                }
                try await store.setFaults("op=UploadPart,kind=bandwidth:1000000")
                try await world.sh(
                    "cat 7.jpg; for n in video.mkv backup.tar; do head -c 60000000 /dev/urandom >$n; done")
                let watching = try world.start("cd /; exec \(Programs.pailfs) status $M --watch")
                let isLikeIt = await poll(for: .seconds(50)) { () -> Bool? in
                    let reports = watching.output.components(separatedBy: "\n\n").dropLast()
                    return reports.contains { self.rows($0) == rows && self.words($0).isSuperset(of: words) }
                        ? true : nil
                }
                #expect(isLikeIt == true, "man/pailfs.1 shows\n\(shown)and status\n\(watching.output)")
                watching.send(SIGINT)
                _ = await watching.wait(deadline: .seconds(20))
                try await store.setFaults()
            }
        }

        /// The names of a report's rows.
        private func rows(_ report: String) -> [String] {
            report.split(separator: "\n").dropFirst()
                .map { $0.prefix(14).trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
        }

        /// What it has besides numbers, its first line and what is cut off.
        private func words(_ report: String) -> Set<Substring> {
            let text = report.split(separator: "\n").dropFirst().joined(separator: " ").replacing(#/\S*…/#, with: "")
            return Set(text.split { !$0.isASCII || !$0.isLetter }.filter { $0.count > 2 && !$0.hasSuffix("iB") })
        }

        /// Who else speaks S3 has prices of their own, or none.
        @Test(.timeLimit(.minutes(5)))
        func aServerThatIsNotAmazonsHasNoPrice() async throws {
            try await withMount { world, _ in
                let status = try await world.status()
                #expect(status.traffic != nil && status.cost == nil)
                let text = try await world.pailfs(["status", world.mountpoint])
                #expect(!text.output.contains("cost"), "\(text)")
            }
        }
    }
}
