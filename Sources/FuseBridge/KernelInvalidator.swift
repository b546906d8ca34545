package import Basics
import CFuse3
import FileSystem
package import Metadata
import Synchronization

/// Tells the kernel what it must no longer believe, from threads that no request ever waits for while it holds what they need.
///
/// The invalidation of a name can wait in the kernel for a directory's lock, whose holder waits for a request of ours, which in
/// turn may wait for the lock of a file that is written; sent from a libfuse thread or the worker pool that is a deadlock not
/// even `kill -9` ends. What is said of an inode needs no such lock, so it goes through a thread of its own, and requests may
/// wait for that one. Made before the session, because the file system needs it first; what comes before the session began is
/// dropped, as the kernel has nothing cached then.
package final class KernelInvalidator: KernelNotifier {
    private let names = Lane()
    private let inodes = Lane()

    package init() {}

    package func invalidate(_ ino: InodeNumber) { inodes.enqueue(.inode(ino)) }

    package func invalidateAttributes(of ino: InodeNumber) { inodes.enqueue(.attributes(ino)) }

    package func invalidate(_ name: ByteString, in parent: InodeNumber) { names.enqueue(.name(name, parent: parent)) }

    package func settleInodes() async { await inodes.settle() }

    package func settle() async {
        await inodes.settle()
        await names.settle()
    }

    /// Starts sending to `session` (a `struct fuse_session *`).
    func attach(_ session: OpaquePointer) {
        inodes.attach(session, threadName: "invalidate")
        names.attach(session, threadName: "invalidate name")
    }

    /// Drops what is queued and returns once nothing is being sent. The session must have ended, or it may wait for long.
    func detach() {
        inodes.detach()
        names.detach()
    }
}

/// A queue and the thread that sends what is in it, in order. Locked by its own mutex, a leaf.
private final class Lane: Sendable {
    enum Event: Sendable {
        case inode(InodeNumber)
        case attributes(InodeNumber)
        case name(ByteString, parent: InodeNumber)
        /// Somebody waits for those before it.
        case settled(CheckedContinuation<Void, Never>)
    }

    private struct State: @unchecked Sendable {
        // Sendable: libfuse takes notifications on any thread while the session lives, which `detach` ends.
        var session: OpaquePointer?
        var events: [Event] = []
    }

    private let state = Mutex(State())
    private let available = Semaphore()
    private let ended = Semaphore()

    func settle() async {
        await withCheckedContinuation { continuation in
            if !enqueue(.settled(continuation)) { continuation.resume() }
        }
    }

    func attach(_ session: OpaquePointer, threadName: String) {
        state.withLock { $0.session = session }
        startThread(name: threadName) { [self] in
            while sendNext() {}
            ended.signal()
        }
    }

    func detach() {
        let (wasAttached, dropped) = state.withLock { state in
            defer { (state.session, state.events) = (nil, []) }
            return (state.session != nil, state.events)
        }
        for case .settled(let waiter) in dropped { waiter.resume() }
        guard wasAttached else { return }
        available.signal()
        ended.wait()
    }

    /// False when nobody is there to hear it.
    @discardableResult
    func enqueue(_ event: Event) -> Bool {
        let isQueued = state.withLock { state in
            guard state.session != nil else { return false }
            state.events.append(event)
            return true
        }
        if isQueued { available.signal() }
        return isQueued
    }

    /// Sends everything queued; false once detached.
    private func sendNext() -> Bool {
        available.wait()
        let (attached, events) = state.withLock { state in
            defer { state.events = [] }
            return (State(session: state.session), state.events)
        }
        guard let session = attached.session else { return false }
        // Errors are the kernel's "I did not have that" (ENOENT), or the end of the session.
        for event in events {
            switch event {
            case .settled(let waiter): waiter.resume()
            case .inode(let ino): fuse_lowlevel_notify_inval_inode(session, ino.rawValue, 0, 0)
            // Below 0 is no page.
            case .attributes(let ino): fuse_lowlevel_notify_inval_inode(session, ino.rawValue, -1, 0)
            case .name(let name, let parent):
                // libfuse sends the byte behind the name too, for its zero.
                _ = (name.bytes + [0]).withUnsafeBytes { bytes in
                    fuse_lowlevel_notify_inval_entry(
                        session, parent.rawValue, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), name.count)
                }
            }
        }
        return true
    }
}
