package import Basics
import CFuse3
import FileSystem
package import Metadata
import Synchronization

/// Sends invalidations to the kernel, from threads for which no request ever waits while it holds a lock that they need.
///
/// The invalidation of a name can wait in the kernel for a directory's lock. The holder of that lock waits for a request to this
/// process, which in turn may wait for the lock of a file that is written. Sent from a libfuse thread or the worker pool, that is
/// a deadlock not even `kill -9` ends. The invalidation of an inode needs no such lock, so it has threads of its own, and
/// requests may wait for those. It waits for the reads of that inode, though, and so for the store: invalidations of other
/// inodes, and of names in other directories, go on meanwhile.
///
/// Made before the session, because the file system needs it first; events from before the session are dropped, as the kernel has
/// nothing cached then.
package final class KernelInvalidator: KernelNotifier {
    private let names = Lanes(threadName: "invalidate name")
    private let inodes = Lanes(threadName: "invalidate")

    package init() {}

    package func invalidate(_ ino: InodeNumber) { inodes.enqueue(.inode(ino), in: ino) }

    package func invalidateAttributes(of ino: InodeNumber) { inodes.enqueue(.attributes(ino), in: ino) }

    package func invalidate(_ name: ByteString, in parent: InodeNumber) {
        names.enqueue(.name(name, parent: parent), in: parent)
    }

    package func awaitInvalidation(of ino: InodeNumber) async throws(CancellationError) { try await inodes.settle(ino) }

    package func awaitInvalidation(of ino: InodeNumber, namesIn parent: InodeNumber) async throws(CancellationError) {
        try await inodes.settle(ino)
        try await names.settle(parent)
    }

    /// Starts sending to `session` (a `struct fuse_session *`).
    func attach(_ session: OpaquePointer) {
        inodes.attach(session)
        names.attach(session)
    }

    /// Drops the queued events and returns once none is being sent. Requires: the session has ended, or this may wait for long.
    func detach() {
        inodes.detach()
        names.detach()
    }
}

/// A lane of events for each inode, and the threads that send them: the events of one lane in order, one after the other. Locks:
/// a leaf.
private final class Lanes: Sendable {
    enum Event: Sendable {
        case inode(InodeNumber)
        case attributes(InodeNumber)
        case name(ByteString, parent: InodeNumber)
        /// Wakes the waiter with this ticket: all events before it were sent.
        case settled(UInt64)
    }

    private struct State: @unchecked Sendable {
        // Sendable: libfuse takes notifications on any thread while the session lives, which `detach` ends.
        var session: OpaquePointer?
        /// Events that are not being sent yet; a lane exists as long as it has events or a thread sends some of it.
        var lanes: [InodeNumber: [Event]] = [:]
        /// Lanes with events that no thread sends.
        var ready: [InodeNumber] = []
        var threads = 0
        /// Threads that wait for a lane.
        var idle = 0
        var lastTicket: UInt64 = 0
    }

    /// The events that a thread sends at a time.
    private struct Batch: @unchecked Sendable {
        // Sendable: as above.
        let session: OpaquePointer
        let lane: InodeNumber
        let events: [Event]
    }

    private enum Step: Sendable {
        case nothing
        case wake
        case startThread
    }

    /// Most threads, and so most files whose blocked reads can hold up their invalidation before those of other files have to
    /// wait.
    private static let mostThreads = 32

    private let threadName: String
    /// A waiter has a ticket in a lane and is answered when a thread reaches it.
    private let state = Monitor<State, UInt64, Bool>(State())
    private let available = Semaphore()
    private let ended = Semaphore()

    init(threadName: String) { self.threadName = threadName }

    func attach(_ session: OpaquePointer) { state.withLock { $0.session = session } }

    func detach() {
        let (idle, areGone) = state.change { state, queue in
            defer {
                (state.session, state.idle) = (nil, 0)
                (state.lanes, state.ready) = ([:], [])
                queue.answer { _ in true }
            }
            return (state.idle, state.threads == 0)
        }
        for _ in 0..<idle { available.signal() }
        if !areGone { ended.wait() }
    }

    func enqueue(_ event: Event, in lane: InodeNumber) {
        let step: Step = state.withLock { state in
            guard state.session != nil else { return .nothing }
            if state.lanes[lane] != nil {
                state.lanes[lane]?.append(event)
                return .nothing
            }
            state.lanes[lane] = [event]
            state.ready.append(lane)
            if state.idle > 0 {
                state.idle -= 1
                return .wake
            }
            guard state.threads < Self.mostThreads else { return .nothing }
            state.threads += 1
            return .startThread
        }
        switch step {
        case .nothing: break
        case .wake: available.signal()
        case .startThread: startThread(name: threadName) { [self] in sendUntilDetached() }
        }
    }

    /// Waits until the present events of the lane were sent; throws when the task is cancelled before.
    func settle(_ lane: InodeNumber) async throws(CancellationError) {
        let isSettled = await state.wait(whenCancelled: false) { state, _ in
            guard state.lanes[lane] != nil else { return .answer(true) }
            state.lastTicket += 1
            state.lanes[lane]?.append(.settled(state.lastTicket))
            return .wait(state.lastTicket)
        }
        if !isSettled { throw CancellationError() }
    }

    private func sendUntilDetached() {
        var last: InodeNumber?
        while true {
            let (batch, isOver) = next(after: last)
            if isOver { return }
            last = batch?.lane
            if let batch { send(batch) } else { available.wait() }
        }
    }

    /// Leaves the lane that the thread has served, and returns a batch of the next. Without any, the thread has to wait until
    /// there is one.
    private func next(after last: InodeNumber?) -> (batch: Batch?, isOver: Bool) {
        let (batch, isOver, isLast) = state.withLock { state -> (Batch?, Bool, Bool) in
            guard let session = state.session else {
                state.threads -= 1
                return (nil, true, state.threads == 0)
            }
            if let last {
                if state.lanes[last]?.isEmpty == false { state.ready.append(last) } else { state.lanes[last] = nil }
            }
            guard !state.ready.isEmpty else {
                state.idle += 1
                return (nil, false, false)
            }
            let lane = state.ready.removeFirst()
            defer { state.lanes[lane] = [] }
            return (Batch(session: session, lane: lane, events: state.lanes[lane] ?? []), false, false)
        }
        if isLast { ended.signal() }
        return (batch, isOver)
    }

    private func send(_ batch: Batch) {
        // Errors mean that the kernel does not have it cached (ENOENT), or that the session has ended.
        for event in batch.events {
            switch event {
            case .settled(let ticket): state.change { _, queue in queue.answer { $0 == ticket ? true : nil } }
            case .inode(let ino): fuse_lowlevel_notify_inval_inode(batch.session, ino.rawValue, 0, 0)
            // An offset below 0 invalidates the attributes and no page.
            case .attributes(let ino): fuse_lowlevel_notify_inval_inode(batch.session, ino.rawValue, -1, 0)
            case .name(let name, let parent):
                // libfuse sends the byte behind the name too, for its zero.
                _ = (name.bytes + [0]).withUnsafeBytes { bytes in
                    fuse_lowlevel_notify_inval_entry(
                        batch.session, parent.rawValue, bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
                        name.count)
                }
            }
        }
    }
}
