/// A fair lock that tasks wait for without holding a thread: many tasks share it, or one has it alone.
///
/// Writes share a file's gate; its commit, truncation and rename take it alone, so an object is never made of bytes that
/// changed meanwhile. Its own lock is a leaf.
package final class TaskGate: Sendable {
    private typealias Room = Monitor<Inside, Bool, Bool>

    private struct Inside {
        /// The number of sharers inside, or -1 while one task is alone inside.
        var count = 0

        func admits(alone: Bool) -> Bool { alone ? count == 0 : count >= 0 }

        mutating func admit(alone: Bool) { count = alone ? -1 : count + 1 }

        /// False, without a change, while tasks are inside that exclude this one, or others wait already.
        mutating func tryAdmit(alone: Bool, _ queue: Room.Queue) -> Bool {
            guard queue.isEmpty, admits(alone: alone) else { return false }
            admit(alone: alone)
            return true
        }

        mutating func admitWaiters(_ queue: inout Room.Queue) {
            while let alone = queue.first, admits(alone: alone) {
                admit(alone: alone)
                queue.answerFirst(true)
            }
        }
    }

    /// A waiting task gives whether it wants to be alone, and gets true when it is inside.
    private let room = Room(Inside())
    private let place: LockPlace?

    /// `place` is the gate's place in the order of locks.
    package init(_ place: LockPlace? = nil) { self.place = place }

    /// Enters at once, or not at all.
    package func tryEnter(alone: Bool = false) -> Bool {
        let isInside = room.change { inside, queue in inside.tryAdmit(alone: alone, queue) }
        if isInside { LockOrder.hasEntered(place) }
        return isInside
    }

    /// Waits for its turn.
    /// Throws: when the task is cancelled before.
    package func enter(alone: Bool = false) async throws(CancellationError) {
        LockOrder.willWait(for: place)
        let isInside = await room.wait(whenCancelled: false) { inside, queue in
            inside.tryAdmit(alone: alone, queue) ? .answer(true) : .wait(alone)
        } leaving: { inside, queue, _ in
            inside.admitWaiters(&queue)
        }
        if !isInside { throw CancellationError() }
        LockOrder.hasEntered(place)
    }

    /// Waits for its turn whether or not the task is cancelled: for steps that must follow one that was already done.
    package func enterRegardless(alone: Bool = false) async {
        LockOrder.willWait(for: place)
        _ = await room.waitRegardless { inside, queue in
            inside.tryAdmit(alone: alone, queue) ? .answer(true) : .wait(alone)
        }
        LockOrder.hasEntered(place)
    }

    package func leave(alone: Bool = false) {
        LockOrder.hasLeft(place)
        room.change { inside, queue in
            precondition(alone ? inside.count == -1 : inside.count > 0, "left a gate that was not entered")
            inside.count = alone ? 0 : inside.count - 1
            inside.admitWaiters(&queue)
        }
    }
}
