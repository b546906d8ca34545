import Basics
import Synchronization

/// Fetched blocks kept in memory, for lack of a disk.
final class ShelvedBlocks: Sendable {
    let chunk: Int
    let blocks: Range<Int>
    /// The bytes of the object that the buffer begins with.
    let range: ByteRange
    let buffer: Buffer
    let used: Atomic<Int64>

    init(of fetch: Fetch, buffer: Buffer, used: Int64) {
        (chunk, blocks, range, self.buffer) = (fetch.chunk, fetch.blocks, fetch.range, buffer)
        self.used = Atomic(used)
    }
}

/// Bounds the memory that shelved blocks take, the blocks used longest ago going first.
///
/// It never holds more than its share of the budget, so whoever waits for a buffer gets one from the rest. Objects own
/// their shelved blocks too; the shelf tells them what to drop. Its mutex is a leaf.
final class MemoryShelf: Sendable {
    private struct Place {
        let item: ShelvedBlocks
        weak var owner: CachedObject?
    }

    private struct State {
        var places: [ObjectIdentifier: Place] = [:]
        var bytes = 0
    }

    /// In bytes.
    let limit: Int
    private let state = Mutex(State())

    init(limit: Int) { self.limit = limit }

    var bytes: Int { state.withLock { $0.bytes } }

    /// Takes a place for blocks that `owner` has listed already; others, or they themselves, may go for it.
    func admit(_ item: ShelvedBlocks, of owner: CachedObject) {
        let victims: [Place] = state.withLock { state in
            state.places[ObjectIdentifier(item)] = Place(item: item, owner: owner)
            state.bytes += item.buffer.capacity
            var victims: [Place] = []
            while state.bytes > limit,
                let oldest = state.places.min(by: {
                    $0.value.item.used.load(ordering: .relaxed) < $1.value.item.used.load(ordering: .relaxed)
                })
            {
                state.places[oldest.key] = nil
                state.bytes -= oldest.value.item.buffer.capacity
                victims.append(oldest.value)
            }
            return victims
        }
        for victim in victims { victim.owner?.drop(victim.item) }
    }

    /// Frees everything, for a reader that waits for memory.
    func clear() {
        let places = state.withLock { state in
            defer { state = State() }
            return state.places.values
        }
        for place in places { place.owner?.drop(place.item) }
    }

    /// The owner ends.
    func remove(_ item: ShelvedBlocks) {
        state.withLock { state in
            if state.places.removeValue(forKey: ObjectIdentifier(item)) != nil {
                state.bytes -= item.buffer.capacity
            }
        }
    }
}
