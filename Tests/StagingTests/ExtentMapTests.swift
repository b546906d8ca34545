import Basics
import Staging
import TestSupport
import Testing

@Suite("The extent map")
struct ExtentMapTests {
    @Test("answers like an array with one source for each byte", arguments: 0..<50)
    func model(seed: UInt64) {
        var dice = SeededGenerator(seed: seed)
        let baseSize = Int.random(in: 0...60, using: &dice)
        var map = ExtentMap(baseSize: Int64(baseSize))
        var model = [PieceSource](repeating: .base, count: baseSize)
        for step in 0..<200 {
            let start = Int.random(in: 0...80, using: &dice)
            let end = start + Int.random(in: 0...30, using: &dice)
            if Int.random(in: 0..<8, using: &dice) == 0 {
                map.truncate(to: Int64(start))
                model = Array(model.prefix(start))
                model += [PieceSource](repeating: .hole, count: start - model.count)
            } else {
                let source: PieceSource = Bool.random(using: &dice) ? .staged : .hole
                map.set(Int64(start)..<Int64(end), to: source)
                if start < end {
                    if model.count < end { model += [PieceSource](repeating: .hole, count: end - model.count) }
                    for index in start..<end { model[index] = source }
                }
            }
            #expect(map.size == Int64(model.count), "step \(step)")
            let pieces = map.pieces(in: 0..<Int64.max)
            #expect(pieces.flatMap { [PieceSource](repeating: $0.source, count: Int($0.range.length)) } == model)
            #expect(zip(pieces, pieces.dropFirst()).allSatisfy { $0.source != $1.source })
            let (low, high) = (min(start, model.count), min(end, model.count))
            for source in [PieceSource.staged, .hole, .base] {
                let range = Int64(low)..<Int64(high)
                #expect(map.isEntirely(source, in: range) == model[low..<high].allSatisfy { $0 == source })
                #expect(map.isFree(of: source, in: range) == !model[low..<high].contains(source))
            }
        }
    }

    @Test("of disk blocks counts like a set", arguments: 0..<20)
    func blocks(seed: UInt64) {
        var dice = SeededGenerator(seed: seed)
        var blocks = DiskBlocks()
        var model: Set<Int64> = []
        for _ in 0..<200 {
            let start = Int64.random(in: 0...60, using: &dice)
            let range = start..<(start + Int64.random(in: 0...20, using: &dice))
            if Bool.random(using: &dice) {
                blocks.insert(range)
                model.formUnion(range)
            } else {
                let removed = blocks.remove(range)
                #expect(removed == Int64(model.intersection(range).count))
                model.subtract(range)
            }
            #expect(blocks.count == Int64(model.count))
            #expect(blocks.count(in: range) == Int64(model.intersection(range).count))
            let parts = blocks.split(0..<100)
            #expect(parts.flatMap { part in part.blocks.map { _ in part.isPresent } } == (0..<100).map(model.contains))
        }
    }
}
