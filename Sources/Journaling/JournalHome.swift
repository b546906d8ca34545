import Basics
import Digests

/// The machine and the directory that a journal was made in.
///
/// Stands as text in the file that says that the journal was made. A directory that was copied, by cp(1), from a backup or with the
/// disk of a machine, has the text of another place: what its original has stored since, or stored and removed again, is not
/// to be stored once more from the copy. Nothing tells of a snapshot that is used on the same machine at the same place.
struct JournalHome: Sendable, Equatable {
    /// A digest of /etc/machine-id, which machine-id(5) asks not to be shown; nil where there is none, as in most containers.
    let machine: String?
    /// The inode number of the directory; nil on file systems on which it need not stay the same.
    let directory: UInt64?

    init(of directory: String) {
        machine = Self.machineID.map { Hex.encode(HMAC.sha256("pailfs journal", key: Array($0.utf8))) }
        let isLasting = Directory.keepsInodeNumbers(at: directory)
        self.directory = isLasting ? (try? LocalFileStatus(of: directory)).flatMap { $0 }?.identity.inode : nil
    }

    /// nil where the text is none, as that of a journal which an earlier pailfs made.
    init?(_ text: String) {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 2 else { return nil }
        machine = words[0] == "-" ? nil : String(words[0])
        directory = UInt64(words[1])
    }

    var text: String { "\(machine ?? "-") \(directory.map { String($0) } ?? "-")\n" }

    /// Whether both are known, and are not the same. What is not known counts as the same.
    func isElsewhere(than other: JournalHome) -> Bool {
        func differ<Value: Equatable>(_ one: Value?, _ other: Value?) -> Bool {
            one != nil && other != nil && one != other
        }
        return differ(machine, other.machine) || differ(directory, other.directory)
    }

    private static var machineID: String? {
        let bytes = (try? File("/etc/machine-id").read(atMost: 64)) ?? []
        let text = String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self)
        return text.count == 32 && text.allSatisfy(\.isHexDigit) ? text : nil
    }
}
