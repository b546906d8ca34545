import Basics
import Emulator
import Foundation
import TestSupport
import Testing

@Suite struct SortedIndexTests {
    @Test(arguments: 1...5 as ClosedRange<UInt64>)
    func itHoldsWhatADictionaryHolds(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var index = SortedIndex<ByteString, Int>()
        var reference: [ByteString: Int] = [:]
        for step in 0..<6000 {
            let key = ByteString("\(Int.random(in: 0..<2500, using: &random))")
            if Int.random(in: 0..<3, using: &random) == 0 {
                #expect(index.remove(key) == reference.removeValue(forKey: key))
            } else {
                #expect(index.replace(key, with: step) == reference.updateValue(step, forKey: key))
            }
        }
        #expect(index.count == reference.count)
        #expect(index.entries.map(\.key) == reference.keys.sorted())
        #expect(reference.allSatisfy { index[$0.key] == $0.value })
    }

    /// What a listing page must hold, computed from all keys in order.
    private static func page(of keys: [ByteString], _ request: ListingRequest) -> (names: [ByteString], isLast: Bool) {
        func group(_ key: ByteString) -> ByteString? {
            guard !request.delimiter.isEmpty, key.hasPrefix(request.prefix) else { return nil }
            let rest = key.description.dropFirst(request.prefix.description.count)
            guard let end = rest.range(of: request.delimiter.description) else { return nil }
            return request.prefix + ByteString(String(rest[..<end.upperBound]))
        }
        let endedWithGroup = group(request.after) == request.after
        var names: [ByteString] = []
        for key in keys where key > request.after && key.hasPrefix(request.prefix) {
            if endedWithGroup, key.hasPrefix(request.after) { continue }
            let name = group(key) ?? key
            if name != names.last { names.append(name) }
        }
        return (Array(names.prefix(request.limit)), names.count <= request.limit)
    }

    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func pagesHoldWhatASortedReferenceHolds(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let letters = ["a", "b", "/", "//", "é"]
        func text(_ longest: Int) -> ByteString {
            ByteString(
                (0..<Int.random(in: 0...longest, using: &random)).map { _ in letters.randomElement(using: &random) ?? ""
                }.joined())
        }
        var index = SortedIndex<ByteString, Int>()
        for _ in 0..<200 {
            let key = text(7)
            if !key.isEmpty { index.replace(key, with: 0) }
        }
        let keys = index.entries.map(\.key)
        for _ in 0..<40 {
            let delimiter: ByteString = ["", "/", "//", "b/"].randomElement(using: &random) ?? ""
            var request = ListingRequest(
                prefix: text(2), delimiter: delimiter, after: text(3), limit: Int.random(in: 1...9, using: &random))
            for _ in 0..<500 {
                let page = index.list(request)
                let wanted = Self.page(of: keys, request)
                #expect(page.items.map(\.name) == wanted.names, "\(request)")
                #expect((page.next == nil) == wanted.isLast, "\(request)")
                guard let next = page.next else { break }
                request.after = next
            }
        }
    }

    @Test func aPageCostsItsLengthAndNotTheBuckets() {
        let entries = (0..<200_000).map { number in
            let digits = String(number)
            let key = "dir\(number / 1000 + 1000)/" + String(repeating: "0", count: 7 - digits.count) + digits
            return SortedIndex<ByteString, Int>.Entry(key: ByteString(key), value: number)
        }
        let index = SortedIndex(ascending: entries)
        #expect(index.list(ListingRequest(after: "dir1100/", limit: 1000)).items.count == 1000)
        #expect(index.list(ListingRequest(delimiter: "/", limit: 1000)).items.count == 200)
        let clock = ContinuousClock()
        let time = clock.measure {
            for number in 1000..<1200 {
                _ = index.list(ListingRequest(prefix: ByteString("dir\(number)/"), delimiter: "/", limit: 10))
            }
        }
        // 200 pages; walking the bucket for each would be 40 million steps.
        #expect(time < .seconds(3))
    }
}
