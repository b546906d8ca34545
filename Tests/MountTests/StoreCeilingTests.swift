import Testing

extension RealMountsAlone {
    /// What each act may cost in requests at every store that pailstore serves, and how many bytes an edit of a big object
    /// may move (SEMANTICS, "Requests"); operations in S3's words.
    @Suite struct StoreCeilings {
        @Test(.timeLimit(.minutes(5)), arguments: Provider.ofPailstore)
        func eachActCostsWhatThePageSays(_ provider: Provider) async throws {
            try await provider.withPailstore { world, store in
                try await world.mount(["ttl=600", "part-size=5MiB"])
                try await world.sh(
                    """
                    printf x >$T/file; chmod 640 $T/file; touch -d 2001-01-01 $T/file; tar -C $T -cf $T/file.tar file
                    head -c 150000000 /dev/zero >$T/big; ls >/dev/null
                    """)
                for act in Self.acts {
                    let cost = try await store.requests { try await world.sh(act.script) }
                    let ceiling = act.ceiling.merging(Self.more[provider]?[act.name] ?? [:]) { $1 }
                    #expect(cost.areWithin(ceiling), "\(act.name): \(cost)")
                }
                try await world.unmount()
                try await world.mount(["ttl=600"], cache: "another")
                let listed = try await store.requests { try await world.sh("test \"$(ls | tr '\\n' ' ')\" = 'a big '") }
                // CSSP lists an object of segments as empty, and only an empty page is the last.
                let pages = provider == .cssp ? 2 : 1
                let heads = provider == .cssp ? 1 : 0
                #expect(listed.areWithin(["ListObjectsV2": pages, "HeadObject": heads]), "ls: \(listed)")
                let below = try await store.requests { try await world.sh("ls -l a >/dev/null") }
                #expect(below.areWithin(["ListObjectsV2": pages]), "ls -l: \(below)")
                let read = try await store.requests { try await world.sh("cmp $T/file a/copied; cat a/copied") }
                #expect(read.areWithin(["GetObject": 1]), "cat: \(read)")
            }
        }

        private struct Act {
            let name: String
            let script: String
            let ceiling: [String: Int]

            init(_ name: String, _ script: String, _ ceiling: [String: Int]) {
                (self.name, self.script, self.ceiling) = (name, script, ceiling)
            }
        }

        /// In this order, each on what those before have left.
        private static let acts = [
            Act("mkdir", "mkdir a gone", ["PutObject": 2]),
            Act("create", "cp $T/file a/file", ["PutObject": 1]),
            Act("cp -p", "cp -p $T/file a/kept", ["PutObject": 1]),
            Act("tar x", "tar -C gone -xpf $T/file.tar", ["PutObject": 1]),
            Act(
                "rename", "$PYTHON -c 'import os; os.rename(\"a/file\", \"a/moved\")'",
                ["CopyObject": 1, "DeleteObject": 1]),
            // mv(1) must not replace what another host may have made since the listing.
            Act("mv", "mv a/moved a/renamed", ["HeadObject": 1, "CopyObject": 1, "DeleteObject": 1]),
            Act("cp", "cp a/renamed a/copied", ["CopyObject": 1]),
            Act("rm", "rm a/kept", ["DeleteObject": 1]),
            Act("rm -r", "rm -r gone", ["ListObjectsV2": 1, "DeleteObject": 2]),
            Act("files", "mkdir many; for i in $(seq 40); do echo $i >many/$i; done", ["PutObject": 41]),
            // Two go before it is known for one, and the directory; what goes in one request is looked at first. A machine under
            // load may make pauses.
            Act("rm -r many", "rm -r many", ["ListObjectsV2": 4, "DeleteObject": 3, "DeleteObjects": 3]),
            Act("mkdir again", "mkdir gone", ["PutObject": 1]),
            Act("rmdir", "rmdir gone", ["ListObjectsV2": 1, "DeleteObject": 1]),
            // After its close rsync sets the time and the mode, and then gives the file its name.
            Act(
                "rsync", "rsync -a $T/file a/synced",
                ["PutObject": 1, "HeadObject": 2, "CopyObject": 3, "DeleteObject": 1]),
            Act(
                "create big", "cp $T/big big",
                ["CreateMultipartUpload": 1, "UploadPart": 29, "CompleteMultipartUpload": 1]),
        ]

