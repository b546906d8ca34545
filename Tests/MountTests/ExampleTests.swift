import Foundation
import Testing

/// The pages that people read before they type.
enum Pages {
    static func text(_ name: String) throws -> String {
        try String(contentsOfFile: "\(Programs.root)/\(name)", encoding: .utf8)
    }

    /// Fenced blocks of Markdown; `language` nil for those without one.
    static func fenced(_ name: String, _ language: String) throws -> [String] {
        var blocks: [String] = []
        var block: String?
        for line in try text(name).split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("```") {
                if let whole = block {
                    blocks.append(whole)
                    block = nil
                } else if line.dropFirst(3) == language {
                    block = ""
                } else {
                    block = "skipped"
                }
            } else if block != nil {
                block? += line + "\n"
            }
        }
        return blocks.filter { !$0.hasPrefix("skipped") }
    }

    /// Displays of a section of a manual page, as the reader sees them.
    static func displays(_ name: String, section title: String = "EXAMPLES") throws -> [String] {
        let lines = try text(name).split(separator: "\n", omittingEmptySubsequences: false)
        let section = lines.drop { $0 != ".Sh \(title)" }.dropFirst().prefix { !$0.hasPrefix(".Sh ") }
        var blocks: [String] = []
        var block: String?
        for line in section {
            if line.hasPrefix(".Bd") {
                block = ""
            } else if line == ".Ed" {
                blocks.append(block ?? "")
                block = nil
            } else {
                block? += line.replacing("\\e", with: "\\").replacing("\\&", with: "") + "\n"
            }
        }
        return blocks
    }
}

extension RealMountsAlone {
    /// What README.md and the manual pages show can be typed: it runs here against a pailstore.
    @Suite struct Examples {
        /// The programs under the names the pages have them, and the store as what the pages leave open.
        private func setup(_ world: World) -> String {
            """
            cd $T; mkdir -p bin; ln -sf \(Programs.pailfs) bin/pailfs; ln -sf \(Programs.pailstore) bin/pailstore
            export PATH=$T/bin:$PATH PAILFS_ENDPOINT=\(world.bucket.endpoint) PAILFS_PATH_STYLE=yes \
                PAILFS_LOG=\(world.logPath) PAILFS_CACHE_DIR=$T/cache
            """
        }

        private func here(_ text: String, _ world: World) -> String {
            text.replacing("/mnt/bucket", with: world.mountpoint)
                .replacing("PAILFS_ACCESS_KEY_ID=...", with: "PAILFS_ACCESS_KEY_ID=\(Store.accessKey)")
                .replacing("PAILFS_SECRET_ACCESS_KEY=...", with: "PAILFS_SECRET_ACCESS_KEY=\(Store.secretKey)")
        }

        @Test(.timeLimit(.minutes(5)))
        func commandsOfTheReadMeAndThePageRun() async throws {
            try await withStore(bucket: "bucket") { world, _ in
                try await world.sh("printf x >$T/x")
                for key in ["photos/1.jpg", "a.html"] { try await world.outside("put", key, world.scratch.path("x")) }
                // The first mounts have a test of their own, each with its store.
                let blocks =
                    try Pages.displays("man/pailfs.1")
                    + Pages.fenced("README.md", "sh").filter { !$0.contains("pailfs mount") }
                #expect(blocks.count == 2)
                for block in blocks {
                    let script =
                        "\(setup(world))\nexport AWS_EC2_METADATA_DISABLED=true\nset -x\n\(here(block, world))"
                    let outcome = try await world.attempt(script)
                    #expect(outcome.succeeded, "\(block)\n\(outcome)")
                    #expect(!world.isMounted)
                }
                #expect(try await world.outside("keys").contains("b.html"))
                await untilGone(world)
            }
        }

