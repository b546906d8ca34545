import Crypto

/// SHA-256 (FIPS 180-4): request signing and content hashes.
package struct SHA256: Digest {
    private var state = Crypto.SHA256()

    package init() {}
    package mutating func update(_ bytes: RawSpan) { bytes.withUnsafeBytes { state.update(bufferPointer: $0) } }
    package func finish() -> [UInt8] { Array(state.finalize()) }
}

/// SHA-1 (FIPS 180-4): signatures of older dialects and Kodo's etag; nothing new.
package struct SHA1: Digest {
    private var state = Crypto.Insecure.SHA1()

    package init() {}
    package mutating func update(_ bytes: RawSpan) { bytes.withUnsafeBytes { state.update(bufferPointer: $0) } }
    package func finish() -> [UInt8] { Array(state.finalize()) }
}

/// MD5 (RFC 1321): Content-MD5 and the ETags of stores; never for trust.
package struct MD5: Digest {
    private var state = Crypto.Insecure.MD5()

    package init() {}
    package mutating func update(_ bytes: RawSpan) { bytes.withUnsafeBytes { state.update(bufferPointer: $0) } }
    package func finish() -> [UInt8] { Array(state.finalize()) }
}

/// HMAC (RFC 2104) over whole messages, as signing needs it.
package enum HMAC {
    package static func sha256(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
        Array(Crypto.HMAC<Crypto.SHA256>.authenticationCode(for: message, using: SymmetricKey(data: key)))
    }

    package static func sha1(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
        Array(Crypto.HMAC<Crypto.Insecure.SHA1>.authenticationCode(for: message, using: SymmetricKey(data: key)))
    }

    package static func sha256(_ message: String, key: [UInt8]) -> [UInt8] { sha256(Array(message.utf8), key: key) }
    package static func sha1(_ message: String, key: [UInt8]) -> [UInt8] { sha1(Array(message.utf8), key: key) }

    /// Whether two codes are equal, in time that does not tell where they differ.
    package static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        guard left.count == right.count else { return false }
        return zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
