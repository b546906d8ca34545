import CLinux

/// Why local bytes could not be read or taken: an errno of this machine with the act that met it.
package struct ByteTransferError: Error, Sendable, CustomStringConvertible {
    /// errno of the failing call; EIO for anything else.
    package let errno: Int32
    package let reason: String

    package init(errno: Int32, reason: String) {
        self.errno = errno
        self.reason = reason
    }

    package var description: String { reason }
}

/// Bytes to send: a body of known length that can be read again from any offset, so that a request can be retried.
///
/// Read on the transport's thread, which waits for it: memory or local files only.
package protocol ByteSource: Sendable {
    /// The length in bytes; constant.
    var count: Int64 { get }
    /// Appends bytes from `offset` until `output` is full or the body ends. Appending nothing means the end.
    func read(at offset: Int64, into output: inout OutputRawSpan) throws(ByteTransferError)
}

extension ByteSource {
    /// Calls `body` with the bytes in order, in pieces of at most 256 KiB. Blocks on local bytes.
    package func forEachPiece(_ body: (RawSpan) -> Void) throws(ByteTransferError) {
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 4096)
        defer { scratch.deallocate() }
        var offset: Int64 = 0
        while offset < count {
            var output = OutputRawSpan(buffer: scratch, initializedCount: 0)
            try read(at: offset, into: &output)
            let length = output.finalize(for: scratch)
            guard length > 0 else { throw ByteTransferError(errno: EIO, reason: "the body ends before its length") }
            body(UnsafeRawBufferPointer(rebasing: scratch[..<length]).bytes)
            offset += Int64(length)
        }
    }
}

/// A body in memory.
package struct MemorySource: ByteSource {
    private let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package var count: Int64 { Int64(bytes.count) }

    package func read(at offset: Int64, into output: inout OutputRawSpan) {
        let start = Int(clamping: offset)
        guard start < bytes.count else { return }
        output.append(bytes.span.bytes.extracting(start..<min(bytes.count, start + output.freeCapacity)))
    }
}

/// Where received bytes go, in order, as they arrive.
///
/// Called on the transport's thread, which waits: copy or write locally, never block on anything remote.
package protocol ByteSink: Sendable {
    /// Takes the next bytes of the body. An error ends the transfer.
    func receive(_ bytes: RawSpan) throws(ByteTransferError)
    /// The transfer starts over: forget everything received so far. Called before each retry.
    func restart()
}

extension OutputRawSpan {
    /// Appends a copy of `bytes`, which must fit `freeCapacity`.
    package mutating func append(_ bytes: RawSpan) {
        precondition(bytes.byteCount <= freeCapacity, "appended bytes exceed the span")
        withUnsafeMutableBytes { buffer, initialized in
            bytes.withUnsafeBytes { source in
                guard !source.isEmpty else { return }
                UnsafeMutableRawBufferPointer(rebasing: buffer[initialized...]).copyMemory(from: source)
            }
            initialized += bytes.byteCount
        }
    }
}

extension RawSpan {
    /// The bytes as an array of their own, for work that outlives their owner's loan.
    package var copied: [UInt8] { withUnsafeBytes { Array($0) } }
}
