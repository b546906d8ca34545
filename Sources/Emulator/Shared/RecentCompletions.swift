import Basics
import Synchronization

/// What uploads completed lately became, by id, so that a repeated completion gets the same answer. Locked by its own
/// mutex, a leaf.
final class RecentCompletions: Sendable {
    private struct State {
        var answers: [String: ObjectRecord] = [:]
        var order: [String] = []
    }

    private static let mostKept = 1000
    private let state = Mutex(State())

    func add(_ id: String, _ record: ObjectRecord) {
        state.withLock { state in
            state.answers[id] = record
            state.order.append(id)
            if state.order.count > Self.mostKept { state.answers[state.order.removeFirst()] = nil }
        }
    }

    func record(_ id: String, of key: ByteString) -> ObjectRecord? {
        state.withLock { state in state.answers[id].flatMap { $0.key == key ? $0 : nil } }
    }
}
