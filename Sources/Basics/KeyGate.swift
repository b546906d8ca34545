import Synchronization

/// A fair lock over a tree of keys that tasks wait for without holding a thread: many share it, each at its keys, and one that
/// moves all that is below some prefixes has those alone. Whoever has nothing to do with the prefixes goes on meanwhile.
///
/// Nobody overtakes whom he would have to wait for. State lives in the mutex, a leaf; continuations are resumed outside it.
package final class KeyGate: Sendable {
    /// What somebody has who is inside, until `leave`.
    package struct Pass: Sendable, Hashable {
        fileprivate let id: UInt64
    }

    private struct Request {
        let id: UInt64
        /// Keys, or prefixes of whoever wants to be alone there; nil of who may be anywhere.
        let places: [ByteString]?
        let alone: Bool

        func conflicts(with other: Request) -> Bool {
            switch (alone, other.alone) {
            case (false, false): false
            case (true, false): other.isBelow(self)
            case (false, true): isBelow(other)
            case (true, true): isBelow(other) || other.isBelow(self)
            }
        }

        private func isBelow(_ other: Request) -> Bool {
            guard let places, let prefixes = other.places else { return true }
            return places.contains { place in prefixes.contains { place.hasPrefix($0) } }
        }
    }

    private struct Waiter {
        let request: Request
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var nextID: UInt64 = 0
        var inside: [UInt64: Request] = [:]
        var waiters: [Waiter] = []
        /// Inside or waiting, of those who are alone: without any everybody may come in.
        var alone = 0
        var cancelled: Set<UInt64> = []

        mutating func makeRequest(_ places: [ByteString]?, alone: Bool) -> Request {
            nextID += 1
            return Request(id: nextID, places: places, alone: alone)
        }

        /// `before` are those who wait longer.
        func admits(_ request: Request, before: some Sequence<Waiter>) -> Bool {
            if alone == 0, !request.alone { return true }
            return !inside.values.contains { $0.conflicts(with: request) }
                && !before.contains { $0.request.conflicts(with: request) }
        }

        mutating func admit(_ request: Request) { inside[request.id] = request }
    }

    private let state = Mutex(State())

    package init() {}

    /// Enters at once, sharing every key, if nobody is alone anywhere or waits for it; for what does not take long.
    package func tryEnter() -> Pass? {
        state.withLock { state in
            guard state.alone == 0 else { return nil }
            let request = state.makeRequest(nil, alone: false)
            state.admit(request)
            return Pass(id: request.id)
        }
    }

    /// Waits for its turn to share `keys`; throws when the task is cancelled before.
    package func enter(_ keys: [ByteString]) async throws(CancellationError) -> Pass {
        try await enter(keys, alone: false)
    }

    /// Waits until it is alone below `prefixes`; throws when the task is cancelled before.
    package func enter(alone prefixes: [ByteString]) async throws(CancellationError) -> Pass {
        try await enter(prefixes, alone: true)
    }

    private func enter(_ places: [ByteString], alone: Bool) async throws(CancellationError) -> Pass {
        let request = state.withLock { state in
            if alone { state.alone += 1 }
            return state.makeRequest(places, alone: alone)
        }
        let entered = await withTaskCancellationHandler {
            await wait(request)
        } onCancel: {
            let waiter: Waiter? = state.withLock { state in
                guard let index = state.waiters.firstIndex(where: { $0.request.id == request.id }) else {
                    state.cancelled.insert(request.id)
                    return nil
                }
                return state.waiters.remove(at: index)
            }
            waiter?.continuation.resume(returning: false)
        }
        let admitted = state.withLock { state in
            state.cancelled.remove(request.id)
            if !entered, alone { state.alone -= 1 }
            return entered ? [] : Self.admitWaiters(&state)
        }
        for waiter in admitted { waiter.continuation.resume(returning: true) }
        if !entered { throw CancellationError() }
        return Pass(id: request.id)
    }

    private func wait(_ request: Request) async -> Bool {
        await withCheckedContinuation { continuation in
            let answer: Bool? = state.withLock { state in
                if state.cancelled.contains(request.id) { return false }
                if state.admits(request, before: state.waiters) {
                    state.admit(request)
                    return true
                }
                state.waiters.append(Waiter(request: request, continuation: continuation))
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }

    package func leave(_ pass: Pass) {
        let admitted: [Waiter] = state.withLock { state in
            let request = state.inside.removeValue(forKey: pass.id)
            precondition(request != nil, "left a gate that was not entered")
            if request?.alone == true { state.alone -= 1 }
            return Self.admitWaiters(&state)
        }
        for waiter in admitted { waiter.continuation.resume(returning: true) }
    }

    private static func admitWaiters(_ state: inout State) -> [Waiter] {
        if state.waiters.isEmpty { return [] }
        var admitted: [Waiter] = []
        var rest: [Waiter] = []
        for waiter in state.waiters {
            if state.admits(waiter.request, before: rest) {
                state.admit(waiter.request)
                admitted.append(waiter)
            } else {
                rest.append(waiter)
            }
        }
        state.waiters = rest
        return admitted
    }
}
