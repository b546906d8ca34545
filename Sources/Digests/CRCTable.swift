/// A reflected CRC with all-ones start and final value, as all four of ours are: tables for eight bytes a step, and the
/// arithmetic that joins the CRCs of two pieces.
///
/// Built once for each polynomial and never freed or changed.
struct CRCTable<Word: FixedWidthInteger & UnsignedInteger & Sendable>: @unchecked Sendable {
    // Sendable: the words behind the pointer are written in init only.
    private let words: UnsafePointer<Word>
    private let polynomial: Word

    /// `polynomial` in reflected form, its highest power left out.
    init(polynomial: Word) {
        self.polynomial = polynomial
        let words = UnsafeMutablePointer<Word>.allocate(capacity: 8 * 256)
        for byte in 0..<256 {
            var word = Word(byte)
            for _ in 0..<8 { word = word & 1 == 0 ? word >> 1 : word >> 1 ^ polynomial }
            words[byte] = word
        }
        for index in 256..<(8 * 256) {
            let shorter = words[index - 256]
            words[index] = shorter >> 8 ^ words[Int(shorter & 0xff)]
        }
        self.words = UnsafePointer(words)
    }

    /// Takes `bytes` into `register`, the CRC without its final inversion.
    func update(_ register: Word, with bytes: RawSpan) -> Word {
        bytes.withUnsafeBytes { buffer in
            guard let base = buffer.baseAddress else { return register }
            var register = register
            var offset = 0
            while offset + 8 <= buffer.count {
                let next = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
                let mixed = next ^ UInt64(register)
                register =
                    words[7 * 256 + Int(mixed & 0xff)]
                    ^ words[6 * 256 + Int(mixed >> 8 & 0xff)]
                    ^ words[5 * 256 + Int(mixed >> 16 & 0xff)]
                    ^ words[4 * 256 + Int(mixed >> 24 & 0xff)]
                    ^ words[3 * 256 + Int(mixed >> 32 & 0xff)]
                    ^ words[2 * 256 + Int(mixed >> 40 & 0xff)]
                    ^ words[256 + Int(mixed >> 48 & 0xff)]
                    ^ words[Int(mixed >> 56)]
                offset += 8
            }
            while offset < buffer.count {
                let byte = base.load(fromByteOffset: offset, as: UInt8.self)
                register = register >> 8 ^ words[Int((register ^ Word(byte)) & 0xff)]
                offset += 1
            }
            return register
        }
    }

    /// The CRC of two pieces in a row from the CRC of each: the first is moved up by the second's length, whose `power` it takes.
    func combine(_ first: Word, _ second: Word, power: Word) -> Word { multiply(power, first) ^ second }

    /// x^(8 * length) mod P.
    func power(_ length: Int64) -> Word {
        var result = Word(1) << (Word.bitWidth - 1)  // x^0; bit 0 of the polynomial is the highest bit of the word
        var power = Word(1) << (Word.bitWidth - 9)  // x^8
        var length = length
        while length > 0 {
            if length & 1 == 1 { result = multiply(power, result) }
            power = multiply(power, power)
            length >>= 1
        }
        return result
    }

    private func multiply(_ left: Word, _ right: Word) -> Word {
        var (mask, product, right) = (Word(1) << (Word.bitWidth - 1), Word(0), right)
        while mask != 0 {
            if left & mask != 0 { product ^= right }
            mask >>= 1
            right = right & 1 == 0 ? right >> 1 : right >> 1 ^ polynomial
        }
        return product
    }
}
