import Foundation

/// Feeds a parser with inputs made from good ones: bits, bytes, runs, numbers and words are changed, the same in each run.
///
/// A parser that traps ends the process; the last line says which seed to repeat. `PAILFS_TEST_LONG` makes it go on for a
/// minute instead of a fraction of a second.
package struct Fuzzer: Sendable {
    /// Made a few times more than once in what comes from outside.
    private static let words = [
        "0", "-1", "1e999", "9223372036854775807", "9223372036854775808", "99999999999999999999",
        "-9223372036854775808",
        "\u{0}", "\u{FFFD}", "%00", "%zz", "&#0;", "&#xFFFFFFFF;", "]]>", "<!--", "{", "[", "\"", "\\u0000", "\\ud800",
        ":", ",",
        "\n", "\r\n", "=", "//", "..", "null", "true",
    ]

    private let name: String
    private let seeds: [[UInt8]]
    private let words: [[UInt8]]
    private let pageSize: Int?

    /// With `pageSize` the seeds are files whose pages are damaged too.
    package init(_ name: String, seeds: [[UInt8]], words: [String] = [], pageSize: Int? = nil) {
        (self.name, self.pageSize) = (name, pageSize)
        self.seeds = seeds + [[]]
        self.words = (Self.words + words).map { Array($0.utf8) }
    }

    package init(_ name: String, seeds: [String], words: [String] = []) {
        self.init(name, seeds: seeds.map { Array($0.utf8) }, words: words)
    }

    /// Runs `body` with `executions` inputs, or for a minute when there is time, and says how many there were.
    package func run(_ executions: Int = 4000, _ body: ([UInt8]) throws -> Void) {
        var tally = Tally(executions)
        while tally.goesOn {
            let bytes = input(tally.count)
            tally.note(Result { try body(bytes) })
        }
        tally.tell(name, corpus: seeds.count)
    }

    /// The same for what waits.
    package func run(_ executions: Int = 4000, _ body: ([UInt8]) async throws -> Void) async {
        var tally = Tally(executions)
        while tally.goesOn {
            let bytes = input(tally.count)
            do {
                try await body(bytes)
                tally.note(.success(()))
            } catch { tally.note(.failure(error)) }
        }
        tally.tell(name, corpus: seeds.count)
    }

    private struct Tally {
        private(set) var count = 0
        private var refused = 0
        private let executions: Int
        private let isLong = ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] != nil
        private let end = ContinuousClock.now + .seconds(60)

        init(_ executions: Int) { self.executions = executions }

        var goesOn: Bool { isLong ? ContinuousClock.now < end : count < executions }

        mutating func note(_ result: Result<Void, any Error>) {
            count += 1
            if case .failure = result { refused += 1 }
        }

        func tell(_ name: String, corpus: Int) {
            print("fuzzed \(name): \(count) executions from a corpus of \(corpus), \(refused) refused")
        }
    }

    private func input(_ number: Int) -> [UInt8] {
        var generator = SeededGenerator(seed: UInt64(number))
        var bytes = seeds.randomElement(using: &generator) ?? []
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
            if let pageSize, bytes.count >= pageSize, Int.random(in: 0..<3, using: &generator) > 0 {
                damage(&bytes, pageSize, &generator)
            } else {
                change(&bytes, &generator)
            }
        }
        return bytes
    }

    /// What disks do to files: pages that are zero, anything, another's or older, single bits, an end too soon.
    private func damage(_ bytes: inout [UInt8], _ pageSize: Int, _ generator: inout SeededGenerator) {
        let pages = bytes.count / pageSize
        let start = Int.random(in: 0..<pages, using: &generator) * pageSize
        let page = start..<start + pageSize
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: bytes.replaceSubrange(page, with: repeatElement(0, count: pageSize))
        case 1: bytes.replaceSubrange(page, with: generator.bytes(pageSize))
        case 2:
            let other = Int.random(in: 0..<pages, using: &generator) * pageSize
            bytes.replaceSubrange(page, with: Array(bytes[other..<other + pageSize]))
        case 3: bytes.removeSubrange(start...)
        default:
            let place = Int.random(in: page, using: &generator)
            bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        }
    }

    private func change(_ bytes: inout [UInt8], _ generator: inout SeededGenerator) {
        let place = Int.random(in: 0...bytes.count, using: &generator)
        let length = min(bytes.count - place, Int.random(in: 0...24, using: &generator))
        let run = place..<place + length
        switch Int.random(in: 0..<8, using: &generator) {
        case 0 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        case 1 where place < bytes.count: bytes[place] = UInt8.random(in: 0...255, using: &generator)
        case 2: bytes.removeSubrange(run)
        case 3: bytes.insert(contentsOf: Array(bytes[run]), at: place)
        case 4: bytes.insert(contentsOf: words.randomElement(using: &generator) ?? [], at: place)
        case 5: bytes.replaceSubrange(run, with: words.randomElement(using: &generator) ?? [])
        case 6: bytes.removeSubrange(place...)
        default:
            let other = seeds.randomElement(using: &generator) ?? []
            let start = Int.random(in: 0...other.count, using: &generator)
            bytes.replaceSubrange(place..., with: other[start...])
        }
    }
}
