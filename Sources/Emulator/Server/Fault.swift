package import Basics

/// What goes wrong when a fault fires.
package enum FaultKind: Hashable, Sendable {
    /// The request waits before anything is done.
    case latency(Duration)
    /// Nothing is done and nothing answered, until the client goes away or the faults are replaced.
    case hang
    /// The answer waits after the work is done.
    case firstByte(Duration)
    /// An error document of the dialect instead of the work; 200 stands for an error inside a success.
    case status(Int)
    /// The answer to credentials that have run out.
    case expired
    /// The connection is reset: before the work, or after so many bytes of the answer's body.
    case reset(after: Int64?)
    /// The body of the answer ends after so many bytes, although more are promised. Of an upload, the body received.
    case cut(Int64)
    /// One byte of the body is another; of the answer's, or of an upload's as it arrives.
    case alter
    /// Bodies pass no faster, in bytes a second.
    case bandwidth(Int64)
    /// The work is done and the connection reset.
    case lostReply
    /// The server's clock is so much ahead, or behind: for signatures, in answers, and in what is stored.
    case clock(Duration)
    /// The server departs from its protocol in this way, and answers as if all were well.
    case departure(Departures)
    /// A value of user metadata that is longer, in bytes, is refused.
    case metadataLimit(Int)
    /// The key of the client may act, and list, only below this prefix: every other request is refused with status 403.
    case prefixPolicy(String)
    /// An object that is missing is refused with status 403, as by S3 where the key may not list.
    case hidesMissing
    /// Answers to HEAD have no Content-Length.
    case headWithoutLength
}

/// A fault and when it fires, as `--fault` writes it.
package struct FaultSpec: Hashable, Sendable {
    package let kind: FaultKind
    /// The kind as it was written, for the log.
    package private(set) var kindText = ""
    /// As it was written, to show it.
    package private(set) var text = ""
    /// nil fits every operation.
    package var operation: String?
    /// Patterns, where `*` stands for any bytes; nil fits everything.
    package var bucket: String?
    package var key: String?
    /// 0...1
    package var probability = 1.0
    /// How often it fires at most.
    package var count: Int?
    /// How many requests that fit pass first.
    package var after = 0
    /// It fires from this time on, until that, both since the faults were set; in every period anew if there is one.
    package var from = Duration.zero
    package var until: Duration?
    package var period: Duration?
    /// Seconds a `status` answer asks the client to wait.
    package var retryAfter: Int?

    package init(_ kind: FaultKind) { self.kind = kind }
}

/// Why a fault could not be read.
package struct FaultSyntaxError: Error, Sendable, CustomStringConvertible {
    package let description: String
}

extension FaultSpec {
    /// Reads `name=value,name=value`, such as `op=GetObject,key=a*,probability=0.1,kind=status:503,retry-after=2`.
    package init(parsing text: String) throws(FaultSyntaxError) {
        var (kind, kindText, rest): (FaultKind?, String, [(name: String, value: String)]) = (nil, "", [])
        for item in text.split(separator: ",") {
            guard let mark = item.firstIndex(where: { $0 == "=" || $0 == ":" }) else {
                throw FaultSyntaxError(description: "'\(item)' in the fault '\(text)' has no value")
            }
            let (name, value) = (String(item[..<mark]), String(item[item.index(after: mark)...]))
            if name == "kind", let (operation, status) = Self.refusal(value) {
                (kind, kindText) = (.status(status), value)
                rest.append(("op", operation))
            } else if name == "kind" {
                guard let parsed = FaultKind(parsing: value) else {
                    throw FaultSyntaxError(description: "'\(value)' is no kind of fault")
                }
                (kind, kindText) = (parsed, value)
            } else {
                rest.append((name, value))
            }
        }
        guard let kind else { throw FaultSyntaxError(description: "the fault '\(text)' has no kind") }
        self.init(kind)
        (self.kindText, self.text) = (kindText, text)
        for (name, value) in rest where !take(name, value) {
            throw FaultSyntaxError(description: "'\(name)=\(value)' in the fault '\(text)' is not understood")
        }
    }

    /// `refuse:OPERATION:STATUS`: every request of the operation is refused with the status of an error.
    private static func refusal(_ kind: String) -> (operation: String, status: Int)? {
        let parts = kind.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "refuse", !parts[1].isEmpty, let status = Int(parts[2]),
            (400...599).contains(status)
        else { return nil }
        return (String(parts[1]), status)
    }

