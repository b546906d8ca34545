package import Basics
package import NIOCore

/// Everything that goes wrong with one request.
package struct FaultEffects: Sendable {
    package var latency = Duration.zero
    package var firstByte = Duration.zero
    package var status: Int?
    package var retryAfter: Int?
    package var hangs = false
    package var isExpired = false
    package var clockOffset = Duration.zero
    /// The connection is reset before anything is done.
    package var resetsAtOnce = false
    package var losesReply = false
    package var cutAfter: Int64?
    /// A cut ends in a reset rather than in an orderly close.
    package var cutIsReset = false
    package var alters = false
    package var bytesPerSecond: Int64?
    package var departures = Departures()
    /// The client's credentials reach keys below this prefix only; nil lets them reach every key.
    package var allowedPrefix: String?
    package var hidesMissing = false
    package var omitsLengthOfHEAD = false
    /// The kinds that fired, as they were written.
    package var kinds: [String] = []

    package init() {}

    var isDamagingBody: Bool { cutAfter != nil || alters || bytesPerSecond != nil }

    /// What to do to the bytes of a body of `length`.
    func shaping(length: Int64?) -> BodyShaping {
        BodyShaping(
            cutAfter: cutAfter, alterAt: alters ? (length ?? 0) / 2 : nil, bytesPerSecond: bytesPerSecond)
    }

    fileprivate mutating func take(_ spec: FaultSpec) {
        kinds.append(spec.kindText)
        switch spec.kind {
        case .latency(let duration): latency += duration
        case .firstByte(let duration): firstByte += duration
        case .status(let status): (self.status, retryAfter) = (status, spec.retryAfter)
        case .expired: isExpired = true
        case .reset(nil): resetsAtOnce = true
        case .reset(let length?): (cutAfter, cutIsReset) = (length, true)
        case .cut(let length): cutAfter = length
        case .alter: alters = true
        case .bandwidth(let rate): bytesPerSecond = min(bytesPerSecond ?? rate, rate)
        case .lostReply: losesReply = true
        case .hang: hangs = true
        case .clock(let offset): clockOffset += offset
        case .departure(let departure): departures.formUnion(departure)
        case .metadataLimit(let limit): departures.metadataLimit = limit
        case .prefixPolicy(let prefix): allowedPrefix = prefix
        case .hidesMissing: hidesMissing = true
        case .headWithoutLength: omitsLengthOfHEAD = true
        }
    }
}

/// Decides which faults fire for which request: the same for the same seed and the same order of requests.
///
/// A value without clock or thread; the server keeps it under a lock.
package struct FaultPlan: Sendable {
    private struct Counted: Sendable {
        let spec: FaultSpec
        var matched = 0
        var fired = 0
    }

    private var faults: [Counted]
    private var random: SeededGenerator

    package var specs: [FaultSpec] { faults.map(\.spec) }

    package init(_ specs: [FaultSpec] = [], seed: UInt64 = 0) {
        faults = specs.map { Counted(spec: $0) }
        random = SeededGenerator(state: seed)
    }

    /// What goes wrong with the next request, which comes so long after the faults were set.
    package mutating func decide(
        operation: String, bucket: String, key: ByteString, at time: Duration = .zero
    ) -> FaultEffects {
        var effects = FaultEffects()
        for index in faults.indices {
            let spec = faults[index].spec
            guard spec.isDue(at: time), spec.fits(operation: operation, bucket: bucket, key: key) else { continue }
            faults[index].matched += 1
            // Drawn for every match, so that one fault's limits do not shift another's luck.
            let draw = spec.probability >= 1 ? 0 : Double.random(in: 0..<1, using: &random)
            guard faults[index].matched > spec.after, faults[index].fired < spec.count ?? .max,
                draw < spec.probability
            else { continue }
            faults[index].fired += 1
            effects.take(spec)
        }
        return effects
    }
}

/// SplitMix64, so that a seed means the same on every machine.
private struct SeededGenerator: RandomNumberGenerator, Sendable {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }
}

/// What faults do to the bytes of one body as they pass.
package struct BodyShaping: Sendable {
    package enum Outcome: Sendable {
        case whole
        /// The body ends here.
        case cut
    }

    package var cutAfter: Int64?
    /// The offset of the byte to change.
    package var alterAt: Int64?
    package var bytesPerSecond: Int64?

    package init(cutAfter: Int64? = nil, alterAt: Int64? = nil, bytesPerSecond: Int64? = nil) {
        (self.cutAfter, self.alterAt, self.bytesPerSecond) = (cutAfter, alterAt, bytesPerSecond)
    }

    /// Damages the chunk that starts at `offset` of the body.
    package func apply(to chunk: inout ByteBuffer, at offset: Int64) -> Outcome {
        if let alterAt, alterAt >= offset, alterAt < offset + Int64(chunk.readableBytes) {
            let index = chunk.readerIndex + Int(alterAt - offset)
            if let byte: UInt8 = chunk.getInteger(at: index) { chunk.setInteger(byte ^ 0x20, at: index) }
        }
        guard let cutAfter, offset + Int64(chunk.readableBytes) > cutAfter else { return .whole }
        chunk = chunk.readSlice(length: Int(max(0, cutAfter - offset))) ?? ByteBuffer()
        return .cut
    }

    /// Whether all the bytes pass as they are, however slowly.
    var keepsBytes: Bool { cutAfter == nil && alterAt == nil }

    /// The pace of this body; nil when it has none.
    func pace(now: Duration) -> Pace? { bytesPerSecond.map { Pace(bytesPerSecond: $0, now: now) } }
}

/// A connection's rate: when its next bytes may go. Pure.
///
/// The rate holds over a whole body: a sleep that took too long makes the next one shorter. A peer that stands still does
/// not save its share up, though.
package struct Pace: Sendable {
    private let bytesPerSecond: Int64
    private var due: Duration
    /// Longer than a late wake-up, and short enough that no one sees a burst.
    private static let mostCatchUp = Duration.milliseconds(50)
    /// Shorter sleeps are added to the next one.
    private static let shortestPause = Duration.milliseconds(1)

    /// `now` is a time on the clock that `pause` is told.
    package init(bytesPerSecond: Int64, now: Duration) { (self.bytesPerSecond, due) = (bytesPerSecond, now) }

    /// Bytes worth sending at once: those of a few milliseconds, so that a slow body moves all the time.
    package var region: Int64 { min(max(bytesPerSecond / 256, 4 << 10), 256 << 10) }

    /// How long to wait before the next `count` bytes; none when they are not early.
    package mutating func pause(for count: Int, now: Duration) -> Duration? {
        due = max(due, now - Self.mostCatchUp) + .seconds(Double(count) / Double(bytesPerSecond))
        return due - now >= Self.shortestPause ? due - now : nil
    }
}
