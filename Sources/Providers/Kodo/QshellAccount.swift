import Basics
import Digests

/// The account that qshell uses, from its file: `name:access key:secret`. The secret is encrypted with a key derived from the
/// access key beside it, which protects it only from a glance (qshell's documentation).
struct QshellAccount: Equatable {
    let accessKey: String
    let secretKey: String

    /// nil when the text is not in qshell's format.
    init?(_ text: String) {
        let words = text.filter { !$0.isWhitespace }.split(separator: ":", omittingEmptySubsequences: false)
        guard words.count == 3, !words[1].isEmpty, let hidden = Base64.decode(words[2], alphabet: .urlSafe) else {
            return nil
        }
        // Characters 7 to 22, counted from 0, are key and initialization vector at once.
        let key = Array(Hex.encode(MD5.of(String(words[1]))).utf8.dropFirst(7).prefix(16))
        guard let plain = AES128(key: key)?.decrypt(hidden, vector: key), let length = plain.last,
            (1...16).contains(length), plain.count > length, plain.suffix(Int(length)).allSatisfy({ $0 == length }),
            let secret = String(validating: plain.dropLast(Int(length)), as: UTF8.self)
        else { return nil }
        (accessKey, secretKey) = (String(words[1]), secret)
    }
}

/// AES with keys of 128 bits, decryption only (FIPS 197): for reading qshell's file, never to protect anything.
struct AES128 {
    private let schedule: [[UInt8]]

    /// nil unless the key has 16 bytes.
    init?(key: [UInt8]) {
        guard key.count == 16 else { return nil }
        var words = (0..<4).map { Array(key[($0 * 4)..<($0 * 4 + 4)]) }
        var round: UInt8 = 1
        for index in 4..<44 {
            var word = words[index - 1]
            if index.isMultiple(of: 4) {
                word = (word[1...] + word[..<1]).map { Self.box[Int($0)] }
                word[0] ^= round
                round = Self.double(round)
            }
            words.append(zip(words[index - 4], word).map { $0 ^ $1 })
        }
        schedule = stride(from: 0, to: 44, by: 4).map { words[$0..<($0 + 4)].flatMap(\.self) }
    }

    /// Chained blocks (NIST SP 800-38A section 6.2) with their padding; nil for a length that is not a multiple of the block.
    func decrypt(_ bytes: [UInt8], vector: [UInt8]) -> [UInt8]? {
        guard !bytes.isEmpty, bytes.count.isMultiple(of: 16), vector.count == 16 else { return nil }
        var (plain, previous): ([UInt8], [UInt8]) = ([], vector)
        for start in stride(from: 0, to: bytes.count, by: 16) {
            let block = Array(bytes[start..<(start + 16)])
            plain += zip(decrypt(block: block), previous).map { $0 ^ $1 }
            previous = block
        }
        return plain
    }

    /// One block of 16 bytes (FIPS 197 section 5.3).
    func decrypt(block: [UInt8]) -> [UInt8] {
        var state = Self.add(block, schedule[10])
        for round in (0..<10).reversed() {
            // Rows move right, then bytes go back through the box.
            state = (0..<16).map { Self.inverse[Int(state[($0 &+ 16 &- 4 * ($0 % 4)) % 16])] }
            state = Self.add(state, schedule[round])
            if round > 0 { state = Self.unmix(state) }
        }
        return state
    }

    private static func add(_ left: [UInt8], _ right: [UInt8]) -> [UInt8] { zip(left, right).map { $0 ^ $1 } }

    private static func unmix(_ state: [UInt8]) -> [UInt8] {
        (0..<16).map { index in
            let (column, row) = (index / 4 * 4, index % 4)
            return zip([14, 11, 13, 9] as [UInt8], 0..<4).reduce(0) { sum, factor in
                sum ^ multiply(factor.0, state[column + (row + factor.1) % 4])
            }
        }
    }

    private static func double(_ byte: UInt8) -> UInt8 { byte << 1 ^ (byte & 0x80 == 0 ? 0 : 0x1b) }

    private static func multiply(_ left: UInt8, _ right: UInt8) -> UInt8 {
        var (product, left, right): (UInt8, UInt8, UInt8) = (0, left, right)
        while left != 0 {
            if left & 1 == 1 { product ^= right }
            (left, right) = (left >> 1, double(right))
        }
        return product
    }

    /// Section 5.1.1: the inverse in the field, then an affine map.
    private static let box: [UInt8] = (UInt8.min...UInt8.max).map { byte in
        let inverse = (UInt8.min...UInt8.max).first { multiply($0, byte) == 1 } ?? 0
        return (1...4).reduce(inverse) { $0 ^ (inverse << $1 | inverse >> (8 - $1)) } ^ 0x63
    }

    private static let inverse: [UInt8] = {
        var inverse = [UInt8](repeating: 0, count: 256)
        for (index, byte) in box.enumerated() { inverse[Int(byte)] = UInt8(index) }
        return inverse
    }()
}
