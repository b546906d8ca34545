import CLinux

/// Why local bytes could not be read or written: an errno and the reason.
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
/// Read on the transport's thread, which waits for the read: memory or local files only.
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
            guard length > 0 else { throw ByteTransferError(errno: EIO, reason: "the body is shorter than its length") }
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
        // No `append(_: RawSpan)` can do this: Swift 6.2 cannot express that the changed span keeps no reference to the
        // other.
        bytes.withUnsafeBytes { source in
            output.withUnsafeMutableBytes { buffer, initialized in
                let next = source[start..<min(source.count, start + buffer.count - initialized)]
                UnsafeMutableRawBufferPointer(rebasing: buffer[initialized...]).copyBytes(from: next)
                initialized += next.count
            }
        }
    }
}

/// The destination of received bytes, which arrive in order.
///
/// Called on the transport's thread, which waits: copy or write locally, never block on anything remote.
package protocol ByteSink: Sendable {
    /// Receives the next bytes of the body. An error ends the transfer.
    func receive(_ bytes: RawSpan) throws(ByteTransferError)
    /// The transfer starts over: discards all bytes received so far. Called before each retry.
    func restart()
}

extension RawSpan {
    /// The bytes as an array of their own, for work that outlives the loan of the span.
    package var copied: [UInt8] { withUnsafeBytes { Array($0) } }
}

extension Array where Element == UInt8 {
    /// Lends the bytes to `body`. In a module with strict memory safety some compilers take `span.bytes` for unsafe, others
    /// do not.
    package func withRawSpan<Result, Failure: Error>(
        _ body: (RawSpan) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(span.bytes)
    }
}