        /// Where a store's protocol takes more, as pailfs-stores(7) says.
        private static let more: [Provider: [String: [String: Int]]] = [
            // rm -r asks for statfs, and the store counts what it has.
            // What is renamed keeps its access control list.
            .oss: [
                "rm -r": ["GetBucketStat": 1], "rm -r many": ["GetBucketStat": 1], "rsync": ["GetObjectAcl": 3],
                "rename": ["GetObjectAcl": 1], "mv": ["GetObjectAcl": 1],
            ],
            // No condition on the target of a copy.
            // A server that speaks S3's protocol need not compare anything when it copies or completes an upload, as Amazon does.
            // Its first marker and its first completed upload are looked at once.
            .s3: ["mkdir": ["HeadObject": 1], "cp": ["HeadObject": 1], "create big": ["HeadObject": 2]],
            .cos: [
                "cp": ["HeadObject": 1], "rsync": ["GetObjectACL": 3], "rename": ["GetObjectACL": 1],
                "mv": ["GetObjectACL": 1],
            ],
            // Takes the same bytes again as success, tells no version of what was moved or copied, and copies as it is.
            .kodo: [
                "mkdir": ["HeadObject": 2], "mkdir again": ["HeadObject": 1], "create": ["HeadObject": 1],
                "cp -p": ["HeadObject": 1], "tar x": ["HeadObject": 1],
                "create big": ["HeadObject": 1], "rename": ["HeadObject": 1, "Move": 1, "CopyObject": 0],
                "mv": ["HeadObject": 2, "Move": 1, "CopyObject": 0],
                "cp": ["HeadObject": 2, "Chgm": 1], "files": ["HeadObject": 41],
                "rsync": ["HeadObject": 4, "Chgm": 2, "Move": 1, "CopyObject": 0, "DeleteObject": 0],
            ],
            // Objects of segments are told by their headers only; big ones are segments, a list and a note of what is theirs.
            .cssp: [
                "mkdir": ["HeadObject": 2], "mkdir again": ["HeadObject": 1], "create": ["HeadObject": 1],
                "cp -p": ["HeadObject": 1], "tar x": ["HeadObject": 1], "rename": ["HeadObject": 1],
                "mv": ["HeadObject": 2],
                "cp": ["HeadObject": 2], "rm -r": ["HeadContainer": 1], "files": ["HeadObject": 41],
                "rm -r many": ["HeadContainer": 1, "ListObjectsV2": 1, "DeleteObject": 41],
                "rsync": ["HeadObject": 5, "SetObjectMetadata": 2],
                "create big": ["PutObject": 5, "HeadObject": 2, "ListObjectsV2": 2, "DeleteObject": 1],
            ],
        ]

        @Test(.timeLimit(.minutes(5)), arguments: Provider.ofPailstore)
        func anEditOfABigObjectSendsNoMoreThanTwoParts(_ provider: Provider) async throws {
            // CSSP's parts have 64 MiB at least.
            let (part, size) = provider == .cssp ? (64 << 20, 150_000_000) : (5 << 20, 40_000_000)
            // Kodo copies no parts: all of it goes up again.
            let most = provider == .kodo ? size + part : 2 * part
            try await provider.withPailstore { world, store in
                let options = ["ttl=600", "part-size=5MiB"]
                try await world.mount(options)
                try await world.sh(
                    """
                    openssl enc -aes-128-ctr -nosalt -K 00010203 -iv 00 -in /dev/zero 2>/dev/null | head -c \(size) >$T/big || true
                    cp $T/big big
                    """)
                try await world.unmount()
                try await world.mount(options, cache: "another")
                try await world.sh("ls -l >/dev/null")
                for (name, edit) in Self.edits {
                    let cost = try await store.requests { try await world.sh(edit("big")) }
                    // Metadata and lists of parts are a few kilobytes.
                    #expect(cost.sent <= most + 65_536, "\(name): \(cost.sent) bytes sent, \(cost)")
                    #expect(cost.received <= most + 65_536, "\(name): \(cost.received) bytes received, \(cost)")
                    if provider != .kodo {
                        let parts = cost.counts["UploadPart", default: 0]
                        let copies = cost.counts["UploadPartCopy"] ?? cost.counts["CopyObject"] ?? 0
                        #expect(parts <= 2 && copies >= 1, "\(name): \(cost)")
                    }
                    try await world.sh("\(edit("$T/big")); cmp $T/big big")
                }
                try await world.unmount()
                try await world.mount(options, cache: "third")
                try await world.sh("cmp $T/big big")
            }
        }

        /// Each on a file.
        private static let edits: [(String, @Sendable (String) -> String)] = [
            ("overwrite", { "printf changed | dd of=\($0) bs=1 seek=30000000 conv=notrunc status=none" }),
            ("append", { "printf appended | dd of=\($0) bs=8 oflag=append conv=notrunc status=none" }),
        ]
    }
}
