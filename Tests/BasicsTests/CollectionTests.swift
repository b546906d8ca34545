import Basics
import TestSupport
import Testing

@Suite struct LRUTests {
    @Test func theLeastRecentlyUsedGoesFirst() {
        var cache = LRU<String, Int>(capacity: 2)
        #expect(cache.insert(1, for: "a") == nil)
        #expect(cache.insert(2, for: "b") == nil)
        #expect(cache.value(for: "a") == 1)
        #expect(cache.insert(3, for: "c")?.key == "b")
        #expect(cache.value(for: "b") == nil)
        #expect(cache.count == 2)
    }

    @Test func peekingDoesNotCountAsUse() {
        var cache = LRU<String, Int>(capacity: 2)
        cache.insert(1, for: "a")
        cache.insert(2, for: "b")
        #expect(cache.peek("a") == 1)
        #expect(cache.insert(3, for: "c")?.key == "a")
    }

    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func itBehavesAsASimpleList(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var cache = LRU<Int, Int>(capacity: 8)
        var model: [(key: Int, value: Int)] = []  // the newest last
        for step in 0..<5000 {
            let key = Int.random(in: 0..<16, using: &random)
            let place = model.firstIndex { $0.key == key }
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                let evicted = cache.insert(step, for: key)
                if let place { model.remove(at: place) }
                model.append((key, step))
                #expect(evicted?.key == (model.count > 8 ? model.removeFirst().key : nil))
            case 2:
                #expect(cache.value(for: key) == place.map { model[$0].value })
                if let place { model.append(model.remove(at: place)) }
            case 3:
                #expect(cache.removeValue(for: key) == place.map { model.remove(at: $0).value })
            default:
                let removed = cache.removeLeastRecent()
                #expect(removed?.key == (model.isEmpty ? nil : model.removeFirst().key))
            }
            #expect(cache.count == model.count)
        }
        cache.removeAll()
        #expect(cache.count == 0)
        #expect(cache.removeLeastRecent() == nil)
    }
}

@Suite struct HistogramTests {
    @Test func quantilesAreWithinASixteenth() {
        var histogram = Histogram()
        for value in 1...10_000 { histogram.record(UInt64(value)) }
        for (fraction, truth) in [(0.5, 5000.0), (0.99, 9900.0), (0.0, 1.0)] {
            let answer = Double(histogram.quantile(fraction))
            #expect(answer >= truth && answer <= truth * 17 / 16)
        }
        #expect(histogram.quantile(1) == 10_000)
        #expect(histogram.count == 10_000)
        #expect(histogram.sum == 50_005_000)
    }

    @Test func extremesHaveTheirPlace() {
        var histogram = Histogram()
        #expect(histogram.quantile(0.5) == 0)
        histogram.record(0)
        histogram.record(UInt64.max)
        histogram.record(.seconds(Int64.max))
        histogram.record(.seconds(-1))
        #expect(histogram.quantile(0.25) == 0)
        #expect(histogram.quantile(1) == .max)
        #expect(histogram.sum == .max)
    }

    @Test func mergingIsAsIfOneHadCountedAll() {
        var (first, second, both) = (Histogram(), Histogram(), Histogram())
        for value in 0..<500 {
            let duration = Duration.microseconds(value * value)
            if value.isMultiple(of: 3) { first.record(duration) } else { second.record(duration) }
            both.record(duration)
        }
        first.merge(second)
        #expect(first.duration(0.9) == both.duration(0.9))
        #expect(first.count == both.count && first.largest == both.largest && first.sum == both.sum)
    }
}
