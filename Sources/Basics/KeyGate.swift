/// A fair lock over a tree of keys that tasks wait for without holding a thread. Many tasks share it, each at its keys; a
/// task that moves everything below some prefixes has those alone. Tasks at other keys run meanwhile.
///
/// No request overtakes an earlier one that conflicts with it. Its own lock is a leaf.
package final class KeyGate: Sendable {
    /// The right to be inside, until `leave`.
    package struct Pass: Sendable, Hashable {
        fileprivate let id: UInt64
    }

    private struct Request {
        let id: UInt64
        /// Keys, or the prefixes of a request that is alone; nil for a request that may use any key.
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

    private typealias Room = Monitor<State, Request, Bool>

    private struct State {
        var nextID: UInt64 = 0
        var inside: [UInt64: Request] = [:]
        /// Requests to be alone, inside or waiting: without any, every request is admitted.
        var alone = 0

        mutating func makeRequest(_ places: [ByteString]?, alone: Bool) -> Request {
            nextID += 1
            if alone { self.alone += 1 }
            return Request(id: nextID, places: places, alone: alone)
        }

        /// Admits a request that conflicts with no request inside, and with none of `others`, which have waited longer.
        mutating func tryAdmit(_ request: Request, after others: @autoclosure () -> [Request]) -> Bool {
            if alone > 0 || request.alone {
                guard !inside.values.contains(where: { $0.conflicts(with: request) }),
                    !others().contains(where: { $0.conflicts(with: request) })
                else { return false }
            }
            inside[request.id] = request
            return true
        }

        mutating func remove(_ request: Request) { if request.alone { alone -= 1 } }

        mutating func admitWaiters(_ queue: inout Room.Queue) {
            var waiting: [Request] = []
            queue.answer { request in
                if tryAdmit(request, after: waiting) { return true }
                waiting.append(request)
                return nil
            }
        }
    }

    /// A waiting task gets true when it is inside.
    private let room = Room(State())
    private let place: LockPlace?

    /// `place` is the gate's place in the order of locks.
    package init(_ place: LockPlace? = nil) { self.place = place }

    /// Enters at once, sharing every key, if no request to be alone is inside or waits; for short work.
    package func tryEnter() -> Pass? {
        let pass: Pass? = room.withLock { state in
            guard state.alone == 0 else { return nil }
            let request = state.makeRequest(nil, alone: false)
            state.inside[request.id] = request
            return Pass(id: request.id)
        }
        if pass != nil { LockOrder.hasEntered(place) }
        return pass
    }

    /// Waits to share `keys`.
    /// Throws: when the task is cancelled before.
    package func enter(_ keys: [ByteString]) async throws(CancellationError) -> Pass {
        try await enter(keys, alone: false)
    }

    /// Waits to be alone below `prefixes`.
    /// Throws: when the task is cancelled before.
    package func enter(alone prefixes: [ByteString]) async throws(CancellationError) -> Pass {
        try await enter(prefixes, alone: true)
    }

    private func enter(_ places: [ByteString], alone: Bool) async throws(CancellationError) -> Pass {
        LockOrder.willWait(for: place)
        var pass = Pass(id: 0)
        let isInside = await room.wait(whenCancelled: false) { state, queue in
            let request = state.makeRequest(places, alone: alone)
            pass = Pass(id: request.id)
            return state.tryAdmit(request, after: queue.wants) ? .answer(true) : .wait(request)
        } leaving: { state, queue, request in
            state.remove(request)
            state.admitWaiters(&queue)
        }
        if !isInside { throw CancellationError() }
        LockOrder.hasEntered(place)
        return pass
    }

    package func leave(_ pass: Pass) {
        LockOrder.hasLeft(place)
        room.change { state, queue in
            guard let request = state.inside.removeValue(forKey: pass.id) else {
                preconditionFailure("left a gate that was not entered")
            }
            state.remove(request)
            state.admitWaiters(&queue)
        }
    }
}
