import ArgumentParser
import Basics
import Digests
import ObjectStorage

/// Shows the checksums that the store has of objects, or compares files with them.
struct SumCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sum", abstract: "Shows the checksums that the store has of objects, or compares files with them.",
        discussion: """
            Each line has the kind of the checksum, the checksum in hexadecimal digits, and the key. An object whose store \
            tells checksums of its parts only has them one after the other, with their sizes in bytes.
            """)

    @Argument(help: "scheme://bucket/key, scheme://bucket/prefix or a path in a mount") var url: String
    @OptionGroup var location: StoreOptions
    @Option(
        help: ArgumentHelp(
            "Compare this file with the object, or each file below this directory with the object of its name.",
            valueName: "path"))
    var compare: String?

    mutating func run() throws {
        let (session, path) = try location.open(url, whole: true)
        guard !session.isAccount else { throw CommandError("\(url) names no bucket; write scheme://bucket") }
        let isTree = try compare.map(Self.isDirectory)
        var report = SumReport(isComparing: compare != nil)
        let prefix = path.isEmpty || path.hasSuffix("/") ? path : path + "/"
        var found: Set<ByteString> = []
        // A file is compared with one object, a directory with those below the URL.
        if isTree != false {
            try session.pages(ListRequest(prefix: prefix)) { (page) throws(CommandError) in
                let objects = page.objects.filter { !$0.key.bytes.hasSuffix("/") && !$0.isSymlink }
                let names = objects.map { $0.key.bytes.dropFirst(prefix.count) }
                found.formUnion(names)
                let files = names.map { name in compare.map { ByteString($0) + "/" + name } }
                report.add(try sums(of: Array(zip(objects.map(\.key), files)), in: session))
                return true
            }
        }
        if found.isEmpty, !path.isEmpty, !path.hasSuffix("/"), isTree != true {
            report.add(try sums(of: [(ObjectKey(path), compare.map { ByteString($0) })], in: session))
        } else if found.isEmpty, compare == nil {
            throw CommandError("\(url) has no objects; check its name")
        }
        if let compare, isTree == true { try report.addFiles(below: compare, besides: found) }
        try report.finish()
    }

    private static func isDirectory(_ path: String) throws(CommandError) -> Bool {
        do {
            guard let status = try LocalFileStatus(of: path) else { throw CommandError("\(path) does not exist") }
            return status.kind == .directory
        } catch { throw (error as? CommandError) ?? CommandError("\(error)") }
    }

    /// For each object its checksums at the store or, where there is a file to compare, the result of the comparison.
    private func sums(
        of items: [(key: ObjectKey, file: ByteString?)], in session: ObjectStoreSession
    ) throws(CommandError) -> [SumReport.Line] {
        try session.answer(inTime: false) { store async throws(ObjectStoreError) in
            try await concurrently(items, width: 16) { (item) throws(ObjectStoreError) -> SumReport.Line in
                let info = try await store.head(item.key, condition: nil)
                // A file of another length is not read.
                if let file = item.file, let difference = FileSums.difference(of: file, from: info.version.size) {
                    return SumReport.Line(item.key, file, difference)
                }
                var parts = try await store.checksums(of: item.key, info.version)
                if parts.isEmpty, let whole = info.checksum { parts = [CheckedPart(size: info.version.size, whole)] }
                let outcome = item.file.map { FileSums.compare($0, with: parts) } ?? .shown(parts)
                return SumReport.Line(item.key, item.file, outcome)
            }
        }
    }
}

/// Compares files with checksums.
enum FileSums {
    private static let pieceLength: Int64 = 1 << 20

    /// nil where the file exists and has that many bytes.
    static func difference(of file: ByteString, from size: Int64) -> SumReport.Outcome? {
        guard ByteString(file.description) == file else {
            return .differs("the name is not UTF-8, and is not compared")
        }
        do {
            guard let status = try LocalFileStatus(of: file.description) else { return .differs("missing here") }
            guard status.kind == .file else { return .differs("not a file here") }
            guard status.size == size else { return .differs("\(status.size) bytes here, \(size) in the bucket") }
            return nil
        } catch { return .differs("\(error)") }
    }

