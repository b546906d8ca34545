import Basics
import Digests

/// The machine and the directory that a journal was made in.
///
/// Its text is in the file that records that the journal was made. A directory that was copied, by cp(1), from a backup or
/// with the disk of a machine, has the text of another place: files that the original has committed since, or committed and
/// deleted, must not be committed again from the copy. A snapshot used on the same machine at the same place cannot be
/// detected.
struct JournalHome: Sendable, Equatable {
    /// A digest of /etc/machine-id, which machine-id(5) asks not to be shown; nil where there is none, as in most containers.
    let machine: String?
    /// A digest of the firmware's id of the machine, which differs between copies of a virtual machine that share their
    /// /etc/machine-id; nil where there is none, or this user may not read it.
    let hardware: String?
    /// The inode number of the directory; nil on file systems on which it need not stay the same.
    let directory: UInt64?

    init(of directory: String) {
        machine = Self.digest(of: "/etc/machine-id")
        hardware = Self.digest(of: "/sys/class/dmi/id/product_uuid")
        let isLasting = Directory.keepsInodeNumbers(at: directory)
        self.directory = isLasting ? (try? LocalFileStatus(of: directory)).flatMap { $0 }?.identity.inode : nil
    }

    /// nil where the text has another form, as that of a journal which an earlier pailfs made.
    init?(_ text: String) {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard (2...3).contains(words.count) else { return nil }
        machine = words[0] == "-" ? nil : String(words[0])
        directory = UInt64(words[1])
        hardware = words.count < 3 || words[2] == "-" ? nil : String(words[2])
    }

    var text: String { "\(machine ?? "-") \(directory.map { String($0) } ?? "-") \(hardware ?? "-")\n" }

    /// Whether a value that is known of both differs. An unknown value counts as equal.
    func isElsewhere(than other: JournalHome) -> Bool {
        func differ<Value: Equatable>(_ one: Value?, _ other: Value?) -> Bool {
            one != nil && other != nil && one != other
        }
        return differ(machine, other.machine) || differ(directory, other.directory) || differ(hardware, other.hardware)
    }

    /// The digest of a file with 32 hexadecimal digits, with hyphens or without, as both files have them; nil for any other
    /// content. Some firmware has the same digit everywhere.
    private static func digest(of path: String) -> String? {
        let bytes = (try? File(path).read(atMost: 64)) ?? []
        let digits = String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self).filter { $0 != "-" }
        guard digits.count == 32, digits.allSatisfy(\.isHexDigit), Set(digits).count > 1 else { return nil }
        return Hex.encode(HMAC.sha256("pailfs journal", key: Array(digits.utf8)))
    }
}
