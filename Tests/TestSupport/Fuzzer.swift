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

    package init(_ name: String, seeds: [[UInt8]], words: [String] = []) {
        self.name = name
        self.seeds = seeds + [[]]
        self.words = (Self.words + words).map { Array($0.utf8) }
    }

    package init(_ name: String, seeds: [String], words: [String] = []) {
        self.init(name, seeds: seeds.map { Array($0.utf8) }, words: words)
    }

    /// Runs `body` with `executions` inputs, or for a minute when there is time, and says how many there were.
    package func run(_ executions: Int = 4000, _ body: ([UInt8]) throws -> Void) {
        let isLong = ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] != nil
        let end = ContinuousClock.now + .seconds(60)
        var (count, refused) = (0, 0)
        while isLong ? ContinuousClock.now < end : count < executions {
            var generator = SeededGenerator(seed: UInt64(count))
            do { try body(input(&generator)) } catch { refused += 1 }
            count += 1
        }
        print("fuzzed \(name): \(count) executions, \(refused) refused")
    }

    private func input(_ generator: inout SeededGenerator) -> [UInt8] {
        var bytes = seeds.randomElement(using: &generator) ?? []
        for _ in 0..<Int.random(in: 1...6, using: &generator) { change(&bytes, &generator) }
        return bytes
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
