/// The requests in flight for one object, and the number of readers of each: the state machine of fetch sharing. Pure.
///
/// Blocks of two entries never overlap, so a missing range is requested once however many readers need it. A fetch is
/// cancelled when a reader gave up and no other reader waits for it or holds it. When a reader has its bytes, the fetch runs
/// on, as the rest of a block is worth keeping. A fetch whose bytes have all arrived is never cancelled.
package struct FetchTable<Payload> {
    package typealias ID = UInt64

    package struct Entry {
        package let id: ID
        package let chunk: Int
        package let blocks: Range<Int>
        package let payload: Payload
        fileprivate var waiters = 0
        fileprivate var holders = 0
        fileprivate var isReceived = false
    }

    package private(set) var entries: [Entry] = []
    private var nextID: ID = 1

    package init() {}

    /// The blocks of `chunk` that are in flight.
    package func inFlight(in chunk: Int) -> BlockSet {
        var blocks = BlockSet()
        for entry in entries where entry.chunk == chunk { blocks.formUnion(BlockSet(entry.blocks)) }
        return blocks
    }

    /// The fetch that will bring a block.
    package func entry(for block: Int, in chunk: Int) -> Entry? {
        entries.first { $0.chunk == chunk && $0.blocks.contains(block) }
    }

    /// The fetches that will bring a block of `blocks`.
    package func entries(for blocks: Range<Int>, in chunk: Int) -> [Entry] {
        entries.filter { $0.chunk == chunk && $0.blocks.overlaps(blocks) }
    }

    /// Enters a fetch without waiters or holders.
    package mutating func add(_ payload: Payload, chunk: Int, blocks: Range<Int>) -> Entry {
        precondition(entries(for: blocks, in: chunk).isEmpty, "two fetches of one block")
        let entry = Entry(id: nextID, chunk: chunk, blocks: blocks, payload: payload)
        nextID += 1
        entries.append(entry)
        return entry
    }

    /// Adds a waiter for bytes of the fetch; `endWait` follows.
    package mutating func wait(for id: ID) { update(id) { $0.waiters += 1 } }

    /// Adds a reader that needs the fetch to finish but does not wait; `release` follows.
    package mutating func hold(_ id: ID) { update(id) { $0.holders += 1 } }

    /// A waiter has its bytes, or `gaveUp`. Returns the fetch when it is to be cancelled: it has left the table.
    package mutating func endWait(for id: ID, gaveUp: Bool) -> Payload? {
        update(id) { $0.waiters -= 1 }
        return gaveUp ? removeIfUnwanted(id) : nil
    }

    /// Removes a holder. Returns the fetch when it is to be cancelled: it has left the table.
    package mutating func release(_ id: ID) -> Payload? {
        update(id) { $0.holders -= 1 }
        return removeIfUnwanted(id)
    }

    /// Whether a reader holds the fetch.
    package func isHeld(_ id: ID) -> Bool { entries.contains { $0.id == id && $0.holders > 0 } }

    /// Every byte has arrived; the fetch is never cancelled from now on. False if it was cancelled already.
    package mutating func markReceived(_ id: ID) -> Bool {
        update(id) { $0.isReceived = true }
        return entries.contains { $0.id == id }
    }

    /// Removes a fetch that has ended, with its blocks stored or with an error. Later calls for it do nothing.
    package mutating func remove(_ id: ID) { entries.removeAll { $0.id == id } }

    private mutating func update(_ id: ID, _ change: (inout Entry) -> Void) {
        guard let index = entries.firstIndex(where: { $0.id == id }) else { return }
        change(&entries[index])
        precondition(entries[index].waiters >= 0 && entries[index].holders >= 0, "a waiter was removed twice")
    }

    private mutating func removeIfUnwanted(_ id: ID) -> Payload? {
        guard let index = entries.firstIndex(where: { $0.id == id }) else { return nil }
        let entry = entries[index]
        guard entry.waiters == 0, entry.holders == 0, !entry.isReceived else { return nil }
        entries.remove(at: index)
        return entry.payload
    }
}

extension FetchTable: Sendable where Payload: Sendable {}
extension FetchTable.Entry: Sendable where Payload: Sendable {}
