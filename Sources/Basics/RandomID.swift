import CLinux

/// Names that cannot be guessed and do not repeat: commit ids, temporary files, boundaries.
package enum RandomID {
    /// Lower-case hexadecimal digits, two for each of `bytes` random bytes. getrandom(2)
    package static func hex(bytes count: Int = 16) -> String {
        var bytes = [UInt8](repeating: 0, count: count)
        let status = bytes.withUnsafeMutableBytes { linux_random($0.baseAddress, $0.count) }
        precondition(status == 0, "getrandom failed with errno \(-status)")
        return Hex.encode(bytes)
    }
}
