import TestSupport
import Testing

extension RealMountsAlone {
    /// What each act may cost in requests, counted at the store (SEMANTICS, "Requests").
    @Suite struct RequestCeilings {
        /// 2,500 objects in `many/`, three pages of a listing; the root has been listed.
        private func withManyObjects(_ body: (World, Store) async throws -> Void) async throws {
            try await withStore { world, store in
                try await world.sh("\"$PYTHON\" \(Programs.helper("put_many.py")) 2500 many/name-%06d")
                try await world.mount(["ttl=600"])
                try await world.sh("ls >/dev/null")
                try await body(world, store)
            }
        }

        /// The call of ls(1) since coreutils 9.6, whatever this machine has.
        @Test(.rule("xattr.list"), .timeLimit(.minutes(5)))
        func lookingForAccessControlListsCostsNothing() async throws {
            try await withStore { world, store in
                try await world.sh("printf x >$T/x")
                for number in 0..<5 { try await world.outside("put", "d/file\(number)", world.scratch.path("x")) }
                try await world.mount()
                try await world.sh("ls d")
                let cost = try await store.requests {
                    try await world.python(
                        """
                        import ctypes
                        libc = ctypes.CDLL(None, use_errno=True)
                        names = ctypes.create_string_buffer(152)
                        for path in ["d", *(f"d/file{number}" for number in range(5))]:
                            assert libc.llistxattr(path.encode(), names, 152) == 0, ctypes.get_errno()
                        """)
                }
                #expect(cost.areWithin([:]), "\(cost)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func listingADirectoryCostsOneRequestAPage() async throws {
            try await withManyObjects { world, store in
                let cost = try await store.requests { try await world.sh("test \"$(ls many | wc -l)\" = 2500") }
                #expect(cost.areWithin(["ListObjectsV2": 3]))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func listingWithAttributesCostsNoMoreThanTheNames() async throws {
            try await withManyObjects { world, store in
                let cost = try await store.requests { try await world.sh("test \"$(ls -l many | wc -l)\" = 2501") }
                #expect(cost.areWithin(["ListObjectsV2": 3]))
                let again = try await store.requests { try await world.sh("ls -l many >/dev/null; du -s many") }
                #expect(again.areWithin([:]), "within ttl nothing is asked twice")
            }
        }

        /// As many as pages, and a few until the walk is seen to be one: pailfs-stores(7), REQUESTS.
        @Test(.timeLimit(.minutes(5)))
        func walkingATreeCostsOneRequestAPageOfAllObjects() async throws {
            try await withStore { world, store in
                let program = Programs.helper("put_many.py")
                try await world.sh("for d in {1..20}; do \"$PYTHON\" \(program) 100 d$d/name-%06d; done")
                try await world.mount(["ttl=600"])
                let cost = try await store.requests { try await world.sh("ls -lR | grep -c name- | grep -x 2000") }
                #expect(cost.areWithin(["ListObjectsV2": 8]))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aRemountWithinTheTTLAsksNothingAgain() async throws {
            try await withManyObjects { world, store in
                try await world.sh("ls -l many >/dev/null")
                try await world.unmount()
                try await world.mount(["ttl=600"])
                let cost = try await store.requests { try await world.sh("ls -l many | wc -l; find . -type f | wc -l") }
                #expect(cost.areWithin([:]))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aMissingNameInAListedDirectoryCostsNothing() async throws {
            try await withManyObjects { world, store in
                try await world.sh("ls many >/dev/null")
                let cost = try await store.requests { try await world.sh("refuses stat many/no-such-name") }
                #expect(cost.areWithin([:]))
            }
        }

        private func flush(_ world: World) async throws {
            #expect(try await world.pailfs(["flush", "--wait", world.mountpoint]).succeeded)
        }

        /// The shell opens, duplicates and closes the file before the program has it.
        @Test(.rule("create.empty"), .timeLimit(.minutes(5)), arguments: ["remote", "local"])
        func aRedirectionCostsOnePut(durable: String) async throws {
            try await withMount("durable=\(durable)") { world, store in
                try await world.sh("ls >/dev/null")
                let cost = try await store.requests {
                    try await world.sh("sh -c 'sleep 0.3; echo text' >file; sh -c 'exec /bin/echo more' >>file2")
                    try await flush(world)
                }
                #expect(cost.areWithin(["PutObject": 2]))
                let empty = try await store.requests {
                    try await world.sh("touch a; : >b; : >file; cp /dev/null c; sh -c 'exec true' >d")
                    if durable == "local" { try await flush(world) }
                }
                #expect(empty.areWithin(["PutObject": 5]))
                #expect(try await world.outside("keys") == "a\nb\nc\nd\nfile\nfile2\n")
                #expect(try await world.outside("get", "file") == "")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func anEmptyFileThatIsRefusedIsToldOf() async throws {
            try await withMount { world, store in
                try await store.setFaults("op=PutObject,kind=status:403")
                try await world.sh("refuses touch file")
                try await store.setFaults()
                try await world.sh("rm file")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func oneNameOfADirectoryNeverListedCostsTwoRequestsAtMost() async throws {
            try await withManyObjects { world, store in
                let cost = try await store.requests { try await world.sh("stat many/name-001234 >/dev/null") }
                #expect(cost.areWithin(["ListObjectsV2": 1, "HeadObject": 1]))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func readingAListedFileCostsOneGetAndAgainNothing() async throws {
            try await withManyObjects { world, store in
                try await world.sh("ls many >/dev/null")
                let cost = try await store.requests { try await world.sh("test \"$(cat many/name-001234)\" = 1234") }
                #expect(cost.areWithin(["GetObject": 1]))
                let again = try await store.requests { try await world.sh("test \"$(cat many/name-001234)\" = 1234") }
                #expect(again.areWithin([:]))
                try await world.unmount()
                try await world.mount(["ttl=600"])
                let later = try await store.requests { try await world.sh("test \"$(cat many/name-001234)\" = 1234") }
                #expect(later.areWithin([:]), "the block cache survives a remount")
            }
        }

        @Test(.rule("close.remote"), .timeLimit(.minutes(5)))
        func writingASmallFileCostsOnePut() async throws {
            try await withManyObjects { world, store in
                // cp, because a shell that redirects closes a duplicate first, and every close commits.
                try await world.sh("printf new >$T/new; ls many >/dev/null")
                let cost = try await store.requests { try await world.sh("cp $T/new many/new") }
                #expect(cost.areWithin(["PutObject": 1]))
                let back = try await store.requests { try await world.sh("test \"$(cat many/new)\" = new") }
                #expect(back.areWithin([:]), "what was written is here")
            }
        }

        @Test(.rule("attr.set"), .timeLimit(.minutes(5)))
        func attributesTravelInThePut() async throws {
            try await withManyObjects { world, store in
                try await world.sh(
                    "printf x >$T/file; chmod 640 $T/file; touch -d 2001-01-01 $T/file; ls many >/dev/null")
                try await world.sh("tar -C $T -cf $T/file.tar file")
                let copied = try await store.requests { try await world.sh("cp -p $T/file many/copied") }
                #expect(copied.areWithin(["PutObject": 1]))
                let unpacked = try await store.requests { try await world.sh("tar -C many -xpf $T/file.tar") }
                #expect(unpacked.areWithin(["PutObject": 1]))
                let unchanged = try await store.requests { try await world.sh("chmod 640 many/copied") }
                #expect(unchanged.areWithin([:]), "setting what is set costs nothing")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func removingCostsOneDelete() async throws {
            try await withManyObjects { world, store in
                try await world.sh("ls many >/dev/null")
                let cost = try await store.requests { try await world.sh("rm many/name-000007") }
                #expect(cost.areWithin(["DeleteObject": 1]))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func makingAndRemovingADirectoryCostWhatThePageSays() async throws {
            try await withManyObjects { world, store in
                // Of a server that nothing is known of, the first object of a directory is looked for once.
                let first = try await store.requests { try await world.sh("mkdir first") }
                #expect(first.areWithin(["PutObject": 1, "HeadObject": 1]))
                let made = try await store.requests { try await world.sh("mkdir directory") }
                #expect(made.areWithin(["PutObject": 1]))
                try await world.sh("printf x >$T/file")
                let filled = try await store.requests { try await world.sh("cp $T/file directory/file") }
                #expect(filled.areWithin(["PutObject": 1]), "a directory made here needs no listing")
                try await world.sh("rm directory/file")
                let removed = try await store.requests { try await world.sh("rmdir directory") }
                #expect(removed.areWithin(["ListObjectsV2": 1, "DeleteObject": 1]))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func renamingAFileCostsOneCopyAndOneDelete() async throws {
            try await withManyObjects { world, store in
                try await world.sh("ls many >/dev/null")
                let cost = try await store.requests {
                    try await world.python("import os; os.rename('many/name-000011', 'many/renamed')")
                }
                #expect(cost.areWithin(["CopyObject": 1, "DeleteObject": 1]))
                try await world.sh("test \"$(cat many/renamed)\" = 11")
                // mv(1) must not replace what it does not know of, which another host may have made since the listing.
                let moved = try await store.requests { try await world.sh("mv many/renamed many/moved") }
                #expect(moved.areWithin(["HeadObject": 1, "CopyObject": 1, "DeleteObject": 1]))
            }
        }

        @Test(.rule("close.remote"), .timeLimit(.minutes(5)))
        func aBigFileGoesUpInPartsAndComesDownInRanges() async throws {
            try await withMount("ttl=600") { world, store in
                try await world.sh("head -c 70000000 /dev/urandom >$T/big; ls >/dev/null")
                var ceiling = [
                    "CreateMultipartUpload": 1, "UploadPart": 9, "HeadObject": 2, "CompleteMultipartUpload": 1,
                ]
                // Of a server that nothing is known of, the ETag of the first completion is compared once.
                let first = try await store.requests { try await world.sh("cp $T/big first") }
                #expect(first.areWithin(ceiling), "\(first)")
                ceiling["HeadObject"] = 1
                let up = try await store.requests { try await world.sh("cp $T/big big") }
                #expect(up.areWithin(ceiling), "\(up)")
                try await world.unmount()
                try await world.mount(["ttl=600"], cache: "another")
                try await world.sh("ls >/dev/null")
                let down = try await store.requests { try await world.sh("cmp $T/big big") }
                // The ETag of an object in parts is no checksum: whether there is one is asked at its end.
                #expect(down.areWithin(["GetObject": 9, "HeadObject": 1]))
                let again = try await store.requests { try await world.sh("cmp $T/big big") }
                #expect(again.areWithin([:]))
            }
        }
    }
}
