/// How many transfers there may be at a time, and whose turn is next.
///
/// A value without clock or thread. The number halves when the store asks for less or does not keep up, at most once for all
/// transfers that were under way then, and grows by one for each round that succeeds. A free slot goes to the file that has
/// fewest, the one that asked first among equals: a file of any size leaves room for small ones.
struct UploadSlots: Sendable {
    typealias ID = UInt64

    /// How a transfer ended.
    enum Ending: Sendable {
        case stored
        /// The store asks for less, or did not answer in time.
        case slowedDown
        /// Anything else: it does not show how much the store can take.
        case other
    }

    private struct Request {
        let id: ID
        let file: UInt64
    }

    /// Most transfers there may ever be.
    private(set) var most: Int
    /// How many there may be now.
    private(set) var limit: Int
    private var waiting: [Request] = []
    /// The transfers under way and their files.
    private var granted: [ID: UInt64] = [:]
    private var perFile: [UInt64: Int] = [:]
    private var lastID: ID = 0
    /// The newest transfer there was when the number was halved.
    private var lastHalved: ID = 0
    private var successes = 0

    init(most: Int) {
        self.most = max(1, most)
        limit = self.most
    }

    /// Changes the most there may ever be. A lower limit that the store has shown stays.
    mutating func setMost(_ count: Int) {
        let isOpen = limit == most
        most = max(1, count)
        limit = isOpen ? most : min(limit, most)
    }

    var used: Int { granted.count }

    /// Asks for a slot; the id is in the next answer of `grant` or in a later one.
    mutating func request(for file: UInt64) -> ID {
        lastID += 1
        waiting.append(Request(id: lastID, file: file))
        return lastID
    }

    /// Withdraws a request. False when it has been granted already.
    mutating func cancel(_ id: ID) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return false }
        waiting.remove(at: index)
        return true
    }

    /// Withdraws what a file has asked for and not got.
    mutating func cancelAll(of file: UInt64) -> [ID] {
        let ids = waiting.filter { $0.file == file }.map(\.id)
        waiting.removeAll { $0.file == file }
        return ids
    }

    /// The requests that get a slot now.
    mutating func grant() -> [ID] {
        var ids: [ID] = []
        while granted.count < limit, let index = next() {
            let request = waiting.remove(at: index)
            granted[request.id] = request.file
            perFile[request.file, default: 0] += 1
            ids.append(request.id)
        }
        return ids
    }

    mutating func release(_ id: ID, _ ending: Ending) {
        guard let file = granted.removeValue(forKey: id) else { return }
        if let count = perFile[file] { perFile[file] = count > 1 ? count - 1 : nil }
        switch ending {
        case .stored:
            guard limit < most else { return }
            successes += 1
            if successes >= limit { (limit, successes) = (limit + 1, 0) }
        case .slowedDown:
            successes = 0
            guard id > lastHalved else { return }
            limit = max(1, limit / 2)
            lastHalved = lastID
        case .other: break
        }
    }

    private func next() -> Int? {
        waiting.indices.min { perFile[waiting[$0].file, default: 0] < perFile[waiting[$1].file, default: 0] }
    }
}
