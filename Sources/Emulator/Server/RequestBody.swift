package import Basics
package import NIOCore
import Synchronization

/// Why a request's body ended early.
package enum RequestBodyError: Error, Sendable {
    /// The client went away, or its framing was broken.
    case disconnected
    /// More bytes than the reader takes.
    case tooLarge
}

/// The body of one request: filled by the connection's event loop, emptied by the one task that answers.
///
/// At most about a megabyte waits; beyond that the event loop stops reading, so a fast client cannot fill the memory.
/// Locked by its own mutex, a leaf; continuations and callbacks run outside it.
package final class RequestBody: Sendable {
    private struct State {
        var chunks: [ByteBuffer] = []
        var waitingBytes = 0
        var isEnded = false
        var isDisconnected = false
        var isDiscarding = false
        var waiter: CheckedContinuation<Void, Never>?
        var onDemand: (@Sendable () -> Void)?
        var resume: (@Sendable () -> Void)?
        var received: Int64 = 0
        var shaping = BodyShaping()
        var pace: Pace?

        /// What lets the connection read on, once there is room again.
        mutating func takeResume() -> (@Sendable () -> Void)? {
            guard waitingBytes < RequestBody.mostWaitingBytes / 2 else { return nil }
            defer { resume = nil }
            return resume
        }
    }

    private enum Step {
        case chunk(ByteBuffer, resume: (@Sendable () -> Void)?, pause: Duration?)
        case end
        case failed(RequestBodyError)
        case wait((@Sendable () -> Void)?)
    }

    private static let mostWaitingBytes = 1 << 20
    private let state: Mutex<State>
    private let time: any TimeSource

    /// `onDemand` runs once, when the body is first waited for: the moment to send `100 Continue`.
    package init(time: any TimeSource = SystemTime(), onDemand: (@Sendable () -> Void)? = nil) {
        self.time = time
        var state = State()
        state.onDemand = onDemand
        self.state = Mutex(state)
    }

    /// A body that is there already.
    package convenience init(_ bytes: [UInt8]) {
        self.init()
        if !bytes.isEmpty { append(ByteBuffer(bytes: bytes)) }
        end()
    }

    /// Body bytes handed out so far.
    package var receivedBytes: Int64 { state.withLock { $0.received } }
    var isEnded: Bool { state.withLock { $0.isEnded } }
    var isDisconnected: Bool { state.withLock { $0.isDisconnected } }
    /// The client still waits for a `100 Continue`.
    var awaitsDemand: Bool { state.withLock { $0.onDemand != nil && $0.waitingBytes == 0 && !$0.isEnded } }

    /// The next bytes; nil at the end.
    package func next() async throws(RequestBodyError) -> ByteBuffer? {
        while true {
            let now = time.uptime()
            switch state.withLock({ Self.step(&$0, now: now) }) {
            case .chunk(let chunk, let resume, let pause):
                resume?()
                if let pause { try? await time.sleep(for: pause) }
                return chunk
            case .end: return nil
            case .failed(let error): throw error
            case .wait(let onDemand):
                onDemand?()
                await waitForMore()
            }
        }
    }

    private static func step(_ state: inout State, now: Duration) -> Step {
        if !state.chunks.isEmpty {
            var chunk = state.chunks.removeFirst()
            state.waitingBytes -= chunk.readableBytes
            let start = state.received
            state.received += Int64(chunk.readableBytes)
            guard state.shaping.apply(to: &chunk, at: start) == .whole else {
                state.isDisconnected = true
                return .failed(.disconnected)
            }
            let pause = state.pace?.pause(for: chunk.readableBytes, now: now)
            return .chunk(chunk, resume: state.takeResume(), pause: pause)
        }
        if state.isDisconnected { return .failed(.disconnected) }
        if state.isEnded { return .end }
        defer { state.onDemand = nil }
        return .wait(state.onDemand)
    }

    private func waitForMore() async {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if !state.chunks.isEmpty || state.isEnded || state.isDisconnected { return true }
                state.waiter = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
    }

    /// The whole body, if it has at most `limit` bytes.
    package func collect(limit: Int) async throws(RequestBodyError) -> [UInt8] {
        var bytes: [UInt8] = []
        while let chunk = try await next() {
            guard bytes.count + chunk.readableBytes <= limit else { throw .tooLarge }
            bytes += chunk.readableBytesView
        }
        return bytes
    }
}

/// The side of the event loop.
extension RequestBody {
    func append(_ chunk: ByteBuffer) {
        change { state in
            guard !state.isDiscarding else { return }
            state.chunks.append(chunk)
            state.waitingBytes += chunk.readableBytes
        }
    }

    func end() { change { $0.isEnded = true } }

    func disconnect() { change { if !$0.isEnded { $0.isDisconnected = true } } }

    /// Forgets what waits and what comes: the answer is out.
    func discard() {
        change { state in
            state.isDiscarding = true
            state.chunks = []
            state.waitingBytes = 0
        }
    }

    /// Damage and delays for the bytes to come.
    func shape(_ shaping: BodyShaping) {
        let pace = shaping.pace(now: time.uptime())
        state.withLock { ($0.shaping, $0.pace) = (shaping, pace) }
    }

    /// Whether the connection may read on. If not, `resume` runs when there is room again.
    func hasRoom(orElse resume: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if state.waitingBytes < Self.mostWaitingBytes || state.isDiscarding { return true }
            state.resume = resume
            return false
        }
    }

    private func change(_ change: (inout State) -> Void) {
        let (waiter, resume) = state.withLock { state in
            change(&state)
            defer { state.waiter = nil }
            return (state.waiter, state.takeResume())
        }
        waiter?.resume()
        resume?()
    }
}
