import Testing

extension RealMountsAlone {
    /// Files much bigger than the memory a mount may use.
    @Suite struct BigFiles {
        /// 1 GiB of bytes that no compression and no zero page makes cheap, the same each time, made as it is read.
        private static let generate = """
            generate() { openssl enc -aes-128-ctr -nosalt -K 000102030405060708090a0b0c0d0e0f \
                -iv 00000000000000000000000000000000 -in /dev/zero 2>/dev/null | head -c 1073741824 || true; }

            """

        @Test(.timeLimit(.minutes(8)))
        func aGibibyteGoesThroughInBoundedMemory() async throws {
            try await withMount("ttl=600") { world, store in
                try await world.sh("ls >/dev/null")
                let up = try await store.requests {
                    try await world.sh(
                        Self.generate + "generate | cp /dev/stdin big", deadline: .seconds(200))
                }
                // Of a server that nothing is known of, the ETag of the first completion is compared once.
                let ceiling = [
                    "CreateMultipartUpload": 1, "UploadPart": 128, "HeadObject": 2, "CompleteMultipartUpload": 1,
                ]
                #expect(up.areWithin(ceiling), "\(up)")
                #expect(world.peakMemory < 300, "MiB, after writing")
                try await world.unmount()
                try await world.mount(["ttl=600"], cache: "another")
                try await world.sh("ls >/dev/null")
                let down = try await store.requests {
                    try await world.sh(Self.generate + "cmp <(generate) big", deadline: .seconds(200))
                }
                // The HEAD tells the checksum that the whole is compared with: this mount knows the object from a listing.
                #expect(down.areWithin(["GetObject": 128, "HeadObject": 1]))
                #expect(world.peakMemory < 300, "MiB, after reading")
            }
        }

        /// Each size takes another buffer: what the others leave must not stay with the process.
        @Test(.timeLimit(.minutes(8)))
        func manySizesAtOnceStayWithinTheBudget() async throws {
            try await withMount { world, _ in
                let make = "for i in {1..150}; do head -c $((i * 7919000 % 9000000 + 20000)) /dev/zero >f$i; done"
                try await world.sh(make, deadline: .seconds(200))
                try await world.unmount()
                try await world.mount(["memory=32M"], cache: "another")
                try await world.sh("ls | xargs -P 16 -n 3 cat >/dev/null", deadline: .seconds(200))
                #expect(world.peakMemory < 140, "MiB")
            }
        }
    }
}