    private mutating func take(_ name: String, _ value: String) -> Bool {
        switch name {
        case "op": operation = value == "*" ? nil : value
        case "bucket": bucket = value
        case "key": key = value
        case "probability":
            guard let number = Double(value), (0...1).contains(number) else { return false }
            probability = number
        case "count":
            guard let number = Int(value), number >= 0 else { return false }
            count = number
        case "after":
            guard let number = Int(value), number >= 0 else { return false }
            after = number
        case "retry-after":
            guard let number = Int(value), number >= 0 else { return false }
            retryAfter = number
        case "from", "until", "every": return takeTime(name, value)
        default: return false
        }
        return true
    }

    private mutating func takeTime(_ name: String, _ value: String) -> Bool {
        guard let time = DurationText.parse(value) else { return false }
        switch name {
        case "from": from = time
        case "until": until = time
        default:
            guard time > .zero else { return false }
            period = time
        }
        return true
    }

    /// Whether it is time for it, so long after the faults were set.
    func isDue(at time: Duration) -> Bool {
        let time = period.map { time - $0 * Int64(time / $0) } ?? time
        return time >= from && until.map { time < $0 } ?? true
    }

    func fits(operation: String, bucket: String, key: ByteString) -> Bool {
        (self.operation == nil || self.operation == operation)
            && (self.bucket.map { Self.fits(ByteString(bucket), pattern: $0) } ?? true)
            && (self.key.map { Self.fits(key, pattern: $0) } ?? true)
    }

    /// Whether `text` is what `pattern` describes; `*` stands for any bytes, also none.
    package static func fits(_ text: ByteString, pattern: String) -> Bool {
        let pieces = pattern.utf8.split(separator: UInt8(ascii: "*"), omittingEmptySubsequences: false).map(Array.init)
        guard let first = pieces.first, let last = pieces.last, pieces.count > 1 else {
            return text.bytes.elementsEqual(pattern.utf8)
        }
        guard text.count >= first.count + last.count, text.hasPrefix(ByteString(first)),
            text.hasSuffix(ByteString(last))
        else { return false }
        var rest = text.bytes[first.count..<(text.count - last.count)]
        for piece in pieces.dropFirst().dropLast() where !piece.isEmpty {
            guard
                let start = rest.indices.first(where: {
                    $0 + piece.count <= rest.endIndex && rest[$0..<($0 + piece.count)].elementsEqual(piece)
                })
            else { return false }
            rest = rest[(start + piece.count)...]
        }
        return true
    }
}

extension FaultKind {
    /// `name` or `name:value`; nil when it is neither.
    package init?(parsing text: String) {
        let mark = text.firstIndex(of: ":")
        let value = mark.map { String(text[text.index(after: $0)...]) }
        let kind: FaultKind? =
            switch (mark.map { String(text[..<$0]) } ?? text, value) {
            case ("latency", let value?): DurationText.parse(value).map { .latency($0) }
            case ("hang", nil): .hang
            case ("first-byte", let value?): DurationText.parse(value).map { .firstByte($0) }
            case ("status", let value?): Int(value).flatMap { (200...599).contains($0) ? .status($0) : nil }
            case ("expired", nil): .expired
            case ("reset", nil): .reset(after: nil)
            case ("reset", let value?): ByteSize.parse(value).map { .reset(after: $0) }
            case ("cut", let value?): ByteSize.parse(value).map { .cut($0) }
            case ("alter", nil): .alter
            case ("bandwidth", let value?):
                ByteSize.parse(value.hasSuffix("/s") ? String(value.dropLast(2)) : value)
                    .flatMap { $0 > 0 ? .bandwidth($0) : nil }
            case ("lost-reply", nil): .lostReply
            case ("clock", let value?): Self.offset(value).map { .clock($0) }
            case ("metadata-limit", let value?): Int(value).flatMap { $0 >= 0 ? .metadataLimit($0) : nil }
            case ("prefix", let value?): value.isEmpty ? nil : .prefixPolicy(value)
            case ("403-for-404", nil): .hidesMissing
            case ("head-without-length", nil): .headWithoutLength
            case ("refuse-keys", let value?):
                RefusedKeys(parsing: value).map { .departure(Departures(refusing: $0)) }
            case ("rotate-key", let value?):
                KeyPair(parsing: value).map { .departure(Departures(knowing: $0)) }
            case (let name, nil): Departures(name: name).map { .departure($0) }
            default: nil
            }
        guard let kind else { return nil }
        self = kind
    }

    /// A duration with a sign.
    private static func offset(_ text: String) -> Duration? {
        let isBehind = text.hasPrefix("-")
        let length = DurationText.parse(isBehind || text.hasPrefix("+") ? String(text.dropFirst()) : text)
        return length.map { isBehind ? .zero - $0 : $0 }
    }
}
