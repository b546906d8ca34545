/// Lets tasks wait for the next change. Its lock is a leaf.
package final class ChangeSignal: Sendable {
    private let state = Monitor<UInt64, Void, Void>(0)

    package init() {}

    /// The number of changes so far.
    package var changes: UInt64 { state.withLock { $0 } }

    package func change() {
        state.change { changes, queue in
            changes += 1
            queue.answer { () }
        }
    }

    /// Returns when there are more changes than `seen`, or when the task is cancelled and `cancellable`.
    package func wait(after seen: UInt64, cancellable: Bool) async {
        if cancellable {
            await state.wait(whenCancelled: ()) { changes, _ in changes == seen ? .wait(()) : .answer(()) }
        } else {
            await state.waitRegardless { changes, _ in changes == seen ? .wait(()) : .answer(()) }
        }
    }
}
