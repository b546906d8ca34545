import Basics
import FileSystem
import Metadata
import Synchronization
import TestSupport
import Testing

@testable import FuseBridge

/// A read that meets the end of a file that was just cut off: the kernel would take zeros for the rest.
@Suite(.timeLimit(.minutes(5))) struct RecentCutsTests {
    private let time = ManualTime()
    private let file = InodeNumber(rawValue: 7)

    private func isReady(_ outcome: Outcome<Int>) -> Bool { if case .ready = outcome { true } else { false } }

    @Test func itIsAskedAgainUntilTheKernelKnows() async throws {
        let cuts = RecentCuts(time: time, page: 4096)
        cuts.note(file)
        let asked = Atomic(0)
        let outcome = cuts.settled(file, count: 8192) {
            asked.wrappingAdd(1, ordering: .relaxed)
            // Its writer has gone on by then.
            return .success(asked.load(ordering: .relaxed) < 4 ? 0 : 8000)
        }
        #expect(!isReady(outcome))
        let clock = Task { [time] in
            while !Task.isCancelled {
                time.advance(by: .milliseconds(1))
                await Task.yield()
            }
        }
        defer { clock.cancel() }
        #expect(try await outcome.value().get() == 8000)
        #expect(asked.load(ordering: .relaxed) == 4)
        cuts.note(file)
        #expect(try await cuts.settled(file, count: 8192) { .success(0) }.value().get() == 0, "it does end there")
    }

    @Test func othersDoNotWait() {
        let cuts = RecentCuts(time: time, page: 4096)
        #expect(isReady(cuts.settled(file, count: 8192) { .success(0) }))
        cuts.note(file)
        #expect(isReady(cuts.settled(InodeNumber(rawValue: 8), count: 8192) { .success(0) }))
        #expect(isReady(cuts.settled(file, count: 8192) { .success(4097) }), "the end of the last page")
        time.advance(by: .seconds(1))
        #expect(isReady(cuts.settled(file, count: 8192) { .success(0) }))
    }

    /// The kernel asks for whole pages: what lacks less than one is the file's end, however large they are.
    @Test(arguments: [4096, 16_384, 65_536]) func theLastPageMayEndAnywhere(page: Int) {
        let cuts = RecentCuts(time: time, page: page)
        cuts.note(file)
        #expect(isReady(cuts.settled(file, count: 2 * page) { .success(page + 1) }))
        #expect(!isReady(cuts.settled(file, count: 2 * page) { .success(page) }))
    }
}