    static func compare(_ path: ByteString, with parts: [CheckedPart]) -> SumReport.Outcome {
        guard !parts.isEmpty else { return .unchecked }
        do { return compare(try File(path.description), with: parts) } catch { return .differs("\(error)") }
    }

    static func compare(_ file: File, with parts: [CheckedPart]) -> SumReport.Outcome {
        guard let name = parts.first?.checksum.name else { return .unchecked }
        do {
            var start: Int64 = 0
            for part in parts {
                var digest = part.checksum.begin()
                let end = start + part.size
                while start < end {
                    let piece = try file.read(start..<min(end, start + pieceLength))
                    guard !piece.isEmpty else { return .differs("cut while it was read") }
                    digest.update(piece)
                    start += Int64(piece.count)
                }
                guard digest.finish() == part.checksum.digest else { return .differs("another \(name)") }
            }
            return .same
        } catch { return .differs("\(error)") }
    }
}

/// The results of `pailfs sum`, line by line.
struct SumReport {
    enum Outcome: Sendable {
        case shown([CheckedPart])
        case same
        /// The lengths are the same, and the store has no checksum.
        case unchecked
        case differs(String)
    }

    struct Line: Sendable {
        let key: ObjectKey
        let file: ByteString?
        let outcome: Outcome

        init(_ key: ObjectKey, _ file: ByteString?, _ outcome: Outcome) {
            (self.key, self.file, self.outcome) = (key, file, outcome)
        }
    }

    private let isComparing: Bool
    private var (same, unchecked, differing) = (0, 0, 0)

    init(isComparing: Bool) { self.isComparing = isComparing }

    /// Prints checksums, and files that differ or could not be compared.
    mutating func add(_ lines: [Line]) {
        for line in lines {
            let name = line.file ?? line.key.bytes
            switch line.outcome {
            case .shown(let parts): Output.line(naming: ByteString(Self.text(of: parts) + "  ") + line.key.bytes)
            case .same: same += 1
            case .unchecked:
                unchecked += 1
                Output.line(naming: name + ": no checksum in the bucket")
            case .differs(let reason): differs(name, reason)
            }
        }
    }

    /// Reports files that are not in the bucket.
    mutating func addFiles(below directory: String, besides names: Set<ByteString>) throws(CommandError) {
        let top = ByteString(directory)
        var others: [(ByteString, String)] = []
        TreeWalk.files(below: top, failed: { others.append(($0, $1)) }) { file in
            if !names.contains(file.dropFirst(top.count + 1)) { others.append((file, "not in the bucket")) }
        }
        for (file, reason) in others.sorted(by: { $0.0 < $1.0 }) { differs(file, reason) }
    }

    /// Ends the command with status 1 when something differs.
    func finish() throws(CommandError) {
        guard isComparing else { return }
        var counts = ["\(same) the same"]
        if unchecked > 0 { counts.append("\(unchecked) of the same length without a checksum") }
        if differing > 0 { counts.append("\(differing) different") }
        Output.say(counts.joined(separator: ", "))
        if differing > 0 { throw CommandError("files differ from the bucket") }
    }

    private mutating func differs(_ name: ByteString, _ reason: String) {
        differing += 1
        Output.line(naming: name + ByteString(": " + reason))
    }

    private static func text(of parts: [CheckedPart]) -> String {
        guard let first = parts.first else { return "-  -" }
        let name = first.checksum.name
        if parts.count == 1 { return "\(name)  \(Hex.encode(first.checksum.digest))" }
        return "\(name)  " + parts.map { "\(Hex.encode($0.checksum.digest)):\($0.size)" }.joined(separator: ",")
    }
}