        /// README's three lines for each store, by the store that the tests have for it.
        @Test(.timeLimit(.minutes(5)), arguments: Provider.allCases)
        func theFirstMountOfEachStoreRuns(_ provider: Provider) async throws {
            let blocks = try Pages.fenced("README.md", "sh").filter { $0.contains("pailfs mount") }
            #expect(blocks.count == Provider.allCases.count)
            let own = blocks.filter { $0.contains("pailfs mount \(provider.rawValue)://") }
            let block = try #require(own.count == 1 ? own.first : nil)
            #expect(block.split(separator: "\n").count == 3)
            try await provider.withWorld { world in
                // What the page leaves open: the credentials, the bucket, and where the store is.
                let bucket = world.bucket
                let lines = here(block, world)
                    .replacing(#/(\w+)=\.\.\./#) { match in
                        let name = match.output.1
                        let isAddress = ["ST_AUTH", "CSSP_URL"].contains(name)
                        let isUser = name.hasSuffix("_ID") || ["ST_USER", "QINIU_ACCESS_KEY"].contains(name)
                        return
                            "\(name)='\(isAddress ? bucket.endpoint : isUser ? bucket.accessKey : bucket.secretKey)'"
                    }
                    .replacing(#/\w+:\/\/(bucket|container)(-\d+)?/#, with: bucket.url)
                let outcome = try await world.attempt(
                    """
                    cd $T; mkdir -p bin; ln -sf \(Programs.pailfs) bin/pailfs; export PATH=$T/bin:$PATH
                    unset ${!PAILFS_*} ${!AWS_*} ${!ST_*}; export AWS_EC2_METADATA_DISABLED=true
                    pailfs() { command pailfs "$@" -o '\(world.options([]))'; }
                    \(lines)
                    unset -f pailfs
                    printf x >$M/x; pailfs unmount $M
                    """)
                #expect(outcome.succeeded, "\(lines)\n\(outcome)")
                #expect(!world.isMounted)
                #expect(try await world.outside("get", "x") == "x")
                await untilGone(world)
            }
        }

        private func linesForFstab() throws -> [String] {
            try Pages.fenced("README.md", "").filter { $0.contains("fuse.pailfs") }
                + Pages.displays("man/pailfs-mount.8").filter { $0.contains("fuse.pailfs") }
        }

        private static let keys = "/etc/pailfs/keys/bucket"

        /// The page's file of keys, with those of the world's store.
        private func keysOfThePage(_ world: World) throws -> String {
            let files = try Pages.displays("man/pailfs-mount.8").filter { $0.contains("PAILFS_ACCESS_KEY_ID=id\n") }
            #expect(files.count == 1)
            return (files.first ?? "").replacing("=id\n", with: "=\(world.bucket.accessKey)\n")
                .replacing("=secret\n", with: "=\(world.bucket.secretKey)\n")
        }

        /// With no more of an environment than at boot, and the key in the file that the line names.
        @Test(.timeLimit(.minutes(5)), .enabled(if: Machine.isRoot, "mount -T takes root"))
        func linesForFstabMount() async throws {
            try await withStore(bucket: "bucket") { world, _ in
                let lines = try linesForFstab().filter { !$0.contains("alice") }
                #expect(lines.count == 3)
                let place = world.scratch.path("keys")
                try keysOfThePage(world).write(toFile: place, atomically: true, encoding: .utf8)
                for line in lines {
                    let fstab = here(line, world).replacing("endpoint=https://s3.example,", with: "")
                        .replacing(Self.keys, with: place)
                        .replacing("_netdev", with: "_netdev,\(world.options([]))")
                    try fstab.write(toFile: world.scratch.path("fstab"), atomically: true, encoding: .utf8)
                    let needsKeys = !line.contains(Self.keys)
                    let outcome = try await world.attempt(
                        """
                        \(setup(world)); export M; chmod 600 keys
                        exec unshare --mount bash -euc '
                            mount --bind $T/bin /usr/local/sbin
                            mount -t tmpfs -o mode=700 tmpfs /root
                            if \(needsKeys); then mkdir /root/.aws
                                printf "[default]\naws_access_key_id = \(Store.accessKey)\n" >/root/.aws/credentials
                                printf "aws_secret_access_key = \(Store.secretKey)\n" >>/root/.aws/credentials
                            fi
                            env -i /usr/bin/mount -T $T/fstab $M; findmnt -t fuse.pailfs $M
                            env -i /usr/local/sbin/pailfs unmount $M'
                        """)
                    #expect(outcome.succeeded && !world.isMounted, "\(fstab)\n\(outcome)")
                }
                await untilGone(world)
            }
        }

        /// One file of keys, named by `credentials-file=` and by the service manager's file, for whichever store.
        @Test(
            .timeLimit(.minutes(5)), .enabled(if: Machine.isRoot, "mount -T takes root"),
            arguments: Provider.allCases)
        func theFileOfKeysMountsEachStoreAtBoot(_ provider: Provider) async throws {
            let units = try Pages.displays("man/pailfs-mount.8").filter { $0.contains("URL=s3://bucket\n") }
            let unit = try #require(units.count == 1 ? units.first : nil)
            let line = try #require(try linesForFstab().last { $0.contains(Self.keys) })
            try await provider.withWorld { world in
                let place = world.scratch.path("keys")
                func here(_ text: String) -> String {
                    text.replacing("/mnt/bucket", with: world.mountpoint)
                        .replacing("s3://bucket", with: world.bucket.url).replacing(Self.keys, with: place)
                }
                try keysOfThePage(world).write(toFile: place, atomically: true, encoding: .utf8)
                let fstab = here(line).replacing("_netdev", with: "_netdev,\(world.options([]))")
                try fstab.write(toFile: world.scratch.path("fstab"), atomically: true, encoding: .utf8)
                let service = here(unit).replacing("PAILFS_REGION=eu-central-1\n", with: "")
                try service.write(toFile: world.scratch.path("unit"), atomically: true, encoding: .utf8)
                let outcome = try await world.attempt(
                    """
                    cd $T; mkdir -p bin; ln -sf \(Programs.pailfs) bin/pailfs; export M; chmod 600 keys
                    exec unshare --mount bash -euc '
                        mount --bind $T/bin /usr/local/sbin; mount -t tmpfs -o mode=700 tmpfs /root
                        env -i /usr/bin/mount -T $T/fstab $M
                        printf one >$M/fstab; env -i /usr/local/sbin/pailfs unmount $M
                        . ./unit
                        env -i $(cat unit) /usr/local/sbin/pailfs mount $URL $M -o "\(world.options([]))"
                        printf two >$M/unit; env -i /usr/local/sbin/pailfs unmount $M'
                    """)
                #expect(outcome.succeeded && !world.isMounted, "\(fstab)\n\(outcome)")
                #expect(try await world.outside("get", "fstab") == "one")
                #expect(try await world.outside("get", "unit") == "two")
                await untilGone(world)
            }
        }

        /// With no more of an environment than at boot, and the key in the files of the user that the page names.
        @Test(.timeLimit(.minutes(5)), .enabled(if: Machine.isRoot, "mount -T takes root"))
        func linesForFstabMountForAnotherUser() async throws {
            try await withStore(bucket: "bucket") { world, _ in
                let lines = try linesForFstab().filter { $0.contains("alice") }
                #expect(lines.count == 2)
                for (number, line) in lines.enumerated() {
                    let user = line.contains("setuid=") ? "alice" : "root"
                    let fstab = here(line, world)
                        .replacing("_netdev", with: "_netdev,endpoint=\(world.bucket.endpoint),path-style")
                    let place = fstab.split(separator: " ")[1]
                    try fstab.write(toFile: world.scratch.path("fstab"), atomically: true, encoding: .utf8)
                    // Users, their homes and the program, in this mount namespace only.
                    let outcome = try await world.attempt(
                        """
                        export M; chmod 711 $T; chmod 755 $M; mkdir -p $T/sbin; install -m 755 \(Programs.pailfs) $T/sbin/pailfs
                        (cat /etc/passwd; echo alice:x:4711:4711::/home/alice:/bin/sh) >$T/passwd
                        (cat /etc/group; echo alice:x:4711:) >$T/group
                        exec unshare --mount bash -euc '
                            mount --bind $T/passwd /etc/passwd; mount --bind $T/group /etc/group
                            mount --bind $T/sbin /usr/local/sbin
                            mount -t tmpfs -o mode=755 tmpfs /home; mount -t tmpfs -o mode=700 tmpfs /root
                            mount -t tmpfs -o mode=755 tmpfs /var/cache; mount -t tmpfs -o mode=755 tmpfs /var/lib
                            home=$(getent passwd \(user) | cut -d: -f6)
                            mkdir -p /home/alice/bucket $home/.aws
                            printf "[default]\naws_access_key_id = \(Store.accessKey)\n" >$home/.aws/credentials
                            printf "aws_secret_access_key = \(Store.secretKey)\n" >>$home/.aws/credentials
                            chown -R alice: /home/alice
                            as() { user=$1; shift; setpriv --reuid=$user --regid=$user --init-groups env -i "$@"; }
                            env -i /usr/bin/mount -T $T/fstab \(place)
                            findmnt -n -o FSTYPE \(place)
                            as alice sh -c "echo content >\(place)/file\(number); stat -c %U \(place)/file\(number)"
                            if [ $home = /root ]; then test -d /var/cache/pailfs -a -d /var/lib/pailfs
                            else test -d $home/.cache/pailfs -a -d $home/.local/state/pailfs; fi
                            as \(user) /usr/local/sbin/pailfs unmount \(place)
                            rm -rf /tmp/pailfs-4711'
                        """)
                    #expect(outcome.succeeded && !world.isMounted, "\(fstab)\n\(outcome)")
                    #expect(outcome.output == "fuse.pailfs\nalice\n", "\(fstab)\n\(outcome)")
                    #expect(try await world.outside("get", "file\(number)") == "content\n")
                }
            }
        }

        /// The function that draws the bars of scripts/bench reads each figure of README's table.
        @Test(.timeLimit(.minutes(5)))
        func theTableOfTheReadMeCanBeDrawn() async throws {
            let scratch = try Scratch()
            defer { scratch.remove() }
            let root = Programs.root
            let drawing = try Child(
                [Programs.python, "-B", "\(root)/Tests/BenchTests/picture.py", "\(root)/README.md"],
                environment: scratch.environment(), directory: "/", scratch: scratch)
            let picture = await drawing.wait(deadline: .seconds(60))
            #expect(picture.succeeded && picture.output.contains("#"), "\(picture)")
            let table = try Pages.text("README.md").split(separator: "\n").drop { !$0.hasPrefix("| | pailfs |") }
                .dropFirst(2).prefix { $0.hasPrefix("|") }
            #expect(table.count >= 5)
            for row in table {
                for cell in row.split(separator: "|").dropFirst(2) {
                    guard let figure = cell.split(separator: " ").last, let number = Double(figure) else { continue }
                    let shown = String(format: "%.2f", number)
                    let line = picture.output.split(separator: "\n").first { $0.hasSuffix(" \(shown)") }
                    let isFaster = line.map { $0.contains("|#") } ?? false
                    #expect(line != nil, "the picture lacks \(cell):\n\(picture.output)")
                    if number >= 1.2 { #expect(isFaster, "\(line ?? "")") }
                }
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func commandsOfTheStoresPageRun() async throws {
            try await withStore { world, _ in
                let blocks = try Pages.displays("man/pailstore.1")
                #expect(blocks.count == 2)
                let port = try await world.portOfPailstore()
                func here(_ block: String) -> String {
                    block.replacing("$ ", with: "").replacing("/tmp/store", with: "$T/shop --listen 127.0.0.1:\(port)")
                        .replacing(" /mnt ", with: " $M ").replacing(":9000", with: ":\(port)")
                }
                let tried = try await world.attempt(
                    """
                    \(setup(world)); unset PAILFS_ENDPOINT PAILFS_PATH_STYLE
                    \(here(blocks[0]))
                    printf x >$M/x; findmnt -t fuse.pailfs $M; pailfs unmount $M; kill %1; wait %1 || true
                    """)
                #expect(tried.succeeded, "\(tried)")
                let served = try await world.attempt(
                    "\(setup(world))\ncat >script <<'END'\n\(here(blocks[1]))\nEND\ntimeout 2 bash script || test $? = 124"
                )
                #expect(served.succeeded && served.output.contains("{\"s3\":"), "\(served)")
                await untilGone(world)
            }
        }

        /// The unit of the package waits for the word of a mount in the foreground, and ends it as the page says.
        @Test(.timeLimit(.minutes(5)))
        func aServiceManagerIsToldWhenTheMountAnswers() async throws {
            let unit = try Pages.text("scripts/pailfs@.service")
            #expect(unit.contains("Type=notify") && unit.contains("pailfs mount -f ${URL} %f"))
            try await withStore { world, _ in
                try await world.python(
                    """
                    import os, socket, subprocess
                    place = os.environ["T"] + "/notify"
                    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                    told.bind(place)
                    told.settimeout(30)
                    os.chdir(os.environ["T"])
                    mount = subprocess.Popen(
                        ["\(Programs.pailfs)", "mount", "-f", "\(world.bucket.url)", os.environ["M"], "-o", "\(world.options([]))"],
                        env={**os.environ, "NOTIFY_SOCKET": place})
                    assert told.recv(100) == b"READY=1"
                    assert os.path.ismount(os.environ["M"])
                    open(os.environ["M"] + "/file", "w").write("x")
                    subprocess.run(["\(Programs.pailfs)", "unmount", os.environ["M"]], check=True)
                    assert mount.wait(30) == 0
                    """)
                #expect(try await world.outside("get", "file") == "x")
            }
        }

        /// The manual page names each command and flag and no other, and the help of each fits a screen.
        @Test(.timeLimit(.minutes(5)))
        func thePageHasEveryCommandAndFlagAndNoOther() async throws {
            try await withStore { world, _ in
                let page = try Pages.text("man/pailfs.1")
                nonisolated(nonsending) func commands(_ words: [String]) async throws -> [String] {
                    let help = try await world.pailfs(["help"] + words).output
                    let part = help.split(separator: "\n", omittingEmptySubsequences: false)
                        .drop { !$0.hasSuffix("SUBCOMMANDS:") }
                    return part.filter { $0.hasPrefix("  ") && !$0.hasPrefix("   ") && !$0.hasPrefix("  See") }
                        .compactMap { $0.split(whereSeparator: { " ,(".contains($0) }).first.map(String.init) }
                }
                var found = 0
                for command in try await commands([]) {
                    let isThere = page.split(separator: "\n").contains {
                        ($0.hasPrefix(".Cm ") || $0.hasPrefix(".It Cm "))
                            && $0.split(separator: " ").contains(command[...])
                    }
                    #expect(isThere, "man/pailfs.1 has no \(command)")
                    let inner = try await commands([command])
                    for words in [[command]] + inner.map({ [command, $0] }) {
                        let help = try await world.pailfs(["help"] + words).output
                        let height = help.split(separator: "\n", omittingEmptySubsequences: false).count
                        #expect(height <= (command == "mount" ? 50 : 26), "pailfs help \(words)")
                        let own = help.split(separator: "\n").drop { $0 != "OPTIONS:" }
                        for line in own where line.hasPrefix("  -") {
                            for flag in line.matches(of: /--([a-z-]+)/).map({ String($0.output.1) })
                            where !["help", "version"].contains(flag) && line.prefix(26).contains("--\(flag)") {
                                found += 1
                                let isTold = page.contains("Fl -\(flag)")
                                #expect(isTold, "man/pailfs.1 has no --\(flag) of \(words)")
                            }
                        }
                    }
                }
                #expect(found > 15)
                let readMe = try Pages.text("README.md")
                for match in readMe.matches(of: /`pailfs ([a-z]+)/) {
                    let help = try await world.pailfs(["help", String(match.output.1)])
                    #expect(
                        help.succeeded && !help.output.contains("OVERVIEW: Mounts a bucket of an"), "\(match.output)")
                }
            }
        }
    }
}

/// Waits for the end of processes whose mounts are gone.
private func untilGone(_ world: World) async {
    let gone = await poll(for: .seconds(20)) { [scratch = world.scratch] in
        scratch.processes(running: Programs.pailfs).isEmpty ? true : nil
    }
    #expect(gone == true)
}
