import Synchronization

/// A mutex with a queue of tasks. A task that has to wait joins the queue and releases its thread; the task that changes the
/// state later answers it.
///
/// The owner defines `State`, `Want` (the request of a waiting task) and `Answer`. The queue is in the order of arrival.
/// Answered tasks are resumed after the mutex is released. A task that is cancelled leaves the queue, or does not join it.
/// The mutex is a leaf.
package final class Monitor<State: Sendable, Want: Sendable, Answer: Sendable>: Sendable {
    /// The waiting tasks.
    package struct Queue: Sendable {
        fileprivate struct Waiter {
            let id: UInt64
            let want: Want
            let continuation: CheckedContinuation<Answer, Never>
        }

        fileprivate var waiters: [Waiter] = []
        /// Tasks to be resumed when the lock is free.
        fileprivate var answered: [(continuation: CheckedContinuation<Answer, Never>, answer: Answer)] = []
        /// Tasks that were cancelled before they could wait.
        fileprivate var cancelled: Set<UInt64> = []

        package var isEmpty: Bool { waiters.isEmpty }

        package var count: Int { waiters.count }

        /// The want of the task that has waited longest.
        package var first: Want? { waiters.first?.want }

        /// The wants of all waiting tasks, the oldest first.
        package var wants: [Want] { waiters.map(\.want) }

        /// Answers the task that has waited longest.
        package mutating func answerFirst(_ answer: Answer) {
            let waiter = waiters.removeFirst()
            answered.append((waiter.continuation, answer))
        }

        /// Calls `answer` with each want, the oldest first. A task for which it returns nil continues to wait.
        package mutating func answer(_ answer: (Want) -> Answer?) {
            waiters.removeAll { waiter in
                guard let answer = answer(waiter.want) else { return false }
                answered.append((waiter.continuation, answer))
                return true
            }
        }

        fileprivate mutating func leave(_ id: UInt64, _ answer: Answer) -> Want? {
            guard let index = waiters.firstIndex(where: { $0.id == id }) else { return nil }
            let waiter = waiters.remove(at: index)
            answered.append((waiter.continuation, answer))
            return waiter.want
        }
    }

    /// Whether the task gets its answer at once, or waits for it.
    package enum Decision {
        case answer(Answer)
        case wait(Want)
    }

    private struct Contents {
        var state: State
        var queue = Queue()
    }

    private let contents: Mutex<Contents>
    private let lastID = Atomic<UInt64>(0)

    package init(_ state: State) { contents = Mutex(Contents(state: state)) }

    /// Reads the state, or makes a change that answers no waiting task.
    package func withLock<Value: Sendable>(_ body: (inout State) -> Value) -> Value {
        contents.withLock { body(&$0.state) }
    }

    /// Changes the state, and resumes the tasks that `body` answers.
    @discardableResult
    package func change<Value: Sendable>(_ body: (inout State, inout Queue) -> Value) -> Value {
        let (value, answered) = contents.withLock { contents in
            let value = body(&contents.state, &contents.queue)
            defer { contents.queue.answered = [] }
            return (value, contents.queue.answered)
        }
        for (continuation, answer) in answered { continuation.resume(returning: answer) }
        return value
    }

    /// Returns the answer of `decide`, or the one that a later `change` gives; `cancelled` if the task is cancelled first.
    /// `onceWaiting` is called, without the lock, after the task has begun to wait; `leaving` when a cancelled task has
    /// stopped waiting.
    package func wait(
        whenCancelled cancelled: Answer, _ decide: (inout State, inout Queue) -> Decision,
        onceWaiting: () -> Void = {},
        leaving: @Sendable (inout State, inout Queue, Want) -> Void = { _, _, _ in }
    ) async -> Answer {
        let id = lastID.wrappingAdd(1, ordering: .relaxed).newValue
        let answer = await withTaskCancellationHandler {
            await wait(id, whenCancelled: cancelled, decide, onceWaiting: onceWaiting)
        } onCancel: {
            change { state, queue in
                if let want = queue.leave(id, cancelled) {
                    leaving(&state, &queue, want)
                } else {
                    queue.cancelled.insert(id)
                }
            }
        }
        // The cancellation may have come after the answer.
        if Task.isCancelled { contents.withLock { _ = $0.queue.cancelled.remove(id) } }
        return answer
    }

    /// The same whether or not the task is cancelled.
    package func waitRegardless(_ decide: (inout State, inout Queue) -> Decision) async -> Answer {
        await wait(lastID.wrappingAdd(1, ordering: .relaxed).newValue, whenCancelled: nil, decide) {}
    }

    private func wait(
        _ id: UInt64, whenCancelled cancelled: Answer?, _ decide: (inout State, inout Queue) -> Decision,
        onceWaiting: () -> Void
    ) async -> Answer {
        await withCheckedContinuation { continuation in
            let answer: Answer? = change { state, queue in
                if let cancelled, queue.cancelled.contains(id) { return cancelled }
                switch decide(&state, &queue) {
                case .answer(let answer): return answer
                case .wait(let want):
                    queue.waiters.append(Queue.Waiter(id: id, want: want, continuation: continuation))
                    return nil
                }
            }
            if let answer { continuation.resume(returning: answer) } else { onceWaiting() }
        }
    }
}
