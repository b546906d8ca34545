import Basics
import ObjectStorage
import Synchronization

/// GETs for readers. One whose first byte is late (`HedgePolicy`) is sent a second time, on another connection. The request
/// whose first byte comes first continues alone, and no byte of the other reaches the sink.
///
/// Wraps the store's retries: a request that waits for its next try counts as late, too. Its mutex is a leaf.
final class HedgedReads: Sendable {
    private enum Event: Sendable {
        case isLate
        case ended(Int, Result<GetAnswer, ObjectStoreError>)
    }

    private let store: any ObjectStore
    private let time: any TimeSource
    private let policy = Mutex(HedgePolicy())
    private let count = Atomic(0)

    init(_ store: any ObjectStore, time: any TimeSource) { (self.store, self.time) = (store, time) }

    var capabilities: Capabilities { store.capabilities }

    /// Second requests sent so far.
    var hedges: Int { count.load(ordering: .relaxed) }

    func checksums(of key: ObjectKey, _ version: ObjectVersion) async throws(ObjectStoreError) -> [CheckedPart] {
        try await store.checksums(of: key, version)
    }

    func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer {
        let race = Race(for: sink, time: time)
        defer { if let took = race.firstByte { policy.withLock { $0.record(took) } } }
        guard let wait = policy.withLock({ $0.begin() }) else {
            return try await store.get(request, into: RaceLane(race, 0))
        }
        return try await run(request, race, waiting: wait).get()
    }

    private func run(
        _ request: GetRequest, _ race: Race, waiting wait: Duration
    ) async -> Result<GetAnswer, ObjectStoreError> {
        await withTaskGroup(of: Event.self) { group in
            group.addTask { [self] in await attempt(0, request, race) }
            group.addTask { [time] in
                try? await time.sleep(for: wait)
                return .isLate
            }
            var underWay = 1
            for await event in group {
                switch event {
                case .isLate:
                    guard race.isOpen, !Task.isCancelled, policy.withLock({ $0.spend() }) else { continue }
                    count.add(1, ordering: .relaxed)
                    underWay += 1
                    group.addTask { [self] in await attempt(1, request, race) }
                case .ended(let number, let result):
                    underWay -= 1
                    let isDecided: Bool
                    switch result {
                    case .success: isDecided = race.claim(number)
                    case .failure(let error):
                        // An error that a retry may cure is left to the other request.
                        isDecided = race.isWinner(number) || race.isOpen && (underWay == 0 || !error.isRetryable)
                    }
                    guard isDecided else { continue }
                    // The group ends with its last task: the cancelled request leaves its connection.
                    group.cancelAll()
                    return result
                }
            }
            fatalError("no request has ended")
        }
    }

    private func attempt(_ number: Int, _ request: GetRequest, _ race: Race) async -> Event {
        do throws(ObjectStoreError) {
            return .ended(number, .success(try await store.get(request, into: RaceLane(race, number))))
        } catch { return .ended(number, .failure(error)) }
    }
}

/// Which of two requests for the same bytes may deliver them: the one with the first byte.
private final class Race: Sendable {
    fileprivate let sink: any ByteSink
    private let time: any TimeSource
    private let began: Duration
    /// The request's number; -1 while there is no byte.
    private let winner = Atomic(-1)
    private let took = Mutex<Duration?>(nil)

    init(for sink: any ByteSink, time: any TimeSource) {
        (self.sink, self.time, began) = (sink, time, time.uptime())
    }

    var isOpen: Bool { winner.load(ordering: .acquiring) < 0 }
    /// How long the first byte took; nil while there is none.
    var firstByte: Duration? { took.withLock { $0 } }

    func isWinner(_ number: Int) -> Bool { winner.load(ordering: .acquiring) == number }

    /// Whether this request may deliver its bytes; the first request to call this wins.
    func claim(_ number: Int) -> Bool {
        let (exchanged, original) = winner.compareExchange(
            expected: -1, desired: number, ordering: .acquiringAndReleasing)
        if exchanged { took.withLock { $0 = time.uptime() - began } }
        return exchanged || original == number
    }
}

/// The sink of one request, which passes the winner's bytes on to the sink of the race.
private struct RaceLane: ByteSink {
    private let race: Race
    private let number: Int

    init(_ race: Race, _ number: Int) { (self.race, self.number) = (race, number) }

    func receive(_ bytes: RawSpan) throws(ByteTransferError) {
        // ECANCELED
        guard race.claim(number) else {
            throw ByteTransferError(errno: 125, reason: "the second request for the same bytes was faster")
        }
        try race.sink.receive(bytes)
    }

    func restart() {
        if race.isWinner(number) { race.sink.restart() }
    }
}
