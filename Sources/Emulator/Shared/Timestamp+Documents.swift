import Basics

extension Timestamp {
    /// As documents have it: whole seconds, like headers, with three digits that are always zero.
    var documentTime: String { Timestamp(seconds: seconds).iso8601(fraction: 3) }
}
