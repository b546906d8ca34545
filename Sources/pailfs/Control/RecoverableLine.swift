import Basics
import Commits
import Journaling
import Staging

/// A recoverable file, as commands and their JSON show it.
struct RecoverableLine: Sendable, Codable {
    struct Piece: Sendable, Codable {
        enum Place: String, Sendable, Codable {
            /// Written by a program, on this disk.
            case here
            /// A hole that a program made: zeros.
            case hole
            /// In the version the file was opened with.
            case store
            /// In an unfinished upload: only a commit can use them.
            case upload
        }

        var start: Int64
        /// The offset after the last byte.
        var end: Int64
        var place: Place
    }

    /// The number of the journal's row.
    var number: Int64
    var key: String
    /// nil, with no pieces, when the journal does not record which bytes there are.
    var size: Int64?
    /// ISO 8601.
    var changed: String
    /// False after a power cut: the bytes on the disk may not be those that were written.
    var isCertain: Bool
    /// The version it was opened with; nil for a new file.
    var etag: String?
    /// At most `mostPieces`.
    var pieces: [Piece]
    var hereBytes: Int64
    var storeBytes: Int64
    var uploadBytes: Int64

    static let mostFiles = 10_000
    private static let mostPieces = 100

    init(_ file: RecoverableFile) {
        (number, key, etag) = (file.id.rawValue, file.intent.key.description, file.intent.base?.etag)
        (size, isCertain) = (file.map?.size, file.isCertain)
        changed = file.changed.iso8601()
        pieces = (file.map?.pieces(in: 0..<Int64.max) ?? []).prefix(Self.mostPieces).map { piece in
            let place: Piece.Place =
                switch piece.source {
                case .staged, .filled: .here
                case .hole: .hole
                case .base: .store
                case .stored: .upload
                }
            return Piece(start: piece.range.lowerBound, end: piece.range.upperBound, place: place)
        }
        hereBytes = file.here.reduce(0) { $0 + $1.length }
        storeBytes = file.missing.reduce(0) { $0 + $1.length }
        uploadBytes = file.uploaded.reduce(0) { $0 + $1.length }
    }

    /// Two lines for a terminal.
    var lines: [String] {
        var first = "\(number)  \(key)  "
        first += size.map { "\(ByteSize.format($0))" } ?? "size unknown"
        first += ", last written \(changed)"
        if !isCertain { first += ", doubtful: the machine went down before the bytes were flushed" }
        guard size != nil else { return [first, "   there is no record of which bytes were written"] }
        var second = "   written here: \(ranges(.here))"
        if storeBytes > 0 {
            second += "; still the store's: \(ranges(.store)) (of version \(etag ?? "unknown"))"
        }
        if uploadBytes > 0 { second += "; in an unfinished upload: \(ranges(.upload))" }
        return [first, second]
    }

    private func ranges(_ place: Piece.Place) -> String {
        let all = pieces.filter { $0.place == place }
        guard !all.isEmpty else { return "nothing" }
        let text = all.prefix(8).map { "\($0.start)-\($0.end - 1)" }.joined(separator: ", ")
        return "bytes \(text)" + (all.count > 8 ? " and \(all.count - 8) more ranges" : "")
    }

    /// The path at which to save the file below a directory: its key, with components that no file can have as name escaped.
    /// Makes the directories; if the path exists, the number is appended.
    func target(below directory: String) throws(CommandError) -> String {
        let components = key.split(separator: "/", omittingEmptySubsequences: false).map {
            component -> String in
            switch component {
            case "": "%%2F"
            case ".": "%%2E"
            case "..": "%%2E%%2E"
            default: String(component.utf8.prefix(255)) ?? String(component)
            }
        }
        do throws(FileError) {
            var folder = directory
            for component in components.dropLast() {
                folder += "/" + component
                // A file whose key is the same as this directory's path was saved before.
                if let status = try LocalFileStatus(of: folder), status.kind != .directory { folder += ".\(number)" }
            }
            let path = "\(folder)/\(components.last ?? "file")"
            try Directory.create(folder)
            return try LocalFileStatus(of: path) == nil ? path : "\(path).\(number)"
        } catch { throw CommandError("\(error)") }
    }
}
