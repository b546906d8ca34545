import Basics
import Blocks
import TestSupport
import Testing

struct ReadAheadTests {
    private let kibibyte: Int64 = 1 << 10
    private let mebibyte: Int64 = 1 << 20
    private let chunk = Geometry.chunkSize

    /// `#expect` cannot call what mutates a struct.
    private final class Machine {
        private var machine: ReadAhead

        init(_ machine: ReadAhead) { self.machine = machine }

        func note(_ range: ByteRange) -> ReadAhead.Plan { machine.note(range) }
        func prefetchFailed(at chunk: Int, stream: Int) { machine.prefetchFailed(at: chunk, stream: stream) }
    }

    private func machine(chunks: Int64 = 100, limit: Int64 = 64 << 20) -> Machine {
        Machine(ReadAhead(size: chunks * Geometry.chunkSize, limit: limit))
    }

    /// Reads `range` in steps and answers every chunk offered.
    private func run(_ machine: Machine, _ range: ByteRange, step: Int64) -> [Int] {
        var offered: [Int] = []
        var position = range.lowerBound
        while position < range.upperBound {
            let next = min(position + step, range.upperBound)
            offered += machine.note(position..<next).prefetch
            position = next
        }
        return offered
    }

    @Test func aReadAtTheStartIsSequentialAndFetchesNothingAhead() {
        let machine = machine()
        let plan = machine.note(0..<128 * kibibyte)
        #expect(plan.isSequential)
        #expect(plan.prefetch.isEmpty)
    }

    @Test func theWindowIsEightTimesWhatWasReadUpToTheLimit() {
        let machine = machine(limit: 48 << 20)
        #expect(machine.note(0..<mebibyte).prefetch.isEmpty)
        #expect(machine.note(mebibyte..<2 * mebibyte).prefetch == 1..<3)
        #expect(run(machine, 2 * mebibyte..<4 * mebibyte - 1, step: mebibyte) == [3])
        #expect(run(machine, 4 * mebibyte - 1..<chunk, step: mebibyte) == [4, 5])
        #expect(machine.note(ByteRange(at: chunk, count: mebibyte)).prefetch == 6..<7)
        #expect(run(machine, chunk + mebibyte..<2 * chunk, step: mebibyte) == [])
        #expect(machine.note(ByteRange(at: 2 * chunk, count: mebibyte)).prefetch == 7..<8)
    }

    @Test func aFirstReadShortlyBehindTheStartFetchesFromTheStart() {
        let plan = machine().note(mebibyte..<2 * mebibyte)
        #expect(plan.isSequential && plan.start == 0)
        #expect(!machine().note(mebibyte..<mebibyte + 4096).isSequential)
        #expect(!machine().note(3 * mebibyte..<4 * mebibyte).isSequential)
        let machine = machine()
        _ = machine.note(50 * mebibyte..<51 * mebibyte)
        #expect(!machine.note(mebibyte..<2 * mebibyte).isSequential)
    }

    @Test func whatAStreamReadsIsFetchedFromWhereEarlierReadsMayNotHaveAskedYet() {
        let machine = machine()
        _ = machine.note(8 * mebibyte..<9 * mebibyte)
        #expect(machine.note(9 * mebibyte..<10 * mebibyte).start == 8 * mebibyte)
        #expect(machine.note(10 * mebibyte..<11 * mebibyte).start == 8 * mebibyte)
        #expect(machine.note(11 * mebibyte..<12 * mebibyte).start == 9 * mebibyte)
    }

    @Test func everyChunkIsOfferedExactlyOnceAndNothingPastTheEnd() {
        for step in [4096, 128 << 10, 1 << 20] as [Int64] {
            let machine = machine(chunks: 20)
            #expect(run(machine, 0..<20 * chunk, step: step) == Array(1..<20), "step \(step)")
        }
    }

    @Test func randomReadsAreNeverSequential() {
        var generator = SeededGenerator(seed: 7)
        let machine = machine(chunks: 1000)
        for _ in 0..<2000 {
            let offset = Int64.random(in: 1..<1000 * chunk / 4096, using: &generator) * 4096
            let plan = machine.note(ByteRange(at: offset, count: 4096))
            #expect(!plan.isSequential, "offset \(offset), seed 7")
            #expect(plan.prefetch.isEmpty)
        }
    }

    @Test func aReadThatGoesOnWhereARandomOneEndedStartsAStream() {
        let machine = machine()
        #expect(!machine.note(ByteRange(at: 50 * mebibyte + 4096, count: 4096)).isSequential)
        #expect(machine.note(ByteRange(at: 50 * mebibyte + 8192, count: 4096)).isSequential)
    }

    @Test func theFirstPiecesOfTheKernelsReadAheadMayComeOutOfOrder() {
        let machine = machine()
        let piece = 128 * kibibyte
        for index in [2, 0, 1, 4, 3, 6, 5, 7] as [Int64] {
            #expect(machine.note(ByteRange(at: index * piece, count: piece)).isSequential, "piece \(index)")
        }
    }

    @Test func interleavedStreamsAreFollowedEach() {
        let machine = machine()
        var offered: [[Int]] = [[], []]
        let starts = [0, 40 * chunk]
        for step in 0..<Int64(3 * 8) {
            for (index, start) in starts.enumerated() {
                let plan = machine.note(ByteRange(at: start + step * mebibyte, count: mebibyte))
                #expect(plan.isSequential || step == 0 && index == 1)
                #expect(plan.abandoned == nil)
                offered[index] += plan.prefetch
            }
        }
        #expect(offered[0] == Array(1...9))
        #expect(offered[1].first == 41)
        #expect(offered[1] == Array(41...offered[1].count + 40))
    }

    @Test func aStreamSurvivesStrayReadsAndIsGivenUpForOtherStreams() {
        let machine = machine()
        let first = machine.note(0..<mebibyte).stream
        _ = machine.note(mebibyte..<2 * mebibyte)
        for index in 1...20 as ClosedRange<Int64> {
            #expect(machine.note(ByteRange(at: index * 4 * chunk + 4096, count: 4096)).abandoned != first)
        }
        #expect(machine.note(2 * mebibyte..<3 * mebibyte).stream == first)
        var abandoned: [Int] = []
        for index in 1...4 as ClosedRange<Int64> {
            for step in 0..<2 as Range<Int64> {
                let plan = machine.note(ByteRange(at: (50 + index * 8) * chunk + step * mebibyte, count: mebibyte))
                if let stream = plan.abandoned { abandoned.append(stream) }
            }
        }
        #expect(abandoned.contains(first))
    }

    @Test func chunksThatCouldNotBeFetchedAreOfferedAgainLater() {
        let machine = machine()
        _ = machine.note(0..<mebibyte)
        let plan = machine.note(mebibyte..<2 * mebibyte)
        #expect(plan.prefetch == 1..<3)
        machine.prefetchFailed(at: 1, stream: plan.stream)
        #expect(machine.note(2 * mebibyte..<2 * mebibyte + 4096).prefetch.isEmpty)
        #expect(run(machine, 2 * mebibyte + 4096..<4 * mebibyte, step: 128 * kibibyte) == [1, 2, 3, 4])
    }

    @Test func readingTheSameBytesAgainMovesNothing() {
        let machine = machine()
        _ = machine.note(0..<mebibyte)
        _ = machine.note(mebibyte..<2 * mebibyte)
        let plan = machine.note(0..<mebibyte)
        #expect(plan.isSequential)
        #expect(plan.prefetch.isEmpty)
        #expect(machine.note(2 * mebibyte..<3 * mebibyte - 1).prefetch.isEmpty)
    }
}
