package import Basics

/// Guesses from the reads of one handle what will be read next: the state machine of read-ahead. Pure.
///
/// It follows up to four streams, since threads and handles interleave. A read at offset 0, or one that continues where an
/// earlier one ended, belongs to a stream, and its chunk is fetched to the end. Ahead of the stream a window of eight times
/// the bytes it has read is fetched, up to the limit. The kernel sends its own read-ahead from several threads and out of
/// order, so a stream accepts gaps, the wider the longer it has run. Every other read is random: only its own blocks are
/// fetched.
package struct ReadAhead: Sendable {
    package struct Plan: Hashable, Sendable {
        /// Names the stream in `prefetchFailed` and `abandoned`.
        package var stream: Int
        /// Fetch the rest of the chunk, not just the blocks of the read.
        package var isSequential: Bool
        /// Fetch from here on, if the read begins later: the bytes between are about to be read, and would need another
        /// request.
        package var start: Int64
        /// Chunks to fetch ahead, beyond the one being read.
        package var prefetch: Range<Int>
        /// A stream that was given up for this one; its prefetched blocks are no longer wanted.
        package var abandoned: Int?
    }

    private struct Stream {
        let id: Int
        /// The offset of its first byte.
        let start: Int64
        /// The furthest byte read.
        var end: Int64
        /// Bytes read in a row up to `end`.
        var run: Int64
        /// The window in chunks, the current one included; 0 for a stream of one random read.
        var window: Int
        /// Chunks below this have been offered.
        var offered: Int
        /// No new offer before the stream reaches this offset.
        var nextOffer: Int64 = 0
        var lastUse: Int
    }

    private static let streamLimit = 4
    /// Widest gap a stream jumps over.
    private static let widestGap: Int64 = 4 << 20
    /// A first read this long near the start is the kernel's own read-ahead, whose first piece may come later: it asks for
    /// up to 2 MiB at once, in pieces of up to 1 MiB.
    private static let kernelReadAhead: Int64 = 64 << 10
    private static let furthestFirst: Int64 = 1 << 20
    private static let kernelReach: Int64 = 2 << 20
    private static let retryDistance: Int64 = 1 << 20

    private let geometry: Geometry
    private let widestWindow: Int
    private var streams: [Stream] = []
    private var reads = 0

    /// `limit` is how many bytes may be in flight ahead of a stream.
    package init(size: Int64, limit: Int64) {
        geometry = Geometry(size: size)
        widestWindow = max(1, Int(limit / Geometry.chunkSize))
    }

    /// Records a read. Returns how to fetch it and what to fetch ahead.
    package mutating func note(_ range: ByteRange) -> Plan {
        reads += 1
        var abandoned: Int?
        let index: Int
        if let known = streams.firstIndex(where: { Self.isContinuation(range, of: $0) }) {
            index = known
            advance(&streams[index], over: range)
        } else {
            abandoned = makeRoom()
            let isFromStart =
                reads == 1 && range.length >= Self.kernelReadAhead && range.lowerBound <= Self.furthestFirst
            let starts = range.lowerBound == 0 || isFromStart
            streams.append(
                Stream(
                    id: reads, start: isFromStart ? 0 : range.lowerBound, end: range.upperBound, run: range.length,
                    window: starts ? 1 : 0, offered: 0,
                    lastUse: reads))
            index = streams.count - 1
        }
        return Plan(
            stream: streams[index].id, isSequential: streams[index].window > 0,
            start: min(range.lowerBound, max(streams[index].start, range.lowerBound - Self.kernelReach)),
            prefetch: offer(&streams[index]), abandoned: abandoned)
    }

    /// Chunks from `chunk` on could not be fetched, as memory was short: offer them again a little later.
    package mutating func prefetchFailed(at chunk: Int, stream: Int) {
        guard let index = streams.firstIndex(where: { $0.id == stream }) else { return }
        streams[index].offered = min(streams[index].offered, chunk)
        streams[index].nextOffer = streams[index].end + Self.retryDistance
    }

    private static func isContinuation(_ range: ByteRange, of stream: Stream) -> Bool {
        let reach = 4 * range.length
        let gap = min(widestGap, stream.window > 0 ? max(stream.run, reach) : reach)
        let behind = stream.window > 0 ? min(stream.run, Geometry.chunkSize) : 0
        return range.lowerBound >= stream.end - behind && range.lowerBound <= stream.end + gap
    }

    private func advance(_ stream: inout Stream, over range: ByteRange) {
        stream.lastUse = reads
        guard range.upperBound > stream.end else { return }
        stream.run += range.upperBound - max(stream.end, range.lowerBound)
        stream.end = range.upperBound
        if stream.window == 0 {
            stream.window = 1
        } else {
            stream.window = min(widestWindow, max(2, 1 + Int(min(8 * stream.run / Geometry.chunkSize, 1 << 20))))
        }
    }

    private func offer(_ stream: inout Stream) -> Range<Int> {
        let current = Geometry.chunk(at: max(stream.end, 1) - 1)
        let start = max(stream.offered, current + 1)
        let end = min(geometry.chunkCount, current + stream.window)
        guard start < end, stream.end >= stream.nextOffer else { return 0..<0 }
        stream.offered = end
        return start..<end
    }

    /// Gives up a stream if there are too many: single reads first, then the one idle longest.
    private mutating func makeRoom() -> Int? {
        guard streams.count >= Self.streamLimit else { return nil }
        let victim = streams.indices.min {
            (streams[$0].window > 0 ? 1 : 0, streams[$0].lastUse) < (
                streams[$1].window > 0 ? 1 : 0, streams[$1].lastUse
            )
        }
        guard let victim else { return nil }
        return streams.remove(at: victim).id
    }
}
