import Basics
import Commits
import FoundationEssentials
import Glibc
import Journaling
import Staging

/// The readable rest of a journal that cannot be used: every file that it still names, acknowledged or not, to be listed and
/// saved.
///
/// Nothing in the directory is changed. Bytes that were kept in the journal itself are written to a private directory, which is
/// removed with this object.
final class JournalRemains {
    let files: [RecoverableFile]
    private let path: String
    private let lost: [String]
    /// Staging files that no row names any more.
    private let nameless: [String]
    private let scratch: String

    /// `directory` is the state directory, which the caller has locked, `path` the journal in it.
    init(of path: String, in directory: String) throws(JournalingError) {
        self.path = path
        let parent = Entry.environment["TMPDIR"].flatMap { $0.isEmpty ? nil : $0 } ?? "/tmp"
        var template = Array("\(parent)/pailfs-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw .file(FileError(errno: errno, operation: "make a directory (TMPDIR) in", path: parent))
        }
        scratch = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        do throws(JournalingError) {
            let salvage = try JournalSalvage(of: path, in: scratch)
            files = try Self.files(salvage, stagedIn: directory + "/staging", small: scratch)
            lost = salvage.lost
        } catch {
            try? FileManager.default.removeItem(atPath: scratch)
            throw error
        }
        let named = Set(files.map(\.intent.staging))
        let present = (try? Directory.names(in: "\(directory)/staging")) ?? []
        nameless = present.map(\.description).filter { Int($0) != nil && !named.contains($0) }.sorted()
    }

    /// The files that have rows; bytes that the journal itself has of them are written to `scratch`.
    private static func files(
        _ salvage: JournalSalvage, stagedIn staging: String, small scratch: String
    ) throws(JournalingError) -> [RecoverableFile] {
        let boot = Journal.currentBoot
        var files: [RecoverableFile] = []
        for (id, intent) in salvage.contents.files.sorted(by: { $0.key < $1.key }) {
            let small = salvage.small[id]
            if let small {
                do throws(FileError) {
                    try File("\(scratch)/\(intent.staging)", .readWrite, create: .ifMissing)
                        .write(small, at: 0)
                } catch { throw .file(error) }
            }
            files.append(
                RecoverableFile(
                    id, intent, stagedIn: small == nil ? staging : scratch, boot: boot,
                    acknowledged: intent.isAcknowledged ? intent.map : nil))
        }
        return files
    }

    deinit { try? FileManager.default.removeItem(atPath: scratch) }

    /// Prints on standard error what is lost, before the command's own output.
    func explain() {
        Entry.say("pailfs: the journal \(path) is damaged; the files that it still shows can be listed and saved")
        for what in lost { Entry.say("pailfs: lost: \(what)") }
        for name in nameless { Entry.say("pailfs: lost: the key of the file whose bytes are in staging/\(name)") }
    }

    /// The error for a command that needs more than listing and saving.
    var refusal: CommandError {
        CommandError(
            "the journal \(path) is damaged; run \"pailfs recover save\", then move its directory away and mount again"
        )
    }
}
