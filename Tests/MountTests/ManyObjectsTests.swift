import TestSupport
import Testing

extension RealMountsAlone {
    /// A directory of 100,000 objects is listed at the price of its pages and in bounded memory.
    @Suite struct ManyObjects {
        @Test(.rule("readdir"), .timeLimit(.minutes(20)))
        func aHundredThousandObjectsAreListedInBoundedMemory() async throws {
            try await withStore { world, store in
                try await world.sh(
                    "\"$PYTHON\" \(Programs.helper("put_many.py")) 100000 many/name-%06d", deadline: .seconds(180))
                try await world.mount(["ttl=600"])
                try await world.sh("ls >/dev/null")
                let cost = try await store.requests {
                    let count = try await world.sh("ls -f many | wc -l", deadline: .seconds(120))
                    #expect(count == "100002\n", "every object, `.` and `..`")
                }
                #expect(cost.areWithin(["ListObjectsV2": 100]))
                let again = try await store.requests {
                    let count = try await world.sh("find many -type f | wc -l", deadline: .seconds(120))
                    #expect(count == "100000\n")
                }
                #expect(again.areWithin([:]))
                #expect(world.peakMemory < 200, "MiB")
            }
        }
    }
}
