import Basics
import Synchronization

/// Fetched blocks kept in memory, for lack of a disk or until the reader that they were fetched ahead for has read them.
final class ShelvedBlocks: Sendable {
    let chunk: Int
    let blocks: Range<Int>
    /// The bytes of the object that the buffer begins with.
    let range: ByteRange
    let buffer: Buffer
    let used: Atomic<Int64>
    /// The blocks are on disk too, and are only kept until they are read.
    let isPassing: Bool
    private let taken: Atomic<Int64>

    init(of fetch: Fetch, buffer: Buffer, used: Int64, isPassing: Bool = false) {
        (chunk, blocks, range, self.buffer) = (fetch.chunk, fetch.blocks, fetch.range, buffer)
        self.used = Atomic(used)
        self.isPassing = isPassing
        taken = Atomic(fetch.taken.load(ordering: .relaxed))
    }

    /// A reader takes `count` bytes. True when all bytes are taken and the blocks are on disk too.
    func take(_ count: Int64) -> Bool {
        taken.add(count, ordering: .relaxed).newValue >= range.length && isPassing
    }
}

/// Bounds the memory that shelved blocks take, the blocks used longest ago going first.
///
/// It never holds more than its share of the budget, so a reader that waits for a buffer gets one from the rest. Objects list
/// their shelved blocks too; the shelf calls them to drop some. Its mutex is a leaf.
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
    /// The limit of all shelved blocks for admitting those that are on disk too: as much as may be in flight ahead of a
    /// reader.
    let passingLimit: Int
    private let state = Mutex(State())
    /// Epochs of the cache after which blocks that were not read count as unwanted.
    private static let patience: Int64 = 64

    init(limit: Int, passingLimit: Int) { (self.limit, self.passingLimit) = (limit, passingLimit) }

    var bytes: Int { state.withLock { $0.bytes } }

    /// Admits blocks that `owner` has listed already. Drops the blocks used longest ago, possibly these, to stay below the
    /// limit.
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

    /// Admits blocks that are on disk too, unless the shelf is full. Drops those first that were not read for long.
    func admitPassing(_ item: ShelvedBlocks, of owner: CachedObject) {
        let now = item.used.load(ordering: .relaxed)
        let victims: [Place] = state.withLock { state in
            var victims: [Place] = []
            if state.bytes + item.buffer.capacity > passingLimit {
                for (id, place) in state.places
                where place.item.isPassing && place.item.used.load(ordering: .relaxed) < now - Self.patience {
                    state.places[id] = nil
                    state.bytes -= place.item.buffer.capacity
                    victims.append(place)
                }
            }
            let place = Place(item: item, owner: owner)
            guard state.bytes + item.buffer.capacity <= passingLimit else { return victims + [place] }
            state.places[ObjectIdentifier(item)] = place
            state.bytes += item.buffer.capacity
            return victims
        }
        for victim in victims { victim.owner?.drop(victim.item) }
    }

    /// Drops everything, for a reader that waits for memory.
    func clear() {
        let places = state.withLock { state in
            defer { state = State() }
            return state.places.values
        }
        for place in places { place.owner?.drop(place.item) }
    }

    /// The owner has dropped the blocks already.
    func remove(_ item: ShelvedBlocks) {
        state.withLock { state in
            if state.places.removeValue(forKey: ObjectIdentifier(item)) != nil {
                state.bytes -= item.buffer.capacity
            }
        }
    }
}
