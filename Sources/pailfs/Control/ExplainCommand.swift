import ArgumentParser
import FileSystem

struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Shows the object, state and last error of a path.")

    @Argument(help: "A file or directory in a mount.") var path: String

    mutating func run() throws {
        let place = try MountPlace(path)
        guard
            case .explained(let report) = try place.ask(.explain(path: place.path), within: .seconds(30))
        else {
            return
        }
        let states = [
            (report.isDirty, "not stored"), (report.isUploading, "uploading"), (report.isOpen, "open"),
            (report.isCached, "cached"),
        ]
        let state = states.filter(\.0).map(\.1)
        let error = report.lastError.map { "\($0)\(report.lastErrorAt.map { ", at \($0)" } ?? "")" }
        let lines: [(String, String?)] = [
            ("path", report.path.isEmpty ? "/" : report.path), ("key", report.key), ("kind", report.kind),
            ("bytes", "\(report.size)"), ("modified", report.modified), ("etag", report.etag),
            ("version", report.versionID), ("storage-class", report.storageClass),
            ("inode", "\(report.inode)"),
            ("state", state.isEmpty ? "stored" : state.joined(separator: ", ")),
            ("fresh-until", report.freshUntil),
            ("last-error", error ?? "none"),
        ]
        for case (let name, let value?) in lines { Output.say("\(name): \(value)") }
    }
}

struct RefreshCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Drops cached names and attributes at or below a path, so that the next access asks the store.")

    @Argument(help: "A file or directory in a mount.") var path: String

    mutating func run() throws {
        let place = try MountPlace(path)
        _ = try place.ask(.refresh(path: place.path), within: .seconds(60))
    }
}
