import Basics

/// The encryption with which coscli hides secrets in its file: AES-128 in ECB mode with a public key, in
/// base64. It protects the secrets only from a glance, so decryption needs no defence against timing.
enum COSCLISecret {
    /// The decrypted secret, or the text itself when it is not encrypted.
    static func reveal(_ text: String) -> String {
        guard let bytes = Base64.decode(text), !bytes.isEmpty, bytes.count.isMultiple(of: 16) else { return text }
        let schedule = roundKeys(Array("coscli-secret".utf8) + [0, 0, 0])
        var plain: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 16) {
            plain += decrypt(Array(bytes[start..<start + 16]), schedule)
        }
        while plain.last == 0 { plain.removeLast() }
        guard !plain.isEmpty, plain.allSatisfy({ (33...126).contains($0) }) else { return text }
        return String(decoding: plain, as: UTF8.self)
    }

    // MARK: AES-128 (FIPS 197)

    /// The table of section 5.1.1, from inverses in the field and the affine map.
    private static let substitution: [UInt8] = (0...255).map { value in
        let byte = UInt8(value)
        let inverse = byte == 0 ? 0 : (1...255).map { UInt8($0) }.first { multiply(byte, $0) == 1 } ?? 0
        return [1, 2, 3, 4].reduce(inverse ^ 0x63) { $0 ^ (inverse << $1 | inverse >> (8 - $1)) }
    }

    private static let inverseSubstitution: [UInt8] = {
        var table = [UInt8](repeating: 0, count: 256)
        for (index, value) in substitution.enumerated() { table[Int(value)] = UInt8(index) }
        return table
    }()

    private static func multiply(_ left: UInt8, _ right: UInt8) -> UInt8 {
        var (left, right, product) = (left, right, UInt8(0))
        while right != 0 {
            if right & 1 == 1 { product ^= left }
            left = left << 1 ^ (left & 0x80 == 0 ? 0 : 0x1b)
            right >>= 1
        }
        return product
    }

    /// Section 5.2; eleven keys in a row.
    private static func roundKeys(_ key: [UInt8]) -> [UInt8] {
        var keys = key
        var constant = UInt8(1)
        while keys.count < 176 {
            var word = Array(keys.suffix(4))
            if keys.count.isMultiple(of: 16) {
                word = [word[1], word[2], word[3], word[0]].map { substitution[Int($0)] }
                word[0] ^= constant
                constant = multiply(constant, 2)
            }
            for byte in word { keys.append(keys[keys.count - 16] ^ byte) }
        }
        return keys
    }

    /// Section 5.3: one block.
    private static func decrypt(_ block: [UInt8], _ keys: [UInt8]) -> [UInt8] {
        func adding(_ round: Int, to state: [UInt8]) -> [UInt8] {
            zip(state, keys[(16 * round)..<(16 * round + 16)]).map { $0 ^ $1 }
        }
        var state = adding(10, to: block)
        for round in (0..<10).reversed() {
            // Rows shift to the right by their number; the state is in columns.
            state = (0..<16).map { inverseSubstitution[Int(state[($0 + 16 - 4 * ($0 % 4)) % 16])] }
            state = adding(round, to: state)
            if round > 0 { state = unmixed(state) }
        }
        return state
    }

    private static func unmixed(_ state: [UInt8]) -> [UInt8] {
        let factors: [UInt8] = [14, 11, 13, 9]
        return (0..<16).map { index in
            let (column, row) = (index / 4 * 4, index % 4)
            return (0..<4).reduce(UInt8(0)) { $0 ^ multiply(state[column + $1], factors[($1 + 4 - row) % 4]) }
        }
    }
}
