package import Basics
import Synchronization

/// A sink that keeps what it receives.
package final class CollectingSink: ByteSink {
    private struct State {
        var bytes: [UInt8] = []
        var restarts = 0
        var failure: ByteTransferError?
    }

    private let state = Mutex(State())

    package init() {}

    /// Everything since the last restart.
    package var bytes: [UInt8] { state.withLock { $0.bytes } }
    package var restarts: Int { state.withLock { $0.restarts } }

    /// From now on every `receive` throws `error`.
    package func fail(with error: ByteTransferError) { state.withLock { $0.failure = error } }

    package func receive(_ bytes: RawSpan) throws(ByteTransferError) {
        let copy = bytes.withUnsafeBytes { Array($0) }
        let failure = state.withLock { state in
            state.bytes += copy
            return state.failure
        }
        if let failure { throw failure }
    }

    package func restart() {
        state.withLock { state in
            state.bytes = []
            state.restarts += 1
        }
    }
}

extension ByteSource {
    /// The bytes from `offset` to the end, asked for in pieces of at most `piece`.
    package func collect(from offset: Int64 = 0, piece: Int = 64 << 10) throws(ByteTransferError) -> [UInt8] {
        var collected: [UInt8] = []
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: piece, alignment: 16)
        defer { memory.deallocate() }
        while true {
            var output = OutputRawSpan(buffer: memory, initializedCount: 0)
            try read(at: offset + Int64(collected.count), into: &output)
            let count = output.finalize(for: memory)
            if count == 0 { return collected }
            collected += memory[..<count]
        }
    }
}
